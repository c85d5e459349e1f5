"""The exact reading of one line: its value and all that is wrong with it.

Slow and complete. `scan` uses it for lines that its fast path cannot judge; readers of whole rows use it through
`scan(..., whole_rows=True)`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from rollout_assets.core.jsonl.faults import FaultKind
from rollout_assets.core.jsonl.fields import RECORD_KEYS, ROW_KEYS

DEPTH_LIMIT = 512

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class LineFault(NamedTuple):
    """A fault of a line before it has a place in a file; `column` is a byte of the line, from 1."""

    kind: FaultKind
    column: int
    message: str


class ParsedLine(NamedTuple):
    """The row of a line (`None` when it is not readable) and its faults."""

    row: dict[str, Any] | None
    faults: list[LineFault]


class _Object(dict[str, Any]):
    """A parsed object that remembers which keys occurred more than once."""

    duplicates: tuple[str, ...] = ()


def parse_line(data: bytes) -> ParsedLine:
    """Parse one line (without its LF) as RFC 8259 JSON in UTF-8, judged by the decisions of records.md.

    Integers are exact at any size, of duplicate keys the last one wins, `NaN`, infinities and overflowing floats are
    read as floats and reported as `non_finite_number`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _unreadable(FaultKind.NOT_UTF8, error.start + 1, f"byte 0x{data[error.start]:02x} is not valid UTF-8")
    depth_place = _place_beyond_depth_limit(text)
    if depth_place is not None:
        message = f"nested deeper than {DEPTH_LIMIT} levels"
        return _unreadable(FaultKind.TOO_DEEP, _byte_column(text, depth_place), message)
    non_finite: list[str] = []

    def constant(token: str) -> float:
        non_finite.append(token)
        return float(token)

    def number(token: str) -> float:
        value = float(token)
        if not math.isfinite(value):
            non_finite.append(token)
        return value

    decoder = json.JSONDecoder(
        parse_constant=constant, parse_float=number, parse_int=_exact_int, object_pairs_hook=_object
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        return _unreadable(FaultKind.INVALID_JSON, _byte_column(text, error.pos), error.msg[0].lower() + error.msg[1:])
    if _LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        place = re.search(r"\\u[dD][89a-fA-F]", text)
        column = _byte_column(text, place.start()) if place else 1
        return _unreadable(FaultKind.LONE_SURROGATE, column, "a \\u escape names half of a surrogate pair")
    if not isinstance(value, _Object):
        return _unreadable(FaultKind.NOT_AN_OBJECT, 1, "a row must be a JSON object")
    faults = [
        LineFault(
            FaultKind.NON_FINITE_NUMBER, _byte_column(text, max(text.find(token), 0)), f"{token} is no JSON number"
        )
        for token in dict.fromkeys(non_finite)
    ]
    unreadable = _read_twice(value)
    if unreadable:
        return ParsedLine(None, [_duplicate(text, FaultKind.DUPLICATE_KEY, key) for key in unreadable])
    faults += [_duplicate(text, FaultKind.DUPLICATE_COMPARED_KEY, key) for key in value.duplicates if key in ROW_KEYS]
    return ParsedLine(value, faults)


def _unreadable(kind: FaultKind, column: int, message: str) -> ParsedLine:
    return ParsedLine(None, [LineFault(kind, column, message)])


def _duplicate(text: str, kind: FaultKind, key: str) -> LineFault:
    place = text.find(f'"{key}"', text.find(f'"{key}"') + 1)
    return LineFault(kind, _byte_column(text, max(place, 0)), f"the key {key!r} occurs twice in one object")


def _exact_int(token: str) -> int:
    """`int` without the digit limit of the interpreter: integers are exact at any size (records.md, decision 4)."""
    try:
        return int(token)
    except ValueError:
        sign, digits = (-1, token[1:]) if token.startswith("-") else (1, token)
        value = 0
        for start in range(0, len(digits), 4000):
            piece = digits[start : start + 4000]
            value = value * 10 ** len(piece) + int(piece)
        return sign * value


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    value = _Object(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        value.duplicates = tuple(key for key in value if keys.count(key) > 1)
    return value


def _read_twice(row: _Object) -> list[str]:
    """Duplicate keys that a records rule reads: top-level ones and all inside `_ng_failure_record`."""
    found = [key for key in row.duplicates if key in RECORD_KEYS]
    waiting = [row.get("_ng_failure_record")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, _Object):
            found += value.duplicates
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def _place_beyond_depth_limit(text: str) -> int | None:
    if text.count("[") + text.count("{") <= DEPTH_LIMIT:
        return None
    depth = 0
    for token in _STRUCTURE.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > DEPTH_LIMIT:
                return token.start()
        elif token[0] in "]}":
            depth -= 1
    return None


def _byte_column(text: str, position: int) -> int:
    return len(text[:position].encode("utf-8", "surrogatepass")) + 1
