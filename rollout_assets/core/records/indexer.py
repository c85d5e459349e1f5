"""Building the index: every row, of the sidecar first, is set aside or checked and added (records.md §8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Fault, Row, scan
from rollout_assets.core.records.digest import json_equal
from rollout_assets.core.records.failures import Evidence, FailureRecord, checked_failure_record, evidence_kind
from rollout_assets.core.records.identity import attempt_index, logical_rollout_id
from rollout_assets.core.records.inventory import InventoryEntry
from rollout_assets.core.records.keys import (
    ATTEMPT_KEY,
    EVIDENCE_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_RECORD_KEY,
    REJUDGE_OPERATION_ID_KEY,
    REJUDGED_FAILURE_ID_KEY,
    RESPONSE_KEY,
    ROLLOUT_INDEX_KEY,
    RUN_ID_KEY,
    TASK_INDEX_KEY,
)
from rollout_assets.core.records.legacy import is_migrated_image, is_migration_candidate, legacy_number, lost_manifest
from rollout_assets.core.records.outcomes import (
    DroppedRow,
    Outcome,
    OutcomeFacts,
    SourceFile,
    Spending,
    elapsed_seconds,
    failure_facts,
    result_facts,
    spending,
)
from rollout_assets.core.records.paths import File
from rollout_assets.core.records.reading import (
    RolloutRecord,
    StrPath,
    file_replaced,
    identity_of_file,
    placed,
    read_row,
    refuse_unreadable,
)
from rollout_assets.core.records.rejudgment import (
    PendingRejudge,
    is_rejudgment_failure_of,
    is_rejudgment_of,
    keeps_answer_at,
    names_admission,
    rejudgment_admission_closed_by,
)

if TYPE_CHECKING:
    from rollout_assets.core.records.index import RolloutRecords


class Indexer:
    """One pass over the files of a run that fills a `RolloutRecords`."""

    def __init__(self, records: RolloutRecords, output: StrPath, sidecar: StrPath) -> None:
        """Args: the empty index and the two files."""
        self.records = records
        self.files: dict[File, StrPath] = {"failures": sidecar, "output": output}
        # Looked up for every row.
        self._entries = records.expected.entries
        self._reserved = records.manifest.next_attempt
        self._run_id = records.manifest.run_id
        self._shared: dict[OutcomeFacts, OutcomeFacts] = {}
        self._next_legacy: dict[str, int] = {}
        self._migrated: dict[str, list[Outcome]] = {}
        self._closing: list[tuple[PendingRejudge, Mapping[str, Any], str]] = []

    def run(self, limits: Mapping[str, int], skip_keys: frozenset[str]) -> None:
        """Index the sidecar, then the output, then settle the admissions.

        Args:
            limits: Real path -> bytes of that file to index.
            skip_keys: Top-level keys that are left out of very large rows.
        """
        for name, path in self.files.items():
            if Path(path).exists():
                source = SourceFile(name, fspath(path), identity_of_file(path), skip_keys)
                self._index_file(source, limits.get(os.path.realpath(path)))
        self._close_admissions()

    def _index_file(self, source: SourceFile, end: int | None) -> None:
        take = self._take
        for line in scan(source.path, end_offset=end, skip_keys=source.skip_keys):
            if isinstance(line, Fault):
                refuse_unreadable(line, end)
                if line.row_is_readable:
                    self.records.faults.append(line)
                continue
            try:
                take(source, line)
            except RunDataError as error:
                if error.path is not None:
                    raise
                raise placed(error, source.path, line.line, line.offset) from None
        if identity_of_file(source.path) != source.identity:
            raise file_replaced(source.path)

    def _take(self, source: SourceFile, line: Row) -> None:
        """Index one row, in the order of §8.1, rule 6."""
        row = line.fields
        run_id = row.get(RUN_ID_KEY)
        if run_id is not None and self.records.without_manifest:
            raise lost_manifest(self.files.values())
        if row.get(EVIDENCE_KEY):
            self._set_aside(source, line)
            return
        if run_id is None and self.records.importing:
            self._take_legacy(source, line)
            return
        failure_class = row.get(FAILURE_CLASS_KEY)
        if (failure_class is None) is (source.name == "failures"):
            raise _misplaced(source)
        if source.name == "output" and is_migration_candidate(row) and self._is_leftover(source, line):
            return
        rollout_id = logical_rollout_id(row)
        entry = self._entries.get(rollout_id) or expected_entry(self.records, rollout_id)
        attempt = attempt_index(row)
        record = None
        if (
            failure_class is not None
            or run_id != self._run_id
            or row.get(TASK_INDEX_KEY) != entry.task_index
            or row.get(ROLLOUT_INDEX_KEY) != entry.rollout_index
            or FAILURE_RECORD_KEY in row
        ):  # everything but a sound result, to which the check has nothing to say
            record = checked_row(self.records, row, entry, attempt)
        if attempt >= self._reserved.get(rollout_id, 0):
            raise not_reserved(rollout_id, attempt)
        self._add(source, line, entry, attempt, record)

    def _add(
        self, source: SourceFile, line: Row, entry: InventoryEntry, attempt: int, record: FailureRecord | None
    ) -> None:
        """Let a checked row become the outcome of its attempt, unless it repeats one (§8.3, §8.4)."""
        records, row, rollout_id = self.records, line.fields, entry.rollout_id
        key = (rollout_id, attempt)
        if row.get(FAILURE_CLASS_KEY) is None:
            approved = records.rerun_masked and (entry.task_index, entry.rollout_index, attempt) in records.rerun_masked
            facts = result_facts(row, rerun_approved=bool(approved), classification=records.classification)
        else:
            facts = self._failure_facts(source, line, record)
        outcome = Outcome(
            rollout_id,
            attempt,
            source,
            line.line,
            line.offset,
            line.length,
            None if row.get(RUN_ID_KEY) is None else self._run_id,  # equal by now, and one string for all rows
            elapsed_seconds(row),
            facts,
        )
        present = records.payloads.setdefault(key, outcome)
        if present is not outcome:
            repeated = repetition(records, key, self._reader(source, line, attempt))
            if isinstance(repeated, Outcome):
                self._drop(source, line, key, f"duplicate of {_named(repeated.source, repeated.line, source)}")
                return
            records.superseded.setdefault(key, []).append(present)
            self._supersede(present, f"re-judged by {_named(source, line.line, present.source)}")
            facts = replace(facts, failed_rejudgment=repeated)
            outcome = records.payloads[key] = replace(outcome, facts=facts)
        if attempt > records.latest.get(rollout_id, -1):
            records.latest[rollout_id] = attempt
        if facts.failure_class is not None:
            records.count(rollout_id, spending(facts))
            if facts.migrated:
                self._migrated.setdefault(rollout_id, []).append(outcome)
        if facts.omitted:
            records.omitted.add(key)
        if records.open_admissions and row.get(REJUDGE_OPERATION_ID_KEY) is not None:
            self._closing += (
                (pending, row, rollout_id)
                for pending in records.open_admissions
                if names_admission(pending, row, rollout_id)
            )

    def _failure_facts(self, source: SourceFile, line: Row, record: FailureRecord | None) -> OutcomeFacts:
        """The facts of a failure; the answer it may keep is looked up in the whole row. Equal facts are shared."""
        answer = isinstance(line.fields.get(RESPONSE_KEY), dict) and keeps_answer_at(
            source.path, line.offset, line.length, source.skip_keys
        )
        facts = failure_facts(line.fields, record, saved_answer=answer, classification=self.records.classification)
        return self._shared.setdefault(facts, facts)

    def _reader(self, source: SourceFile, line: Row, attempt: int) -> RolloutRecord:
        """The row in hand, whole; with its number where an import gave it one."""
        number = attempt if line.fields.get(RUN_ID_KEY) is None else None
        return RolloutRecord(source.path, line.offset, line.length, line.line, number, skip_keys=source.skip_keys)

    # --- rows of older runs (§12.2, §15) -----------------------------------------------------------------------------

    def _take_legacy(self, source: SourceFile, line: Row) -> None:
        """Index a row without run id in an imported run: number it, waive file and reservation (§15.2)."""
        row = line.fields
        rollout_id = logical_rollout_id(row)
        entry = expected_entry(self.records, rollout_id)
        explicit = attempt_index(row) if ATTEMPT_KEY in row else None
        if source.name == "output" and is_migration_candidate(row):
            for moved in self._migrated.get(rollout_id, ()):
                if explicit in (None, moved.attempt) and self._is_image(source, line, moved):
                    self._drop_leftover(source, line, moved)
                    return
        counter = self._next_legacy.get(rollout_id, 0)
        number = counter if explicit is None else explicit
        held = self.records.payloads.get((rollout_id, number))
        differs = held is not None and not json_equal(held.record.read(), self._reader(source, line, number).read())
        attempt = legacy_number(counter, explicit, held_by_another_row=differs)
        record = checked_row(self.records, row, entry, attempt)
        self._give(rollout_id, attempt)
        self._add(source, line, entry, attempt, record)

    def _give(self, rollout_id: str, number: int) -> None:
        self._next_legacy[rollout_id] = max(self._next_legacy.get(rollout_id, 0), number + 1)

    def _is_leftover(self, source: SourceFile, line: Row) -> bool:
        """Whether an output row was already moved to the sidecar (§15.3); then it is dropped.

        Its run id is that of the moved row, which was checked.
        """
        try:
            key = (logical_rollout_id(line.fields), attempt_index(line.fields))
        except RunDataError:
            return False  # the checks that follow raise it in their order
        moved = self.records.payloads.get(key)
        if moved is None or not moved.facts.migrated or not self._is_image(source, line, moved):
            return False
        self._drop_leftover(source, line, moved)
        return True

    def _is_image(self, source: SourceFile, line: Row, moved: Outcome) -> bool:
        return is_migrated_image(self._reader(source, line, moved.attempt).read(), moved.record.read())

    def _drop_leftover(self, source: SourceFile, line: Row, moved: Outcome) -> None:
        because = f"moved to {_named(moved.source, moved.line, source)} by the invalid-judge migration"
        self._drop(source, line, (moved.rollout_id, moved.attempt), because)

    def _set_aside(self, source: SourceFile, line: Row) -> None:
        """Keep an evidence row out of the outcomes (§12.2, decision 9).

        Only an interrupted attempt of an imported run has an effect: it counts as the newest attempt, without outcome.
        Evidence rows are otherwise not checked.
        """
        records, row, kind = self.records, line.fields, evidence_kind(line.fields)
        rollout_id, explicit = _evidence_identity(row)
        if rollout_id not in records.expected.entries:
            rollout_id = None
        self._drop(source, line, (rollout_id, explicit), f"evidence row: {kind}")
        run_id = row.get(RUN_ID_KEY)
        if not records.importing or kind is not Evidence.INTERRUPTED or rollout_id is None:
            return
        if run_id is None:
            counter = self._next_legacy.get(rollout_id, 0)
            held = (rollout_id, counter if explicit is None else explicit) in records.payloads
            number = legacy_number(counter, explicit, held_by_another_row=held)
            self._give(rollout_id, number)
        elif run_id == records.manifest.run_id:
            number = explicit or 0
        else:
            return
        if records.latest.get(rollout_id, -1) < number:
            records.latest[rollout_id] = number
            records.interrupted[rollout_id] = (number, line.line)

    # --- dropped rows, admissions ------------------------------------------------------------------------------------

    def _drop(self, source: SourceFile, line: Row, key: tuple[str | None, int | None], because: str) -> None:
        place = (source, line.line, line.offset, line.length)
        label = line.fields.get(FAILURE_CLASS_KEY)
        failure_class = label if isinstance(label, str) else None
        self.records.dropped.append(DroppedRow(*place, *key, failure_class, because, Spending.FREE))

    def _supersede(self, outcome: Outcome, because: str) -> None:
        place = (outcome.source, outcome.line, outcome.offset, outcome.length)
        key, facts = (outcome.rollout_id, outcome.attempt), outcome.facts
        self.records.dropped.append(DroppedRow(*place, *key, facts.failure_class, because, spending(facts)))

    def _close_admissions(self) -> None:
        """Keep as open only the admissions that no saved row closes (§13.4, decision 13)."""
        closed = {
            id(pending)
            for pending, row, rollout_id in self._closing
            if rejudgment_admission_closed_by(pending, row, rollout_id, self.files["failures"], self.files["output"])
        }
        self.records.keep_open(p for p in self.records.open_admissions if id(p) not in closed)


# --- the checks of one row (§8.2) ------------------------------------------------------------------------------------


def expected_entry(records: RolloutRecords, rollout_id: str) -> InventoryEntry:
    """What the inventory says about a rollout (§8.2, rule 2).

    Raises:
        RunDataError: `E-NOT-IN-INVENTORY` with the id.
    """
    entry = records.expected.entries.get(rollout_id)
    if entry is None:
        raise RunDataError(
            "E-NOT-IN-INVENTORY",
            f"the rollout {rollout_id!r} is not in the inventory; the row belongs to another run, or the inventory is "
            "not the one that the run was started with",
        )
    return entry


def checked_row(
    records: RolloutRecords, row: Mapping[str, Any], entry: InventoryEntry, attempt: int
) -> FailureRecord | None:
    """Check indices, run id and failure record of a row, in this order (§8.2, rules 4 to 6).

    Returns:
        The failure record, if the row has one.

    Raises:
        RunDataError: `E-INDEX`, `E-FOREIGN-RUN`, `E-RECORD-INVALID` or `E-RECORD-ENVELOPE`.
    """
    for key, expected in ((TASK_INDEX_KEY, entry.task_index), (ROLLOUT_INDEX_KEY, entry.rollout_index)):
        if row.get(key) != expected:
            raise RunDataError(
                "E-INDEX",
                f"{key} of the rollout {entry.rollout_id!r} is {row.get(key)} in the row and {expected} in the "
                "inventory; they must agree",
            )
    check_run_identity(records, row)
    if row.get(FAILURE_CLASS_KEY) is None and FAILURE_RECORD_KEY not in row:
        return None
    return checked_failure_record(row, entry.rollout_id, attempt)


def check_run_identity(records: RolloutRecords, row: Mapping[str, Any]) -> None:
    """Check that a row belongs to the run (§8.2, rule 5); only an imported run may hold rows without run id.

    Raises:
        RunDataError: `E-FOREIGN-RUN` with both run ids.
    """
    run_id = row.get(RUN_ID_KEY)
    if run_id == records.manifest.run_id or (run_id is None and records.importing):
        return
    found = "has no run id" if run_id is None else f"belongs to the run {run_id!r}"
    raise RunDataError(
        "E-FOREIGN-RUN",
        f"the row {found}, the manifest is of the run {records.manifest.run_id!r}; remove rows of other runs, or "
        "restore the manifest of this one",
    )


def not_reserved(rollout_id: str, attempt: int) -> RunDataError:
    """The error for an attempt that was saved without having been reserved (§8.2, rule 7)."""
    return RunDataError(
        "E-NOT-RESERVED",
        f"the outcome {(rollout_id, attempt)} has no reservation in the manifest; the manifest is older than the "
        "row, restore the newest one",
    )


def repetition(records: RolloutRecords, key: tuple[str, int], row: RolloutRecord | SavedRow) -> Outcome | bool:
    """What a further row of an attempt that has an outcome is (§8.3, decision 13).

    Args:
        records: The index.
        key: (rollout id, attempt).
        row: The whole further row; with its number where an import gave it one.

    Returns:
        The accepted row that it equals; else False for a re-judgment, and True for one that failed again.

    Raises:
        RunDataError: `E-CONFLICT` with (rollout id, attempt) when it is neither.
    """
    further = row.read()
    present: Outcome = records.payloads[key]
    for earlier in [present, *records.superseded.get(key, [])]:
        if json_equal(earlier.record.read(), further):
            return earlier
    if isinstance(further.get(REJUDGED_FAILURE_ID_KEY), str):
        predecessor = read_row(present.source.path, present.offset, present.length)  # as saved, for its digest
        if predecessor is not None and is_rejudgment_of(predecessor, further):
            return False
        if predecessor is not None and is_rejudgment_failure_of(predecessor, further):
            return True
    raise RunDataError(
        "E-CONFLICT",
        f"a second, different outcome of {key}; the first one is {present.source.path}:{present.line}. An attempt has "
        "one outcome: remove the wrong row, or restore the files from a backup",
    )


class SavedRow:
    """A whole row that is in memory, where a row by its place is expected."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = dict(row)

    def read(self) -> dict[str, Any]:
        """The row."""
        return self._row


def _misplaced(source: SourceFile) -> RunDataError:
    if source.name == "failures":
        reason = f"a row without {FAILURE_CLASS_KEY} is a result and belongs in the output, not in the sidecar"
    else:
        reason = f"a row with {FAILURE_CLASS_KEY} is a failure and belongs in the sidecar, not in the output"
    return RunDataError("E-ARTIFACT", f"{reason}; move it there", path=None)


def _evidence_identity(row: Mapping[str, Any]) -> tuple[str | None, int | None]:
    try:
        return logical_rollout_id(row), attempt_index(row) if ATTEMPT_KEY in row else None
    except RunDataError:
        return None, None


def _named(source: SourceFile, line: int, seen_from: SourceFile) -> str:
    """`line 7`, or `line 7 of the output` where the other row stands in the other file."""
    if source.name == seen_from.name:
        return f"line {line}"
    return f"line {line} of the {'output' if source.name == 'output' else 'sidecar'}"
