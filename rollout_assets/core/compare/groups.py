"""The rows of one side by task (compare.md §1.5, §1.6)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rollout_assets.core.compare.facts import row_facts
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.compare.task_key import unnamed_row_error

#: Gives the whole row behind a row of a table, by its position.
RowReader = Callable[[int], Mapping[str, Any]]


class Groups:
    """Positions of a table's rows by task, in file order.

    Attributes:
        ids: The id of each group, in the order of first appearance.
        tasksets: The taskset of each group; None where tasksets were not asked for, or the id names none.
        anonymous: Sidecar rows that name no task.
    """

    def __init__(
        self,
        ids: list[str],
        tasksets: list[str | None],
        anonymous: Sequence[int],
        rows: Sequence[int],
        group_of: Sequence[int],
    ) -> None:
        """Sort `rows` by `group_of`, the group of each, keeping their order."""
        self.ids = ids
        self.tasksets = tasksets
        self.anonymous = anonymous
        self._starts = array("I", [0]) * (len(ids) + 1)
        for group in group_of:
            self._starts[group + 1] += 1
        for group in range(len(ids)):
            self._starts[group + 1] += self._starts[group]
        self._rows = array("I", [0]) * len(rows)
        free = self._starts[:]
        for row, group in zip(rows, group_of, strict=True):
            self._rows[free[group]] = row
            free[group] += 1

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, group: int) -> Sequence[int]:
        """The rows of a group, in file order."""
        return self._rows[self._starts[group] : self._starts[group + 1]]

    def label(self, group: int) -> str:
        """`taskset/id`, or the plain id."""
        taskset = self.tasksets[group]
        return self.ids[group] if taskset is None else f"{taskset}/{self.ids[group]}"


def group_by_task(
    rows: Iterable[dict[str, Any]], key: str, *, with_taskset: bool = False
) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Group the rows of one side by task.

    Args:
        rows: Rows as `load_rollouts` gives them.
        key: The task key, dotted.
        with_taskset: Label tasks `taskset/id` where the id names a taskset.

    Returns:
        The rows by task label, and the anonymous rows: sidecar failures that name no task under any key.

    Raises:
        CompareInputError: Another row lacks the key.
    """
    rows = list(rows)
    table = FactTable.of(row_facts(row, line=position, key=key) for position, row in enumerate(rows, 1))
    groups = group_rows(table, key, with_taskset=with_taskset, whole_row=rows.__getitem__)
    by_label: dict[str, list[dict[str, Any]]] = {}
    for group in range(len(groups)):
        by_label.setdefault(groups.label(group), []).extend(rows[row] for row in groups.rows(group))
    return by_label, [rows[row] for row in groups.anonymous]


def group_rows(table: FactTable, key: str, *, with_taskset: bool, whole_row: RowReader | None = None) -> Groups:
    """`group_by_task` on facts; `whole_row` lets an error list the keys of the row that lacks the key."""
    numbers: dict[str | tuple[str, str], int] = {}
    ids: list[str] = []
    tasksets: list[str | None] = []
    anonymous, grouped, group_of = array("I"), array("I"), array("I")
    for row in range(len(table)):
        label = table.label(row, key)
        if label is None:
            if not table.is_folded(row) or table.names_a_task(row):
                raise unnamed_row_error(table, row, key, None if whole_row is None else whole_row(row))
            anonymous.append(row)
            continue
        taskset = table.taskset(row, key) if with_taskset else None
        identity = label if taskset is None else (taskset, label)
        group = numbers.setdefault(identity, len(ids))
        if group == len(ids):
            ids.append(label)
            tasksets.append(taskset)
        grouped.append(row)
        group_of.append(group)
    return Groups(ids, tasksets, anonymous, grouped, group_of)
