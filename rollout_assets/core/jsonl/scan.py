"""The strict scan: every line of a file as a row with its place, or as a fault (records.md §6)."""

from __future__ import annotations

from collections.abc import Iterator, Set
from os import PathLike, fspath
from typing import Any, NamedTuple

from rollout_assets.core.jsonl.faults import Fault, FaultKind, excerpt
from rollout_assets.core.jsonl.fields import ROW_FIELDS
from rollout_assets.core.jsonl.lines import CHUNK_BYTES, RawLine, read_lines
from rollout_assets.core.jsonl.parse import LineFault, parse_line


class Row(NamedTuple):
    """A readable row and its place.

    Attributes:
        line: Line number from 1; every LF ends a line and blank lines count.
        offset: Byte offset of the row in the file.
        length: Bytes of the row, with its LF if it has one.
        fields: The projected row (`fields.RowFields`), or the whole row when asked for.
        terminated: Whether the row ends in LF.
    """

    line: int
    offset: int
    length: int
    fields: dict[str, Any]
    terminated: bool = True


Line = Row | Fault


def scan(
    path: str | PathLike[str],
    *,
    end_offset: int | None = None,
    skip_keys: Set[str] = frozenset(),
    whole_rows: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Line]:
    """Yield every non-blank line of a file, as a `Row` or as a `Fault`; bad content never raises.

    A line with a fault that leaves it readable (`faults.READABLE`) gives its faults first, then its row. A last line
    without LF whose text is incomplete JSON is a fault of kind `truncated_tail`: a killed writer leaves it, and it is
    no record (records.md §6.1, decision 10). A file that does not exist has no lines.

    Args:
        path: The file; faults carry it as given.
        end_offset: Read only this many bytes (records.md §6.3).
        skip_keys: Top-level keys whose values are `None` in rows above the projection limit (records.md §6.2).
        whole_rows: Give whole rows instead of projected ones.
        chunk_bytes: Bytes per read; results do not depend on it.

    Raises:
        RunDataError: `E-UNREADABLE` when the operating system refuses to open or read the file.
    """
    name = fspath(path)
    for raw in read_lines(path, end_offset=end_offset, chunk_bytes=chunk_bytes):
        if raw.is_blank:
            continue
        row, faults, incomplete = parse_line(raw.data, None if whole_rows else ROW_FIELDS)
        for fault in faults:
            yield _placed(fault, name, raw, incomplete)
        if row is not None:
            yield Row(raw.number, raw.offset, raw.length, row, raw.terminated)


def _placed(fault: LineFault, path: str, raw: RawLine, incomplete: bool) -> Fault:
    kind, column, message = fault
    if incomplete and not raw.terminated:
        kind, column = FaultKind.TRUNCATED_TAIL, len(raw.data) + 1
        message = "the last line is incomplete; its writer was stopped in the middle"
    return Fault(kind, path, raw.number, raw.offset, raw.length, message, excerpt(raw.data, column), column)
