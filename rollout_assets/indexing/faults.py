"""Faults as rows of the table `producer_faults`, and what an index says of them in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rollout_assets.core.jsonl import Fault, FaultKind
from rollout_assets.core.records.paths import File
from rollout_assets.indexing.batches import table_of
from rollout_assets.tables import PRODUCER_FAULTS

#: Faults of each kind kept for messages and metadata; all of them are in the table.
KEPT_FAULTS = 30


@dataclass
class IndexSummary:
    """What the index of a run holds. `faults` are the first of each kind, `counts` counts all."""

    rows: Counter[str] = field(default_factory=Counter)
    counts: Counter[FaultKind] = field(default_factory=Counter)
    faults: list[tuple[File, Fault]] = field(default_factory=list)

    def add_fault(self, file: File, fault: Fault) -> None:
        """Count a fault and keep it if it is among the first of its kind."""
        self.counts[fault.kind] += 1
        if self.counts[fault.kind] <= KEPT_FAULTS:
            self.faults.append((file, fault))


def summarize(rows: Mapping[File, int], faults: Path, paths: Mapping[File, Path]) -> IndexSummary:
    """The summary of a run.

    Args:
        rows: Readable rows of each file.
        faults: The table `producer_faults`.
        paths: The files of the run.
    """
    summary = IndexSummary(rows=Counter({str(file): number for file, number in rows.items() if number}))
    with pq.ParquetFile(faults) as table:
        for number in range(table.num_row_groups):
            _add_row_group(summary, table, number, paths)
    return summary


def _add_row_group(summary: IndexSummary, table: pq.ParquetFile, number: int, paths: Mapping[File, Path]) -> None:
    """Count a row group; its other columns are read only while a kind has not had its first faults."""
    kinds = table.read_row_group(number, columns=["kind"])["kind"].to_pylist()
    kept = []
    for index, kind in enumerate(map(FaultKind, kinds)):
        summary.counts[kind] += 1
        if summary.counts[kind] <= KEPT_FAULTS:
            kept.append(index)
    if kept:
        for row in table.read_row_group(number).take(kept).to_pylist():
            file = row.pop("file")
            summary.faults.append((file, Fault(path=str(paths[file]), **row | {"kind": FaultKind(row["kind"])})))


def fault_table(file: File, faults: Sequence[Fault]) -> pa.Table:
    """The table `producer_faults` of some faults."""
    records = [
        (file, fault.line, fault.offset, fault.length, fault.column, str(fault.kind), fault.message, fault.excerpt)
        for fault in faults
    ]
    return table_of(PRODUCER_FAULTS, PRODUCER_FAULTS.schema.names, records)
