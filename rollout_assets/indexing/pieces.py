"""Scanning ranges in their order: here, in several threads, or in several processes, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.core.jsonl.engine import is_compiled
from rollout_assets.core.records.paths import File
from rollout_assets.indexing.batches import read_range
from rollout_assets.indexing.faults import fault_table
from rollout_assets.indexing.pool import scan_in_processes
from rollout_assets.indexing.ranges import Range, ScannedRange, cut
from rollout_assets.indexing.threads import scan_in_threads
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX

#: Below this many bytes a scan is over before new processes have imported what they need (about half a second).
PROCESS_BYTES: Final = 64_000_000
#: A range has at least as many bytes that what comes with every range costs little; two of them are worth a thread.
LEAST_RANGE_BYTES: Final = 32_000_000
#: It has at most as many that what was found in some of them, and waits for its turn, takes little memory.
MOST_RANGE_BYTES: Final = 128_000_000
#: Within these bounds a worker gets one of so many parts of its share of what is left.
PARTS_PER_WORKER: Final = 2

#: Told how many more bytes were scanned.
Advance = Callable[[int], object]


class Piece(NamedTuple):
    """What some consecutive lines of a file hold, in their order.

    Attributes:
        file: Which file of its run.
        records: Their rows, as in the table `record_index`.
        faults: Their faults, as in the table `producer_faults`.
        lines: Number of the last line that was read so far, blank lines counted.
    """

    file: File
    records: pa.Table
    faults: pa.Table
    lines: int


def scan_pieces(
    wanted: Sequence[Range], lines_before: Mapping[File, int], *, workers: int, folder: Path, advance: Advance
) -> Iterator[Piece]:
    """Yield what ranges of the files of a run hold, in the order of the ranges and of their lines.

    Args:
        wanted: What to scan, at most one range a file.
        lines_before: Lines of each file that lie before its range.
        workers: Threads to use at most, or processes where the engine is not compiled: Python lets only one thread of a
            process run at a time. None is started for 1, nor for little to scan.
        folder: A local folder for what processes have read ahead; that is bounded and removed as it is used.
        advance: Told how many more bytes were scanned, by one thread at a time.

    Raises:
        RunDataError: `E-UNREADABLE` when a file cannot be opened or read; `E-WORKER` when a process died.
    """
    total = sum(whole.stop - whole.start for whole in wanted)
    workers = min(workers, total // LEAST_RANGE_BYTES)
    if workers <= 1 or (total < PROCESS_BYTES and not is_compiled()):
        yield from _scan_here(wanted, lines_before, advance)
        return
    share = workers * PARTS_PER_WORKER
    ranges = chain.from_iterable(cut(whole, LEAST_RANGE_BYTES, MOST_RANGE_BYTES, share) for whole in wanted)
    if is_compiled():
        yield from _in_order(scan_in_threads(ranges, workers, advance), lines_before)
    else:
        with TemporaryDirectory(dir=folder, prefix="ranges-") as place:
            yield from _in_order(scan_in_processes(ranges, workers, Path(place), advance), lines_before)


def _scan_here(ranges: Iterable[Range], lines_before: Mapping[File, int], advance: Advance) -> Iterator[Piece]:
    lines = dict(lines_before)
    for file, path, start, stop in ranges:
        place = start
        for batch in read_range(file, path, start=start, end=stop, first_line=lines[file] + 1):
            advance(batch.stop - place)
            lines[file], place = batch.lines, batch.stop
            yield Piece(file, batch.records, fault_table(file, batch.faults), batch.lines)


def _in_order(scanned: Iterator[ScannedRange], lines_before: Mapping[File, int]) -> Iterator[Piece]:
    """What workers found, with line numbers of the whole file."""
    lines = dict(lines_before)
    no_records, no_faults = RECORD_INDEX.schema.empty_table(), PRODUCER_FAULTS.schema.empty_table()
    for result in scanned:
        file = result.scanned.file
        before, lines[file] = lines[file], lines[file] + result.lines
        for records in result.records:
            yield Piece(file, _moved_on(records, before), no_faults, lines[file])
        for faults in result.faults:
            yield Piece(file, no_records, _moved_on(faults, before), lines[file])
        yield Piece(file, no_records, no_faults, lines[file])


def _moved_on(table: pa.Table, lines_before: int) -> pa.Table:
    """A table whose lines were counted from a later place of the file."""
    index = table.schema.get_field_index("line")
    lines = pc.add(table["line"], pa.scalar(lines_before, pa.int64()))
    return table.set_column(index, table.schema.field(index), lines)
