"""Proof that joined tasks are the same task: their input digests (compare.md, decision 11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal

from rollout_assets.core.compare.groups import Groups
from rollout_assets.core.compare.join import ABSENT, Joined
from rollout_assets.core.compare.keys import INPUT_DIGEST
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.compare.task_key import TaskKeys

#: `equal`: the same input, proven. `different`: not the same task, whatever the key says. `not_distinguishable`: equal
#: inputs that several tasks of a side share, which proves nothing. `unknown`: a side carries no input.
Verdict = Literal["equal", "different", "not_distinguishable", "unknown"]

VERDICTS: Final[tuple[Verdict, ...]] = ("equal", "different", "not_distinguishable", "unknown")
_MISSING: Final = len(VERDICTS)


class SameTask:
    """A verdict on the inputs of every joined task.

    Attributes:
        counts: Number of joined tasks by verdict.
    """

    def __init__(self, old: FactTable, new: FactTable, joined: Joined, keys: TaskKeys) -> None:
        """Compare the input digests of all joined tasks."""
        self._old, self._new, self._joined = old, new, joined
        self._joined_by_digest = keys.old == INPUT_DIGEST
        self._shared = _shared_digests(old, joined.old) | _shared_digests(new, joined.new)
        self._verdicts = bytearray(self._judge(task) for task in range(len(joined.labels)))
        self.counts: dict[Verdict, int] = {
            verdict: self._verdicts.count(number) for number, verdict in enumerate(VERDICTS)
        }

    def verdict(self, task: int) -> Verdict | None:
        """The verdict on a task by its position in `Joined.labels`; None where a side is missing."""
        number = self._verdicts[task]
        return None if number == _MISSING else VERDICTS[number]

    def labels(self, verdict: Verdict) -> Iterator[str]:
        """The tasks with this verdict, in order."""
        wanted = VERDICTS.index(verdict)
        return (self._joined.labels[task] for task, number in enumerate(self._verdicts) if number == wanted)

    def _judge(self, task: int) -> int:
        old_group, new_group = self._joined.old_groups[task], self._joined.new_groups[task]
        if ABSENT in (old_group, new_group):
            return _MISSING
        old_rows, new_rows = self._joined.old.rows(old_group), self._joined.new.rows(new_group)
        old_digests, new_digests = _digests(self._old, old_rows), _digests(self._new, new_rows)
        if not old_digests or not new_digests:
            return VERDICTS.index("unknown")
        if old_digests != new_digests:
            return VERDICTS.index("different")
        if not old_digests.isdisjoint(self._shared) or (self._joined_by_digest and self._indices_differ(task)):
            return VERDICTS.index("not_distinguishable")
        return VERDICTS.index("equal")

    def _indices_differ(self, task: int) -> bool:
        """Whether the two sides number the task differently, so that it may be two tasks with one prompt."""
        old, new = (
            {table.task_index(row) for row in groups.rows(group)} - {None}
            for table, groups, group in (
                (self._old, self._joined.old, self._joined.old_groups[task]),
                (self._new, self._joined.new, self._joined.new_groups[task]),
            )
        )
        return bool(old) and bool(new) and old != new


def _digests(table: FactTable, rows: Sequence[int]) -> set[bytes]:
    return {digest for row in rows if (digest := table.digest_bytes(row)) is not None}


def _shared_digests(table: FactTable, groups: Groups) -> set[bytes]:
    """Digests that a side has under several tasks, or under several task indices."""
    held: list[bytes | None] = []
    for group in range(len(groups)):
        rows = groups.rows(group)
        if len(rows) == 1:
            held.append(table.digest_bytes(rows[0]))
        else:
            held += (digest for digest, _ in {(table.digest_bytes(row), table.task_index(row)) for row in rows})
    known = sorted(digest for digest in held if digest is not None)
    return {digest for digest, following in pairwise(known) if digest == following}
