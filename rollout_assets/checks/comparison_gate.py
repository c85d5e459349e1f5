"""The check `comparison_gate`: the thresholds of the policy, held against a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.assets.metadata import SHOWN_ROWS
from rollout_assets.checks.partitioned import check_result, partitioned_check, place_in
from rollout_assets.comparison import Against
from rollout_assets.core.text import counted
from rollout_assets.policy import Gate

COMPARISON_GATE = partitioned_check(
    "comparison_gate",
    "comparison_report",
    blocking=False,
    description="The run keeps the thresholds that the policy sets under `gate`, against each of its baselines: most "
    "regressions, least share and number of tasks measured on both sides. Without thresholds it passes.",
)
_ADVICE = (
    "Look at the regressed tasks below and at the report; then mend the run, or change `gate` in the policy and "
    "materialize comparison_report again."
)
_MEASURED = ("identical", "flipped", "flipped_agent_error")


@dataclass(frozen=True)
class Figures:
    """What the thresholds look at, for one baseline."""

    baseline: str
    tasks: int
    measured: int
    regressed: pa.Table


def comparison_gate(report: pa.Table, outcomes: Sequence[Against], gate: Gate) -> dg.AssetCheckResult:
    """The result for a run.

    Args:
        report: Its table `comparison_report`.
        outcomes: What came of each baseline: one that could not be used cannot be passed either.
        gate: The thresholds.
    """
    baselines = report["baseline"].unique().to_pylist()
    figures = [
        _figures(baseline, report.filter(pc.equal(report["baseline"], baseline)), gate) for baseline in baselines
    ]
    regressed = pa.concat_tables([figure.regressed for figure in figures]) if figures else report
    metadata: dict[str, Any] = {"total": regressed.num_rows, **gate.thresholds}
    if figures:
        metadata["tasks_measured"] = min(figure.measured for figure in figures)
        metadata["coverage_fraction"] = min(figure.measured / figure.tasks for figure in figures)
    broken = [*_unusable(outcomes), *(text for figure in figures for text in _broken(figure, gate))]
    passed = not gate.thresholds or not broken
    if not passed:
        told = [*broken, _ADVICE]
    elif not gate.thresholds:
        told = ["No gate configured: the policy sets no threshold.", *map(_told, figures)]
    elif figures:
        told = ["Every threshold is kept.", *map(_told, figures)]
    else:
        told = ["There is no baseline to hold the thresholds against."]
    return check_result(
        COMPARISON_GATE,
        " ".join(told),
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN if gate.severity == "warn" else dg.AssetCheckSeverity.ERROR,
        metadata=metadata,
        places=[_place(row, several=len(figures) > 1) for row in regressed.slice(0, SHOWN_ROWS).to_pylist()],
    )


def regressions(report: pa.Table, gate: Gate) -> pa.Table:
    """The tasks of a `comparison_report` table that count as regressions, the largest loss first."""
    fell = pc.and_(
        pc.fill_null(pc.equal(report["winner"], "old"), False),
        pc.fill_null(pc.less_equal(report["difference"], -gate.min_difference), False),
    )
    was_measured = pc.and_(pc.is_valid(report["old_rows"]), pc.is_null(report["old_masked"]))
    lost = {
        "flipped": fell,
        "flipped_agent_error": fell,
        "masked": pc.and_(was_measured, pc.is_valid(report["new_masked"])),
        "missing": pc.and_(was_measured, pc.is_null(report["new_rows"])),
    }
    counts = pa.array([False] * report.num_rows)
    for category in gate.count:
        counts = pc.or_(counts, pc.and_(pc.equal(report["category"], category), lost[category]))
    return report.filter(counts).sort_by([("difference", "ascending"), ("task", "ascending")])


def _figures(baseline: str, report: pa.Table, gate: Gate) -> Figures:
    measured = pc.sum(pc.is_in(report["category"].cast(pa.string()), pa.array(_MEASURED))).as_py() or 0
    return Figures(baseline, report.num_rows, measured, regressions(report, gate))


def _unusable(outcomes: Iterable[Against]) -> Iterator[str]:
    for outcome in outcomes:
        if outcome.comparison is None and outcome.passed_over:
            yield f"The baseline {outcome.wanted!r} could not be used ({outcome.passed_over[0].reason})."


def _broken(figures: Figures, gate: Gate) -> Iterator[str]:
    """A sentence for each threshold that is not kept: which, and by how much."""
    count, against = figures.regressed.num_rows, f"Against {figures.baseline!r}"
    if gate.max_regressions is not None and count > gate.max_regressions:
        beyond = count - gate.max_regressions
        yield f"{against}: {counted(count, 'regression')}, {beyond} more than max_regressions = {gate.max_regressions}."
    measured = f"{against}: {figures.measured} of {figures.tasks} tasks are measured on both sides"
    needed = math.ceil((gate.min_coverage_fraction or 0) * figures.tasks - 1e-9)
    if figures.measured < needed:
        yield (
            f"{measured}, {needed - figures.measured} fewer than the {needed} of "
            f"min_coverage_fraction = {gate.min_coverage_fraction:g}."
        )
    if gate.min_tasks is not None and figures.measured < gate.min_tasks:
        yield f"{measured}, {gate.min_tasks - figures.measured} fewer than min_tasks = {gate.min_tasks}."


def _told(figures: Figures) -> str:
    return (
        f"Against {figures.baseline!r}: {counted(figures.regressed.num_rows, 'regression')}; {figures.measured} of "
        f"{figures.tasks} tasks are measured on both sides ({figures.measured / figures.tasks:.1%})."
    )


def _place(row: dict[str, Any], *, several: bool) -> dict[str, Any]:
    return {
        "task": row["task"],
        "category": row["category"],
        "old": row["old_reward"],
        "new": row["new_reward"],
        **place_in(row, several=several),
    }
