"""Comparing a run with one and with several baselines."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rollout_assets import comparison
from rollout_assets_tests.conftest import Project

RUNS = [f"math/step-{number}/rollouts" for number in (1, 2, 3)]
OTHER = "code/main/rollouts"


def check(result: dg.ExecuteInProcessResult, name: str) -> Any:
    [found] = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    return found


def take_in(project: Project, policy: str = "", bad: tuple[str, ...] = ()) -> dg.ExecuteInProcessResult:
    """Take in a run that differs from each of the others; the result of the last."""
    (project.root / "policy.yaml").write_text(policy)
    for number, key in enumerate([OTHER, *RUNS]):
        rows = [{"task_id": task, "reward": float(number > place)} for place, task in enumerate("abcd")]
        project.write_run(key, b"{oops\n" if key in bad else rows)
        result = project.run(key)
        assert result.success is (key not in bad)
    return result


def compared(project: Project) -> dict[str, int]:
    """Tasks that flipped, by baseline, in the table of the last run."""
    rows = project.store.read_table("comparison_report", RUNS[-1]).to_pylist()
    return {
        baseline: sum(row["category"] == "flipped" for row in rows if row["baseline"] == baseline)
        for baseline in dict.fromkeys(row["baseline"] for row in rows)
    }


def group(baseline: str) -> str:
    return f"groups: [{{name: m, runs: 'math/**', baseline: {baseline}}}]"


@pytest.mark.parametrize(
    ("baseline", "bad", "expected"),
    [
        ("previous", (), {RUNS[1]: 1}),
        ("none", (), {}),
        ("[first, previous]", (), {RUNS[0]: 2, RUNS[1]: 1}),
        (f"[previous, {OTHER}]", (), {RUNS[1]: 1, OTHER: 3}),
        ("[previous, first]", (RUNS[0],), {RUNS[1]: 1}),  # both stand for one run: compared once
        ("previous", (RUNS[1],), {RUNS[0]: 2}),
        ("[previous, first]", (RUNS[0], RUNS[1]), {}),
    ],
)
def test_a_run_is_compared_with_each_baseline(
    project: Project, baseline: str, bad: tuple[str, ...], expected: dict[str, int]
) -> None:
    result = take_in(project, group(baseline), bad)
    assert compared(project) == expected
    verdict = check(result, "baseline_compared")
    assert verdict.passed is not bad
    for key in bad:
        assert f"{key!r} cannot serve: run {key!r} is blocked: jsonl_strict" in verdict.description
    reports = {path.name for path in (project.store.root / "reports" / RUNS[-1]).glob("*.md")}
    assert reports == {f"vs-{key.replace('/', '~')}.md" for key in expected}
    [event] = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey("comparison_report")]
    metadata = event.step_materialization_data.materialization.metadata
    if len(expected) > 1:
        lines = metadata["comparisons"].value.records
        assert {line.data["baseline"]: line.data["tasks_flipped"] for line in lines} == expected
    else:
        assert "comparisons" not in metadata
    if expected:
        assert metadata["baseline"].value == next(iter(expected))
        assert len(metadata["flips"].value.records) == sum(expected.values())


def test_a_baseline_from_the_launchpad_replaces_those_of_the_policy(project: Project) -> None:
    take_in(project, group("[first, previous]"))
    config = {"ops": {"comparison_report": {"config": {"baseline": OTHER}}}}
    assert project.run(RUNS[-1], job="compare_run", config=config).success
    assert compared(project) == {OTHER: 3}


def test_a_task_key_that_is_not_in_the_index_is_refused(project: Project) -> None:
    take_in(project)
    config = {"ops": {"comparison_report": {"config": {"key": "nope"}}}}
    result = project.run(RUNS[-1], job="compare_run", config=config)
    [event] = result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    assert "'nope' is no task key of the index; allowed: " in (
        event.step_failure_data.user_failure_data.description or ""
    )


def test_only_so_many_runs_are_tried_as_a_baseline(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MOST_TRIED", 2)
    project.write_run(RUNS[-1], [{"task_id": "a", "reward": 1}])
    assert project.run(RUNS[-1]).success
    [outcome] = comparison.compare_run(project.store, RUNS[-1], {"previous": ["x", "y", "z"]}, key=None)
    assert outcome.comparison is None
    assert [item.baseline for item in outcome.passed_over] == ["x", "y"]
