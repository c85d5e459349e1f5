"""The canonical digest of a JSON value, and when two saved values are equal (records.md §5, decision 4)."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from hashlib import sha256
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON text of a value (records.md §5).

    Args:
        value: A parsed JSON value. It is over values, not over text: blanks and key order of the file do not matter,
            `1` and `1.0` differ.

    Returns:
        64 lower-case hexadecimal digits.

    Raises:
        ValueError: The value holds a NaN or an infinity, which have no digest.
    """
    return sha256(canonical_json(value).encode("utf-8")).hexdigest()


def canonical_json(value: Any) -> str:
    """The canonical JSON text of a value: sorted keys, no blanks, shortest floats, exact integers (records.md §5).

    Raises:
        ValueError: The value holds a NaN or an infinity.
    """
    try:
        return _encode(value)
    except ValueError:
        # Either a number that has no text, or an integer with more digits than the standard encoder writes.
        return _canonical_text(value)


def _canonical_text(value: Any) -> str:
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def _write(value: Any, pieces: list[str]) -> None:
    # Loops, not comprehensions: one frame a level lets a row of the deepest allowed nesting pass.
    if isinstance(value, dict):
        separator = "{"
        for key in sorted(value):
            pieces.append(f"{separator}{_encode(key)}:")
            _write(value[key], pieces)
            separator = ","
        pieces.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            pieces.append(separator)
            _write(item, pieces)
            separator = ","
        pieces.append("]" if value else "[]")
    elif isinstance(value, int) and not isinstance(value, bool):
        pieces.append(format(Decimal(value), "f"))
    else:
        pieces.append(_encode(value))


def json_equal(one: Any, other: Any) -> bool:
    """Whether two saved values are equal as JSON (decision 4).

    Objects have the same keys, arrays the same order, numbers the same exact value (`1` equals `1.0`); a boolean never
    equals a number. NaN equals NaN (decision 13).
    """
    waiting = [(one, other)]
    while waiting:
        one, other = waiting.pop()
        if isinstance(one, dict):
            if not isinstance(other, dict) or one.keys() != other.keys():
                return False
            waiting += ((value, other[key]) for key, value in one.items())
        elif isinstance(one, list):
            if not isinstance(other, list) or len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
        elif not _equal_scalars(one, other):
            return False
    return True


def _equal_scalars(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(one == other)
