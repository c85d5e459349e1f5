"""Reading a huge row without the values of certain top-level keys (records.md §6.2)."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rollout_assets.core.jsonl.nesting import Nesting

#: Rows with more bytes than this are projected.
PROJECTED_ROW_BYTES: Final = 64 * 1024 * 1024

_BLANKS: Final = re.compile(rb"[ \t\r]*+")
_STRING_REST: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR_REST: Final = re.compile(rb"[^,\]} \t\r]*+")
_FLAT_CONTAINER: Final = re.compile(rb'[\[{](?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+[\]}]', re.DOTALL)
_SMALLEST_WINDOW: Final = 1024
_LARGEST_WINDOW: Final = 128 * 1024
#: Bytes kept of what cannot belong to a row, for the message.
_GARBAGE_BYTES: Final = 64

_QUOTE, _COMMA, _COLON = b'",:'
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST = b"{}["
_NO_VALUE: Final = frozenset(b",:]}")


class TopLevelProjector:
    """Copies the text of one row, with `null` for the values of some top-level keys; nested keys are copied.

    The text comes in chunks that may be cut anywhere. Keys are compared as the bytes between their quotes: a key that
    is spelled with escapes is copied. Of skipped values only strings and brackets are followed. Memory: the copy and a
    window; time: linear.
    """

    def __init__(self, skip_keys: Set[str]) -> None:
        self._skip_keys = frozenset(key.encode("utf-8", "surrogatepass") for key in skip_keys)
        self._longest_key = max(map(len, self._skip_keys), default=0)
        self._text = bytearray()
        self._chunk = b""
        self._chunk_start = 0
        self._go_on: Callable[[int], int] = self._before_row
        self._key_start = 0
        self._will_skip = False
        self._skipping = False
        self._escaped = False
        self._nesting: Nesting
        self._window = _SMALLEST_WINDOW
        # Where the text goes on behind each null: in the copy, and in the row.
        self._resumed: list[tuple[int, int]] = [(0, 0)]

    def feed(self, chunk: bytes | memoryview) -> None:
        """Go on with the next bytes of the row, its line feed not among them."""
        self._chunk = bytes(chunk)
        at = 0
        while at < len(self._chunk):
            at = self._go_on(at)
        self._chunk_start += at
        self._chunk = b""

    def text(self) -> bytes:
        """The copy of the whole row, when all of it was fed."""
        if self._skipping:
            self._end_skipping(self._chunk_start)
        return bytes(self._text)

    def column(self, column: int) -> int:
        """The column in the row of a column of the copy, both from 1."""
        copied, original = self._resumed[bisect_right(self._resumed, (column - 1, sys.maxsize)) - 1]
        return column - copied + original

    # Each of the following reads on from a place of the chunk, says what comes next, and returns where it got to.

    def _before_row(self, at: int) -> int:
        at = self._blanks(at)
        if at < len(self._chunk):
            # What is no object has no keys to skip.
            self._go_on = self._members if self._chunk[at] == _OPEN_OBJECT else self._all
            at = self._copy(at, at + 1)
        return at

    def _all(self, at: int) -> int:
        return self._copy(at, len(self._chunk))

    def _behind_row(self, at: int) -> int:
        at = self._blanks(at)
        return self._garbage(at) if at < len(self._chunk) else at

    def _garbage(self, at: int) -> int:
        """Copy a little of what no row can go on with; the rest does not matter."""
        self._copy(at, at + _GARBAGE_BYTES)
        self._go_on = self._nothing
        return len(self._chunk)

    def _nothing(self, at: int) -> int:
        return len(self._chunk)

    def _members(self, at: int) -> int:
        """Between two members of the row."""
        at = self._blanks(at)
        if at == len(self._chunk):
            return at
        byte = self._chunk[at]
        if byte == _QUOTE:
            self._key_start = len(self._text) + 1
            self._go_on = self._key
        elif byte == _CLOSE_OBJECT:
            self._go_on = self._behind_row
        elif byte != _COMMA:
            return self._garbage(at)
        return self._copy(at, at + 1)

    def _key(self, at: int) -> int:
        at, is_ended = self._string_rest(at)
        if is_ended:
            key = self._text[self._key_start : -1] if self._is_short_key() else b""
            self._will_skip = bytes(key) in self._skip_keys
            self._go_on = self._colon
        return at

    def _is_short_key(self) -> bool:
        return len(self._text) - 1 - self._key_start <= self._longest_key

    def _colon(self, at: int) -> int:
        at = self._blanks(at)
        if at == len(self._chunk):
            return at
        if self._chunk[at] != _COLON:
            return self._garbage(at)
        self._go_on = self._value
        return self._copy(at, at + 1)

    def _value(self, at: int) -> int:
        """In front of a value."""
        at = self._blanks(at)
        if at == len(self._chunk):
            return at
        byte = self._chunk[at]
        if byte in _NO_VALUE:
            return self._garbage(at)
        if self._will_skip:
            self._text += b"null"
            self._skipping = True
        if byte == _QUOTE:
            self._go_on = self._string
            return self._copy(at, at + 1)
        if byte in (_OPEN_OBJECT, _OPEN_LIST):
            if flat := _FLAT_CONTAINER.match(self._chunk, at):
                return self._end_value(self._copy(at, flat.end()))
            from rollout_assets.core.jsonl.nesting import Nesting

            self._nesting, self._window = Nesting(_LARGEST_WINDOW), _SMALLEST_WINDOW
            self._go_on = self._container
            return at
        self._go_on = self._scalar
        return at

    def _string(self, at: int) -> int:
        at, is_ended = self._string_rest(at)
        return self._end_value(at) if is_ended else at

    def _scalar(self, at: int) -> int:
        end = _end(_SCALAR_REST, self._chunk, at)
        self._copy(at, end)
        return self._end_value(end) if end < len(self._chunk) else end

    def _container(self, at: int) -> int:
        """In an object or array, up to the bracket that closes it."""
        import numpy as np

        window = np.frombuffer(self._chunk, np.uint8)[at : at + self._window]
        self._window = min(2 * self._window, _LARGEST_WINDOW)
        places, depths = self._nesting.feed(window)
        closed = np.flatnonzero(depths == 0)
        if closed.size:
            return self._end_value(self._copy(at, at + int(places[closed[0]]) + 1))
        return self._copy(at, at + len(window))

    # ----

    def _end_value(self, at: int) -> int:
        if self._skipping:
            self._end_skipping(self._chunk_start + at)
        self._go_on = self._members
        return at

    def _end_skipping(self, original: int) -> None:
        self._skipping = False
        self._resumed.append((len(self._text), original))

    def _string_rest(self, at: int) -> tuple[int, bool]:
        """Read on in a string; return where and whether it ended, which is behind its quote."""
        start = at
        if self._escaped:
            at, self._escaped = at + 1, False
        at = _end(_STRING_REST, self._chunk, at)
        is_ended = at < len(self._chunk) and self._chunk[at] == _QUOTE
        if at < len(self._chunk):
            self._escaped = not is_ended  # a backslash whose partner is in the next chunk
            at += 1
        return self._copy(start, at), is_ended

    def _blanks(self, at: int) -> int:
        return self._copy(at, _end(_BLANKS, self._chunk, at))

    def _copy(self, start: int, end: int) -> int:
        if not self._skipping:
            self._text += self._chunk[start:end]
        return end


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    assert match is not None
    return match.end()
