"""Cutting a file at borders of lines into ranges that can be scanned one by one, or side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from rollout_assets.core.errors import unreadable_file
from rollout_assets.core.jsonl.lines import last_line_start
from rollout_assets.core.records.paths import File

CHUNK_BYTES: Final = 64 * 1024


class Range(NamedTuple):
    """Whole lines of a file: the bytes from `start` up to `stop`. A line starts at `start`."""

    file: File
    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class ScannedRange:
    """A range that was scanned by itself, its lines counted from 1.

    Attributes:
        scanned: The range.
        records: Its rows, as in the table `record_index`.
        faults: Its faults, as in the table `producer_faults`.
        lines: Lines of the range, blank ones counted.
    """

    scanned: Range
    records: Iterable[pa.Table]
    faults: Iterable[pa.Table]
    lines: int


def cut(whole: Range, least: int, most: int, share: int) -> Iterator[Range]:
    """Yield consecutive ranges that make up a range; none is empty.

    Each has about one `share`-th of the bytes that are left, within the bounds: the last ones are small, so that those
    who scan them side by side are done at about the same time.

    A border that would fall inside a line moves to its end, so a line of any length lies in one range. Nothing behind
    `whole.stop` is read.

    Raises:
        RunDataError: `E-UNREADABLE` when the file cannot be opened or read.
    """
    try:
        with whole.path.open("rb", buffering=0) as file:
            start = whole.start
            while start < whole.stop:
                stop = whole.stop
                size = min(max((stop - start) // share, least), most)
                if stop - start > size + size // 2:  # a last range is not much smaller than the others
                    stop = _line_start(file, start + size, whole.stop)
                yield whole._replace(start=start, stop=stop)
                start = stop
    except OSError as error:
        raise unreadable_file(whole.path, error) from error


def _line_start(file: FileIO, offset: int, end: int) -> int:
    """The first place from `offset` on at which a line starts; `end` if none does."""
    place = offset - 1  # the line feed before `offset` would make it such a place
    file.seek(place)
    while place < end and (chunk := file.read(min(CHUNK_BYTES, end - place))):
        found = chunk.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(chunk)
    return end


def end_of_last_line(path: Path, end: int) -> int:
    """The place behind the last LF of the first `end` bytes of a file; 0 when there is none.

    Raises:
        RunDataError: `E-UNREADABLE` when the file cannot be opened or read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            return last_line_start(file, end, CHUNK_BYTES)
    except OSError as error:
        raise unreadable_file(path, error) from error
