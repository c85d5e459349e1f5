"""Writing files so that nobody ever sees half of one: written beside, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4


@contextmanager
def written_beside(target: Path) -> Iterator[Path]:
    """Give a temporary path in the folder of `target`; rename it over `target` when the block ends without error.

    The folder is created. On an error the temporary file is removed and `target` stays as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all; lone surrogates are written as escapes."""
    with written_beside(target) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(target: Path, value: Any) -> None:
    """Write a JSON file (ASCII, two spaces, final newline), whole or not at all; NaN and infinities are refused."""
    write_text(target, json.dumps(value, indent=2, allow_nan=False) + "\n")
