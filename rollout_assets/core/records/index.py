"""The index of saved outcomes: which outcome of each rollout stands, what was spent, what is still owed.

Facts are kept, never payloads; a row is read again by its place only for a conflict, a re-judgment or a drill-down
(records.md §8 to §10).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Fault
from rollout_assets.core.records import coverage as _coverage
from rollout_assets.core.records import indexer as _indexer
from rollout_assets.core.records.classification import FailureClassificationConfig
from rollout_assets.core.records.failures import ALLOCATION_ENDED
from rollout_assets.core.records.identity import attempt_index, logical_rollout_id
from rollout_assets.core.records.inventory import Inventory
from rollout_assets.core.records.keys import (
    ATTEMPT_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_MESSAGE_KEY,
    FAILURE_RECORD_KEY,
    RUN_ID_KEY,
    TERMINAL_KEY,
)
from rollout_assets.core.records.manifest import RunManifest
from rollout_assets.core.records.outcomes import (
    Disposition,
    DroppedRow,
    Outcome,
    OutcomeFacts,
    Spending,
    disposition_of,
    is_final,
)
from rollout_assets.core.records.paths import failures_path_for, manifest_path_for, materialized_path_for
from rollout_assets.core.records.reading import RolloutRecord, StrPath
from rollout_assets.core.records.rejudgment import PendingRejudge
from rollout_assets.core.records.resume import Resume, base_attempt_cap, resume_action

_T = TypeVar("_T")
#: How a rollout stands: facts of its newest outcome if it has one, whether its counted failures reach the cap, and
#: whether an open re-judgment admission blocks it.
Standing = tuple[OutcomeFacts | None, bool, bool]


class LazyRows(Sequence[dict[str, Any]], Generic[_T]):
    """Rows that are read one at a time, when they are asked for."""

    def __init__(self, places: Sequence[_T], read: Callable[[_T], dict[str, Any]]) -> None:
        self._places = places
        self._read = read

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> LazyRows[_T]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | LazyRows[_T]:
        if isinstance(index, slice):
            return LazyRows(self._places[index], self._read)
        return self._read(self._places[index])


class RolloutRecords:
    """The saved outcomes of one run.

    Attributes:
        manifest: The manifest of the run.
        expected: The inventory: logical rollout id -> inventory row, in inventory order.
        classification: Who is responsible for which failure, if that was given explicitly.
        importing: Whether rows without run id belong to the run and are numbered while reading (§15.2).
        without_manifest: Whether the manifest was made up, because the run has none.
        latest: Logical rollout id -> newest reserved or saved attempt number.
        payloads: (rollout id, attempt) -> the outcome of that attempt, by place and facts.
        omitted: (rollout id, attempt) of intentional omissions.
        superseded: (rollout id, attempt) -> earlier outcomes of that attempt that were re-judged.
        dropped: Saved rows that are the outcome of no attempt, and why.
        interrupted: Rollout id -> (number, line) of an interrupted attempt that evidence alone shows (§12.2).
        attempt_counts: Rollout id -> failures that spent an attempt.
        overridden_terminal_counts: Rollout id -> terminal failures that spend one while terminal timeouts are retried.
        attempt_cap: Failures after which a rollout is not tried again: saved cap + extension (§10.1).
        attempt_extension: Attempts that an explicit recovery added.
        retry_terminal_timeouts: The run's retry option (§9.2).
        rerun_masked: (task index, rollout index, attempt) of masked results approved to run again.
        open_admissions: Admitted re-judgments that no saved row closes (§13.4).
        faults: Faults of rows that are readable all the same.
    """

    def __init__(
        self,
        manifest: RunManifest,
        expected: Inventory | Iterable[Mapping[str, Any]],
        classification: FailureClassificationConfig | None = None,
    ) -> None:
        """An index without outcomes.

        Args:
            manifest: The manifest of the run.
            expected: The inventory, or its rows.
            classification: Who is responsible for which failure; without one nothing is unclassified (§11.4).

        Raises:
            RunDataError: `E-RESERVE-UNKNOWN` when the manifest reserves rollouts that the inventory lacks; for rows the
                errors of `Inventory`.
        """
        self.manifest = manifest
        self.expected = expected if isinstance(expected, Inventory) else Inventory(expected)
        self.classification = classification
        self.importing = manifest.legacy_import
        self.without_manifest = False
        unknown = sorted(manifest.next_attempt.keys() - self.expected.entries.keys())
        if unknown:
            raise RunDataError(
                "E-RESERVE-UNKNOWN",
                f"the manifest reserves attempts of rollouts that are not in the inventory: {unknown}; restore the "
                "inventory that the run was started with",
            )
        self.latest: dict[str, int] = {name: n - 1 for name, n in manifest.next_attempt.items() if n > 0}
        self.payloads: dict[tuple[str, int], Outcome] = {}
        self.omitted: set[tuple[str, int]] = set()
        self.superseded: dict[tuple[str, int], list[Outcome]] = {}
        self.dropped: list[DroppedRow] = []
        self.interrupted: dict[str, tuple[int, int]] = {}
        self.attempt_counts: Counter[str] = Counter()
        self.overridden_terminal_counts: Counter[str] = Counter()
        self.attempt_extension = manifest.attempt_extension
        self.attempt_cap = base_attempt_cap(manifest.max_rollout_attempts) + manifest.attempt_extension
        self.retry_terminal_timeouts = manifest.retry_terminal_timeouts
        self.rerun_masked = frozenset(manifest.rerun_masked)
        self.open_admissions: list[PendingRejudge] = []
        self.faults: list[Fault] = []
        self.keep_open(manifest.pending_rejudges)

    @classmethod
    def load(
        cls,
        output: StrPath,
        manifest: RunManifest,
        *,
        import_legacy: bool = False,
        outcome_limits: Mapping[StrPath, int] | None = None,
        skip_keys: Set[str] = frozenset(),
        classification: FailureClassificationConfig | None = None,
        inventory: Inventory | None = None,
    ) -> RolloutRecords:
        """Index a run (§8.1). Nothing is written, nothing is repaired.

        Args:
            output: The results file, resolved (`resolve_rollout_path`).
            manifest: The manifest of the run.
            import_legacy: Number rows without run id, as in a run whose manifest says `legacy_import`. Where no
                manifest file exists, output and sidecar may be missing, and no row may have a run id.
            outcome_limits: Path -> bytes of that file to index (§6.3); other files are read to their end.
            skip_keys: Top-level keys whose values are left out of very large rows (§6.2).
            classification: As in the constructor.
            inventory: The inventory, if it was read already.

        Raises:
            RunDataError: What records.md §20 lists for readers, with path and line of the row at fault.
        """
        without_manifest = import_legacy and not manifest_path_for(output).exists()
        if not without_manifest:
            _require_files(output)
        if inventory is None:
            inventory = Inventory.read(materialized_path_for(output), expected_digest=manifest.materialized_digest)
        try:
            records = cls(manifest, inventory, classification)
        except RunDataError as error:
            raise RunDataError(error.code, error.reason, path=manifest_path_for(output)) from None
        records.importing = import_legacy or manifest.legacy_import
        records.without_manifest = without_manifest
        limits = {os.path.realpath(path): limit for path, limit in (outcome_limits or {}).items()}
        indexer = _indexer.Indexer(records, output, failures_path_for(output))
        indexer.run(limits, frozenset(skip_keys))
        return records

    # --- checks of a row that is about to be saved (§16.3) -----------------------------------------------------------

    def check_outcome(self, row: Mapping[str, Any]) -> bool:
        """Apply to a whole row the checks that indexing it would apply (§8.2, §8.3).

        Returns:
            Whether the row says something new; False for a duplicate of a saved row.

        Raises:
            RunDataError: The error that reading the saved row would raise, without a place.
        """
        rollout_id = logical_rollout_id(row)
        entry = _indexer.expected_entry(self, rollout_id)
        attempt = attempt_index(row)
        _indexer.checked_row(self, row, entry, attempt)
        if attempt >= self.manifest.next_attempt.get(rollout_id, 0):
            raise _indexer.not_reserved(rollout_id, attempt)
        key = (rollout_id, attempt)
        return key not in self.payloads or not isinstance(
            _indexer.repetition(self, key, _indexer.SavedRow(row)), Outcome
        )

    def check_run_identity(self, row: Mapping[str, Any]) -> None:
        """Check that a row belongs to this run (§8.2, rule 5).

        Raises:
            RunDataError: `E-FOREIGN-RUN` with both run ids.
        """
        _indexer.check_run_identity(self, row)

    def keep_open(self, admissions: Iterable[PendingRejudge]) -> None:
        """Let these admitted re-judgments be the open ones; each blocks its rollout (§10.4, row 3)."""
        self.open_admissions = list(admissions)
        self._blocked = {pending.rollout_id for pending in self.open_admissions}

    def count(self, rollout_id: str, spent: Spending) -> None:
        """Add what an outcome costs to the counts of its rollout (§10.2)."""
        if spent is Spending.COUNTED:
            self.attempt_counts[rollout_id] += 1
        elif spent is Spending.OVERRIDDEN:
            self.overridden_terminal_counts[rollout_id] += 1

    # --- selection (§9) ----------------------------------------------------------------------------------------------

    def outcome(self, rollout_id: str) -> Outcome | None:
        """The outcome of the newest attempt of a rollout, if it has one: the one that stands."""
        newest = self.latest.get(rollout_id)
        return None if newest is None else self.payloads.get((rollout_id, newest))

    def newest_facts(self, rollout_id: str) -> OutcomeFacts | None:
        """The facts of `outcome`."""
        outcome = self.outcome(rollout_id)
        return None if outcome is None else outcome.facts

    def disposition(self, rollout_id: str) -> Disposition:
        """What became of a rollout, judged by its newest attempt alone (§9)."""
        return disposition_of(self.newest_facts(rollout_id))

    def selected_records(self, disposition: Disposition | str) -> dict[tuple[str, int], RolloutRecord]:
        """(rollout id, newest attempt) -> place of the standing row, for the rollouts of a disposition, in order."""
        return {
            (outcome.rollout_id, outcome.attempt): outcome.record
            for outcome in map(self.outcome, self.expected)
            if outcome is not None and disposition_of(outcome.facts) == disposition
        }

    def selected(self, disposition: Disposition | str) -> Sequence[dict[str, Any]]:
        """The standing rows of the rollouts of a disposition, in inventory order; each is read when asked for."""
        return LazyRows(list(self.selected_records(disposition).values()), RolloutRecord.read)

    def rerun_approved_identities(self) -> list[str]:
        """Rollouts whose standing result is a masked one that an operator approved to run again (§14.1)."""
        facts = ((rollout_id, self.newest_facts(rollout_id)) for rollout_id in self.expected)
        return [rollout_id for rollout_id, known in facts if known is not None and known.rerun_approved]

    def is_final(self, rollout_id: str) -> bool:
        """Whether no resume changes this rollout (§9.1)."""
        return is_final(self.newest_facts(rollout_id), self.retry_terminal_timeouts)

    # --- the failure budget and what is owed (§10) -------------------------------------------------------------------

    def failure_count(self, rollout_id: str) -> int:
        """Counted failures of all attempts of a rollout (§10.2)."""
        overridden = self.overridden_terminal_counts.get(rollout_id, 0) if self.retry_terminal_timeouts else 0
        return self.attempt_counts.get(rollout_id, 0) + overridden

    def next_number(self, rollout_id: str) -> int:
        """The attempt number that the next reservation of a rollout gives (§4.2)."""
        return max(self.manifest.next_attempt.get(rollout_id, 0), self.latest.get(rollout_id, -1) + 1)

    def next_attempts(self) -> dict[str, int]:
        """Rollout id -> next number, for rollouts with one: what a writer saves after an import (§15.2, rule 6)."""
        return {rollout_id: self.next_number(rollout_id) for rollout_id in self.expected if rollout_id in self.latest}

    def resume_action(self, rollout_id: str) -> Resume:
        """What a resume would do with a rollout, its cap aside (§10.4)."""
        return resume_action(
            self.newest_facts(rollout_id),
            blocked=rollout_id in self._blocked,
            retry_terminal_timeouts=self.retry_terminal_timeouts,
        )

    def pending_identities(self, max_attempts: int | None = None) -> list[str]:
        """Rollouts that a resume would run, in inventory order: retryable and below the cap (§10.4)."""
        spent = self._spent(self.attempt_cap if max_attempts is None else max_attempts)
        return [
            rollout_id
            for rollout_id in self.expected.entries
            if rollout_id not in spent and self.resume_action(rollout_id) is Resume.RUN
        ]

    def pending(self, max_attempts: int | None = None) -> Sequence[dict[str, Any]]:
        """The rows that a resume would send, in inventory order; each is read when asked for (§10.5).

        Args:
            max_attempts: The cap; the run's own when None.

        Returns:
            Inventory rows with `_ng_attempt_index` and `_ng_run_id`.
        """
        return LazyRows(self.pending_identities(max_attempts), self._next_row)

    def tally(self, max_attempts: int | None = None) -> Counter[Standing]:
        """How many rollouts stand alike; whatever is counted over rollouts is counted over these."""
        latest, payloads, blocked = self.latest, self.payloads, self._blocked
        spent = self._spent(self.attempt_cap if max_attempts is None else max_attempts)
        found: Counter[Standing] = Counter()
        for rollout_id in self.expected.entries:
            newest = latest.get(rollout_id)
            outcome = None if newest is None else payloads.get((rollout_id, newest))
            found[None if outcome is None else outcome.facts, rollout_id in spent, rollout_id in blocked] += 1
        return found

    def exhausted_count(self, max_attempts: int | None = None) -> int:
        """Rollouts that are not final and whose counted failures reach the cap (§10.1)."""
        return sum(n for standing, n in self.tally(max_attempts).items() if self.is_exhausted(standing))

    def stopped_count(self, max_attempts: int | None = None) -> int:
        """Failed rollouts below the cap, not final, that resume leaves to an explicit recovery (§10.4)."""
        return sum(n for standing, n in self.tally(max_attempts).items() if self.is_stopped(standing))

    def is_exhausted(self, standing: Standing) -> bool:
        """Whether rollouts that stand so are not final and have no attempt left (§10.1)."""
        facts, spent, _ = standing
        return spent and not is_final(facts, self.retry_terminal_timeouts)

    def is_pending(self, standing: Standing) -> bool:
        """Whether a resume would run rollouts that stand so (§10.4)."""
        facts, spent, blocked = standing
        retry = self.retry_terminal_timeouts
        return not spent and resume_action(facts, blocked=blocked, retry_terminal_timeouts=retry) is Resume.RUN

    def is_stopped(self, standing: Standing) -> bool:
        """Whether rollouts that stand so failed and are left to an explicit recovery (§10.4)."""
        facts, spent, blocked = standing
        retry = self.retry_terminal_timeouts
        return (
            not spent
            and disposition_of(facts) is Disposition.FAILURE
            and not is_final(facts, retry)
            and resume_action(facts, blocked=blocked, retry_terminal_timeouts=retry)
            in (Resume.BLOCKED, Resume.LEAVE_TO_RECOVERY)
        )

    @property
    def unresolved_dispatches(self) -> list[str]:
        """Rollouts whose newest number is reserved and has no outcome (§10.4, proposal)."""
        reserved = self.manifest.next_attempt
        return [
            rollout_id
            for rollout_id in self.expected
            if self.latest.get(rollout_id, -1) + 1 == reserved.get(rollout_id, 0) > 0
            and self.outcome(rollout_id) is None
        ]

    @property
    def replay_blocked(self) -> list[str]:
        """Rollouts that an open re-judgment admission blocks (§10.4, proposal; decision 13)."""
        return [rollout_id for rollout_id in self.expected if self.resume_action(rollout_id) is Resume.BLOCKED]

    def allocation_end_charges(self) -> Iterator[dict[str, Any]]:
        """The failures that a writer must append for reservations that ended without outcome (§10.3).

        Of each rollout that a resume would run, every reserved number without outcome is charged but the first. The
        rows come one at a time: a manifest can reserve more numbers than fit in memory.
        """
        for rollout_id in self.pending_identities():
            reserved = range(self.manifest.next_attempt.get(rollout_id, 0))
            unfilled = (number for number in reserved if (rollout_id, number) not in self.payloads)
            next(unfilled, None)
            for number in unfilled:
                yield self._charge(rollout_id, number)

    def coverage(self) -> dict[str, Any]:
        """The coverage report (§17), ready for JSON."""
        return _coverage.coverage(self)

    def _spent(self, cap: int) -> set[str]:
        """Rollouts whose counted failures reach the cap."""
        if cap <= 0:
            return set(self.expected.entries)
        counted = self.attempt_counts.keys() | self.overridden_terminal_counts.keys()
        return {rollout_id for rollout_id in counted if self.failure_count(rollout_id) >= cap}

    def _next_row(self, rollout_id: str) -> dict[str, Any]:
        return self._attempt_row(rollout_id, self.next_number(rollout_id))

    def _attempt_row(self, rollout_id: str, number: int) -> dict[str, Any]:
        return {**self.expected[rollout_id], ATTEMPT_KEY: number, RUN_ID_KEY: self.manifest.run_id}

    def _charge(self, rollout_id: str, number: int) -> dict[str, Any]:
        """The failure row of one charge (§10.3, rule 3; the message and the record are a proposal)."""
        reason = f"attempt {number} was reserved, and its allocation ended without an outcome"
        return {
            **self._attempt_row(rollout_id, number),
            FAILURE_CLASS_KEY: ALLOCATION_ENDED,
            TERMINAL_KEY: False,
            FAILURE_MESSAGE_KEY: reason,
            FAILURE_RECORD_KEY: {
                "schema_version": 1,
                "episode_id": {"rollout_id": rollout_id, "attempt": number},
                "run_id": self.manifest.run_id,
                "source": "collector",
                "delivery": "possibly_delivered",
                "failure": {"failure_reason": reason, "terminal": False, "failure_kind": ALLOCATION_ENDED},
            },
        }


def _require_files(output: StrPath) -> None:
    """With a manifest, output, inventory and sidecar must exist (§1, rule 1).

    Raises:
        RunDataError: `E-MISSING` naming the run and what is missing.
    """
    files = {
        "output": output,
        "inventory": materialized_path_for(output),
        "failures sidecar": failures_path_for(output),
    }
    missing = [f"{kind} ({os.fspath(path)})" for kind, path in files.items() if not Path(path).exists()]
    if missing:
        raise RunDataError(
            "E-MISSING",
            f"the run has a manifest but lacks its {' and its '.join(missing)}; restore what is missing, the files "
            "belong together",
            path=output,
        )
