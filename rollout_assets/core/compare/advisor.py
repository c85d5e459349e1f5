"""The key advisor: what each possible task key would do, and whether the chosen one is too coarse (decision 12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rollout_assets.core.compare.findings import Finding
from rollout_assets.core.compare.groups import Groups
from rollout_assets.core.compare.keys import ALL_KEYS, INPUT_DIGEST, KEY_CANDIDATES, TASK_INDEX
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.compare.task_key import TaskKeys

#: Keys that show a chosen key to be coarse. Other id fields may name rollouts, not tasks.
_FINER: Final = (*KEY_CANDIDATES, TASK_INDEX, INPUT_DIGEST)


class KeyAdvice(NamedTuple):
    """One possible task key.

    Attributes:
        key: Its name.
        old_values: Distinct values on the old side.
        new_values: Distinct values on the new side.
        on_every_row: Whether every output row of both sides has it.
        chosen: Whether a side is joined by it.
        split_tasks: Tasks, over both sides, that hold several values of it; 0 for the chosen key.
    """

    key: str
    old_values: int
    new_values: int
    on_every_row: bool
    chosen: bool
    split_tasks: int


def advise(old: FactTable, old_groups: Groups, new: FactTable, new_groups: Groups, keys: TaskKeys) -> list[KeyAdvice]:
    """Every key that any row carries, the candidates first, with what it would distinguish."""
    return [
        KeyAdvice(
            key,
            old.distinct(key),
            new.distinct(key),
            old.is_on_every_output_row(key) and new.is_on_every_output_row(key),
            key in keys,
            (0 if key == keys.old else _split_tasks(old, old_groups, key))
            + (0 if key == keys.new else _split_tasks(new, new_groups, key)),
        )
        for key in (*ALL_KEYS, INPUT_DIGEST)
        if old.has(key) or new.has(key)
    ]


def coarse_key_findings(advice: list[KeyAdvice]) -> Iterator[Finding]:
    """A finding for each key on every row that tells apart what the chosen key calls one task."""
    for entry in finer_keys(advice):
        tasks = "1 task holds" if entry.split_tasks == 1 else f"{entry.split_tasks} tasks hold"
        what = "inputs" if entry.key == INPUT_DIGEST else f"values of {entry.key}"
        detail = (
            f"{tasks} several {what} ({entry.old_values} old, {entry.new_values} new), "
            f"and a mean over them may hide opposite flips; try --key {entry.key}"
        )
        yield Finding("coarse_key", None, None, detail)


def finer_keys(advice: list[KeyAdvice]) -> list[KeyAdvice]:
    """The keys on every row that tell apart what the chosen key calls one task."""
    return [entry for entry in advice if entry.key in _FINER and entry.on_every_row and entry.split_tasks]


def _split_tasks(table: FactTable, groups: Groups, key: str) -> int:
    value = table.values(key)
    split = 0
    for group in range(len(groups)):
        rows = groups.rows(group)
        if len(rows) > 1:
            split += len(set(map(value, rows)) - {None}) > 1
    return split
