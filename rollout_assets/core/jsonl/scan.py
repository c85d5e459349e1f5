"""The strict scan: every line of a file as a row with its place, or as a fault (records.md §6).

Most lines are read fast, a block of them at a time (`blocks`). Whatever that cannot vouch for is read exactly
(`parse`). Both give the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Set
from functools import cached_property
from os import PathLike, fspath
from typing import Any, Final, NamedTuple

from rollout_assets.core.jsonl.blocks import Decoded, block_reader, decoded
from rollout_assets.core.jsonl.faults import Fault, FaultKind, excerpt
from rollout_assets.core.jsonl.fields import ROW_FIELDS
from rollout_assets.core.jsonl.lines import CHUNK_BYTES, Block, Buffer, is_blank, read_blocks
from rollout_assets.core.jsonl.parse import parse_line
from rollout_assets.core.jsonl.projector import PROJECTED_ROW_BYTES, TopLevelProjector

_LF: Final = 10


class Row(NamedTuple):
    """A readable row and its place.

    Attributes:
        line: Line number from 1; every LF ends a line and blank lines count.
        offset: Byte offset of the row in the file.
        length: Bytes of the row, with its LF if it has one.
        fields: The projected row (`fields.RowFields`), or the whole row when asked for.
        terminated: Whether the row ends in LF.
    """

    line: int
    offset: int
    length: int
    fields: dict[str, Any]
    terminated: bool = True


Line = Row | Fault


def scan(
    path: str | PathLike[str],
    *,
    end_offset: int | None = None,
    skip_keys: Set[str] = frozenset(),
    whole_rows: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    projected_row_bytes: int = PROJECTED_ROW_BYTES,
) -> Iterator[Line]:
    """Yield every non-blank line of a file, as a `Row` or as a `Fault`; bad content never raises.

    A line with a fault that leaves it readable (`faults.READABLE`) gives its faults first, then its row. A last line
    without LF whose text is incomplete JSON is a fault of kind `truncated_tail`: a killed writer leaves it, and it is
    no record (records.md §6.1, decision 10). A file that does not exist has no lines.

    Args:
        path: The file; faults carry it as given.
        end_offset: Read only this many bytes (records.md §6.3).
        skip_keys: Top-level keys whose values are `None` in rows above the projection limit (records.md §6.2). Such a
            row is never in memory as a whole, and of the skipped values only the structure is checked.
        whole_rows: Give whole rows instead of projected ones.
        chunk_bytes: Bytes per read; results do not depend on it.
        projected_row_bytes: The projection limit, in bytes of a row without its LF.

    Raises:
        RunDataError: `E-UNREADABLE` when the operating system refuses to open or read the file.
    """
    limit = projected_row_bytes if skip_keys else sys.maxsize
    reader = LineReader(fspath(path), whole_rows=whole_rows, skip_keys=skip_keys, limit=limit)
    # No name here holds a block: the memory of a long line is given back before the next one is read.
    for lines in map(reader.lines, read_blocks(path, end_offset=end_offset, chunk_bytes=chunk_bytes, line_limit=limit)):
        yield from lines


class Place(NamedTuple):
    """Where a line stands in its file; fields as in `Row`."""

    line: int
    offset: int
    length: int
    terminated: bool


class LineReader:
    """Reads the blocks of one file in their order.

    Attributes:
        number: Number of the last line that was read, blank lines counted.
    """

    def __init__(
        self,
        path: str,
        *,
        first_line: int = 1,
        whole_rows: bool = False,
        skip_keys: Set[str] = frozenset(),
        limit: int = sys.maxsize,
    ) -> None:
        self._path = path
        self._wanted = None if whole_rows else ROW_FIELDS
        self._skip_keys = skip_keys
        self._limit = limit
        self._whole_rows = whole_rows
        self.number = first_line - 1
        # The line that comes in pieces.
        self._projector = TopLevelProjector(skip_keys)
        self._start = -1

    @cached_property
    def _rows(self) -> Callable[[Buffer, int], Iterator[Decoded]]:
        return block_reader(whole_rows=self._whole_rows).rows

    def lines(self, block: Block) -> Iterator[Line]:
        """The rows and faults of a block."""
        if block.is_piece:
            yield from self._piece(block)
            return
        make, limit, view = Row._make, self._limit, memoryview(block.buffer)
        start = 0
        for stop, fields in self._rows(block.buffer, block.length):
            self.number += 1
            terminated = view[stop - 1] == _LF
            offset, length, content = block.offset + start, stop - start, stop - start - terminated
            if content > limit:
                projector = TopLevelProjector(self._skip_keys)
                projector.feed(view[start : start + content])
                yield from self._projected(Place(self.number, offset, length, terminated), projector)
            elif fields is not None:
                yield make((self.number, offset, length, fields, terminated))
            else:
                line = view[start : start + content]
                yield from self.exactly(Place(self.number, offset, length, terminated), line)
            start = stop

    def one_line(self, block: Block, start: int, stop: int, number: int, text: bytes | None) -> Iterator[Line]:
        """The row or the faults of one line of a block, given what the engine says of it (`Engine.feed`)."""
        line = memoryview(block.buffer)[start:stop]
        terminated = line[-1] == _LF
        place = Place(number, block.offset + start, stop - start, terminated)
        fields = None if text is None else decoded(text)
        if fields is not None:
            yield Row(place.line, place.offset, place.length, fields, place.terminated)
        else:
            yield from self.exactly(place, line[: len(line) - terminated])

    def _piece(self, block: Block) -> Iterator[Line]:
        """Go on with a line that comes in pieces; its row or faults come with the last one."""
        if self._start < 0:
            self._start = block.offset
        view = memoryview(block.buffer)[: block.length]
        terminated = block.length > 0 and view[-1] == _LF
        self._projector.feed(view[:-1] if terminated else view)
        if block.is_last_piece:
            self.number += 1
            place = Place(self.number, self._start, block.offset + block.length - self._start, terminated)
            yield from self._projected(place, self._projector)
            self._projector, self._start = TopLevelProjector(self._skip_keys), -1

    def _projected(self, place: Place, projector: TopLevelProjector) -> Iterator[Line]:
        """The row or the faults of a line that a projector has read."""
        data = projector.text()
        rows = self._rows(bytearray(data), len(data)) if data else iter(())
        _, fields = next(rows, (0, None))
        if fields is not None:
            yield Row(place.line, place.offset, place.length, fields, place.terminated)
        else:
            yield from self.exactly(place, data, projector)

    def exactly(
        self, place: Place, data: bytes | memoryview, projector: TopLevelProjector | None = None
    ) -> Iterator[Line]:
        """The faults of a line, then its row if it is readable; nothing if it is blank."""
        if is_blank(data):
            return
        row, faults, incomplete = parse_line(data, self._wanted)
        for kind, column, message in faults:
            if incomplete and not place.terminated:
                kind, column = FaultKind.TRUNCATED_TAIL, len(data) + 1
                message = "the last line is incomplete; its writer was stopped in the middle"
            shown = excerpt(data, column)
            if projector is not None:
                column = projector.column(column)
            yield Fault(kind, self._path, place.line, place.offset, place.length, message, shown, column)
        if row is not None:
            yield Row(place.line, place.offset, place.length, row, place.terminated)
