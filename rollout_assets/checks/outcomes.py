"""Checks of the outcomes of a run: whether its files agree, and what they cover (records.md §17, §20)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import dagster as dg

from rollout_assets.assets.metadata import SHOWN_ROWS
from rollout_assets.checks.partitioned import check_result, partitioned_check
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records import ReadingMode
from rollout_assets.core.records.outcomes import Disposition
from rollout_assets.outcomes import RunOutcomes

_ASSET = "attempt_outcomes"

OUTCOMES_CONSISTENT = partitioned_check(
    "outcomes_consistent",
    _ASSET,
    blocking=True,
    description="Results, sidecar, manifest and inventory agree: no two outcomes of one attempt contradict each other, "
    "no row is of another run, unreserved or in the wrong file, and the inventory is the one the run was started with.",
)
COVERAGE_COMPLETE = partitioned_check(
    "coverage_complete",
    _ASSET,
    blocking=False,
    description="Every expected rollout has a successful outcome. Passes when it is not known what was expected.",
)
COVERAGE_RECONCILED = partitioned_check(
    "coverage_reconciled",
    _ASSET,
    blocking=False,
    description="Every expected rollout has some outcome: none is unaccounted for. Passes when it is not known what "
    "was expected.",
)
OUTCOME_CHECKS = [OUTCOMES_CONSISTENT, COVERAGE_COMPLETE, COVERAGE_RECONCILED]

_UNKNOWN = "It is not known what was expected: the run has neither a manifest nor an inventory."
_MODES = {
    ReadingMode.MANIFEST: "Read by its manifest: all files agree.",
    ReadingMode.LEGACY_IMPORT: "Read by its inventory, for there is no manifest: the files agree, the identity of the "
    "run is not verified.",
    ReadingMode.ROWS_ONLY: "Read by its rows alone: there is neither manifest nor inventory to contradict them.",
}


def inconsistent(error: RunDataError) -> list[dg.AssetCheckResult]:
    """The results for a run whose files contradict each other."""
    metadata: dict[str, Any] = {"code": error.code, "total": 1}
    if error.path is not None:
        metadata["path"] = dg.MetadataValue.path(error.path)
    place = {"file": error.path and Path(error.path).name, "line": error.line, "row at byte": error.offset}
    found = check_result(
        OUTCOMES_CONSISTENT,
        f"{error.code}: {error}. Nothing downstream of this run is materialized until its files agree.",
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=metadata,
        places=[{**place, "what": error.reason}],
    )
    untold = "Not known: the files of the run contradict each other, see outcomes_consistent."
    return [found, *(check_result(spec, untold, passed=False) for spec in (COVERAGE_COMPLETE, COVERAGE_RECONCILED))]


def consistent(outcomes: RunOutcomes) -> list[dg.AssetCheckResult]:
    """The results for a run whose outcomes could be read."""
    agreed = check_result(OUTCOMES_CONSISTENT, _MODES[outcomes.mode], passed=True)
    return [agreed, _complete(outcomes), _reconciled(outcomes)]


def _complete(outcomes: RunOutcomes) -> dg.AssetCheckResult:
    coverage = outcomes.coverage
    if coverage is None:
        return check_result(COVERAGE_COMPLETE, _UNKNOWN, passed=True)
    expected, successful, retryable = coverage["expected"], coverage["successful"], coverage["retryable"]
    told = f"{successful} of {expected} expected rollouts have a successful outcome"
    if coverage["complete"]:
        return check_result(COVERAGE_COMPLETE, f"{told}.", passed=True, metadata=_figures(coverage))
    advice = (
        f"Resume the run: that would run {retryable} of them again."
        if retryable
        else "A resume would run none of them again: look at the failures below, or count the run as it is."
    )
    text = (
        f"{told}; {coverage['failed']} failed, {coverage['unknown']} have none; {retryable} would be run by a resume, "
        f"{coverage['attempts_exhausted']} spent all attempts. {advice}"
    )
    lacking = outcomes.lacking(Disposition.UNKNOWN, Disposition.FAILURE, Disposition.OMITTED)
    metadata = {**_figures(coverage), "total": expected - successful}
    places = list(islice(lacking, SHOWN_ROWS))
    return check_result(COVERAGE_COMPLETE, text, passed=False, metadata=metadata, places=places)


def _reconciled(outcomes: RunOutcomes) -> dg.AssetCheckResult:
    coverage = outcomes.coverage
    if coverage is None:
        return check_result(COVERAGE_RECONCILED, _UNKNOWN, passed=True)
    told = f"{coverage['unknown']} of {coverage['expected']} expected rollouts have no outcome"
    if coverage["reconciled"]:
        return check_result(COVERAGE_RECONCILED, f"{told}.", passed=True, metadata=_figures(coverage))
    text = f"{told}: resume the run, or count them as missing."
    metadata = {**_figures(coverage), "total": coverage["unknown"]}
    places = list(islice(outcomes.lacking(Disposition.UNKNOWN), SHOWN_ROWS))
    return check_result(COVERAGE_RECONCILED, text, passed=False, metadata=metadata, places=places)


def _figures(coverage: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in coverage.items() if type(value) in (int, float)}
