"""The standing check over all runs: every way to be left behind is listed, and one does not hide another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from rollout_assets.assets.metadata import SHOWN_ROWS
from rollout_assets.automation.discovery_sensor import nightly_check
from rollout_assets.checks import no_run_left_behind
from rollout_assets.core.discovery import find_run
from rollout_assets.definitions import build_defs
from rollout_assets.left_behind import ADVICE, LeftBehind
from rollout_assets.store import Verdict
from rollout_assets_tests.conftest import QUIET, Project

ROWS = [{"task_id": "a", "reward": 1.0}]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "0")


def check(project: Project) -> dg.AssetCheckEvaluation:
    result = (
        build_defs(project.workspace)
        .resolve_job_def("check_runs")
        .execute_in_process(instance=project.instance, raise_on_error=False, run_config=QUIET)
    )
    assert result.success
    [evaluation] = result.get_asset_check_evaluations()
    assert (evaluation.asset_key, evaluation.partition) == (dg.AssetKey("raw_run"), None)
    return evaluation


def table(evaluation: dg.AssetCheckEvaluation, name: str) -> list[dict[str, Any]]:
    found = evaluation.metadata.get(name)
    return [dict(record.data) for record in found.value.records] if found is not None else []  # type: ignore[attr-defined]


def listed(evaluation: dg.AssetCheckEvaluation) -> set[tuple[Any, Any]]:
    return {(row["kind"], row["run"]) for row in table(evaluation, "left_behind")}


def test_with_everything_taken_in_it_passes(project: Project) -> None:
    for key in ("math/a/rollouts", "math/b/rollouts", "other"):
        project.write_run(key, ROWS)
        assert project.run(key).success
    evaluation = check(project)
    assert evaluation.passed
    assert evaluation.description == "3 runs on disk, nothing left behind."
    assert {row["group"]: row["runs"] for row in table(evaluation, "groups")} == {"math": 2, ".": 1}


def test_no_run_at_all_passes(project: Project) -> None:
    evaluation = check(project)
    assert (evaluation.passed, evaluation.description) == (True, "0 runs on disk, nothing left behind.")


def blocked(project: Project) -> None:
    project.write_run("run", b"{oops\n")
    project.run("run")


def never_indexed(project: Project) -> None:
    project.write_run("run", ROWS)


def changed(project: Project) -> None:
    project.write_run("run", ROWS)
    assert project.run("run").success
    project.write_run("run", ROWS * 2)


def a_blocked_one_that_changed(project: Project) -> None:
    blocked(project)
    project.write_run("run", ROWS)


def killed_while_indexing(project: Project) -> None:
    changed(project)
    project.store.write_verdict("run", Verdict("indexing", fingerprint(project)))


def stopped_downstream(project: Project) -> None:
    project.write_run("run", [{"reward": 1.0}])  # nothing names its task
    project.run("run")


def with_a_verdict_that_is_none(project: Project) -> None:
    never_indexed(project)
    path = project.root / "store" / "verdicts" / "run.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")


def with_a_folder_for_a_verdict(project: Project) -> None:
    never_indexed(project)
    (project.root / "store" / "verdicts" / "run.json").mkdir(parents=True)


def vanished(project: Project) -> None:
    project.write_run("run", ROWS)
    assert project.run("run").success
    (project.root / "runs" / "run.jsonl").unlink()


def fingerprint(project: Project) -> str:
    return find_run(project.root / "runs", "run").fingerprint


@pytest.mark.parametrize(
    ("prepare", "kind", "reason"),
    [
        (blocked, "blocked", "jsonl_strict"),
        (never_indexed, "not_taken_in", "was never indexed"),
        (changed, "not_taken_in", "has changed since it was indexed"),
        (a_blocked_one_that_changed, "not_taken_in", "has changed since it was indexed"),
        (killed_while_indexing, "unfinished", "its indexing was begun and did not finish"),
        (stopped_downstream, "unfinished", "one of attempt_outcomes, task_sides, comparison_report is missing"),
        (with_a_verdict_that_is_none, "unreadable", "is no verdict"),
        (with_a_folder_for_a_verdict, "unreadable", "is no verdict"),
        (vanished, "vanished", "its results file does not exist any more"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_way_to_be_left_behind(
    project: Project, prepare: Callable[[Project], None], kind: str, reason: str
) -> None:
    prepare(project)
    evaluation = check(project)
    assert not evaluation.passed
    [row] = table(evaluation, "left_behind")
    assert (row["kind"], row["run"]) == (kind, "run")
    assert reason in row["reason"]
    assert evaluation.metadata[kind].value == evaluation.metadata["total"].value == 1
    advice = ADVICE[kind]  # type: ignore[index]
    assert f"1 left behind. 1 {kind.replace('_', ' ')}: {advice}." in (evaluation.description or "")
    expected = dg.AssetCheckSeverity.WARN if kind == "vanished" else dg.AssetCheckSeverity.ERROR
    assert evaluation.severity is expected


def test_all_of_them_are_listed_together(project: Project) -> None:
    runs = project.root / "runs"
    with_a_verdict_that_is_none(project)
    project.write_run("bad name", ROWS)
    (runs / "folder.jsonl").mkdir()
    project.write_run("broken", b"{oops\n")
    project.run("broken")
    project.write_run("new", ROWS)
    project.instance.add_dynamic_partitions("rollout_runs", ["gone"])
    assert listed(check(project)) == {
        ("blocked", "broken"),
        ("not_taken_in", "new"),
        ("rejected", "bad name.jsonl"),
        ("rejected", "folder.jsonl"),
        ("unreadable", "run"),
        ("vanished", "gone"),
    }


def test_a_run_that_is_still_written_is_not_missed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    never_indexed(project)
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "1000")
    assert check(project).passed


def test_a_run_that_was_just_blocked_is_listed_at_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "1000")
    project.write_run("broken", b"{oops\n")
    assert not project.run("broken").success
    assert listed(check(project)) == {("blocked", "broken")}


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
def test_a_run_that_is_being_taken_in_is_not_missed(project: Project, status: dg.DagsterRunStatus) -> None:
    killed_while_indexing(project)
    run = dg.DagsterRun("ingest_run", tags={"dagster/partition": "run"}, status=status)
    project.instance.add_run(run)
    assert check(project).passed


def test_a_dagster_run_whose_process_was_killed_long_ago_excuses_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_while_indexing(project)
    monkeypatch.setattr(no_run_left_behind, "LONGEST_INGEST", timedelta(hours=-1))
    project.instance.add_run(
        dg.DagsterRun("ingest_run", tags={"dagster/partition": "run"}, status=dg.DagsterRunStatus.STARTED)
    )
    assert listed(check(project)) == {("unfinished", "run")}


def test_a_policy_that_cannot_be_read_hides_nothing(project: Project) -> None:
    never_indexed(project)
    (project.root / "policy.yaml").write_text("[")
    assert listed(check(project)) == {("unreadable", "policy"), ("not_taken_in", "run")}


def test_a_setting_that_cannot_be_read_hides_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    output = project.write_run("run", ROWS)
    os.utime(output, (0, 0))
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "soon")
    evaluation = check(project)
    assert listed(evaluation) == {("unreadable", "settings"), ("not_taken_in", "run")}
    assert "ROLLOUT_SETTLE_SECONDS must be a number of seconds from 0 on, not 'soon'" in str(
        table(evaluation, "left_behind")
    )


def test_without_a_runs_root_it_says_that_and_not_that_every_run_vanished(project: Project) -> None:
    project.instance.add_dynamic_partitions("rollout_runs", ["run"])
    (project.root / "runs").rmdir()
    evaluation = check(project)
    assert listed(evaluation) == {("unreadable", "runs root")}
    assert "set ROLLOUT_RUNS_ROOT" in table(evaluation, "left_behind")[0]["reason"]


def test_a_silent_group_is_on_top(project: Project) -> None:
    for number, key in enumerate(("quiet/a/rollouts", "quiet/b/rollouts", "busy/a/rollouts")):
        output = project.write_run(key, ROWS)
        if key.startswith("quiet"):
            os.utime(output, times=(time.time() - 3600 * (50 - number),) * 2)
    groups = table(check(project), "groups")
    assert [(row["group"], row["runs"], row["newest"]) for row in groups] == [
        ("quiet", 2, "quiet/b/rollouts"),
        ("busy", 1, "busy/a/rollouts"),
    ]
    assert groups[0]["hours silent"] == pytest.approx(49, abs=0.2)


def test_many_are_counted_and_the_first_of_them_shown() -> None:
    result = no_run_left_behind.result_of(
        100, [LeftBehind("blocked", str(number), "very bad " * 100) for number in range(50)], []
    )
    assert result.metadata["total"].value == 50
    records = result.metadata["left_behind"].value.records  # type: ignore[attr-defined]
    assert len(records) == SHOWN_ROWS
    assert 200 < len(records[0].data["reason"]) <= no_run_left_behind.SHOWN_REASON


def test_the_schedule_runs_the_check_and_nothing_else(project: Project) -> None:
    assert nightly_check.job_name == "check_runs"
    job = build_defs(project.workspace).resolve_job_def("check_runs")
    assert {key.name for key in job.asset_layer.asset_graph.asset_check_keys} == {"no_run_left_behind"}
    assert job.partitions_def is None
    with dg.build_schedule_context(scheduled_execution_time=datetime(2026, 1, 2, 5, tzinfo=UTC)) as context:
        [request] = nightly_check.evaluate_tick(context).run_requests or []
    assert request.partition_key is None
