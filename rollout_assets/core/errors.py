"""The exception for run data that cannot be used, the warning for data that can, and how they name the place."""

from __future__ import annotations

import errno
from os import PathLike, fspath


class RunDataError(Exception):
    """Run data that a rule refuses.

    Attributes:
        code: Stable name of the rule that was broken, as in records.md §20 (`E-JSON`, `E-CONFLICT`, ...).
        path: The file it was found in, if one file is to blame.
        line: Line number from 1, blank lines counted.
        offset: Byte offset of the row in the file.
        column: Byte of the line, from 1, where it is known.
        kind: The `FaultKind` of the line, for errors that a malformed line causes.
        reason: The message without the place.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        offset: int | None = None,
        column: int | None = None,
        kind: str | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.path = None if path is None else fspath(path)
        self.line = line
        self.offset = offset
        self.column = column
        self.kind = kind
        super().__init__(_with_place(reason, self.path, line, column, offset))


class RunDataWarning(UserWarning):
    """Run data that is used in spite of a flaw, or that was mended.

    Attributes:
        code: Stable name of the rule, as in records.md §20: `W-TAIL` (an incomplete last row is ignored) or `W-REPAIR`
            (it was cut off).
        path: The file.
        line: Line number from 1, where it is known.
        reason: The message without the place.
    """

    def __init__(self, code: str, reason: str, *, path: str | PathLike[str], line: int | None = None) -> None:
        self.code = code
        self.reason = reason
        self.path = fspath(path)
        self.line = line
        super().__init__(_with_place(reason, self.path, line, None, None))


def _with_place(reason: str, path: str | None, line: int | None, column: int | None, offset: int | None) -> str:
    """Put `path:line:column: ` before the reason and the byte offset behind it, as far as they are known."""
    if path is not None:
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        reason = f"{place}: {reason}"
    return reason if offset is None else f"{reason} (row at byte {offset})"


def unreadable_file(path: str | PathLike[str], error: OSError) -> RunDataError:
    """The error for a file that the operating system does not let us read; says what to do about it."""
    if isinstance(error, FileNotFoundError):
        reason = "no such file; check the path"
    elif isinstance(error, IsADirectoryError):
        reason = "is a directory, not a file; name the .jsonl file inside it"
    elif isinstance(error, PermissionError):
        reason = "cannot be read: permission denied; give this user read access"
    elif error.errno == errno.ESPIPE:
        reason = "is a pipe, and a file is read more than once; save what it gives to a file, and name that"
    else:
        reason = f"cannot be read: {error.strerror or error}; check the path and the disk"
    return RunDataError("E-UNREADABLE", reason, path=path)
