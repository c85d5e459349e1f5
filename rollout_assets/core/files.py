"""Writing files so that nobody ever sees half of one: written beside, then renamed.

A target is a local path, or a `UPath` on a file system of fsspec (S3, GCS, ...).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rollout_assets.core.errors import RunDataError

if TYPE_CHECKING:
    from upath import UPath


@contextmanager
def written_beside(target: Path | UPath, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary path in the folder of `target`; rename it over `target` when the block ends without error.

    The folder is created. On an error the temporary file is removed and `target` stays as it was. For a target that is
    not local the path is a local one too; what was written there is copied beside the target, then moved.

    Args:
        target: Where the file goes.
        durable: Whether it must outlast a power failure; what is moved on anyway need not.

    Raises:
        RunDataError: `E-UNWRITABLE` when the operating system refuses to write (no room, no access, a file in place of
            a folder). What the block itself raises as a `RunDataError` goes through.
    """
    try:
        with _replacing(target, durable) if isinstance(target, Path) else _uploading(target) as temporary:
            yield temporary
    except OSError as error:
        reason = (
            f"cannot be written: {error.strerror or error}; make room or give write access, or choose another place"
        )
        raise RunDataError("E-UNWRITABLE", reason, path=str(target)) from error


@contextmanager
def _replacing(target: Path, durable: bool) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        if durable:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        with suppress(OSError):  # where the folder is none, there is nothing to remove
            temporary.unlink(missing_ok=True)


@contextmanager
def _uploading(target: UPath) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        local = Path(folder) / target.name
        yield local
        beside = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        target.fs.put_file(str(local), beside.path)
        target.fs.mv(beside.path, target.path)


def write_text(target: Path | UPath, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all; lone surrogates are written as escapes."""
    with written_beside(target) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(target: Path | UPath, value: Any) -> None:
    """Write a JSON file (ASCII, two spaces, final newline), whole or not at all; NaN and infinities are refused."""
    write_text(target, json.dumps(value, indent=2, allow_nan=False) + "\n")
