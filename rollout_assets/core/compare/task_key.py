"""Which key names the tasks of two sides (compare.md §1.5, decisions 6 and 10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.facts import row_facts
from rollout_assets.core.compare.keys import FALLBACK_KEYS, KEY_CANDIDATES
from rollout_assets.core.compare.table import FactTable

KeySource = Literal["detected", "asked for", "fallback"]
Fallback = Literal["off", "auto"]


class TaskKeys(NamedTuple):
    """The key of each side and how it was found; the keys differ only when both were detected."""

    old: str
    new: str
    source: KeySource


def detect_task_key(rows: Iterable[Mapping[str, Any]]) -> str:
    """The first candidate that every voting row carries; sidecar rows that carry none do not vote.

    Args:
        rows: Rows of one side, as `load_rollouts` gives them.

    Raises:
        CompareInputError: No candidate is on every voting row, or no row votes.
    """
    table = FactTable.of(row_facts(row, line=position) for position, row in enumerate(rows, 1))
    key = detected_key(table) if has_keyed_rows(table) else None
    if key is None:
        raise _no_key_error(table, "")
    return key


def choose_keys(old: FactTable, new: FactTable, key: str | None, fallback: Fallback) -> TaskKeys:
    """The keys of two sides.

    A key that was asked for counts for both. Else each side votes, and a side on which no row names a task borrows the
    other's key. With `fallback="auto"`, two sides of which one names no task under any candidate use the first of
    `FALLBACK_KEYS` that every output row of both sides carries.

    Raises:
        CompareInputError: There are no rows, or no such key.
    """
    if not len(old) and not len(new):
        raise CompareInputError("E-NO-ROWS", "no rows in either input")
    if key is not None:
        return TaskKeys(key, key, "asked for")
    old_votes, new_votes = has_keyed_rows(old), has_keyed_rows(new)
    old_key = detected_key(old) if old_votes else None
    new_key = detected_key(new) if new_votes else None
    if (old_votes or new_votes) and (old_key or not old_votes) and (new_key or not new_votes):
        # At least one of the two is a key; the other side borrows it if it has none.
        return TaskKeys(old_key or new_key or "", new_key or old_key or "", "detected")
    unnamed = [side for side, side_key in ((old, old_key), (new, new_key)) if side_key is None and len(side)]
    if fallback == "auto" and not any(_names_any_task(side) for side in unnamed):
        stand_in = next((name for name in FALLBACK_KEYS if _can_stand_in(name, old, new)), None)
        if stand_in is not None:
            return TaskKeys(stand_in, stand_in, "fallback")
    failing, side = (old, "old") if old_key is None and len(old) else (new, "new")
    raise _no_key_error(failing, side, [name for name in FALLBACK_KEYS if _can_stand_in(name, old, new)])


def has_keyed_rows(table: FactTable) -> bool:
    """Whether a side has rows that vote: an empty one, or one of anonymous failures alone, has none."""
    return next(voters(table), None) is not None


def detected_key(table: FactTable) -> str | None:
    """The first candidate that every voting row carries."""
    for key in KEY_CANDIDATES:
        if all(table.label(row, key) is not None for row in voters(table)):
            return key
    return None


def voters(table: FactTable) -> Iterator[int]:
    """The rows that vote on the key: all but sidecar rows that carry no candidate."""
    return (row for row in range(len(table)) if not table.is_folded(row) or table.names_a_task(row))


def unnamed_row_error(table: FactTable, row: int, key: str, fields: Iterable[str] | None) -> CompareInputError:
    """The error for a row that lacks the key of its side and is no anonymous failure."""
    place = table.place(row)
    other = next((name for name in KEY_CANDIDATES if table.label(row, name) is not None), None)
    if table.is_folded(row) and other is not None:
        reason = (
            f"{place}: this failure names its task under `{other}`, not under the key `{key}` of its side; "
            f"use --key {other} if every row has it, or mend the row"
        )
    else:
        shown = "" if fields is None else f"; its first keys are {', '.join(sorted(fields)[:12])}"
        reason = f"{place}: no value under the key `{key}`{shown}; choose a --key that every row carries"
    return CompareInputError("E-NO-KEY", reason)


def _names_any_task(table: FactTable) -> bool:
    return any(table.names_a_task(row) for row in range(len(table)))


def _can_stand_in(key: str, old: FactTable, new: FactTable) -> bool:
    """Whether all output rows of both sides carry the key, and any row at all."""
    return all(side.is_on_every_output_row(key) for side in (old, new)) and (old.has(key) or new.has(key))


def _no_key_error(table: FactTable, side: str, stand_ins: Iterable[str] = ()) -> CompareInputError:
    of_side = f" of the {side} side" if side else ""
    if not has_keyed_rows(table):
        return CompareInputError("E-NO-KEY", f"no row{of_side} names a task; give rows that carry a task key")
    lacking = next(
        (row for row in voters(table) if not table.names_a_task(row)),
        next(iter(voters(table))),
    )
    hint = ", ".join(f"--key {name}" for name in stand_ins)
    return CompareInputError(
        "E-NO-KEY",
        f"no task key is on every row{of_side} (see {table.place(lacking)}); looked for {', '.join(KEY_CANDIDATES)}; "
        + (f"these are on every row: {hint}" if hint else "name a field that every row carries with --key"),
    )
