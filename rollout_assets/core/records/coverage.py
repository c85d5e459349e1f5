"""The coverage of a run: how many rollouts were expected, and what became of them (records.md §17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rollout_assets.core.records.outcomes import Disposition, Measurement, disposition_of, is_final, measurement_of

if TYPE_CHECKING:
    from rollout_assets.core.records.index import RolloutRecords, Standing

COVERAGE_VERSION: Final = 2

EXIT_COMPLETE: Final = 0
EXIT_UNUSABLE: Final = 1
#: Partial, and a resume would run something.
EXIT_PENDING: Final = 75
#: Partial, and nothing is left to do.
EXIT_PARTIAL: Final = 76


def coverage(records: RolloutRecords) -> dict[str, Any]:
    """The coverage report of a run (§17).

    The names `stopped` and `failed_by_class` are a proposal.

    Returns:
        JSON-ready counts over rollouts, in a fixed order of keys. `expected` = `measured` + `masked` + `unscored` +
        `failed` + `intentionally_omitted` + `unknown`.
    """
    manifest, retry, tally = records.manifest, records.retry_terminal_timeouts, records.tally()
    counts, by_class = Counter[str](), Counter[str]()
    for (facts, _, _), rollouts in tally.items():
        disposition = disposition_of(facts)
        counts[disposition] += rollouts
        if facts is not None and disposition is Disposition.SUCCESS:
            counts[measurement_of(facts)] += rollouts
        if facts is not None and disposition is Disposition.FAILURE:
            by_class[facts.failure_class or ""] += rollouts
            counts["final failures"] += rollouts * is_final(facts, retry)
    expected, successful = len(records.expected), counts[Disposition.SUCCESS]
    failed, unknown = counts[Disposition.FAILURE], counts[Disposition.UNKNOWN]

    def number(rule: Callable[[Standing], bool]) -> int:
        return sum(rollouts for standing, rollouts in tally.items() if rule(standing))

    return {
        "schema_version": COVERAGE_VERSION,
        "selection_policy": manifest.selection_policy,
        "run_id": manifest.run_id,
        "expected": expected,
        "successful": successful,
        "measured": counts[Measurement.MEASURED],
        "masked": counts[Measurement.MASKED],
        "unscored": counts[Measurement.UNSCORED],
        "failed": failed,
        "failed_final": counts["final failures"],
        "failed_not_final": failed - counts["final failures"],
        "failed_by_class": dict(sorted(by_class.items())),
        "intentionally_omitted": counts[Disposition.OMITTED],
        "unknown": unknown,
        "never_dispatched": expected - len(records.latest),
        "attempts": sum(map(records.next_number, records.latest)),
        "counted_failures": records.attempt_counts.total()
        + (records.overridden_terminal_counts.total() if retry else 0),
        "attempts_exhausted": number(records.is_exhausted),
        "stopped": number(records.is_stopped),
        "retryable": number(records.is_pending),
        "max_rollout_attempts": records.attempt_cap,
        "retry_terminal_timeouts": retry,
        "completion_fraction": successful / expected if expected else 1.0,
        "complete": successful == expected,
        "reconciled": unknown == 0,
        "identity_verified": not (manifest.legacy_import or manifest.identity_overridden),
    }


def exit_status(report: dict[str, Any]) -> int:
    """The exit code that a coverage report stands for (§16.4, decision 12).

    A complete run exits 0 even when reruns of masked results are approved.
    """
    if report["complete"]:
        return EXIT_COMPLETE
    return EXIT_PENDING if report["retryable"] else EXIT_PARTIAL
