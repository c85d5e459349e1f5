"""Splitting a file into lines with exact coordinates, one line in memory at a time (records.md §6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from rollout_assets.core.errors import unreadable_file

CHUNK_BYTES = 256 * 1024
BLANK = b" \t\r"


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
        """Only space, tab and CR are blank; NBSP, U+2028 and the like are content (compare.md, decision 2)."""
        return not self.data.strip(BLANK)


def read_lines(
    path: str | PathLike[str], *, end_offset: int | None = None, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[RawLine]:
    """Yield every line of the first `end_offset` bytes of a file (all of it by default). Lines end at LF only.

    A file that does not exist has no lines. The end is fixed when the file is opened, so a writer that appends
    meanwhile is not seen.

    Raises:
        RunDataError: `E-UNREADABLE` when the operating system refuses to open or read the file.
    """
    try:
        with Path(path).open("rb", buffering=0) as file:
            size = file.seek(0, 2)
            file.seek(0)
            remaining = size if end_offset is None else min(size, end_offset)
            number, offset = 1, 0
            pieces: list[bytes] = []
            while remaining > 0 and (chunk := file.read(min(chunk_bytes, remaining))):
                remaining -= len(chunk)
                start = 0
                while (end := chunk.find(b"\n", start)) >= 0:
                    pieces.append(chunk[start:end])
                    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                    pieces.clear()
                    yield RawLine(number, offset, len(data) + 1, data, True)
                    number += 1
                    offset += len(data) + 1
                    start = end + 1
                if start < len(chunk):
                    pieces.append(chunk[start:])
            if pieces:
                data = b"".join(pieces)
                yield RawLine(number, offset, len(data), data, False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable_file(path, error) from error
