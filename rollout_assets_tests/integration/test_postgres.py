"""The production profile on a real PostgreSQL server: the sensor finds runs, they are taken in, checks are kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from rollout_assets.cli import main
from rollout_assets.definitions import defs
from rollout_assets_tests.conftest import as_jsonl
from rollout_assets_tests.integration import postgres
from rollout_assets_tests.integration.processes import daemon, dagster_environment, wait_until

GOOD = ("math/step-0100/rollouts", "math/step-0200/rollouts")
MALFORMED = "math/step-0300/rollouts"


@pytest.mark.skipif(postgres.why_not() is not None, reason=str(postgres.why_not()))
def test_sensor_runs_and_checks_on_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, runs = tmp_path / "home", tmp_path / "runs"
    assert CliRunner().invoke(main, ["init", str(home)]).exit_code == 0
    write_runs(runs)
    with postgres.server() as server:
        environment = dagster_environment(
            home,
            **server.environment(),
            ROLLOUT_RUNS_ROOT=str(runs),
            ROLLOUT_STORE_ROOT=str(tmp_path / "store"),
            ROLLOUT_POLICY=str(home / "policy.yaml"),
            ROLLOUT_COMPUTE_LOGS=str(tmp_path / "logs"),
            ROLLOUT_SETTLE_SECONDS="0",
        )
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        # The lines that `init` prints.
        workspace, log = home / "workspace.yaml", tmp_path / "daemon.log"
        dagster(["instance", "migrate"], environment)
        with daemon(workspace, environment, log) as process, dg.DagsterInstance.get() as instance:
            dagster(["sensor", "start", "discover_runs", "-w", str(workspace)], environment)
            ended = wait_until(lambda: ended_runs(instance), "the runs that the sensor requests", process, log)
            assert ended == {GOOD[0]: "SUCCESS", GOOD[1]: "SUCCESS", MALFORMED: "FAILURE"}
            assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
            assert set(instance.get_dynamic_partitions("rollout_runs")) == set(ended)
            for asset in ("record_index", "attempt_outcomes", "task_sides", "comparison_report"):
                assert instance.get_materialized_partitions(dg.AssetKey(asset)) == set(GOOD)
            assert instance.get_materialized_partitions(dg.AssetKey("producer_faults")) == {*GOOD, MALFORMED}
            checks = {key.name: checked(instance, key) for key in defs.resolve_asset_graph().asset_check_keys}
            assert checks["jsonl_strict"] == {GOOD[0]: "SUCCEEDED", GOOD[1]: "SUCCEEDED", MALFORMED: "FAILED"}
            assert set(checks["reward_strict"].values()) == {"SUCCEEDED"}
            assert checks.pop("no_run_left_behind") == {}  # over all runs, by the nightly check alone
            for name, states in checks.items():
                assert {states[run] for run in GOOD} <= {"SUCCEEDED", "FAILED"}, name


def write_runs(root: Path) -> None:
    rows = as_jsonl([{"task_id": task, "reward": 1.0} for task in "abc"])
    for key in (*GOOD, MALFORMED):
        output = root / f"{key}.jsonl"
        output.parent.mkdir(parents=True)
        output.write_bytes(rows + (b'{"task_id": "d", "reward": 1.0,}\n' if key == MALFORMED else b""))


def dagster(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Run a command of Dagster's."""
    done = subprocess.run(
        [sys.executable, "-m", "dagster", *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def ended_runs(instance: dg.DagsterInstance) -> dict[str, str] | None:
    """How the three runs ended, by partition, once all of them have."""
    runs = [run for run in instance.get_runs() if run.job_name == "ingest_run"]
    if len(runs) < 3 or not all(run.is_finished for run in runs):
        return None
    assert all(run.tags["dagster/sensor_name"] == "discover_runs" for run in runs)
    return {run.tags["dagster/partition"]: run.status.value for run in runs}


def checked(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> dict[str | None, str]:
    """The state of a check by partition; the UI shows a result as missing that is older than the materialization."""
    found = instance.event_log_storage.get_asset_check_partition_info([check])
    assert all(info.is_current for info in found), check
    return {info.partition_key: info.latest_execution_status.value for info in found}
