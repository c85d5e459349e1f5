"""Reading the rows of a run, and reading single rows again by their place (records.md §6)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Set
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from rollout_assets.core.errors import RunDataError, RunDataWarning, unreadable_file
from rollout_assets.core.jsonl import Fault, FaultKind, scan
from rollout_assets.core.jsonl.lines import MAPPED_LINE_BYTES, mapped_line
from rollout_assets.core.jsonl.parse import parse_line
from rollout_assets.core.jsonl.projector import PROJECTED_ROW_BYTES, TopLevelProjector
from rollout_assets.core.records.identity import attempt_index, logical_rollout_id
from rollout_assets.core.records.keys import ATTEMPT_KEY, RUN_ID_KEY

_CHUNK_BYTES: Final = 1024 * 1024
#: Strict like `parse_line` and faster; refuses numbers that are not finite or have very many digits, though.
_decode = msgspec.json.Decoder(dict[str, Any]).decode

StrPath = str | PathLike[str]
FileIdentity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """A saved row by its place; the row itself is read when asked for (records.md §6.1, §6.4).

    Attributes:
        path: The file.
        offset: Byte offset of the row.
        length: Bytes of the row, with its line feed if it has one.
        line_number: Line number from 1, blank lines counted.
        legacy_attempt_index: The attempt number that a legacy import gave the row, put into it when it is read.
        file_identity: (device, inode) of the file that was indexed.
        expected_identity: (run id, logical rollout id, attempt) as indexed.
        skip_keys: Top-level keys that are read as null in very large rows (§6.2).
    """

    path: str
    offset: int
    length: int
    line_number: int
    legacy_attempt_index: int | None = None
    file_identity: FileIdentity | None = None
    expected_identity: tuple[str | None, str, int] | None = None
    skip_keys: frozenset[str] = frozenset()

    def read(self) -> dict[str, Any]:
        """Read the whole row again.

        Raises:
            RunDataError: `E-FILE-REPLACED` when another file took the place of the indexed one; `E-RECORD-CHANGED`
                when the row at this place is not the one that was indexed; `E-UNREADABLE` when it cannot be read.
        """
        row = read_row(self.path, self.offset, self.length, skip_keys=self.skip_keys, file_identity=self.file_identity)
        if row is not None and self.legacy_attempt_index is not None:
            row = {**row, ATTEMPT_KEY: self.legacy_attempt_index}
        if row is None or (self.expected_identity is not None and _identity(row) != self.expected_identity):
            raise RunDataError(
                "E-RECORD-CHANGED",
                "the row changed after it was indexed; read the run again",
                path=self.path,
                line=self.line_number,
                offset=self.offset,
            )
        return row


def _identity(row: dict[str, Any]) -> tuple[str | None, str, int] | None:
    try:
        return row.get(RUN_ID_KEY), logical_rollout_id(row), attempt_index(row)
    except RunDataError:
        return None


def read_row(
    path: StrPath,
    offset: int,
    length: int,
    *,
    skip_keys: Set[str] = frozenset(),
    file_identity: FileIdentity | None = None,
) -> dict[str, Any] | None:
    """The whole row that stands at a place of a file, or None when there is none.

    A row of more than `PROJECTED_ROW_BYTES`, its line feed not counted, is read in chunks, without the values of its
    `skip_keys` (records.md §6.2).

    Raises:
        RunDataError: `E-FILE-REPLACED` when the file is not the one with `file_identity`; `E-UNREADABLE` when the
            operating system refuses to read it.
    """
    try:
        with Path(path).open("rb") as file:
            if file_identity is not None and identity_of_file(file.fileno()) != file_identity:
                raise file_replaced(path)
            is_projected = skip_keys and length > PROJECTED_ROW_BYTES and _is_large(file, offset, length)
            file.seek(offset)
            if is_projected:
                return _projected_row(file, length, skip_keys)
            data = file.read(length)
    except OSError as error:
        raise unreadable_file(path, error) from error
    return whole_row(data.removesuffix(b"\n")) if len(data) == length else None


def row_text(path: StrPath, offset: int, length: int) -> bytes | bytearray | memoryview | None:
    """The text that stands at a place of a file, a very long one as a mapping; None when the file ends before.

    Raises:
        RunDataError: `E-UNREADABLE` when the operating system refuses to read it.
    """
    try:
        with Path(path).open("rb") as file:
            if length > MAPPED_LINE_BYTES and (line := mapped_line(file.fileno(), offset, offset + length)):
                return line.buffer if line.length == length else None
            file.seek(offset)
            data = file.read(length)
    except OSError as error:
        raise unreadable_file(path, error) from error
    return data if len(data) == length else None


def _is_large(file: BinaryIO, offset: int, length: int) -> bool:
    """Whether a row has more bytes than `PROJECTED_ROW_BYTES`; its line feed does not count."""
    file.seek(offset + length - 1)
    return length - (file.read(1) == b"\n") > PROJECTED_ROW_BYTES


def _projected_row(file: BinaryIO, length: int, skip_keys: Set[str]) -> dict[str, Any] | None:
    projector = TopLevelProjector(skip_keys)
    while length > 0 and (chunk := file.read(min(length, _CHUNK_BYTES))):
        length -= len(chunk)
        projector.feed(chunk if length else chunk.removesuffix(b"\n"))
    return None if length else whole_row(projector.text())


def whole_row(line: bytes) -> dict[str, Any] | None:
    """The whole row of a line that a scan found readable, or None when it is none (any more).

    Of a line that no scan has judged, faults that only `parse_line` sees are not noticed: duplicate keys, depth.
    """
    try:
        return _decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return parse_line(line).row


def placed(error: RunDataError, path: StrPath, line: int, offset: int) -> RunDataError:
    """The same error with the place of the row that caused it."""
    return RunDataError(error.code, error.reason, path=path, line=line, offset=offset, kind=error.kind)


def identity_of_file(file: int | StrPath) -> FileIdentity:
    """(device, inode) of a file.

    Raises:
        RunDataError: `E-UNREADABLE` when there is no such file, or no access.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - a descriptor or a path
    except OSError as error:
        raise unreadable_file(str(file) if isinstance(file, int) else file, error) from error
    return status.st_dev, status.st_ino


