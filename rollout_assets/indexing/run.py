"""Indexing a whole run: its files in their order, one batch of rows in memory, written in row groups as it goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rollout_assets.core.discovery import DiscoveredRun
from rollout_assets.core.errors import unreadable_file
from rollout_assets.core.files import written_beside
from rollout_assets.core.records.paths import FILES, File
from rollout_assets.core.run_scan import files_of_run
from rollout_assets.indexing.faults import IndexSummary, summarize
from rollout_assets.indexing.grow import Growth, parquet_writer
from rollout_assets.indexing.pieces import Advance, scan_pieces
from rollout_assets.indexing.ranges import Range, end_of_last_line
from rollout_assets.indexing.state import FileMark, digest_of
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX, Table

ROWS_PER_GROUP: Final = 50_000
#: A table that grew again and again is written anew once it has this many row groups more than full ones: a reader
#: opens each of them.
SPARE_ROW_GROUPS: Final = 30


@dataclass(frozen=True)
class Earlier:
    """An index that holds the first lines of the files of a run, up to `FileMark.indexed_end` and a tail.

    Attributes:
        records: Its table `record_index`.
        faults: Its table `producer_faults`.
        marks: How far each file is in it.
    """

    records: Path
    faults: Path
    marks: Mapping[File, FileMark]


@dataclass(frozen=True)
class IndexedRun:
    """An index that was made.

    Attributes:
        summary: What it holds.
        marks: How far each file is in it.
        scanned: The bytes of each file that were read for it.
    """

    summary: IndexSummary
    marks: Mapping[File, FileMark]
    scanned: Mapping[File, int]


def index_run(
    run: DiscoveredRun,
    records_path: Path,
    faults_path: Path,
    *,
    workers: int = 1,
    earlier: Earlier | None = None,
    advance: Advance = lambda _: None,
) -> IndexedRun:
    """Scan the output and the sidecar of a run and write its two tables, each whole or not at all, to a spool.

    The result is the same for any number of workers, and with or without an earlier index. What is appended to a file
    while it is read is left out.

    Args:
        run: The run; its files are only read.
        records_path: Where the table `record_index` goes.
        faults_path: Where the table `producer_faults` goes.
        workers: Threads or processes to scan with, at most.
        earlier: An index of the same files to go on from; what it holds is not read again.
        advance: Told how many more bytes are done, by one thread at a time; those of an earlier index are at once.

    Raises:
        RunDataError: `E-UNREADABLE` when a file cannot be opened or read; `E-WORKER` when a worker process died. Bad
            content never raises.
    """
    marks = {} if earlier is None else earlier.marks
    files = {file: _FileSoFar(path, marks.get(file)) for file, path in files_of_run(run.output)}
    wanted = [Range(file, found.path, found.start, found.size) for file, found in files.items()]
    if earlier is not None:
        advance(sum(whole.start for whole in wanted))
    lines_before = {file: found.lines_before for file, found in files.items()}
    records_path.parent.mkdir(parents=True, exist_ok=True)
    old_records, old_faults = (None, None) if earlier is None else (_old_records(earlier), _old_faults(earlier))
    with (
        _growing(RECORD_INDEX, records_path, old_records) as records,
        _growing(PRODUCER_FAULTS, faults_path, old_faults) as faults,
    ):
        pieces = scan_pieces(wanted, lines_before, workers=workers, folder=records_path.parent, advance=advance)
        piece = next(pieces, None)
        for file in FILES:
            records.begin(file)
            faults.begin(file)
            while piece is not None and piece.file == file:
                files[file].add(piece.records, piece.faults, piece.lines)
                records.add(piece.records)
                faults.add(piece.faults)
                piece = next(pieces, None)
    rows = {file: found.rows + found.tail_rows for file, found in files.items()}
    paths = {file: found.path for file, found in files.items()}
    return IndexedRun(
        summarize(rows, faults_path, paths),
        {file: found.mark() for file, found in files.items()},
        {whole.file: whole.stop - whole.start for whole in wanted},
    )


class _FileSoFar:
    """What was found in one file so far; it begins with what an earlier index holds."""

    def __init__(self, path: Path, mark: FileMark | None) -> None:
        self.path = path
        try:
            self._status = path.stat()
        except OSError as error:
            raise unreadable_file(path, error) from error
        self.size = self._status.st_size
        self.start, self.lines_before = (0, 0) if mark is None else (mark.indexed_end, mark.lines)
        self.rows, self.faults = (0, 0) if mark is None else (mark.rows, mark.faults)
        self.tail_rows = self.tail_faults = 0
        self._end = max(self.start, end_of_last_line(path, self.size))
        self._lines = self.lines_before

    def add(self, records: pa.Table, faults: pa.Table, lines: int) -> None:
        """Count what some lines hold."""
        tail_rows, tail_faults = _rows_from(records, self._end), _rows_from(faults, self._end)
        self.rows += len(records) - tail_rows
        self.faults += len(faults) - tail_faults
        self.tail_rows += tail_rows
        self.tail_faults += tail_faults
        self._lines = lines

    def mark(self) -> FileMark:
        """How far the file is indexed."""
        status = self._status
        try:
            digest = digest_of(self.path, self._end)
        except OSError as error:
            raise unreadable_file(self.path, error) from error
        return FileMark(
            path=os.fspath(self.path),
            device=status.st_dev,
            inode=status.st_ino,
            size=self.size,
            mtime_ns=status.st_mtime_ns,
            indexed_end=self._end,
            lines=self._lines - (1 if self.size > self._end else 0),  # without the one that is not finished
            rows=self.rows,
            faults=self.faults,
            tail_rows=self.tail_rows,
            tail_faults=self.tail_faults,
            digest=digest,
        )


def _rows_from(table: pa.Table, offset: int) -> int:
    """How many rows of a table stand at a place of the file or behind it."""
    return pc.sum(pc.greater_equal(table["offset"], offset)).as_py() or 0


@dataclass(frozen=True)
class _OldTable:
    """A table of an earlier index.

    Attributes:
        path: Where it is.
        marks: How far each file is in it; what stands behind is left out.
        output_rows: Rows of the output before the mark.
        has_tail: Whether it holds rows behind a mark: of a line that was not finished.
    """

    path: Path
    marks: Mapping[File, FileMark]
    output_rows: int
    has_tail: bool

    def rows_of(self, file: File) -> Iterator[pa.Table]:
        """Its rows of one file."""
        if file not in self.marks:
            return
        with pq.ParquetFile(self.path) as table:
            for number in range(table.num_row_groups):
                rows = table.read_row_group(number)
                before = pc.less(rows["offset"], self.marks[file].indexed_end)
                yield rows.filter(pc.and_(pc.equal(rows["file"], file), before))

    def growth(self) -> Growth | None:
        """How new row groups come to its own: those of the output before the ones of the sidecar.

        None when it must be rewritten: it has a tail, too many row groups, or one with rows of both files.
        """
        metadata = pq.read_metadata(self.path)
        if self.has_tail or metadata.num_row_groups > metadata.num_rows // ROWS_PER_GROUP + SPARE_ROW_GROUPS:
            return None
        rows = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        borders = list(accumulate(rows, initial=0))
        return Growth(self.path, borders.index(self.output_rows)) if self.output_rows in borders else None


def _old_records(earlier: Earlier) -> _OldTable:
    marks = earlier.marks
    return _OldTable(earlier.records, marks, marks["output"].rows, any(mark.tail_rows for mark in marks.values()))


def _old_faults(earlier: Earlier) -> _OldTable:
    marks = earlier.marks
    return _OldTable(earlier.faults, marks, marks["output"].faults, any(mark.tail_faults for mark in marks.values()))


@dataclass
class _GrowingTable:
    """A table that is written in row groups as they fill up; none of them holds rows of both files.

    Attributes:
        write: Writes one row group.
        growth: How the row groups come to those of an old table, where it is not rewritten.
        rewritten: An old table whose rows are written anew.
    """

    write: Callable[[pa.Table], None]
    growth: Growth | None
    rewritten: _OldTable | None
    waiting: list[pa.Table] = field(default_factory=list)
    rows_waiting: int = 0
    groups: int = 0

    def begin(self, file: File) -> None:
        """Begin with the rows of a file: the first are those that a table to be rewritten holds."""
        self.flush()
        if file == "failures" and self.growth is not None:
            self.growth.inserted = self.groups
        for rows in self.rewritten.rows_of(file) if self.rewritten else ():
            self.add(rows)

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        if len(rows):
            self.waiting.append(rows)
            self.rows_waiting += len(rows)
            if self.rows_waiting >= ROWS_PER_GROUP:
                self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self.waiting:
            self.write(pa.concat_tables(self.waiting).unify_dictionaries())
            self.waiting.clear()
            self.rows_waiting = 0
            self.groups += 1


@contextmanager
def _growing(table: Table, path: Path, old: _OldTable | None) -> Iterator[_GrowingTable]:
    """A table at a path that also holds what an old one holds, in the order of a whole scan."""
    growth = None if old is None else old.growth()
    with written_beside(path, durable=False) as temporary, parquet_writer(temporary, table, growth) as write:
        growing = _GrowingTable(write, growth, None if growth else old)
        yield growing
        growing.flush()
