"""The attempt timeline: every saved outcome of a run, and whether it stands or exactly why not (records.md §9).

A run without manifest and inventory is folded by its rows alone (records.md §19.1).
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.core.jsonl import Fault, Row, scan
from rollout_assets.core.records.classification import FailureClassificationConfig
from rollout_assets.core.records.failures import evidence_kind, parsed_failure_record
from rollout_assets.core.records.identity import attempt_index, logical_rollout_id
from rollout_assets.core.records.index import RolloutRecords
from rollout_assets.core.records.keys import (
    EVIDENCE_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_RECORD_KEY,
    RESPONSE_KEY,
    ROLLOUT_INDEX_KEY,
    TASK_INDEX_KEY,
)
from rollout_assets.core.records.opening import open_run, refuse_journal
from rollout_assets.core.records.outcomes import (
    Disposition,
    OutcomeFacts,
    Spending,
    failure_facts,
    is_final,
    result_facts,
    spending,
)
from rollout_assets.core.records.paths import File, failures_path_for, resolve_rollout_path
from rollout_assets.core.records.reading import StrPath, refuse_fault
from rollout_assets.core.records.rejudgment import keeps_answer_at


class ReadingMode(StrEnum):
    """What a run is known by."""

    MANIFEST = "manifest"
    #: An inventory without a manifest, imported read-only (§15.2).
    LEGACY_IMPORT = "legacy_import"
    #: Neither: the simple fold of §19.1. Coverage is unknown.
    ROWS_ONLY = "rows_only"


class TimelineEntry(NamedTuple):
    """One saved row of a run.

    Attributes:
        file: `output` or `failures` (the sidecar).
        line: Line number from 1.
        offset: Byte offset of the row.
        length: Bytes of the row, with its line feed if it has one.
        rollout_id: Logical rollout id; None where the row names none.
        task_index: Task index of the rollout.
        rollout_index: Its repeat.
        attempt_index: Attempt number, given by the row or by a legacy import.
        failure_class: `_ng_failure_class` of the row.
        disposition: What became of its rollout; None where the row names none.
        selected: Whether this outcome stands.
        dropped_because: Why it does not stand; None when it does.
        counted: Whether it spends the failure budget.
        final: Whether it stands and no resume changes that by itself.
    """

    file: File
    line: int
    offset: int
    length: int
    rollout_id: str | None
    task_index: int | None
    rollout_index: int | None
    attempt_index: int | None
    failure_class: str | None
    disposition: Disposition | None
    selected: bool
    dropped_because: str | None
    counted: bool
    final: bool


class RunReading(NamedTuple):
    """A run as it was read: by what, its index (None for `rows_only`), and its timeline."""

    mode: ReadingMode
    records: RolloutRecords | None
    timeline: list[TimelineEntry]


def read_run(path: StrPath, *, classification: FailureClassificationConfig | None = None) -> RunReading:
    """Read a run in whatever state it was left: by manifest, by inventory, or by its rows alone.

    Raises:
        RunDataError: What `open_run` and `rows_only_timeline` raise.
    """
    records = open_run(path, classification=classification)
    if records is None:
        return RunReading(ReadingMode.ROWS_ONLY, None, rows_only_timeline(path))
    return RunReading(mode_of(records), records, timeline(records))


def mode_of(records: RolloutRecords) -> ReadingMode:
    """What an indexed run is known by."""
    return ReadingMode.LEGACY_IMPORT if records.without_manifest else ReadingMode.MANIFEST


def timeline(records: RolloutRecords) -> list[TimelineEntry]:
    """Every saved row of a run.

    Returns:
        Entries by inventory order, then attempt, then file (sidecar first) and line; rows of no known rollout are last.
    """
    entries = [
        _entry(
            records,
            o.source.name,
            o,
            o.facts.failure_class,
            _why_not(records, o.rollout_id, o.attempt),
            spending(o.facts),
        )
        for o in records.payloads.values()
    ]
    entries += (
        _entry(records, row.source.name, row, row.failure_class, row.because, row.spent) for row in records.dropped
    )
    known = records.expected.entries
    last = len(known)

    def place(entry: TimelineEntry) -> tuple[int, int, str, int]:
        position = last if entry.rollout_id is None else known[entry.rollout_id].position
        attempt = -1 if entry.attempt_index is None else entry.attempt_index
        return position, attempt, entry.file, entry.line

    return sorted(entries, key=place)


def _entry(
    records: RolloutRecords, file: File, row: Any, failure_class: str | None, because: str | None, spent: Spending
) -> TimelineEntry:
    known = None if row.rollout_id is None else records.expected.entries[row.rollout_id]
    return TimelineEntry(
        file=file,
        line=row.line,
        offset=row.offset,
        length=row.length,
        rollout_id=None if known is None else known.rollout_id,
        task_index=None if known is None else known.task_index,
        rollout_index=None if known is None else known.rollout_index,
        attempt_index=row.attempt,
        failure_class=failure_class,
        disposition=None if known is None else records.disposition(known.rollout_id),
        selected=because is None,
        dropped_because=because,
        counted=spent is Spending.COUNTED or (spent is Spending.OVERRIDDEN and records.retry_terminal_timeouts),
        final=because is None and known is not None and records.is_final(known.rollout_id),
    )


def _why_not(records: RolloutRecords, rollout_id: str, attempt: int) -> str | None:
    """Why the outcome of an attempt does not stand: a newer number exists, saved or only reserved (§9)."""
    newest = records.latest[rollout_id]
    if attempt == newest:
        return None
    if (rollout_id, newest) in records.payloads:
        return f"superseded by attempt {newest}"
    number, line = records.interrupted.get(rollout_id, (None, None))
    if number == newest:
        return f"hidden by the interrupted attempt {newest}, evidence row in line {line}"
    return f"fenced by reservation {newest}"


# --- rows only (§19.1) -----------------------------------------------------------------------------------------------


def rows_only_timeline(path: StrPath) -> list[TimelineEntry]:
    """The simple fold of a run that has neither manifest nor inventory (§19.1).

    Every row of the output stands. Of the failures of a (task index, rollout index) only the last in file order stands,
    and none when the output has that pair. Rows that lack an index are all kept; evidence rows never stand. No attempt
    numbers are consulted, and how many rollouts were expected is unknown.

    Returns:
        Entries of the sidecar, then of the output, each in file order.

    Raises:
        RunDataError: `E-UNREADABLE` when there is no output; `E-JSON` or `E-OBJECT` at the first line that is no
            readable row, an incomplete last one included; `E-JOURNAL` when the run has a dispatch journal.
    """
    output = resolve_rollout_path(path, read_only=True)
    refuse_journal(output)
    if not output.exists():
        raise unreadable_file(output, FileNotFoundError())
    results = [_simple_row(output, "output", row) for row in _rows(output)]
    sidecar = failures_path_for(output)
    failures = [_simple_row(sidecar, "failures", row) for row in _rows(sidecar)]
    scored = {row.identity: row.line for row in results if row.identity is not None}
    last = {row.identity: row.line for row in failures if row.identity is not None and row.evidence is None}

    def why_not(row: _SimpleRow) -> str | None:
        if row.evidence is not None:
            return f"evidence row: {row.evidence}"
        if row.identity in scored:
            return f"scored by line {scored[row.identity]} of the output"
        newer = row.line if row.identity is None else last[row.identity]
        return None if newer == row.line else f"superseded by line {newer}"

    return [
        *(
            _simple_entry(
                "failures", row, Disposition.SUCCESS if row.identity in scored else Disposition.FAILURE, why_not(row)
            )
            for row in failures
        ),
        *(_simple_entry("output", row, Disposition.SUCCESS, None) for row in results),
    ]


class _SimpleRow(msgspec.Struct, frozen=True, gc=False):
    line: int
    offset: int
    length: int
    rollout_id: str | None
    attempt: int | None
    #: (task index, rollout index), equal numbers being equal; None when either is no finite number.
    identity: tuple[float, float] | None
    evidence: str | None
    facts: OutcomeFacts


def _rows(path: StrPath) -> Any:
    for line in scan(path):
        if isinstance(line, Fault):
            refuse_fault(line)
        else:
            yield line


def _simple_row(path: StrPath, file: File, line: Row) -> _SimpleRow:
    row = line.fields
    try:
        rollout_id = logical_rollout_id(row)
    except RunDataError:
        rollout_id = None
    try:
        attempt = attempt_index(row)
    except RunDataError:
        attempt = None
    evidence = evidence_kind(row) if file == "failures" and row.get(EVIDENCE_KEY) else None
    facts = result_facts(row) if file == "output" else sidecar_facts(path, line)
    place = (line.line, line.offset, line.length)
    return _SimpleRow(*place, rollout_id, attempt, _simple_identity(row), evidence, facts)


def sidecar_facts(path: StrPath, line: Row) -> OutcomeFacts:
    """The facts of a sidecar row, whatever it carries: here every row of a sidecar is a failure."""
    row = line.fields
    label = row.get(FAILURE_CLASS_KEY)
    try:
        record = parsed_failure_record(row[FAILURE_RECORD_KEY]) if FAILURE_RECORD_KEY in row else None
    except ValueError:
        record = None
    keeps = isinstance(row.get(RESPONSE_KEY), dict) and keeps_answer_at(path, line.offset, line.length, frozenset())
    return failure_facts(row if isinstance(label, str) else {**row, FAILURE_CLASS_KEY: ""}, record, saved_answer=keeps)


def _simple_identity(row: dict[str, Any]) -> tuple[float, float] | None:
    """(task index, rollout index) of a row; None when either is absent or no finite number (decision 17)."""
    task, rollout = _finite(row.get(TASK_INDEX_KEY)), _finite(row.get(ROLLOUT_INDEX_KEY))
    return None if task is None or rollout is None else (task, rollout)


def _finite(value: Any) -> float | None:
    return value if type(value) is int or (type(value) is float and math.isfinite(value)) else None


def _simple_entry(file: File, row: _SimpleRow, disposition: Disposition, because: str | None) -> TimelineEntry:
    task, rollout = row.identity or (None, None)
    evidence = row.evidence is not None
    return TimelineEntry(
        file=file,
        line=row.line,
        offset=row.offset,
        length=row.length,
        rollout_id=row.rollout_id,
        task_index=task if type(task) is int else None,
        rollout_index=rollout if type(rollout) is int else None,
        attempt_index=row.attempt,
        failure_class=row.facts.failure_class,
        disposition=None if evidence else disposition,
        selected=because is None,
        dropped_because=because,
        counted=not evidence and spending(row.facts) is Spending.COUNTED,
        final=because is None and is_final(row.facts, retry_terminal_timeouts=False),
    )
