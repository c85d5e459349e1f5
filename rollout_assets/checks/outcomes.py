"""Checks of the outcomes of a run: whether its files agree, and what they cover (records.md §17, §20)."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rollout_assets.checks.partitioned import partitioned_check
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records import ReadingMode
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
    metadata: dict[str, Any] = {"code": error.code}
    metadata |= {name: value for name in ("line", "offset") if (value := getattr(error, name)) is not None}
    if error.path is not None:
        metadata["path"] = dg.MetadataValue.path(error.path)
    text = f"{error.code}: {error}. Nothing downstream of this run is materialized until its files agree."
    found = dg.AssetCheckResult(
        check_name=OUTCOMES_CONSISTENT.name, passed=False, severity=dg.AssetCheckSeverity.ERROR, description=text,
        metadata=metadata,
    )  # fmt: skip
    untold = "Not known: the files of the run contradict each other."
    return [found, *(_coverage_result(spec.name, False, untold) for spec in (COVERAGE_COMPLETE, COVERAGE_RECONCILED))]


def consistent(outcomes: RunOutcomes) -> list[dg.AssetCheckResult]:
    """The results for a run whose outcomes could be read."""
    agreed = dg.AssetCheckResult(check_name=OUTCOMES_CONSISTENT.name, passed=True, description=_MODES[outcomes.mode])
    coverage = outcomes.coverage
    if coverage is None:
        return [
            agreed,
            *(_coverage_result(spec.name, True, _UNKNOWN) for spec in (COVERAGE_COMPLETE, COVERAGE_RECONCILED)),
        ]
    expected, successful, unknown = coverage["expected"], coverage["successful"], coverage["unknown"]
    owed = f"{coverage['retryable']} would be run by a resume, {coverage['attempts_exhausted']} spent all attempts"
    complete = f"{successful} of {expected} expected rollouts have a successful outcome"
    reconciled = f"{unknown} of {expected} expected rollouts have no outcome"
    return [
        agreed,
        _coverage_result(
            COVERAGE_COMPLETE.name,
            coverage["complete"],
            f"{complete}."
            if coverage["complete"]
            else f"{complete}; {coverage['failed']} failed, {unknown} have none; {owed}.",
            coverage,
        ),
        _coverage_result(
            COVERAGE_RECONCILED.name,
            coverage["reconciled"],
            f"{reconciled}." if coverage["reconciled"] else f"{reconciled}: resume the run, or count them as missing.",
            coverage,
        ),
    ]


def _coverage_result(
    name: str, passed: bool, description: str, coverage: dict[str, Any] | None = None
) -> dg.AssetCheckResult:
    figures = {} if coverage is None else {key: value for key, value in coverage.items() if type(value) in (int, float)}
    return dg.AssetCheckResult(
        check_name=name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=description,
        metadata=figures,
    )
