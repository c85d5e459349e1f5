"""The rows of a block, fast: those of its lines that need no exact reading.

Two ways with the same result: the compiled engine (`engine`), and, where there is none, vector checks of the whole
block (`guards`) before each line is decoded by msgspec (`decode`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rollout_assets.core.jsonl.decode import UNDECODED, RowDecoder, WholeRowDecoder
from rollout_assets.core.jsonl.engine import new_engine
from rollout_assets.core.jsonl.lines import Buffer, line_stops

if TYPE_CHECKING:
    from rollout_assets.core.jsonl._engine import Engine

#: Behind which byte of its block a line stops, and its row; `None` for a line that must be read exactly.
Decoded = tuple[int, dict[str, Any] | None]


class BlockReader(Protocol):
    """Reads the rows of a block. Not for two threads at a time."""

    def rows(self, buffer: Buffer, length: int) -> Iterator[Decoded]:
        """Yield all lines of the first `length` bytes. What stands behind them means nothing."""


def block_reader(*, whole_rows: bool = False) -> BlockReader:
    """The fastest reader there is, for projected rows or for whole ones."""
    engine = new_engine()
    if engine is None:
        return TypedReader(whole_rows=whole_rows)
    return WholeRowReader(engine) if whole_rows else EngineReader(engine)


class EngineReader:
    """Projected rows, by the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def rows(self, buffer: Buffer, length: int) -> Iterator[Decoded]:
        """As `BlockReader.rows`."""
        for stop, text in self._engine.lines(buffer, length):
            yield stop, decoded(text) if text else None


class WholeRowReader:
    """Whole rows; the engine says which of them msgspec may read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def rows(self, buffer: Buffer, length: int) -> Iterator[Decoded]:
        """As `BlockReader.rows`."""
        view, start = memoryview(buffer), 0
        for stop, text in self._engine.lines(buffer, length):
            yield stop, decoded(view[start:stop]) if text else None
            start = stop


class TypedReader:
    """Rows without the engine."""

    def __init__(self, *, whole_rows: bool = False) -> None:
        # numpy takes longer to import than all else here.
        from rollout_assets.core.jsonl.guards import Guard

        self._decode = (WholeRowDecoder() if whole_rows else RowDecoder()).decode
        self._doubtful_lines = Guard().doubtful_lines

    def rows(self, buffer: Buffer, length: int) -> Iterator[Decoded]:
        """As `BlockReader.rows`."""
        stops = line_stops(buffer, length)
        doubtful = self._doubtful_lines(buffer, stops)
        view, start = memoryview(buffer), 0
        for index, stop in enumerate(stops):
            yield stop, None if index in doubtful else self._decode(view[start:stop])
            start = stop


def decoded(text: bytes | memoryview) -> dict[str, Any] | None:
    """The object of a text that the engine vouches for; `None` when it is nested too deep for msgspec."""
    try:
        row: dict[str, Any] = _DECODE(text)
    except UNDECODED:
        return None
    return row


_DECODE = msgspec.json.Decoder().decode
