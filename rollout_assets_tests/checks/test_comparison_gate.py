"""The check `comparison_gate`: each threshold at, above and below its value, and what counts as a regression."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rollout_assets.checks.comparison_gate import comparison_gate, regressions
from rollout_assets.comparison import Against, PassedOver
from rollout_assets.policy import Gate
from rollout_assets_tests.checks.comparisons import report, task
from rollout_assets_tests.conftest import Project

#: Ten tasks: two fell, one rose, one fell with an agent error, two are masked, one is missing, three are identical.
TEN = [
    task("fell", 1, 0),
    task("fell a little", 1, 0.9),
    task("rose", 0, 1),
    task("fell with an agent error", 1, 0.5, agent_error=True),
    task("masked now", 1, "masked"),
    task("masked before", "masked", 1),
    task("gone", 1, None),
    *(task(f"same {n}", 1, 1) for n in range(3)),
]


@pytest.mark.parametrize(
    ("gate", "regressed"),
    [
        ({}, ["fell", "fell with an agent error", "fell a little"]),
        ({"count": ["flipped"]}, ["fell", "fell a little"]),
        ({"count": ["flipped", "masked"]}, ["fell", "fell a little", "masked now"]),
        ({"count": ["missing"]}, ["gone"]),
        ({"min_difference": 0.2}, ["fell", "fell with an agent error"]),
        ({"min_difference": 1.0}, ["fell"]),
        ({"min_difference": 1.5}, []),
    ],
)
def test_what_counts_is_as_the_policy_has_it(gate: dict[str, Any], regressed: list[str]) -> None:
    assert regressions(report(*TEN), Gate.model_validate(gate))["task"].to_pylist() == regressed


def test_what_was_not_measured_before_is_no_regression() -> None:
    rows = [
        task("new", None, 1),
        task("masked", "masked", "masked"),
        task("a", "masked", None),
        task("u", None, "masked"),
    ]
    gate = Gate(count=("flipped", "flipped_agent_error", "masked", "missing"))
    assert regressions(report(*rows), gate).num_rows == 0


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ({"max_regressions": 3}, None),
        ({"max_regressions": 2}, "Against 'base': 3 regressions, 1 more than max_regressions = 2."),
        ({"max_regressions": 0}, "3 regressions, 3 more than max_regressions = 0."),
        ({"max_regressions": 0, "min_difference": 1.5}, None),
        ({"min_coverage_fraction": 0.7}, None),
        (
            {"min_coverage_fraction": 0.71},
            "Against 'base': 7 of 10 tasks are measured on both sides, 1 fewer than the 8 of "
            "min_coverage_fraction = 0.71.",
        ),
        ({"min_coverage_fraction": 1.0}, "3 fewer than the 10 of min_coverage_fraction = 1."),
        ({"min_tasks": 7}, None),
        ({"min_tasks": 100}, "7 of 10 tasks are measured on both sides, 93 fewer than min_tasks = 100."),
        ({"max_regressions": 3, "min_tasks": 7, "min_coverage_fraction": 0.5}, None),
        ({"max_regressions": 1, "min_tasks": 9}, "2 more than max_regressions = 1. Against 'base': 7 of 10"),
    ],
)
def test_each_threshold_is_kept_up_to_its_value(gate: dict[str, Any], says: str | None) -> None:
    result = comparison_gate(report(*TEN), [], Gate.model_validate(gate))
    told = result.description or ""
    assert result.passed is (says is None)
    assert result.severity is dg.AssetCheckSeverity.ERROR
    assert result.metadata["tasks_measured"].value == 7
    if says is None:
        assert told.startswith("Every threshold is kept. Against 'base': ")
        assert "7 of 10 tasks are measured on both sides (70.0%)." in told
    else:
        assert says in told
        assert "mend the run, or change `gate` in the policy" in told


def test_a_gate_may_be_a_warning() -> None:
    result = comparison_gate(report(*TEN), [], Gate(max_regressions=0, severity="warn"))
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_without_a_gate_the_figures_are_told_and_it_passes() -> None:
    result = comparison_gate(report(*TEN), [], Gate())
    assert result.passed
    assert (result.description or "").startswith("No gate configured")
    assert "3 regressions; 7 of 10 tasks" in (result.description or "")
    assert result.metadata["total"].value == 3


def test_the_largest_losses_are_listed_first() -> None:
    rows = [task(f"t{n:02}", 1, n / 100) for n in range(50)]
    result = comparison_gate(report(*rows), [], Gate(max_regressions=0))
    assert result.metadata["total"].value == 50
    places = [record.data for record in result.metadata["places"].value.records]
    assert [place["task"] for place in places] == [f"t{n:02}" for n in range(30)]
    assert places[0] == {
        "task": "t00", "category": "flipped", "old": 1.0, "new": 0.0, "row": "new output line 7 (byte 70)",
    }  # fmt: skip


def test_every_baseline_must_be_kept() -> None:
    rows = [task("a", 0, 1), task("a", 1, 0, baseline="other")]
    result = comparison_gate(report(*rows), [], Gate(max_regressions=0))
    assert not result.passed
    assert "Against 'other': 1 regression," in (result.description or "")
    assert "'base'" not in (result.description or "")
    [place] = result.metadata["places"].value.records
    assert place.data["baseline"] == "other"


@pytest.mark.parametrize(
    ("outcomes", "passed", "says"),
    [
        ([], True, "There is no baseline"),
        ([Against("previous", None)], True, "There is no baseline"),
        (
            [Against("previous", None, (PassedOver("base", "it is blocked"),))],
            False,
            "The baseline 'previous' could not be used (it is blocked).",
        ),
    ],
)
def test_a_baseline_that_could_not_be_used_is_not_passed(outcomes: list[Against], passed: bool, says: str) -> None:
    result = comparison_gate(report(), outcomes, Gate(max_regressions=0))
    assert result.passed is passed
    assert says in (result.description or "")
    assert comparison_gate(report(), outcomes, Gate()).passed


def test_the_gate_of_the_group_is_held_against_a_run(project: Project) -> None:
    project.write_run("math/1/rollouts", [{"task_id": "a", "reward": 1.0}, {"task_id": "b", "reward": 1.0}])
    project.write_run("math/2/rollouts", [{"task_id": "a", "reward": 0.0}, {"task_id": "b", "reward": 1.0}])
    policy = project.root / "policy.yaml"
    judged = {}
    for most in (0, 1):
        policy.write_text(
            f"gate: {{max_regressions: 9}}\ngroups: [{{name: m, runs: '**', gate: {{max_regressions: {most}}}}}]"
        )
        for key in ("math/1/rollouts", "math/2/rollouts"):
            result = project.run(key)
            assert result.success  # a gate is a verdict, not a failure of the pipeline
            [check] = [e for e in result.get_asset_check_evaluations() if e.check_name == "comparison_gate"]
            judged[most, key] = check
    assert [check.passed for check in judged.values()] == [True, False, True, True]
    failed = judged[0, "math/2/rollouts"]
    assert failed.partition == "math/2/rollouts"
    assert "1 regression, 1 more than max_regressions = 0" in (failed.description or "")
    [place] = failed.metadata["places"].value.records
    assert (place.data["task"], place.data["row"]) == ("a", "new output line 1 (byte 0)")
