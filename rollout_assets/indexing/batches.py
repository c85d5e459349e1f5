"""From the bytes of a range of lines to batches of records and faults: the seam for whatever reads faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rollout_assets.core.jsonl import Fault
from rollout_assets.core.jsonl.lines import read_blocks
from rollout_assets.core.jsonl.scan import LineReader
from rollout_assets.core.records.paths import File
from rollout_assets.core.run_scan import reward_fault
from rollout_assets.indexing.records import RECORD_COLUMNS, record_of
from rollout_assets.tables import RECORD_INDEX, Table

ROWS_PER_BATCH = 8_192


@dataclass(frozen=True)
class Batch:
    """What some consecutive lines of a file hold.

    Attributes:
        records: Their rows, with the columns of `RECORD_INDEX`, in the order of the lines.
        faults: Their faults, in the order of the lines.
        lines: Number of the last line that was read, blank lines counted.
        stop: Byte of the file behind the last line that was read.
    """

    records: pa.Table
    faults: list[Fault]
    lines: int
    stop: int


def read_range(
    file: File, path: Path, *, start: int = 0, end: int | None = None, first_line: int = 1
) -> Iterator[Batch]:
    """Yield everything that a range of lines holds, in batches; bad content never raises.

    Args:
        file: Which file of its run this is.
        path: The file.
        start: The byte at which the first line starts.
        end: The byte to stop at, behind a line; the end of the file by default.
        first_line: Number of the first line.

    Raises:
        RunDataError: `E-UNREADABLE` when the file cannot be opened or read.
    """
    reader = LineReader(str(path), first_line=first_line)
    records: list[tuple[Any, ...]] = []
    faults: list[Fault] = []
    stop = start
    for block in read_blocks(path, start_offset=start, end_offset=end):
        for line in reader.lines(block):
            if isinstance(line, Fault):
                faults.append(line)
                continue
            fault = reward_fault(path, line)
            if fault is not None:
                faults.append(fault)
            records.append(record_of(file, path, line))
        stop = block.offset + block.length
        if len(records) + len(faults) >= ROWS_PER_BATCH:
            yield Batch(table_of(RECORD_INDEX, RECORD_COLUMNS, records), faults, reader.number, stop)
            records, faults = [], []
    yield Batch(table_of(RECORD_INDEX, RECORD_COLUMNS, records), faults, reader.number, stop)


def table_of(table: Table, names: Sequence[str], records: Sequence[tuple[Any, ...]]) -> pa.Table:
    """An Arrow table of records whose values are in the order of `names`."""
    values = dict(zip(names, zip(*records, strict=True), strict=True)) if records else dict.fromkeys(names, ())
    arrays = [pa.array(values[column.name], column.type) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.schema)
