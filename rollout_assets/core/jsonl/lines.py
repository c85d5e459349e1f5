"""Splitting a file into lines with exact coordinates, in blocks of whole lines (records.md §6.1).

One buffer is read into again and again; a line is a view into it, so that no line is copied on the way. A very long
line is mapped instead, so that it takes no memory of its own; when a limit is set, a longer line comes in pieces.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from io import FileIO
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from rollout_assets.core.errors import unreadable_file

#: The content of blocks.
Buffer = bytearray | memoryview

CHUNK_BYTES: Final = 256 * 1024
BLANK: Final = b" \t\r"
#: Longer lines are mapped. To read shorter ones into the buffer is faster, and the buffer may be this large.
MAPPED_LINE_BYTES: Final = 8 * 1024 * 1024

_LF: Final = 10
_BLANK_LINE: Final = re.compile(rb"[ \t\r]*+")


class Block(NamedTuple):
    """Whole lines of a file, or one very long line, or a piece of one line that is longer than the limit.

    `buffer[:length]` is the content, valid until the next block is asked for. `offset` is its place in the file. Lines
    end in LF; only the last line of the file (or of the prefix that was asked for) may not. A piece holds no LF, except
    the last piece of its line at its end.

    The buffer is a `bytearray`; what stands behind the content means nothing. For a very long line it is a read-only
    `memoryview` of just this line, mapped; whoever keeps the block keeps the mapping.
    """

    buffer: Buffer
    length: int
    offset: int
    is_piece: bool = False
    is_last_piece: bool = False


class RawLine(NamedTuple):
    """One line of a file, blank or not.

    `offset` and `length` are bytes; `length` counts the LF, `data` leaves it out. `terminated` says whether the line
    ends in LF: only the last one of a file (or of a prefix) may not.
    """

    number: int
    offset: int
    length: int
    data: bytes
    terminated: bool

    @property
    def is_blank(self) -> bool:
        """Whether the line says nothing; see `is_blank`."""
        return is_blank(self.data)


def is_blank(line: bytes | memoryview) -> bool:
    """Whether a line without its LF is blank.

    Only space, tab and CR are; NBSP, U+2028 and the like are content (compare.md, decision 2).
    """
    return _BLANK_LINE.fullmatch(line) is not None


def read_lines(
    path: str | PathLike[str], *, end_offset: int | None = None, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[RawLine]:
    """Yield every line of the first `end_offset` bytes of a file (all of it by default). Lines end at LF only.

    A file that does not exist has no lines. The end is fixed when the file is opened, so a writer that appends
    meanwhile is not seen.

    Raises:
        RunDataError: `E-UNREADABLE` when the operating system refuses to open or read the file.
    """
    number = 1
    for block in read_blocks(path, end_offset=end_offset, chunk_bytes=chunk_bytes):
        start = 0
        for stop in line_stops(block.buffer, block.length):
            terminated = block.buffer[stop - 1] == _LF
            data = bytes(block.buffer[start : stop - terminated])
            yield RawLine(number, block.offset + start, stop - start, data, terminated)
            number += 1
            start = stop


def last_line_start(file: BinaryIO, end: int, step: int) -> int:
    """The place behind the last LF of the first `end` bytes of an open file; 0 if there is none.

    It is searched for backwards, `step` bytes at a time.
    """
    while end > 0:
        start = max(0, end - step)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def line_stops(buffer: Buffer, length: int) -> list[int]:
    """Where the lines of a block end, behind their LF."""
    if isinstance(buffer, memoryview):
        return [length]  # a line of its own, mapped
    stops: list[int] = []
    find, stop = buffer.find, 0
    while stop < length:
        stop = find(b"\n", stop, length) + 1 or length
        stops.append(stop)
    return stops


def read_blocks(
    path: str | PathLike[str],
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    line_limit: int | None = None,
) -> Iterator[Block]:
    """Yield the bytes of a file from `start_offset` up to `end_offset` (all of it by default) in blocks of whole lines.

    A file that does not exist has no blocks. The end is fixed when the file is opened.

    Args:
        path: The file.
        start_offset: Where to begin; a line must start there.
        end_offset: Where to stop.
        chunk_bytes: Bytes per read.
        line_limit: A line that has more bytes than this (its LF not counted) comes in pieces, unless it fits into the
            buffer all the same.

    Raises:
        RunDataError: `E-UNREADABLE` when the operating system refuses to open or read the file.
    """
    try:
        with Path(path).open("rb", buffering=0) as file:
            size = file.seek(0, 2)
            file.seek(start_offset)
            end = size if end_offset is None else min(size, end_offset)
            yield from _blocks(file, start_offset, end, chunk_bytes, line_limit)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable_file(path, error) from error


def _blocks(file: FileIO, start: int, end: int, chunk_bytes: int, line_limit: int | None) -> Iterator[Block]:
    buffer = bytearray(chunk_bytes)
    # The buffer holds the `filled` bytes from `offset` on. `in_piece`: they go on with a line that came in pieces.
    offset, filled, in_piece = start, 0, False
    while offset + filled < end:
        if filled == len(buffer):
            length = filled + _rest_of_line(file, end - offset - filled, chunk_bytes, line_limit)
            if line_limit is not None and length > line_limit:
                yield Block(buffer, filled, offset, True)
                in_piece = True
                offset, filled = offset + filled, 0
            elif length > MAPPED_LINE_BYTES and (
                line := mapped_line(file.fileno(), offset, min(offset + length + 1, end))
            ):
                offset, filled = file.seek(offset + line.length), 0
                yield line
                del line  # or it would be mapped still when the next one is
            else:
                buffer = _enlarged(buffer, filled, length + 1)
        count = _read(file, buffer, filled, min(chunk_bytes, end - offset - filled))
        if not count:
            break
        searched, filled = filled, filled + count
        if in_piece:
            newline = buffer.find(b"\n", 0, filled)
            stop = filled if newline < 0 else newline + 1
            yield Block(buffer, stop, offset, True, newline >= 0)
            in_piece, searched = newline < 0, 0
            buffer = _behind(buffer, stop, filled, chunk_bytes)
            offset, filled = offset + stop, filled - stop
        stop = buffer.rfind(b"\n", searched, filled) + 1
        if stop:
            yield Block(buffer, stop, offset)
            buffer = _behind(buffer, stop, filled, chunk_bytes)
            offset, filled = offset + stop, filled - stop
    if in_piece:
        yield Block(buffer, 0, offset, True, True)
    elif filled:
        yield Block(buffer, filled, offset)


def _rest_of_line(file: FileIO, remaining: int, chunk_bytes: int, enough: int | None) -> int:
    """Bytes up to the next LF; at least `enough` of them do. The place in the file stays.

    A long line is read twice, so that memory for exactly this line is taken, once.
    """
    place, length = file.tell(), 0
    while remaining > 0 and (enough is None or length <= enough) and (chunk := file.read(min(chunk_bytes, remaining))):
        newline = chunk.find(b"\n")
        if newline >= 0:
            length += newline
            break
        length += len(chunk)
        remaining -= len(chunk)
    file.seek(place)
    return length


def mapped_line(file: int, start: int, stop: int) -> Block | None:
    """The line from byte `start` to `stop` of an open file as a mapping; None if it cannot be mapped.

    The mapping lives as long as something holds its buffer, whether the file is closed or not.
    """
    # The file may have become shorter; to look at a byte behind its end would kill the process.
    stop = min(stop, os.fstat(file).st_size)
    before = start % mmap.ALLOCATIONGRANULARITY
    if stop <= start:
        return None
    try:
        mapping = mmap.mmap(file, before + stop - start, access=mmap.ACCESS_READ, offset=start - before)
    except (OSError, ValueError):
        return None
    return Block(memoryview(mapping)[before:], stop - start, start)


def _read(file: FileIO, buffer: bytearray, start: int, count: int) -> int:
    """Read at most `count` bytes into the free part of the buffer."""
    with memoryview(buffer) as view:
        return file.readinto(view[start : start + count]) or 0


def _enlarged(buffer: bytearray, filled: int, size: int) -> bytearray:
    larger = bytearray(size)
    with memoryview(buffer) as view:
        larger[:filled] = view[:filled]
    return larger


def _behind(buffer: bytearray, stop: int, filled: int, chunk_bytes: int) -> bytearray:
    """A buffer that begins with what follows the first `stop` bytes: this one, or a small one after a long line."""
    with memoryview(buffer) as view:
        rest = view[stop:filled]
        if len(rest) <= chunk_bytes < len(buffer):
            buffer = bytearray(chunk_bytes)
            buffer[: len(rest)] = rest
        else:
            view[: len(rest)] = rest
        rest.release()
    return buffer
