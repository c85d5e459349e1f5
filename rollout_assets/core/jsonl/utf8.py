"""Checking UTF-8 in windows, so that a line of any size costs no copy of its size."""

from __future__ import annotations

from codecs import utf_8_decode
from typing import NamedTuple

WINDOW_BYTES = 16 * 1024


class BadUtf8(NamedTuple):
    """The first place that is not UTF-8, and whether it is a sequence that the end of the data cuts off."""

    start: int
    cut_off: bool


def find_bad_utf8(data: bytes | bytearray | memoryview) -> BadUtf8 | None:
    """Return the first place of `data` that is not valid UTF-8, or `None`."""
    view = memoryview(data)
    start, end = 0, len(view)
    while start < end:
        window = view[start : start + WINDOW_BYTES]
        try:
            # Unless final, a sequence that the end of the window cuts off is left for the next window.
            _, used = utf_8_decode(window, "strict", start + len(window) == end)
        except UnicodeDecodeError as error:
            return BadUtf8(start + error.start, error.reason == "unexpected end of data")
        start += used
    return None
