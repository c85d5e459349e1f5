"""Where a block might hold what the fast decoder accepts and the rules refuse (performance.md §2b, §8).

The decoder does not look, in values that it skips, for bytes that are not UTF-8, for numbers that overflow, or for
nesting beyond the limit. The checks here never miss such a place. They may name innocent ones, rarely in real rows: the
lines they name are read exactly. All of them look at whole blocks with a few vector operations.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from rollout_assets.core.jsonl.lines import Buffer
from rollout_assets.core.jsonl.nesting import Bytes, Nesting
from rollout_assets.core.jsonl.parse import DEPTH_LIMIT
from rollout_assets.core.jsonl.utf8 import find_bad_utf8

Places = npt.NDArray[np.intp]

#: Small enough for the cache, large enough for the cost of a step not to matter; a multiple of 64.
_WINDOW: Final = 256 * 1024
#: Digits in front of a point that a double may not be able to hold, with an exponent of two digits.
_MANY: Final = 200
_MANY_DIGITS: Final = re.compile(rb"[0-9]{%d}" % _MANY)
_EXPONENT: Final = re.compile(rb"[eE]\+?[0-9]{3,}+(?=[,\]} \t\r\n])")
_BEFORE_NUMBER: Final = b"[:, \t\r\n"

_E, _OPEN, _CLOSE, _QUOTE = (np.uint8(byte) for byte in b'e{}"')
_LOWER_BIT = np.uint8(0x20)
# The digits and `+`, and `<`, `=`, `>`, `?`, fill a range when these bits are flipped.
_TO_RANGE, _RANGE_START, _RANGE_LENGTH = np.uint8(0x1B), np.uint8(0x22), np.uint8(15)


def _bytes_among(allowed: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(allowed)] = True
    return table


#: Bytes that may follow a string.
_AFTER_STRING: Final = _bytes_among(b",:]} \t\r\n")
#: Which bytes may stand how far from the `e` of a positive exponent of three digits or more.
_AROUND_EXPONENT: Final = (
    (-1, _bytes_among(b"0123456789")),
    (2, _bytes_among(b"0123456789")),
    (3, _bytes_among(b"0123456789")),
    (4, _bytes_among(b"0123456789,]} \t\r\n")),
    (-2, _bytes_among(b"0123456789.-" + _BEFORE_NUMBER)),
)


class Guard:
    """Checks of blocks, with the memory they need.

    That memory is kept: getting it anew for every block takes longer than the checks.
    """

    def __init__(self) -> None:
        self._lower = np.empty(_WINDOW + 1, np.uint8)
        self._flags = [np.empty(_WINDOW + 1, np.bool_) for _ in range(2)]
        self._words = np.empty(_WINDOW // 8, np.uint64)
        self._nesting = Nesting(_WINDOW)

    def doubtful_lines(self, buffer: Buffer, stops: Sequence[int]) -> set[int]:
        """Numbers (from 0) of the lines of a block that must be read exactly.

        Args:
            buffer: The block. What stands behind its last line means nothing; there need not be anything.
            stops: Where each line ends, which is where the next one starts.
        """
        doubtful, openers = self._exponents_and_openers(buffer, stops)
        doubtful.update(bisect_right(stops, place) for place in self._long_digit_runs(buffer, stops[-1]))
        doubtful.update(bisect_right(stops, place) for place in _bad_utf8(buffer, stops))
        doubtful.update(self._deep_lines(buffer, stops, (openers > DEPTH_LIMIT).nonzero()[0].tolist()))
        return doubtful

    def _exponents_and_openers(self, buffer: Buffer, stops: Sequence[int]) -> tuple[set[int], npt.NDArray[np.intp]]:
        """Which lines have long exponents; how many `[` and `{` there are in each line, in strings too."""
        data, length = np.frombuffer(buffer, np.uint8), stops[-1]
        exponents: set[int] = set()
        openers = np.zeros(len(stops), np.intp)
        for start in range(0, length, _WINDOW):
            window = data[start : min(start + _WINDOW, length) + 1]
            size = len(window)
            lower, flags, found = self._lower[:size], *(flags[:size] for flags in self._flags)
            np.bitwise_xor(window, _TO_RANGE, out=lower)
            np.subtract(lower, _RANGE_START, out=lower)
            np.less(lower, _RANGE_LENGTH, out=flags)
            # With this bit set, `E` is `e` and `[` is `{`.
            np.bitwise_or(window, _LOWER_BIT, out=lower)
            np.equal(lower[:-1], _E, out=found[:-1])
            np.logical_and(found[:-1], flags[1:], out=found[:-1])
            # To see first whether there is any is cheaper than to look for the places of none.
            if np.logical_or.reduce(found[:-1]):
                places = start + found[:-1].nonzero()[0]
                exponents.update(bisect_right(stops, place) for place in _long_exponents(buffer, data, places))
            np.equal(lower[:-1], _OPEN, out=found[:-1])
            if len(stops) == 1:
                openers += np.count_nonzero(found[:-1])
            else:
                openers += np.diff(np.searchsorted(start + found[:-1].nonzero()[0], stops), prepend=0)
        return exponents, openers

    def _long_digit_runs(self, buffer: Buffer, length: int) -> Iterator[int]:
        """Places of runs of so many digits that the number may be too large without a large exponent."""
        # Such a run covers a whole aligned group of 64 bytes. A byte 0x30 to 0x3F is taken for a digit first.
        words = np.frombuffer(buffer, np.uint64, count=length // 64 * 8)
        for start in range(0, len(words), _WINDOW // 8):
            window = words[start : start + _WINDOW // 8]
            masked, digits = self._words[: len(window)], self._flags[0][: len(window)]
            np.bitwise_and(window, np.uint64(0xF0F0F0F0F0F0F0F0), out=masked)
            np.equal(masked, np.uint64(0x3030303030303030), out=digits)
            groups = digits.view(np.uint64) == np.uint64(0x0101010101010101)
            for group in groups.nonzero()[0].tolist():
                place = 8 * start + 64 * group
                if _MANY_DIGITS.search(buffer, max(0, place - _MANY), min(place + 64 + _MANY, length)):
                    yield place

    def _deep_lines(self, buffer: Buffer, stops: Sequence[int], suspects: list[int]) -> list[int]:
        """Those of the suspected lines that are nested too deep, if they are valid JSON."""
        data, found = np.frombuffer(buffer, np.uint8), []
        for line in suspects:
            start, stop = stops[line - 1] if line else 0, stops[line]
            if self.depth_bound(data, start, stop) > DEPTH_LIMIT and self.is_deep(data[start:stop]):
                found.append(line)
        return found

    def depth_bound(self, data: Bytes, start: int, stop: int) -> int:
        """A depth that a line, if it is valid JSON, does not exceed; found without telling where its strings are.

        Count brackets up and down, those in strings too. At no place is the nesting deeper than the count by more than
        the number of closing brackets in strings. The others are as many as the opening brackets outside strings; of
        these, many are certain: in `{"x` the quote cannot be the end of a string, for then a comma, colon or bracket
        would follow. A pair `[]` or `{}` is left out; it stands in a string or outside, and adds one level.
        """
        depth = deepest = closers = certain_openers = 0
        for window_start in range(start, stop, _WINDOW):
            window = data[window_start : min(window_start + _WINDOW, stop)]
            braces, found, flags = self._lower[: len(window)], *(flags[: len(window)] for flags in self._flags)
            np.bitwise_or(window, _LOWER_BIT, out=braces)
            np.equal(braces, _OPEN, out=found)
            np.equal(braces, _CLOSE, out=flags)
            np.logical_or(found, flags, out=found)
            places = found.nonzero()[0]
            opens = braces[places] == _OPEN
            behind = window_start + places + 1
            # In valid JSON two bytes follow each opening bracket, or it is closed at once.
            first, second = (data.take(behind + ahead, mode="clip") for ahead in (0, 1))
            certain = opens & (first == _QUOTE) & ~_AFTER_STRING[second]
            adjacent = places[1:] == places[:-1] + 1
            certain[:-1] |= opens[:-1] & certain[1:] & adjacent
            pairs = (opens[:-1] & ~opens[1:] & adjacent).nonzero()[0]
            steps = np.where(opens, np.int8(1), np.int8(-1))
            steps[pairs] = steps[pairs + 1] = 0
            depths = depth + np.cumsum(steps, dtype=np.int64)
            if depths.size:
                depth, deepest = int(depths[-1]), max(deepest, int(depths.max()))
            closers += opens.size - int(np.count_nonzero(opens)) - pairs.size
            certain_openers += int(np.count_nonzero(certain))
        return deepest + 1 + closers - certain_openers

    def is_deep(self, line: Bytes) -> bool:
        """Whether a line is nested too deep, if it is valid JSON."""
        self._nesting.start()
        for start in range(0, len(line), _WINDOW):
            depths = self._nesting.feed(line[start : start + _WINDOW]).depths
            if depths.size and depths.max() > DEPTH_LIMIT:
                return True
        return False


def _bad_utf8(buffer: Buffer, stops: Sequence[int]) -> list[int]:
    """The first place of each line that is not UTF-8."""
    found: list[int] = []
    if np.maximum.reduce(np.frombuffer(buffer, np.uint8, count=stops[-1])) < 128:
        return found
    start = 0
    while bad := find_bad_utf8(memoryview(buffer)[start : stops[-1]]):
        found.append(start + bad.start)
        start = stops[bisect_right(stops, found[-1])]
    return found


def _long_exponents(buffer: Buffer, data: Bytes, places: Places) -> list[int]:
    """Of places of an `e`, those at which a number with a positive exponent of three digits or more may stand."""
    for ahead, allowed in _AROUND_EXPONENT:
        # A number is not the last thing in a row: what the end of the block clips is none.
        places = places[allowed[data.take(places + ahead, mode="clip")]]
    return [place for place in places.tolist() if _EXPONENT.match(buffer, place) and _ends_number(buffer, place)]


def _ends_number(buffer: Buffer, place: int) -> bool:
    """Whether a number may end at a place: unless a letter or the like stands before its digits."""
    before = bytes(buffer[max(0, place - 40) : place]).rstrip(b"0123456789.-")
    return not before or before[-1] in _BEFORE_NUMBER
