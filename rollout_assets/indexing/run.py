"""Indexing a whole run: one pass, one batch of rows in memory, written in row groups as the scan goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rollout_assets.core.discovery import DiscoveredRun
from rollout_assets.core.files import written_beside
from rollout_assets.core.jsonl import Fault, FaultKind
from rollout_assets.core.records.paths import File
from rollout_assets.core.run_scan import files_of_run
from rollout_assets.indexing.batches import read_range, table_of
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX, Table

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
        _table_writer(RECORD_INDEX, records_path) as add_records,
        _table_writer(PRODUCER_FAULTS, faults_path) as add_faults,
    ):
        for file, path in files_of_run(run.output):
            for batch in read_range(file, path):
                summary.rows[file] += len(batch.records)
                for fault in batch.faults:
                    summary.add_fault(file, fault)
                add_records(batch.records)
                add_faults(fault_table(file, batch.faults))
    return summary


def fault_table(file: File, faults: Sequence[Fault]) -> pa.Table:
    """The table `producer_faults` of some faults."""
    return table_of(PRODUCER_FAULTS, PRODUCER_FAULTS.schema.names, [_fault_record(file, fault) for fault in faults])


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
def _table_writer(table: Table, path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Give a function that adds rows to a table; full row groups are written as they fill up."""
    waiting: list[pa.Table] = []
    with written_beside(path) as temporary, pq.ParquetWriter(temporary, table.schema, compression="zstd") as writer:

        def add(rows: pa.Table) -> None:
            waiting.append(rows)
            if sum(map(len, waiting)) >= ROWS_PER_GROUP:
                write()

        def write() -> None:
            writer.write_table(pa.concat_tables(waiting).unify_dictionaries().combine_chunks())
            waiting.clear()

        add(table.schema.empty_table())
        yield add
        write()
