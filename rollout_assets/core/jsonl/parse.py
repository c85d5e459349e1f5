"""The exact reading of one line: its value and all that is wrong with it, each at its byte.

Slow and complete. `scan` uses it for lines that its fast path cannot judge. It keeps its own stack, so that no depth of
nesting can exhaust the interpreter's, and keeps only the values that are wanted.

The column of malformed text is the first byte that no valid JSON text could have there; one behind the last byte when
the text ends in the middle.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NamedTuple

from rollout_assets.core.jsonl.duplicates import ROW_WATCH, Watch
from rollout_assets.core.jsonl.faults import READABLE, FaultKind
from rollout_assets.core.jsonl.fields import INDEX_KEYS, Wanted
from rollout_assets.core.jsonl.lines import MAPPED_LINE_BYTES
from rollout_assets.core.jsonl.utf8 import find_bad_utf8

DEPTH_LIMIT: Final = 512
#: Faults of one kind that a line lists; the last one says how many more there are.
FAULTS_LISTED: Final = 16
INT64: Final = range(-(2**63), 2**63)
#: Digits that `int` takes at once under any limit of the interpreter (it cannot be set below 640).
_INT_DIGITS: Final = 640

_BLANKS = re.compile(rb"[ \t\r\n]*+")
_STRING_BODY = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_UNICODE_ESCAPE = re.compile(rb"\\u")
_ESCAPE_BEGUN = re.compile(rb"(?:\\(?:u[0-9a-fA-F]{0,3}+)?+)?+")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?P<lone>[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# The longest beginning of a number; it is a number if it ends in a digit.
_NUMBER_BEGUN = re.compile(rb"-?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?+(?:(?<=[0-9])[eE][+-]?+[0-9]*+)?+)?+")
_LITERALS: Final[dict[int, dict[bytes, Any]]] = {
    ord("t"): {b"true": True},
    ord("f"): {b"false": False},
    ord("n"): {b"null": None},
    ord("N"): {b"NaN": math.nan},
    ord("I"): {b"Infinity": math.inf},
    ord("-"): {b"-Infinity": -math.inf},
}
# Members and elements that are read in one go: flat, without escapes, and no number that could overflow.
_FLAT = (
    rb'(?:-?+(?:0|[1-9][0-9]{0,199}+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]{1,2}+)?+|"[^"\\\x00-\x1f]*+"|true|false|null)'
    rb"[ \t\r\n]*+,[ \t\r\n]*+"
)
_FLAT_ELEMENTS = re.compile(rb"(?:" + _FLAT + rb")*+")
_FLAT_MEMBERS = re.compile(rb'(?:"[^"\\\x00-\x1f]*+"[ \t\r\n]*+:[ \t\r\n]*+' + _FLAT + rb")*+")

_QUOTE, _COMMA, _COLON, _MINUS, _SPACE = b'",:- '
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = b"{}[]"
_DIGITS: Final = frozenset(b"0123456789")


class LineFault(NamedTuple):
    """A fault of a line before it has a place in a file; `column` is a byte of the line, from 1."""

    kind: FaultKind
    column: int
    message: str


class ParsedLine(NamedTuple):
    """The row of a line (`None` when it is not readable), its faults by column, and whether its text is cut off.

    An unreadable line has one fault, the first one that makes it unreadable. `incomplete` is true for the beginning of
    a JSON text, however it goes on: what a killed writer leaves.
    """

    row: dict[str, Any] | None
    faults: list[LineFault]
    incomplete: bool = False


def parse_line(data: bytes | bytearray | memoryview, wanted: Wanted = None) -> ParsedLine:
    """Parse one line (without its LF) as RFC 8259 JSON in UTF-8, judged by the decisions of records.md.

    Integers are exact at any size, of duplicate keys the last one wins, `NaN`, infinities and overflowing floats are
    read as floats and reported as `non_finite_number`.

    Args:
        data: The line. A view of a very long one is not copied.
        wanted: The part of the row to keep (`fields.ROW_FIELDS`); all of it by default.
    """
    if not isinstance(data, memoryview) or len(data) <= MAPPED_LINE_BYTES:
        data = bytes(data)  # faster to look into than a view
    return _Reader(data, wanted).parsed()


class _MalformedError(Exception):
    """The text cannot go on like this; `index` is the byte."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


class _IncompleteError(Exception):
    """The text ends in the middle."""

    def __init__(self, *, in_string: bool = False) -> None:
        super().__init__()
        self.in_string = in_string


class _Skipped:
    """Stands for a value that is not kept."""


