"""The contract of all checks: partitioned as their asset is, described, and with exactly one result on every path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import dagster as dg
import pytest

from rollout_assets.assets import comparison_report, record_index, task_sides
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.definitions import build_defs
from rollout_assets_tests.conftest import Project

ROWS = [{"task_id": "a", "reward": 1.0}, {"task_id": "b", "reward": 0.0}]
OF_INDEX = [spec.name for spec in record_index.CHECKS]
OF_SIDES = ["task_key_sound"]
OF_REPORT = [spec.name for spec in comparison_report.CHECKS]
OURS = {*OF_INDEX, *OF_SIDES, *OF_REPORT}


def specs() -> list[dg.AssetCheckSpec]:
    graph = build_defs().resolve_asset_graph()
    return [graph.get_check_spec(key) for key in graph.asset_check_keys]


def test_the_checks_of_the_pipeline() -> None:
    assert {
        "jsonl_strict", "reward_strict", "reward_finite", "row_count_not_shrinking", "task_key_sound",
        "baseline_compared", "same_tasks", "comparison_gate",
    } == OURS  # fmt: skip
    assert {spec.name for spec in specs()} >= OURS
    assert {spec.name for spec in specs() if spec.blocking and spec.name in OURS} == {"jsonl_strict", "reward_strict"}
    for spec in specs():
        over_all_runs = spec.name == "no_run_left_behind"
        assert spec.partitions_def == (None if over_all_runs else ROLLOUT_RUNS), spec.name
        assert (spec.description or "").endswith("."), spec.name


def sound(project: Project) -> None:
    project.write_run("run", ROWS)


def blocked(project: Project) -> None:
    project.write_run("run", b"{oops\n")


def warned(project: Project) -> None:
    project.write_run("run", b'{"task_id": "a", "reward": NaN}\n{"task')


def gone(project: Project) -> None:
    pass


def without_policy(project: Project) -> None:
    sound(project)
    (project.root / "policy.yaml").write_text("[")


def without_task_key(project: Project) -> None:
    project.write_run("run", [{"reward": 1.0}])


def with_a_malformed_baseline(project: Project) -> None:
    project.write_run("another", b"{oops\n")
    project.run("another")
    sound(project)


PATHS: list[tuple[Callable[[Project], None], list[str]]] = [
    (sound, [*OF_INDEX, *OF_SIDES, *OF_REPORT]),
    (warned, [*OF_INDEX, *OF_SIDES, *OF_REPORT]),
    (with_a_malformed_baseline, [*OF_INDEX, *OF_SIDES, *OF_REPORT]),
    (without_task_key, [*OF_INDEX, *OF_SIDES]),
    (blocked, OF_INDEX),
    (gone, OF_INDEX),
    (without_policy, OF_INDEX),
]


@pytest.mark.parametrize(("prepare", "expected"), PATHS, ids=lambda value: getattr(value, "__name__", None))
def test_every_check_of_a_step_that_runs_has_one_result(
    project: Project, prepare: Callable[[Project], None], expected: list[str]
) -> None:
    prepare(project)
    result = project.run("run")
    evaluations = [e for e in result.get_asset_check_evaluations() if e.check_name in OURS]
    assert Counter(e.check_name for e in evaluations) == Counter(expected)
    for evaluation in evaluations:
        assert evaluation.partition == "run"
        assert evaluation.description


def test_checks_behind_a_blocked_run_say_why_they_were_never_reached(project: Project) -> None:
    sound(project)
    assert project.run("run").success
    blocked(project)
    for _ in range(2):  # Dagster keeps one result a check, partition and Dagster run
        result = project.run("run")
        assert [event.step_key for event in result.get_step_failure_events()] == ["index_run"]
        assert "Run 'run' is blocked" in str(result.get_step_failure_events()[0].step_failure_data.user_failure_data)
    for spec in specs():
        if spec.asset_key in ([dg.AssetKey(name) for name in ("attempt_outcomes", "task_sides", "comparison_report")]):
            [latest] = project.instance.event_log_storage.get_asset_check_execution_history(spec.key, limit=1)
            assert latest.event is not None, spec.name
            evaluation = latest.event.dagster_event.event_specific_data  # type: ignore[union-attr]
            assert isinstance(evaluation, dg.AssetCheckEvaluation)
            assert (evaluation.passed, evaluation.partition) == (False, "run")
            assert (evaluation.description or "").startswith("Not judged: run 'run' is blocked: jsonl_strict: ")


@pytest.mark.parametrize(
    ("asset", "expected"), [(task_sides.task_sides, OF_SIDES), (comparison_report.comparison_report, OF_REPORT)]
)
def test_a_step_that_a_blocked_run_stops_replaces_its_older_verdicts(
    project: Project, asset: dg.AssetsDefinition, expected: list[str]
) -> None:
    sound(project)
    assert project.run("run").success
    blocked(project)
    project.run("run")
    defs = build_defs(project.workspace)
    result = dg.materialize(
        list(defs.assets or []),
        selection=[asset],
        partition_key="run",
        instance=project.instance,
        resources=dict(defs.resources or {}),
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    assert not result.success
    evaluations = result.get_asset_check_evaluations()
    assert Counter(e.check_name for e in evaluations) == Counter(expected)
    for evaluation in evaluations:
        assert not evaluation.passed
        assert (evaluation.description or "").startswith("Not judged: run 'run' is blocked: jsonl_strict: ")
