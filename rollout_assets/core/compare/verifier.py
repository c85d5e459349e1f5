"""What the verifier printed for a row: shown for the losing side of a flip (compare.md §1.13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import SEEK_END, SEEK_SET, PathLike
from pathlib import Path
from typing import Any, Final

LOGS_DIR_FIELD: Final = "verifier_logs_dir"
EMBEDDED_FIELDS: Final = ("test_output", "verifier_stdout", "verifier_output")
STDOUT_FILE: Final = "test-stdout.txt"
#: Of a longer log only this many bytes at its end are read.
LOG_BYTES: Final = 4 * 1024 * 1024

StrPath = str | PathLike[str]


def verifier_output(row: Mapping[str, Any], roots: Sequence[StrPath]) -> tuple[str | None, str]:
    """The verifier output of a row.

    The file under `verifier_logs_dir` comes first: a file, or a folder that holds `test-stdout.txt`; a relative path is
    tried under each root. A row without such a file may carry the output itself.

    Args:
        row: The row.
        roots: Folders to look under, first one first.

    Returns:
        The text and where it is from; or None and why there is none. A file that is there but cannot be read is
        reported, never replaced by embedded text.
    """
    logs_dir = row.get(LOGS_DIR_FIELD)
    if isinstance(logs_dir, str) and logs_dir:
        file = _log_file(logs_dir, roots)
        if file is not None:
            try:
                return _end_of(file), str(file)
            except OSError as error:
                return None, f"verifier output unavailable: {file} cannot be read: {error.strerror or error}"
    for name in EMBEDDED_FIELDS:
        text = row.get(name)
        if isinstance(text, str) and text.strip():
            return text, f"the row's {name}"
    if isinstance(logs_dir, str) and logs_dir:
        where = "" if Path(logs_dir).is_absolute() else f" under {', '.join(map(str, roots)) or 'no root'}"
        return None, f"verifier output unavailable: no {logs_dir}{where}"
    return None, f"verifier output unavailable: the row has no {LOGS_DIR_FIELD} and no {', '.join(EMBEDDED_FIELDS)}"


def roots_for(path: StrPath | None, logs_roots: Iterable[StrPath] = ()) -> list[Path]:
    """Where the relative log paths of one side are looked for: here, beside its file, then the roots given."""
    beside = [] if path is None else [Path(path).parent]
    return list(dict.fromkeys([Path.cwd(), *(folder.absolute() for folder in beside), *map(Path, logs_roots)]))


def tail_lines(text: str, count: int) -> list[str]:
    """The last `count` lines of a text, every kind of line break taken; none for 0."""
    return text.splitlines()[-count:] if count > 0 else []


def _log_file(logs_dir: str, roots: Iterable[StrPath]) -> Path | None:
    """The first file that the path names; an absolute path needs no root."""
    for root in [Path()] if Path(logs_dir).is_absolute() else map(Path, roots):
        for candidate in (root / logs_dir, root / logs_dir / STDOUT_FILE):
            try:
                if candidate.is_file():
                    return candidate
            except (OSError, ValueError):
                # A name that no file can have: too long, or with a NUL.
                continue
    return None


def _end_of(file: Path) -> str:
    with file.open("rb") as log:
        size = log.seek(0, SEEK_END)
        log.seek(max(0, size - LOG_BYTES), SEEK_SET)
        return log.read().decode("utf-8", "replace")