_SKIPPED: Final = _Skipped()


class _Open:
    """An object or array that is being read: its value if it is kept, and what is wanted and watched in it."""

    __slots__ = ("closer", "key", "seen", "value", "wanted", "watch")

    def __init__(self, closer: int, value: Any, wanted: Wanted, watch: Watch | None) -> None:
        self.closer = closer
        self.value = value
        self.wanted = wanted
        self.watch = watch
        self.key = ""
        self.seen: dict[str, int] = {}


# All skipped objects and arrays share these, so that a stack of any depth is cheap.
_SKIPPED_OPEN: Final = {closer: _Open(closer, _SKIPPED, None, None) for closer in (_CLOSE_OBJECT, _CLOSE_LIST)}


class _Reader:
    """One pass over one line."""

    def __init__(self, data: bytes | memoryview, wanted: Wanted) -> None:
        self.data = data
        self.end = len(data)
        self.wanted = wanted
        self.unreadable: LineFault | None = None
        self.non_finite: list[LineFault] = []
        self.non_finite_count = 0
        self.readable: list[LineFault] = []
        self.stack: list[_Open] = []
        self.index_places: dict[str, int] = {}

    def parsed(self) -> ParsedLine:
        """Read the line and say what it is."""
        bad = find_bad_utf8(self.data)
        if bad is not None:
            self.end = bad.start
        incomplete, value = False, None
        try:
            value = self._text()
        except _MalformedError as error:
            self._unreadable(FaultKind.INVALID_JSON, error.index, error.reason)
        except _IncompleteError as error:
            if bad is None:
                incomplete = True
                self._unreadable(FaultKind.INVALID_JSON, self.end, "the text ends in the middle of the row")
            else:
                incomplete = bad.cut_off and error.in_string
        if bad is not None:
            message = f"byte 0x{self.data[bad.start]:02x} is not valid UTF-8"
            self._unreadable(FaultKind.NOT_UTF8, bad.start, message)
        if self.unreadable is None and not isinstance(value, dict):
            start = self._blanks(0)
            self._unreadable(FaultKind.NOT_AN_OBJECT, start, "a row must be a JSON object")
        if self.unreadable is not None:
            return ParsedLine(None, [self.unreadable], incomplete)
        assert isinstance(value, dict)
        self._check_indices(value)
        return ParsedLine(value, sorted(self._listed_non_finite() + self.readable, key=lambda fault: fault.column))

    # ---- the text ----

    def _text(self) -> Any:
        """Read the one value of the text and see that nothing follows it."""
        data, end, stack = self.data, self.end, self.stack
        at = self._blanks(0)
        while True:
            opened = self._open(at)
            if opened:
                at = self._blanks(at + 1)
                if at < end and data[at] == stack[-1].closer:
                    at, value = at + 1, stack.pop().value
                elif stack[-1].closer == _CLOSE_OBJECT:
                    at = self._key(at)
                    continue
                else:
                    at = self._elements(at)
                    continue
            else:
                at, value = self._scalar(at)
            while True:  # a value has ended: put it into what surrounds it, and go on there
                at = self._blanks(at)
                if not stack:
                    if at < end:
                        raise _MalformedError(at, f"{self._shown(at)} after the end of the row; write one row a line")
                    return value
                top = stack[-1]
                self._put(top, value)
                byte = self._byte(at)
                if byte == top.closer:
                    at, value = at + 1, stack.pop().value
                    continue
                if byte != _COMMA:
                    expected = "',' or '}'" if top.closer == _CLOSE_OBJECT else "',' or ']'"
                    raise _MalformedError(at, f"{expected} expected, not {self._shown(at)}")
                at = self._blanks(at + 1)
                at = self._key(at) if top.closer == _CLOSE_OBJECT else self._elements(at)
                break

    def _open(self, at: int) -> bool:
        """Push the object or array that starts here, if one does."""
        byte = self._byte(at)
        if byte == _OPEN_OBJECT:
            closer = _CLOSE_OBJECT
        elif byte == _OPEN_LIST:
            closer = _CLOSE_LIST
        else:
            return False
        if len(self.stack) == DEPTH_LIMIT:
            self._unreadable(FaultKind.TOO_DEEP, at, f"nested deeper than {DEPTH_LIMIT} levels")
        self.stack.append(self._opened(closer))
        return True

    def _opened(self, closer: int) -> _Open:
        if not self._is_kept():
            return _SKIPPED_OPEN[closer]
        value: dict[str, Any] | list[Any] = {} if closer == _CLOSE_OBJECT else []
        if not self.stack:
            return _Open(closer, value, self.wanted, ROW_WATCH)
        top = self.stack[-1]
        if top.closer == _CLOSE_LIST:
            return _Open(closer, value, None, top.watch if top.watch and top.watch.every else None)
        watch = top.watch.inside(top.key) if top.watch else None
        return _Open(closer, value, top.wanted[top.key] if top.wanted else None, watch)

    def _is_kept(self) -> bool:
        """Whether the value that comes now is kept.

        Behind a fault that makes the row unreadable nothing is: what remains is to see whether the text ends well.
        """
        if self.unreadable is not None:
            return False
        if not self.stack:
            return True
        top = self.stack[-1]
        return top.value is not _SKIPPED and (top.wanted is None or top.closer == _CLOSE_LIST or top.key in top.wanted)

    def _put(self, top: _Open, value: Any) -> None:
        if value is _SKIPPED or top.value is _SKIPPED:
            return
        if top.closer == _CLOSE_LIST:
            top.value.append(value)
        else:
            top.value[top.key] = value

    def _key(self, at: int) -> int:
        """Read a key and its colon; return where its value starts."""
        top = self.stack[-1]
        if top.value is _SKIPPED:
            at = self._run(_FLAT_MEMBERS, at)
        elif top.wanted is None and top.watch is None:
            stop = self._run(_FLAT_MEMBERS, at)
            if stop > at:
                top.value.update(json.loads(f"{{{self._without_comma(at, stop)}}}"))
                at = stop
        start = at
        if self._byte(at) != _QUOTE:
            raise _MalformedError(at, f"a key in double quotes expected, not {self._shown(at)}")
        at = self._string_end(at)
        if top.value is not _SKIPPED:
            top.key = self._decoded(start, at)
            if top.watch is not None:
                self._watch(top, start)
            if len(self.stack) == 1 and top.key in INDEX_KEYS:
                self.index_places[top.key] = at
        at = self._blanks(at)
        if self._byte(at) != _COLON:
            raise _MalformedError(at, f"':' expected, not {self._shown(at)}")
        return self._blanks(at + 1)

    def _watch(self, top: _Open, start: int) -> None:
        """Note a key that must not occur twice, at its second occurrence."""
        assert top.watch is not None
        kind = top.watch.fault(top.key)
        if kind is None:
            return
        times = top.seen[top.key] = top.seen.get(top.key, 0) + 1
        if times == 2:
            message = f"the key {top.key!r} occurs twice in one object"
            if kind in READABLE:
                self.readable.append(LineFault(kind, start + 1, message))
            else:
                self._unreadable(kind, start, message)

    def _elements(self, at: int) -> int:
        """Read elements of an array, as long as they are flat."""
        top = self.stack[-1]
        if top.value is _SKIPPED:
            return self._run(_FLAT_ELEMENTS, at)
        stop = self._run(_FLAT_ELEMENTS, at)
        if stop > at:
            top.value.extend(json.loads(f"[{self._without_comma(at, stop)}]"))
        return stop

    def _without_comma(self, start: int, stop: int) -> str:
        return str(self.data[start:stop], "utf-8").rstrip(" \t\r\n").removesuffix(",")

    # ---- scalars ----

    def _scalar(self, at: int) -> tuple[int, Any]:
        """Read a string, number or literal; return where it ends and its value."""
        kept = self._is_kept()
        byte = self._byte(at)
        if byte == _QUOTE:
            stop = self._string_end(at)
            return stop, self._decoded(at, stop) if kept else _SKIPPED
        if byte in _DIGITS or (byte == _MINUS and self.data[at + 1 : at + 2] != b"I"):
            return self._number(at, kept)
        for text, value in _LITERALS.get(byte, {}).items():
            stop = self._literal_end(at, text)
            if isinstance(value, float):
                self._non_finite(at, text.decode())
            return stop, value if kept else _SKIPPED
        raise _MalformedError(at, f"a value expected, not {self._shown(at)}")

    def _string_end(self, at: int) -> int:
        """Return where the string that starts here ends, behind its quote."""
        data, end = self.data, self.end
        stop = self._run(_STRING_BODY, at + 1)
        is_ended = stop < end and data[stop] == _QUOTE
        cut = not is_ended and self._run(_ESCAPE_BEGUN, stop) == end
        if _UNICODE_ESCAPE.search(data, at, stop):
            self._check_surrogates(at, stop, cut)
        if is_ended:
            return stop + 1
        if cut:
            raise _IncompleteError(in_string=True)
        if data[stop] < 0x20:
            raise _MalformedError(stop, f"control character 0x{data[stop]:02x} in a string; write it as an escape")
        stop = self._run(_ESCAPE_BEGUN, stop)
        raise _MalformedError(stop, f"{self._shown(stop)} in an escape of a string")

    def _check_surrogates(self, start: int, stop: int, cut: bool) -> None:
        for escape in _ESCAPE.finditer(self.data, start, stop):
            # The other half may follow where the text was cut off.
            if escape["lone"] and not (cut and escape.end() == stop and escape["lone"][1] in b"89abAB"):
                message = f"the escape \\u{escape['lone'].decode()} is half of a surrogate pair"
                self._unreadable(FaultKind.LONE_SURROGATE, escape.start(), message)
                return

    def _decoded(self, start: int, stop: int) -> str:
        token = str(self.data[start:stop], "utf-8")
        if "\\" in token:
            text: str = json.loads(token)
            return text
        return token[1:-1]

    def _number(self, at: int, kept: bool) -> tuple[int, Any]:
        stop = self._run(_NUMBER_BEGUN, at)
        if self.data[stop - 1] not in _DIGITS:
            if stop == self.end:
                raise _IncompleteError
            raise _MalformedError(stop, f"a digit expected, not {self._shown(stop)}")
        token = str(self.data[at:stop], "ascii")
        if token.lstrip("-").isdigit():
            return stop, exact_int(token) if kept else _SKIPPED
        value = float(token)
        if not math.isfinite(value):
            self._non_finite(at, token if len(token) <= 40 else f"{token[:40]}…")
        return stop, value if kept else _SKIPPED

    def _literal_end(self, at: int, text: bytes) -> int:
        found = bytes(self.data[at : min(at + len(text), self.end)])
        if found == text:
            return at + len(text)
        for index, byte in enumerate(found):
            if byte != text[index]:
                raise _MalformedError(at + index, f"{text.decode()} expected; {self._shown(at + index)} does not fit")
        raise _IncompleteError

    # ---- places and faults ----

    def _blanks(self, at: int) -> int:
        return at if at < self.end and self.data[at] > _SPACE else self._run(_BLANKS, at)

    def _run(self, pattern: re.Pattern[bytes], at: int) -> int:
        """Return where a run that may be empty ends."""
        match = pattern.match(self.data, at, self.end)
        assert match is not None
        return match.end()

    def _byte(self, at: int) -> int:
        if at >= self.end:
            raise _IncompleteError
        return self.data[at]

    def _shown(self, at: int) -> str:
        """The character at a byte, for a message."""
        byte = self.data[at]
        if 0x20 < byte < 0x7F:
            return repr(chr(byte))
        text = str(self.data[at : min(at + 4, self.end)], "utf-8", "ignore")
        return f"U+{ord(text[0]):04X}" if text else f"byte 0x{byte:02x}"

    def _unreadable(self, kind: FaultKind, index: int, message: str) -> None:
        """Note a fault that makes the row unreadable, unless an earlier one did."""
        if self.unreadable is None or index + 1 < self.unreadable.column:
            self.unreadable = LineFault(kind, index + 1, message)

    def _non_finite(self, index: int, token: str) -> None:
        self.non_finite_count += 1
        if self.non_finite_count <= FAULTS_LISTED:
            message = f"{token} is no finite number; write null, or leave the key out"
            self.non_finite.append(LineFault(FaultKind.NON_FINITE_NUMBER, index + 1, message))

    def _listed_non_finite(self) -> list[LineFault]:
        more = self.non_finite_count - FAULTS_LISTED
        if more > 0:
            last = self.non_finite[-1]
            return [*self.non_finite[:-1], last._replace(message=f"{last.message}; {more} more behind it in this row")]
        return self.non_finite

    def _check_indices(self, row: dict[str, Any]) -> None:
        for key, after_key in self.index_places.items():
            value = row[key]
            if type(value) is int and value not in INT64:
                at = self._blanks(self._blanks(after_key) + 1)
                message = f"{key} is outside the range of 64-bit integers"
                self.readable.append(LineFault(FaultKind.INTEGER_OUT_OF_RANGE, at + 1, message))


def exact_int(token: str) -> int:
    """`int` without the digit limit of the interpreter: integers are exact at any size (records.md, decision 4)."""
    if token.startswith("-"):
        return -exact_int(token[1:])
    if len(token) <= _INT_DIGITS:
        return int(token)
    half = len(token) // 2
    return int(exact_int(token[:-half]) * 10**half + exact_int(token[-half:]))
