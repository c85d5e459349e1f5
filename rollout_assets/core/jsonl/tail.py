"""Mending the end of a file before a writer appends to it (records.md §7 and decision 10)."""

from __future__ import annotations

import os
import warnings
from os import PathLike
from pathlib import Path
from typing import Final

from rollout_assets.core.errors import RunDataError, RunDataWarning, unreadable_file
from rollout_assets.core.jsonl.faults import FaultKind
from rollout_assets.core.jsonl.fields import ROW_FIELDS
from rollout_assets.core.jsonl.lines import BLANK, last_line_start
from rollout_assets.core.jsonl.parse import parse_line

_STEP_BYTES: Final = 1024 * 1024


def prepare_append(path: str | PathLike[str]) -> None:
    """Make a file end in a newline, so that the next row starts on a line of its own.

    A file that is missing, empty or ends in a newline stays as it is. A last line without newline gets one if it is
    complete JSON or blank; it is cut off, with a warning, if it is incomplete JSON: what a killed writer leaves.
    No complete row is ever touched. The change is on disk when this returns.

    Warns:
        RunDataWarning: `W-REPAIR`, with the bytes removed, when an incomplete row was cut off.

    Raises:
        RunDataError: `E-JSON` when the last line is neither usable nor the beginning of a row; the file stays as it is.
            `E-UNREADABLE` when the operating system refuses to open, read or write the file.
    """
    try:
        with Path(path).open("rb", buffering=0) as file:
            start = last_line_start(file, file.seek(0, os.SEEK_END), _STEP_BYTES)
            file.seek(start)
            tail = file.read()
        if not tail:
            return
        if _is_incomplete(tail, path, start):
            _change(path, truncate_at=start)
            reason = f"cut off the last {len(tail)} bytes, a row that its writer did not complete"
            warnings.warn(RunDataWarning("W-REPAIR", reason, path=path), stacklevel=2)
        else:
            _change(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable_file(path, error) from error


def _is_incomplete(tail: bytes, path: str | PathLike[str], offset: int) -> bool:
    if not tail.strip(BLANK):
        return False
    row, faults, incomplete = parse_line(tail, ROW_FIELDS)
    # Whether the last line is an object is not checked here.
    if row is None and not incomplete and faults[0].kind is not FaultKind.NOT_AN_OBJECT:
        kind, column, message = faults[0]
        reason = f"{message} (column {column}); the last line is no row that was cut off, mend or remove it by hand"
        raise RunDataError("E-JSON", reason, path=path, line=_line_number(path, offset), offset=offset, kind=kind)
    return incomplete


def _line_number(path: str | PathLike[str], offset: int) -> int:
    number = 1
    with Path(path).open("rb", buffering=0) as file:
        while offset > 0 and (chunk := file.read(min(_STEP_BYTES, offset))):
            number += chunk.count(b"\n")
            offset -= len(chunk)
    return number


def _change(path: str | PathLike[str], *, truncate_at: int | None = None) -> None:
    """Cut the file, or append a newline, and bring the change to disk."""
    with Path(path).open("rb+", buffering=0) as file:
        if truncate_at is None:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(truncate_at)
        os.fsync(file.fileno())
