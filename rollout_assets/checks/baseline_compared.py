"""The check `baseline_compared`: every baseline that the policy names could be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import dagster as dg

from rollout_assets.checks.partitioned import check_result, partitioned_check
from rollout_assets.comparison import Against, PassedOver

BASELINE_COMPARED = partitioned_check(
    "baseline_compared",
    "comparison_report",
    blocking=False,
    description="The run was compared with the baselines that the policy names. It was not, if one is malformed, not "
    "taken in yet, or not comparable; the next one in line then serves, if there is one. The first run of a group has "
    "no baseline and passes.",
)


def baseline_compared(outcomes: Sequence[Against]) -> dg.AssetCheckResult:
    """The result for a run, from what came of each baseline."""
    passed_over = {item.baseline: item for outcome in outcomes for item in outcome.passed_over}
    text = " ".join(_told(outcome) for outcome in outcomes) or "The policy asks for no comparison."
    places = [{"baseline": item.baseline, "why it cannot serve": item.reason} for item in passed_over.values()]
    figures = {"total": len(places)}
    return check_result(BASELINE_COMPARED, text, passed=not places, metadata=figures, places=places)


def _told(outcome: Against) -> str:
    if outcome.comparison is not None and not outcome.passed_over:
        return f"Compared with {outcome.comparison.baseline!r}."
    if outcome.comparison is not None:
        return f"Compared with {outcome.comparison.baseline!r}, because {_reasons(outcome.passed_over)}"
    if outcome.passed_over:
        return f"Not compared: {_reasons(outcome.passed_over)}"
    return "Nothing to compare with: this is the first run of its group."


def _reasons(passed_over: Iterable[PassedOver]) -> str:
    return "; ".join(f"{item.baseline!r} cannot serve: {item.reason}" for item in passed_over)
