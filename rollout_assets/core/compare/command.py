"""The command `rollout-assets compare` without its options: what it prints and how it exits (compare.md §1.16)."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.files import compare_files
from rollout_assets.core.compare.report import printable, report_lines
from rollout_assets.core.compare.summary import summary_text
from rollout_assets.core.compare.verifier import roots_for
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import written_beside

#: Pieces of text are collected to about this size before they are written.
_BLOCK_CHARACTERS = 64 * 1024


def run(old: str, new: str, *, key: str | None, tail: int, logs_roots: Sequence[str], json_file: str | None) -> int:
    """Compare two outputs and print the report, or the JSON when `json_file` is `-`.

    The JSON file is written first, so that a report is only printed when all was done.

    Returns:
        The exit code: 0 for a report, 1 for unreadable input or a JSON file that cannot be written.
    """
    try:
        result = compare_files(old, new, key)
    except CompareInputError as error:
        return _fail(str(error))
    old_roots, new_roots = roots_for(old, logs_roots), roots_for(new, logs_roots)
    if json_file == "-":
        _write(_stdout(), summary_text(result, old_roots=old_roots, new_roots=new_roots, tail=tail))
        return 0
    if json_file is not None:
        try:
            with _opened(Path(json_file)) as file:
                _write(file, summary_text(result, old_roots=old_roots, new_roots=new_roots, tail=tail))
        except RunDataError as error:
            return _fail(str(error))
        except OSError as error:
            return _fail(f"{json_file}: cannot be written: {error.strerror or error}; choose another file for --json")
    lines = report_lines(result, old_roots=old_roots, new_roots=new_roots, tail=tail)
    _write(_stdout(), (f"{line}\n" for line in lines))
    if json_file is not None:
        _write(_stdout(), [f"\nwrote {printable(json_file)}\n"])
    return 0


def _fail(message: str) -> int:
    sys.stderr.buffer.write(f"error: {printable(message)}\n".encode("utf-8", "backslashreplace"))
    sys.stderr.flush()
    return 1


def _stdout() -> BinaryIO:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "is closed", "standard output")
    return sys.stdout.buffer


def _write(file: BinaryIO, pieces: Iterable[str]) -> None:
    """Write text as UTF-8, what has no UTF-8 as escapes."""
    block: list[str] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK_CHARACTERS:
            file.write("".join(block).encode("utf-8", "backslashreplace"))
            block, size = [], 0
    file.write("".join(block).encode("utf-8", "backslashreplace"))
    file.flush()


@contextmanager
def _opened(target: Path) -> Iterator[BinaryIO]:
    """The file to write: replaced as a whole at the end, unless it is a device or a pipe. Its folder must exist."""
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(2, f"no folder {target.parent}")
    with written_beside(target) as temporary, temporary.open("wb") as file:
        yield file