def file_replaced(path: StrPath) -> RunDataError:
    """The error for a file whose place another file took after it was indexed (records.md §6.4)."""
    return RunDataError("E-FILE-REPLACED", "the file was replaced after it was indexed; read the run again", path=path)


def read_records(
    path: StrPath, *, end_offset: int | None = None, skip_keys: Set[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    """Yield the whole rows of a JSONL file, one at a time (records.md §6.1).

    An incomplete last row is no record: it is warned about (`W-TAIL`) and left out. A file that does not exist has no
    rows.

    Args:
        path: The file.
        end_offset: Read only this many bytes; a row that this limit cuts is left out without a warning.
        skip_keys: Top-level keys that are read as null in very large rows.

    Raises:
        RunDataError: `E-JSON` or `E-OBJECT` with path, line and reason, at the first line that is no readable row.
    """
    for line in scan(path, end_offset=end_offset, skip_keys=skip_keys, whole_rows=True):
        if isinstance(line, Fault):
            refuse_unreadable(line, end_offset)
        else:
            yield line.fields


def refuse_unreadable(fault: Fault, end_offset: int | None = None) -> None:
    """What a reader of a run does about a fault: raise, warn of an incomplete last row, or nothing if it is readable.

    A warning is dropped only when the limit, not the file, cut the row (records.md §6.3, decision 16).

    Raises:
        RunDataError: `E-OBJECT` for a line that is no object, `E-JSON` for every other unreadable line.
    """
    if fault.kind is FaultKind.TRUNCATED_TAIL:
        if not _cut_by_limit(fault, end_offset):
            warnings.warn(
                RunDataWarning(
                    "W-TAIL", "the last row is incomplete and was left out", path=fault.path, line=fault.line
                ),
                stacklevel=2,
            )
    else:
        refuse_fault(fault)


def refuse_fault(fault: Fault) -> None:
    """Raise for every fault that makes a row unreadable, an incomplete last row included (records.md §19.1).

    Raises:
        RunDataError: `E-OBJECT` for a line that is no object, `E-JSON` for every other one.
    """
    if not fault.row_is_readable:
        raise RunDataError(
            "E-OBJECT" if fault.kind is FaultKind.NOT_AN_OBJECT else "E-JSON",
            f"{fault.message}; repair or remove the line",
            **fault.place,
        )


def _cut_by_limit(fault: Fault, end_offset: int | None) -> bool:
    end = fault.offset + fault.length
    return end_offset is not None and end == end_offset < Path(fault.path).stat().st_size
