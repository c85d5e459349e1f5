"""The sensor and the schedule, driven against real folders and a real instance."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from rollout_assets.automation.discovery_sensor import RUNS_PER_TICK, discover_runs, nightly_sweep
from rollout_assets_tests.conftest import Project

ROWS: list[dict[str, Any]] = [{"task_id": "a", "reward": 1.0}, {"task_id": "b", "reward": 0.0}]


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "0")


def tick(project: Project, cursor: str | None = None) -> dg.SensorResult:
    with dg.build_sensor_context(
        instance=project.instance, cursor=cursor, resources={"workspace": project.workspace}
    ) as context:
        result = discover_runs(context)
    assert isinstance(result, dg.SensorResult)
    return result


def requested(result: dg.SensorResult) -> list[tuple[str | None, str | None]]:
    return [(request.job_name, request.partition_key) for request in result.run_requests or []]


def added(result: dg.SensorResult) -> list[str]:
    return [key for request in result.dynamic_partitions_requests or [] for key in request.partition_keys]


def test_new_runs_are_added_observed_and_requested_once(project: Project) -> None:
    project.write_run("math/step-1/rollouts", ROWS)
    project.write_run("math/step-2/rollouts", ROWS)
    first = tick(project)
    keys = ["math/step-1/rollouts", "math/step-2/rollouts"]
    assert added(first) == keys
    assert requested(first) == [("ingest_run", key) for key in keys]
    assert [event.partition for event in first.asset_events] == keys
    assert [event.asset_key for event in first.asset_events] == [dg.AssetKey("raw_run")] * 2
    again = tick(project, first.cursor)
    assert requested(again) == []
    assert "2 runs found" in ((again.skip_reason and again.skip_reason.skip_message) or "")


def test_a_changed_run_is_requested_again_under_another_run_key(project: Project) -> None:
    project.write_run("run", ROWS)
    first = tick(project)
    project.write_run("run", [*ROWS, {"task_id": "c", "reward": 1}])
    second = tick(project, first.cursor)
    assert requested(second) == [("ingest_run", "run")]
    assert (first.run_requests or [])[0].run_key != (second.run_requests or [])[0].run_key


def test_a_run_taken_in_otherwise_is_not_requested(project: Project) -> None:
    project.write_run("good", ROWS)
    project.write_run("bad", b"{oops\n")
    assert project.run("good").success
    assert not project.run("bad").success
    assert requested(tick(project)) == []


def test_a_run_whose_ingestion_was_cut_short_is_requested(project: Project) -> None:
    project.write_run("run", ROWS)
    assert project.run("run").success
    project.store.table_path("task_sides", "run").unlink()
    assert requested(tick(project)) == [("ingest_run", "run")]


def test_a_run_that_is_still_being_written_waits(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "30")
    output = project.write_run("run", ROWS)
    waiting = tick(project)
    assert requested(waiting) == []
    assert "1 still being written" in ((waiting.skip_reason and waiting.skip_reason.skip_message) or "")
    past = time.time() - 31
    os.utime(output, (past, past))
    assert requested(tick(project, waiting.cursor)) == [("ingest_run", "run")]


def test_a_run_whose_coverage_says_complete_does_not_wait(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_SETTLE_SECONDS", "3600")
    output = project.write_run("run", ROWS)
    coverage = output.with_name("run_coverage.json")
    for text in ('{"complete": false}', '{"complete"', "[]"):
        coverage.write_text(text)
        assert requested(tick(project)) == [], text
    coverage.write_text('{"complete": true}')
    assert requested(tick(project)) == [("ingest_run", "run")]
    # A resume writes again: the coverage is that of before.
    later = coverage.stat().st_mtime + 1
    os.utime(output, (later, later))
    assert requested(tick(project)) == []


def test_the_policy_says_how_long_files_must_rest(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLOUT_SETTLE_SECONDS")
    project.write_run("run", ROWS)
    assert requested(tick(project)) == []
    (project.root / "policy.yaml").write_text("settle_seconds: 0")
    assert requested(tick(project)) == [("ingest_run", "run")]


def test_a_policy_that_cannot_be_read_fails_the_tick_with_its_place(project: Project) -> None:
    (project.root / "policy.yaml").write_text("gate:\n  max_regression: 0")
    with pytest.raises(dg.Failure, match=r"policy.yaml:2: is no policy: gate.max_regression"):
        tick(project)


def test_work_per_tick_is_bounded_and_the_rest_comes_later(project: Project) -> None:
    for number in range(RUNS_PER_TICK + 3):
        project.write_run(f"run-{number}", ROWS)
    first = tick(project)
    second = tick(project, first.cursor)
    assert (len(requested(first)), len(requested(second))) == (RUNS_PER_TICK, 3)
    assert not set(requested(first)) & set(requested(second))


@pytest.mark.parametrize("cursor", ["", "no json", "[1]", '{"run": 5}', "null"])
def test_a_cursor_that_is_none_starts_over(project: Project, cursor: str) -> None:
    project.write_run("run", ROWS)
    assert requested(tick(project, cursor)) == [("ingest_run", "run")]


def test_a_run_that_vanished_is_named_in_the_tick(project: Project) -> None:
    output = project.write_run("math/step-1/rollouts", ROWS)
    project.write_run("math/step-2/rollouts", ROWS)
    for key in ("math/step-1/rollouts", "math/step-2/rollouts"):
        assert project.run(key).success
    output.unlink()
    message = (tick(project).skip_reason or dg.SkipReason("")).skip_message or ""
    assert message.startswith("Nothing to do: 1 run found")
    assert message.endswith("1 vanished, restore their files or delete the partitions: math/step-1/rollouts")


def test_a_run_that_vanished_leaves_the_cursor(project: Project) -> None:
    output = project.write_run("run", ROWS)
    first = tick(project)
    output.unlink()
    project.write_run("other", ROWS)
    assert "run" not in json.loads(tick(project, first.cursor).cursor or "")


def test_a_verdict_that_cannot_be_read_stops_no_other_run_and_is_written_anew(project: Project) -> None:
    for key in ("broken", "good"):
        project.write_run(key, ROWS)
        assert project.run(key).success
    (project.root / "store" / "verdicts" / "broken.json").write_text("{")
    assert requested(tick(project)) == [("ingest_run", "broken")]
    assert project.run("broken").success
    # The other run's baseline was taken in anew, so only that comparison is due.
    assert requested(tick(project)) == [("compare_run", "good")]


def test_the_cursor_forgets_what_is_taken_in(project: Project) -> None:
    project.write_run("run", ROWS)
    first = tick(project)
    assert json.loads(first.cursor or "")
    assert project.run("run").success
    assert json.loads(tick(project, first.cursor).cursor or "") == {}


def test_what_cannot_be_a_run_is_named_in_the_tick(project: Project) -> None:
    project.write_run("bad name", ROWS)
    result = tick(project)
    assert requested(result) == []
    message = (result.skip_reason and result.skip_reason.skip_message) or ""
    assert "1 cannot be taken in" in message
    assert "bad name.jsonl" in message


def test_a_missing_runs_root_fails_the_tick_with_its_path(project: Project) -> None:
    (project.root / "runs").rmdir()
    with pytest.raises(dg.Failure) as caught:
        tick(project)
    assert str(project.root / "runs") in (caught.value.description or "")


def test_a_comparison_is_requested_again_when_its_baseline_was_taken_in_later(project: Project) -> None:
    project.write_run("math/step-1/rollouts", ROWS)
    project.write_run("math/step-2/rollouts", ROWS)
    assert project.run("math/step-2/rollouts").success
    assert project.run("math/step-1/rollouts").success
    result = tick(project)
    assert requested(result) == [("compare_run", "math/step-2/rollouts")]
    assert project.run("math/step-2/rollouts", job="compare_run").success
    assert requested(tick(project, result.cursor)) == []


def test_comparisons_per_tick_are_bounded_and_the_rest_comes_later(project: Project) -> None:
    (project.root / "policy.yaml").write_text("groups: [{name: all, runs: '**', baseline: first}]")
    keys = [f"run-{number}" for number in range(RUNS_PER_TICK + 3)]
    for key in keys:
        project.write_run(key, ROWS)
        assert project.run(key).success
    assert project.run(keys[0]).success  # the baseline of all others
    first = tick(project)
    second = tick(project, first.cursor)
    third = tick(project, second.cursor)
    assert requested(first) == [("compare_run", key) for key in keys[1 : RUNS_PER_TICK + 1]]
    assert requested(second) == [("compare_run", key) for key in keys[RUNS_PER_TICK + 1 :]]
    assert requested(third) == []
    assert project.run(keys[0]).success  # once more
    assert requested(tick(project, third.cursor)) == requested(first)


def test_a_change_of_any_baseline_refreshes_a_comparison_once(project: Project) -> None:
    (project.root / "policy.yaml").write_text("defaults: {baseline: [previous, first]}")
    keys = [f"math/step-{number}/rollouts" for number in (1, 2, 3)]
    for key in keys:
        project.write_run(key, ROWS)
        assert project.run(key).success
    result = tick(project)
    assert requested(result) == []
    assert project.run(keys[0]).success  # the first of all, and the one before the second
    result = tick(project, result.cursor)
    assert requested(result) == [("compare_run", keys[1]), ("compare_run", keys[2])]


def test_the_nightly_sweep_requests_what_is_due_and_adds_its_partitions(project: Project) -> None:
    project.write_run("done", ROWS)
    assert project.run("done").success
    project.write_run("missed", ROWS)
    with (
        dg.instance_for_test() as instance,
        dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=datetime(2026, 1, 2, 3, tzinfo=UTC),
            resources={"workspace": project.workspace},
        ) as context,
    ):
        [request] = nightly_sweep(context)
        assert request.partition_key == "missed"
        assert request.run_key.endswith(":2026-01-02")
        assert instance.get_dynamic_partitions("rollout_runs") == ["missed"]
