"""Indexing one run: both of its files, line by line, into the tables `record_index` and `producer_faults`.

One pass, one row in memory, written in row groups as the scan goes on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.compare.keys import ALL_KEYS
from rollout_assets.core.discovery import DiscoveredRun
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import written_beside
from rollout_assets.core.jsonl import Fault, FaultKind, Row
from rollout_assets.core.jsonl.parse import INT64
from rollout_assets.core.records.identity import logical_rollout_id
from rollout_assets.core.records.outcomes import Spending, is_final, spending
from rollout_assets.core.records.paths import File, failures_path_for
from rollout_assets.core.records.timeline import sidecar_facts
from rollout_assets.core.run_scan import scan_run
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX, Table, key_column

ROWS_PER_GROUP = 50_000
#: Faults of each kind kept for messages and metadata; all of them are in the table.
KEPT_FAULTS = 30

#: The fault that `reward_strict` judges; `jsonl_strict` judges all others.
REWARD_FAULTS = frozenset({FaultKind.REWARD_NOT_A_NUMBER})


@dataclass
class IndexSummary:
    """What an indexing pass found. `faults` holds the first of each kind, `counts` all."""

    rows: Counter[str] = field(default_factory=Counter)
    counts: Counter[FaultKind] = field(default_factory=Counter)
    faults: list[tuple[File, Fault]] = field(default_factory=list)

    def add_fault(self, file: File, fault: Fault) -> None:
        """Count a fault and keep it if it is among the first of its kind."""
        self.counts[fault.kind] += 1
        if self.counts[fault.kind] <= KEPT_FAULTS:
            self.faults.append((file, fault))


def index_run(run: DiscoveredRun, records_path: Path, faults_path: Path) -> IndexSummary:
    """Scan the output and the sidecar of a run and write its two tables, each whole or not at all.

    Args:
        run: The run; its files are only read.
        records_path: Where the table `record_index` goes.
        faults_path: Where the table `producer_faults` goes.

    Raises:
        RunDataError: `E-UNREADABLE` when a file cannot be opened or read. Bad content never raises.
    """
    summary = IndexSummary()
    with (
        _table_writer(RECORD_INDEX, _RECORD_COLUMNS, records_path) as add_record,
        _table_writer(PRODUCER_FAULTS, PRODUCER_FAULTS.schema.names, faults_path) as add_fault,
    ):
        for file, line in scan_run(run.output):
            if isinstance(line, Fault):
                summary.add_fault(file, line)
                add_fault(_fault_record(file, line))
            else:
                summary.rows[file] += 1
                facts = row_facts(line.fields, file=file, line=line.line, offset=line.offset, length=line.length)
                add_record(_index_record(line.fields, facts, *_spends_and_final(run.output, file, line)))
    return summary


def _spends_and_final(output: Path, file: File, row: Row) -> tuple[bool, bool]:
    """Whether a row spends an attempt, and whether it is final if it stands (records.md §9.1, §10.2)."""
    if file == "output":
        return False, True
    outcome = sidecar_facts(failures_path_for(output), row)
    return spending(outcome) is Spending.COUNTED, is_final(outcome, retry_terminal_timeouts=False)


#: The columns of `RECORD_INDEX` in the order of `_index_record`.
_RECORD_COLUMNS = (
    *(
        name
        for field_name in RowFacts._fields
        for name in ([key_column(key) for key in ALL_KEYS] if field_name == "labels" else [field_name])
    ),
    "rollout_id",
    "run_id",
    "failure_terminal",
    "counts_as_zero",
    "spends_attempt",
    "final",
)


def _index_record(row: dict[str, Any], facts: RowFacts, spends_attempt: bool, final: bool) -> tuple[Any, ...]:
    """The values of a row in the order of `_RECORD_COLUMNS`: its facts as they are, then what else is indexed."""
    known: tuple[Any, ...] = facts
    file, line, offset, length, task, rollout, attempt, labels, tasksets, *signals, read, written, model, digest = known
    return (
        file,
        line,
        offset,
        length,
        _integer(task),
        _integer(rollout),
        _integer(attempt),
        *labels,
        None if tasksets is None else json.dumps(tasksets, sort_keys=True),
        *signals,
        _integer(read),
        _integer(written),
        model,
        digest,
        _rollout_id(row),
        _text(row.get("_ng_run_id")),
        bool(row.get("_ng_failure_terminal")),
        row.get("_ng_failure_counts_as_zero") is True,
        spends_attempt,
        final,
    )


def _rollout_id(row: dict[str, Any]) -> str | None:
    try:
        return logical_rollout_id(row)
    except RunDataError:
        return None


def _integer(value: float | None) -> int | None:
    """An index as the 64-bit integer of its column; what is none (the scan reports it) has no identity there."""
    if value is None or value != int(value) or int(value) not in INT64:
        return None
    return int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _fault_record(file: File, fault: Fault) -> tuple[Any, ...]:
    """The values of a fault in the order of `PRODUCER_FAULTS`."""
    return (
        file,
        fault.line,
        fault.offset,
        fault.length,
        fault.column,
        str(fault.kind),
        fault.message,
        fault.excerpt,
    )


@contextmanager
def _table_writer(table: Table, names: Sequence[str], path: Path) -> Iterator[Callable[[tuple[Any, ...]], None]]:
    """Give a function that adds one record, in the order of `names`; full row groups are written as they fill up."""
    waiting: list[tuple[Any, ...]] = []
    with written_beside(path) as temporary, pq.ParquetWriter(temporary, table.schema, compression="zstd") as writer:

        def add(record: tuple[Any, ...]) -> None:
            waiting.append(record)
            if len(waiting) == ROWS_PER_GROUP:
                writer.write_table(_arrow(table, names, waiting))
                waiting.clear()

        yield add
        writer.write_table(_arrow(table, names, waiting))


def _arrow(table: Table, names: Sequence[str], records: Sequence[tuple[Any, ...]]) -> pa.Table:
    values = dict(zip(names, zip(*records, strict=True), strict=True)) if records else dict.fromkeys(names, ())
    arrays = [pa.array(values[column.name], column.type) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.schema)
