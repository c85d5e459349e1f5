"""How the tasks of two sides are matched: tasksets, ambiguous ids, prefixes (compare.md §1.6, §1.7)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.groups import Groups, RowReader, group_rows
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.compare.task_key import TaskKeys

ABSENT = -1


class Joined(NamedTuple):
    """The tasks of two sides under common labels.

    Attributes:
        labels: Labels of all tasks, sorted by code point.
        old_groups: For each task its group on the old side, or `ABSENT`.
        new_groups: For each task its group on the new side, or `ABSENT`.
        old: The groups of the old side.
        new: The groups of the new side.
        old_prefix: What was stripped from the labels of the old side, with its slash; None when nothing was.
        new_prefix: The same of the new side.
        keyed_by_taskset: Labels are `taskset/id` on both sides.
        notes: Sentences about tasksets and ambiguous ids.
    """

    labels: list[str]
    old_groups: Sequence[int]
    new_groups: Sequence[int]
    old: Groups
    new: Groups
    old_prefix: str | None
    new_prefix: str | None
    keyed_by_taskset: bool
    notes: list[str]


class _Stripped(NamedTuple):
    old: list[str]
    new: list[str]
    old_prefix: str | None
    new_prefix: str | None


def join(
    old: FactTable,
    new: FactTable,
    keys: TaskKeys,
    *,
    old_row: RowReader | None = None,
    new_row: RowReader | None = None,
) -> Joined:
    """Group both sides and match their tasks.

    A side is *wide* when its rows name several tasksets. Two wide sides join on `taskset/id`, two others on the id; a
    wide side is matched to the plain ids of one that is not.

    Raises:
        CompareInputError: A row lacks the key of its side, or two tasks of a side would get one label.
    """
    old_tasksets, new_tasksets = old.tasksets(keys.old), new.tasksets(keys.new)
    old_wide, new_wide = len(old_tasksets) > 1, len(new_tasksets) > 1
    old_groups = group_rows(old, keys.old, with_taskset=old_wide, whole_row=old_row)
    new_groups = group_rows(new, keys.new, with_taskset=new_wide, whole_row=new_row)
    notes: list[str] = []
    if old_wide and new_wide:
        names = f"old: {', '.join(old_tasksets)}; new: {', '.join(new_tasksets)}"
        notes.append(f"both sides hold several tasksets ({names}): tasks are joined on taskset/id")
        labels = _strip_prefix(_labels(old_groups), _labels(new_groups))
    elif old_wide or new_wide:
        labels = _strip_prefix(old_groups.ids, new_groups.ids)
        if old_wide:
            notes.append(_one_wide_note("old", old_tasksets))
            own = _taskset_by_id(labels.new, new_groups, new, keys.new)
            labels = labels._replace(old=_match_plain_ids(old_groups, labels.old, own, notes))
        else:
            notes.append(_one_wide_note("new", new_tasksets))
            own = _taskset_by_id(labels.old, old_groups, old, keys.old)
            labels = labels._replace(new=_match_plain_ids(new_groups, labels.new, own, notes))
    else:
        labels = _strip_prefix(old_groups.ids, new_groups.ids)
    old_of, new_of = _group_of_label(old_groups, labels.old, "old"), _group_of_label(new_groups, labels.new, "new")
    ordered = sorted([*old_of, *(label for label in new_of if label not in old_of)])
    return Joined(
        ordered,
        array("i", (old_of.get(label, ABSENT) for label in ordered)),
        array("i", (new_of.get(label, ABSENT) for label in ordered)),
        old_groups,
        new_groups,
        labels.old_prefix,
        labels.new_prefix,
        old_wide and new_wide,
        notes,
    )


def taskset_of_group(table: FactTable, groups: Groups, group: int, key: str) -> str | None:
    """The taskset that the rows of a group name first, whether tasks are labelled by it or not."""
    return next(filter(None, (table.taskset(row, key) for row in groups.rows(group))), None)


def _labels(groups: Groups) -> list[str]:
    return [groups.label(group) for group in range(len(groups))]


def _one_wide_note(side: str, tasksets: Iterable[str]) -> str:
    other = "new" if side == "old" else "old"
    return (
        f"the {side} side holds several tasksets ({', '.join(tasksets)}), the {other} side does not: "
        f"ids of the {other} side are matched to them"
    )


def _strip_prefix(old: list[str], new: list[str]) -> _Stripped:
    """Strip `<first segment>/` from the side that alone has one, if no label is shared (compare.md §1.7)."""
    unchanged = _Stripped(old, new, None, None)
    if not old or not new or not set(old).isdisjoint(new):
        return unchanged
    old_prefix, new_prefix = _common_prefix(old), _common_prefix(new)
    if old_prefix is not None and new_prefix is None:
        return _Stripped([label[len(old_prefix) :] for label in old], new, old_prefix, None)
    if new_prefix is not None and old_prefix is None:
        return _Stripped(old, [label[len(new_prefix) :] for label in new], None, new_prefix)
    return unchanged


def _common_prefix(labels: Sequence[str]) -> str | None:
    segment, slash, _ = labels[0].partition("/")
    prefix = segment + slash
    return prefix if slash and all(label.startswith(prefix) for label in labels) else None


def _taskset_by_id(labels: list[str], groups: Groups, table: FactTable, key: str) -> dict[str, str | None]:
    """Of the side that is not wide: the taskset that each of its ids names for itself."""
    return {label: taskset_of_group(table, groups, group, key) for group, label in enumerate(labels)}


def _match_plain_ids(wide: Groups, ids: list[str], plain: dict[str, str | None], notes: list[str]) -> list[str]:
    """Labels for the groups of a wide side that meet plain ids where that is unambiguous (compare.md §1.6, case 3).

    Args:
        wide: Groups of the wide side.
        ids: Their ids, a prefix stripped.
        plain: The ids of the other side, each with the taskset it names for itself.
        notes: Gets a sentence when ids are ambiguous.
    """
    labels = [id_ if taskset is None else f"{taskset}/{id_}" for id_, taskset in zip(ids, wide.tasksets, strict=True)]
    groups_of: dict[str, list[int]] = {}
    for group, id_ in enumerate(ids):
        groups_of.setdefault(id_, []).append(group)
    ambiguous = []
    for id_, groups in groups_of.items():
        if len(groups) == 1:
            labels[groups[0]] = id_
        elif id_ in plain:
            # The id's own taskset decides; a group without taskset contradicts none.
            match = next((g for g in groups if wide.tasksets[g] == plain[id_]), None)
            if match is None:
                match = next((g for g in groups if wide.tasksets[g] is None), None)
            if match is None:
                ambiguous.append(f"{id_} ({', '.join(sorted(labels[g] for g in groups))})")
            else:
                labels[match] = id_
    if ambiguous:
        notes.append(f"ids in several tasksets, joined with none of them: {'; '.join(sorted(ambiguous))}")
    return labels


def _group_of_label(groups: Groups, labels: list[str], side: str) -> dict[str, int]:
    group_of = {label: group for group, label in enumerate(labels)}
    if len(group_of) < len(labels):
        group = next(group for group, label in enumerate(labels) if group_of[label] != group)
        twin = group_of[labels[group]]
        names = " and ".join(f"id {groups.ids[g]!r} of taskset {groups.tasksets[g]!r}" for g in (group, twin))
        raise CompareInputError(
            "E-SAME-LABEL",
            f"two tasks of the {side} side would both be called {labels[group]!r}: {names}; rename one of them",
        )
    return group_of
