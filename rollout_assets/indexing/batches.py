"""From the bytes of a range of lines to batches of records and faults: the seam for whatever reads faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.core.jsonl import Fault
from rollout_assets.core.jsonl.engine import new_engine
from rollout_assets.core.jsonl.lines import read_blocks
from rollout_assets.core.jsonl.scan import Line, LineReader
from rollout_assets.core.records.paths import File
from rollout_assets.core.run_scan import reward_fault
from rollout_assets.indexing.columns import record_table
from rollout_assets.indexing.records import RECORD_COLUMNS, record_of
from rollout_assets.tables import RECORD_INDEX, Table

if TYPE_CHECKING:
    from rollout_assets.core.jsonl._engine import Engine

ROWS_PER_BATCH = 8_192
#: Bytes that the engine is given at a time. Between two blocks a thread needs the interpreter, which others may have.
BLOCK_BYTES = 1024 * 1024
#: Bytes of distinct values after which a batch ends: inputs can be large.
HELD_BYTES = 8 * 1024 * 1024


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
    engine = new_engine() if file == "output" else None
    if engine is None:
        yield from _read_rows(file, path, start, end, first_line)
    else:
        yield from _read_columns(engine, path, start, end, first_line)


def _read_rows(file: File, path: Path, start: int, end: int | None, first_line: int) -> Iterator[Batch]:
    """Row by row: the way for the sidecar, whose rules look at a row as a whole, and without the engine."""
    reader = LineReader(str(path), first_line=first_line)
    found = _Found(file, path)
    stop = start
    for block in read_blocks(path, start_offset=start, end_offset=end):
        for line in reader.lines(block):
            found.add(line)
        stop = block.offset + block.length
        if len(found) >= ROWS_PER_BATCH:
            yield found.taken(reader.number, stop)
    yield found.taken(reader.number, stop)


def _read_columns(engine: Engine, path: Path, start: int, end: int | None, first_line: int) -> Iterator[Batch]:
    """The results file by columns; lines that are not ordinary go row by row."""
    reader = LineReader(str(path))
    found = _Found("output", path, engine)
    line, stop = first_line, start
    for block in read_blocks(path, start_offset=start, end_offset=end, chunk_bytes=BLOCK_BYTES):
        count, left_out = engine.feed(block.buffer, block.length, block.offset, line)
        for index, begin, behind, text in left_out:
            for read in reader.one_line(block, begin, behind, line + index, text):
                found.add(read)
        line += count
        stop = block.offset + block.length
        if len(found) >= ROWS_PER_BATCH or engine.held >= HELD_BYTES:
            yield found.taken(line - 1, stop)
    yield found.taken(line - 1, stop)


class _Found:
    """What waits to become a batch: records and faults, and the rows that the engine holds."""

    def __init__(self, file: File, path: Path, engine: Engine | None = None) -> None:
        self._file, self._path, self._engine = file, path, engine
        self._records: list[tuple[Any, ...]] = []
        self._faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self._records) + len(self._faults) + (self._engine.rows if self._engine else 0)

    def add(self, line: Line) -> None:
        """Add a row, with its fault if its reward is no number, or a fault."""
        if isinstance(line, Fault):
            self._faults.append(line)
            return
        fault = reward_fault(self._path, line)
        if fault is not None:
            self._faults.append(fault)
        self._records.append(record_of(self._file, self._path, line))

    def taken(self, lines: int, stop: int) -> Batch:
        """All that waits, in the order of the lines."""
        records = table_of(RECORD_INDEX, RECORD_COLUMNS, self._records)
        if self._engine is not None and self._engine.rows:
            records = merged(record_table(self._file, *self._engine.take()), records)
        batch = Batch(records, self._faults, lines, stop)
        self._records, self._faults = [], []
        return batch


def merged(columns: pa.Table, records: pa.Table) -> pa.Table:
    """Rows that were read in two ways, in the order of their lines."""
    if not len(records):
        return columns
    table = pa.concat_tables([columns, records]).unify_dictionaries()
    return table.take(pc.sort_indices(table, [("line", "ascending")]))


def table_of(table: Table, names: Sequence[str], records: Sequence[tuple[Any, ...]]) -> pa.Table:
    """An Arrow table of records whose values are in the order of `names`."""
    values = dict(zip(names, zip(*records, strict=True), strict=True)) if records else dict.fromkeys(names, ())
    arrays = [pa.array(values[column.name], column.type) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.schema)
