"""Outcomes in Dagster: three ways to read a run, contradictions that block it, coverage."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rollout_assets.core.discovery import find_run
from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.demo import write_demo_runs
from rollout_assets_tests.conftest import Project

KEY = "math/step-0300/rollouts"


def check(result: dg.ExecuteInProcessResult, name: str) -> Any:
    [found] = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    return found


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    [event] = result.asset_materializations_for_node("attempt_outcomes")
    return {name: value.value for name, value in event.metadata.items()}


def test_a_run_with_a_manifest_is_read_by_it(project: Project) -> None:
    write_demo_runs(project.root / "runs")
    result = project.run(KEY)
    assert result.success
    assert metadata(result)["read_by"] == "manifest"
    assert check(result, "outcomes_consistent").passed
    complete, reconciled = check(result, "coverage_complete"), check(result, "coverage_reconciled")
    assert (complete.passed, complete.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "44 of 48 expected rollouts have a successful outcome; 2 failed, 2 have none" in complete.description
    assert complete.description.endswith("Resume the run: that would run 3 of them again.")
    places = [dict(record.data) for record in complete.metadata["places"].records]
    assert len(places) == complete.metadata["total"].value == 48 - 44
    assert [place["outcome"] for place in places].count("failure") == 2
    assert [place["a resume would"] for place in places].count("run it") == 3
    assert not reconciled.passed
    missing = [dict(record.data) for record in reconciled.metadata["places"].records]
    assert missing == [place for place in places if place["outcome"] == "none"]
    assert len(missing) == reconciled.metadata["total"].value == 2
    coverage = json.loads(project.store.coverage_path(KEY).read_text())
    assert (coverage["expected"], coverage["measured"], coverage["unknown"]) == (48, 44, 2)
    assert complete.metadata["measured"].value == 44
    rows = project.store.read_table("attempt_outcomes", KEY).to_pylist()
    dropped = [row for row in rows if not row["selected"]]
    assert {row["dropped_because"].split(":")[0] for row in dropped} >= {"superseded by attempt 1"}
    assert all(row["dropped_because"] is None for row in rows if row["selected"])


def test_a_run_that_may_not_be_read_is_no_malformed_run_and_is_tried_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(output: Path) -> None:
        raise unreadable_file(output.with_name("manifest"), PermissionError(errno.EACCES, "Permission denied"))

    project.write_run("run", [{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}])
    assert project.run("run").success
    fingerprint = find_run(project.root / "runs", "run").fingerprint
    assert project.store.is_taken_in("run", fingerprint)
    with monkeypatch.context() as patched:
        patched.setattr("rollout_assets.outcomes.open_run", refuse)
        result = project.run("run")
    assert not result.success
    assert "permission denied; give this user read access" in check(result, "outcomes_consistent").description
    assert not project.store.table_path("task_sides", "run").exists()
    assert not project.store.is_taken_in("run", fingerprint)  # though no file has changed
    assert project.run("run").success
    assert project.store.is_taken_in("run", fingerprint)


def test_a_run_without_manifest_is_imported_from_its_inventory(project: Project) -> None:
    project.write_run("run", [{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}])
    (project.root / "runs" / "run_materialized_inputs.jsonl").write_text(
        '{"_ng_task_index":0,"_ng_rollout_index":0}\n{"_ng_task_index":1,"_ng_rollout_index":0}\n'
    )
    result = project.run("run")
    assert result.success
    assert metadata(result)["read_by"] == "legacy_import"
    assert "1 of 2 expected rollouts" in check(result, "coverage_complete").description


def test_a_run_of_rows_alone_is_folded_simply_and_says_that_coverage_is_unknown(project: Project) -> None:
    scored = {"_ng_task_index": 0, "_ng_rollout_index": 0, "task_id": "a", "reward": 1.0}
    failed = {"_ng_task_index": 1, "_ng_rollout_index": 0, "task_id": "b", "_ng_failure_class": "agent_run_error"}
    project.write_run(
        "run",
        [scored],
        failures=[{**scored, "_ng_failure_class": "timeout"}, failed, {**failed, "_ng_failure_class": "judge_failed"}],
    )
    result = project.run("run")
    assert result.success
    assert metadata(result)["read_by"] == "rows_only"
    assert "not known what was expected" in check(result, "coverage_complete").description
    assert check(result, "coverage_complete").passed
    rows = project.store.read_table("attempt_outcomes", "run").to_pylist()
    assert [(row["file"], row["line"], row["dropped_because"]) for row in rows] == [
        ("output", 1, None),
        ("failures", 1, "scored by line 1 of the output"),
        ("failures", 2, "superseded by line 3"),
        ("failures", 3, None),
    ]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        ("foreign run", "E-FOREIGN-RUN"),
        ("conflict", "E-CONFLICT"),
        ("inventory", "E-INVENTORY-DIGEST"),
        ("missing sidecar", "E-MISSING"),
        ("manifest", "E-MANIFEST"),
    ],
)
def test_files_that_contradict_each_other_block_the_run_for_good(project: Project, spoil: str, code: str) -> None:
    write_demo_runs(project.root / "runs")
    folder = (project.root / "runs" / KEY).parent
    output = folder / "rollouts.jsonl"
    first = output.read_text().splitlines()[0]
    if spoil == "foreign run":
        row = json.loads(first) | {"_ng_run_id": "f" * 32}
        output.write_text(json.dumps(row) + "\n" + output.read_text().split("\n", 1)[1])
    elif spoil == "conflict":
        output.write_text(output.read_text() + json.dumps(json.loads(first) | {"reward": 0.125}) + "\n")
    elif spoil == "inventory":
        inventory = folder / "rollouts_materialized_inputs.jsonl"
        inventory.write_text(inventory.read_text().split("\n", 1)[1])
    elif spoil == "missing sidecar":
        (folder / "rollouts_failures.jsonl").unlink()
    else:
        (folder / "rollouts_manifest.json").write_text("{")
    result = project.run(KEY)
    assert not result.success
    found = check(result, "outcomes_consistent")
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.ERROR
    assert found.description.startswith(f"{code}: ")
    assert found.metadata["code"].value == code
    [place] = found.metadata["places"].records
    assert place.data["what"] in found.description
    assert project.materialized("record_index") == {KEY}
    for asset in ("attempt_outcomes", "task_sides", "comparison_report"):
        assert project.materialized(asset) == set()
    later = project.run(KEY, job="compare_run")
    assert not later.success
    with pytest.raises(RunDataError) as caught:
        project.store.read_table("record_index", KEY)
    assert caught.value.code == "E-BLOCKED"
    assert code not in {"E-BLOCKED"}
    write_demo_runs(project.root / "runs")
    assert project.run(KEY).success
