"""A progress bar over bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

#: Bytes between two updates of the bar.
_STEP: Final = 4 * 1024 * 1024


@contextmanager
def progress(total: Callable[[], int], label: str) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many more bytes are done; it moves a bar on the standard error stream.

    There is no bar where that stream is no terminal.

    Args:
        total: Gives the bytes there are; called only for a bar.
        label: What is being done.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=total(), file=sys.stderr, label=label, show_pos=True) as bar:
        waiting = 0

        def advance(length: int) -> None:
            nonlocal waiting
            waiting += length
            if waiting >= _STEP:
                bar.update(waiting)
                waiting = 0

        yield advance
        bar.update(waiting)
