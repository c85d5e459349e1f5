"""The coverage of a run: how many rollouts were expected, and what became of them (records.md §17)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from rollout_assets.core.records.outcomes import Disposition, Measurement, disposition_of, is_final, measurement_of

if TYPE_CHECKING:
    from rollout_assets.core.records.index import RolloutRecords

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
    manifest, counts, by_class = records.manifest, Counter[str](), Counter[str]()
    for rollout_id in records.expected:
        facts = records.newest_facts(rollout_id)
        disposition = disposition_of(facts)
        counts[disposition] += 1
        if rollout_id in records.latest:
            counts["attempts"] += records.next_number(rollout_id)
        if facts is not None and disposition is Disposition.SUCCESS:
            counts[measurement_of(facts)] += 1
        if facts is not None and disposition is Disposition.FAILURE:
            by_class[facts.failure_class or ""] += 1
            counts["final failures"] += is_final(facts, records.retry_terminal_timeouts)
    expected, successful = len(records.expected), counts[Disposition.SUCCESS]
    failed, unknown = counts[Disposition.FAILURE], counts[Disposition.UNKNOWN]
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
        "attempts": counts["attempts"],
        "counted_failures": sum(map(records.failure_count, records.expected)),
        "attempts_exhausted": records.exhausted_count(),
        "stopped": records.stopped_count(),
        "retryable": len(records.pending_identities()),
        "max_rollout_attempts": records.attempt_cap,
        "retry_terminal_timeouts": records.retry_terminal_timeouts,
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
