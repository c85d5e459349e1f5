"""What can be wrong with a line, and where (records.md, decisions 5, 10, 14; compare.md, decision 1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

EXCERPT_CHARACTERS = 200


class FaultKind(StrEnum):
    """Every kind of fault that this project reports; the value is what tables and reports show."""

    INVALID_JSON = "invalid_json"
    NOT_UTF8 = "not_utf8"
    LONE_SURROGATE = "lone_surrogate"
    DUPLICATE_KEY = "duplicate_key"
    DUPLICATE_COMPARED_KEY = "duplicate_compared_key"
    TOO_DEEP = "too_deep"
    NOT_AN_OBJECT = "not_an_object"
    TRUNCATED_TAIL = "truncated_tail"
    NON_FINITE_NUMBER = "non_finite_number"
    INTEGER_OUT_OF_RANGE = "integer_out_of_range"
    REWARD_NOT_A_NUMBER = "reward_not_a_number"


#: Faults whose row can still be used: `scan` yields the fault, then the row.
READABLE = frozenset(
    {
        FaultKind.DUPLICATE_COMPARED_KEY,
        FaultKind.NON_FINITE_NUMBER,
        FaultKind.INTEGER_OUT_OF_RANGE,
        FaultKind.REWARD_NOT_A_NUMBER,
    }
)


class FaultPlace(TypedDict):
    """Where a fault is and what it is; fields as in `Fault`."""

    path: str
    line: int
    offset: int
    column: int
    kind: FaultKind


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one line.

    Attributes:
        kind: What is wrong.
        path: The file, as it was given to `scan`.
        line: Line number from 1; every LF ends a line and blank lines count.
        offset: Byte offset of the line in the file.
        length: Bytes of the line, with its LF if it has one.
        message: What is wrong and what to do, for a person; names neither path nor line.
        excerpt: At most 200 printable characters around the place.
        column: Byte of the line at which the fault was seen, from 1.
    """

    kind: FaultKind
    path: str
    line: int
    offset: int
    length: int
    message: str
    excerpt: str
    column: int = 1

    @property
    def place(self) -> FaultPlace:
        """What an error made of it says besides its reason."""
        return {"path": self.path, "line": self.line, "offset": self.offset, "column": self.column, "kind": self.kind}

    @property
    def byte(self) -> int:
        """Byte of the file, from 0, at which the fault was seen."""
        return self.offset + self.column - 1

    @property
    def row_is_readable(self) -> bool:
        """Whether the row can be used in spite of the fault."""
        return self.kind in READABLE

    def __str__(self) -> str:
        """`path:line:column: kind: message`, the form that editors and CI understand."""
        return f"{self.path}:{self.line}:{self.column}: {self.kind}: {self.message}"


def excerpt(line: bytes | bytearray | memoryview, column: int = 1) -> str:
    """At most 200 printable characters of `line` around the byte `column` (from 1); cut ends show as `…`."""
    start = max(0, column - 1 - EXCERPT_CHARACTERS // 2)
    window = bytes(line[start : start + 4 * EXCERPT_CHARACTERS])
    text = window.decode("utf-8", "backslashreplace").rstrip("\r\n")
    if start:
        text = "…" + text
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    if len(printable) > EXCERPT_CHARACTERS or start + len(window) < len(line):
        printable = printable[: EXCERPT_CHARACTERS - 1] + "…"
    return printable
