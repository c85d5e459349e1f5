"""The category of a task, and the tasks of a comparison (compare.md §1.10, §1.11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, Literal, NamedTuple, Protocol, overload

from rollout_assets.core.compare.groups import Groups
from rollout_assets.core.compare.join import ABSENT, Joined
from rollout_assets.core.compare.same_task import SameTask, Verdict
from rollout_assets.core.compare.sides import TaskSide, exact_mean, side_mask, summarize_facts
from rollout_assets.core.compare.table import FactTable

Category = Literal["identical", "flipped", "flipped_agent_error", "masked", "missing"]
Side = Literal["old", "new"]

CATEGORIES: Final[tuple[Category, ...]] = ("identical", "flipped", "flipped_agent_error", "masked", "missing")
FLIPS: Final[tuple[Category, ...]] = ("flipped", "flipped_agent_error")
COUNTS: Final = (
    "tasks",
    "identical",
    "flipped",
    "flipped_old_win",
    "flipped_new_win",
    "flipped_agent_error",
    "masked",
    "masked_old",
    "masked_new",
    "missing",
    "missing_old_only",
    "missing_new_only",
)
#: Rewards that differ by no more than this agree; absolute, inclusive.
TOLERANCE: Final = 1e-9


class TaskComparison(NamedTuple):
    """One task of a comparison.

    Attributes:
        task: Its label; `unknown#<n>` for a failure that names no task.
        category: What became of it.
        winner: The side with the higher reward, for both kinds of flips.
        old: The old side, or None where the task is missing.
        new: The new side, or None where the task is missing.
        inputs: Whether both sides were given the same input; None where a side is missing.
    """

    task: str
    category: Category
    winner: Side | None
    old: TaskSide | None
    new: TaskSide | None
    inputs: Verdict | None

    @property
    def difference(self) -> float | None:
        """New mean reward minus old, where both are known."""
        if self.old is None or self.new is None or self.old.reward is None or self.new.reward is None:
            return None
        return self.new.reward - self.old.reward


class Outcome(Protocol):
    """What the category depends on; `TaskSide` has it."""

    @property
    def reward(self) -> float | None:
        """Mean reward."""

    @property
    def masked(self) -> str | None:
        """Why the side is masked."""

    @property
    def agent_error(self) -> str | None:
        """First agent error."""


class _Outcome(NamedTuple):
    reward: float | None
    masked: str | None
    agent_error: str | None


def classify(old: Outcome | None, new: Outcome | None) -> Category:
    """The category of a task, first match (compare.md §1.10)."""
    if old is None or new is None:
        return "missing"
    # An unmasked side has a reward; asking for it again tells the type checker.
    if old.masked is not None or new.masked is not None or old.reward is None or new.reward is None:
        return "masked"
    if abs(old.reward - new.reward) <= TOLERANCE:
        return "identical"
    return "flipped" if old.agent_error is None and new.agent_error is None else "flipped_agent_error"


def winner_of(category: Category, old: Outcome | None, new: Outcome | None) -> Side | None:
    """The side with the higher mean, if the task flipped."""
    if category not in FLIPS or old is None or new is None or old.reward is None or new.reward is None:
        return None
    return "old" if old.reward > new.reward else "new"


class Tasks(Sequence[TaskComparison]):
    """The tasks of a comparison in the order of their labels, then the anonymous failures, old side first.

    Only the category of each is held; the rest is put together from the facts when a task is asked for.

    Attributes:
        counts: The counts of compare.md §1.11, in its order.
    """

    def __init__(self, old: FactTable, new: FactTable, joined: Joined, same_task: SameTask) -> None:
        """Classify all tasks of two joined sides."""
        self._tables = (old, new)
        self._joined = joined
        self._same_task = same_task
        self._anonymous = list(_anonymous(joined))
        self._categories = bytearray()
        self.counts = dict.fromkeys(COUNTS, 0)
        for task in range(len(joined.labels)):
            old_outcome, new_outcome = (
                None if group == ABSENT else _outcome(table, groups.rows(group))
                for table, groups, group in self._groups(task)
            )
            self._add(classify(old_outcome, new_outcome), old_outcome, new_outcome)
        for _, side, row in self._anonymous:
            outcome = _outcome(self._table(side), [row])
            self._add("masked", *((outcome, None) if side == "old" else (None, outcome)))

    def _add(self, category: Category, old: Outcome | None, new: Outcome | None) -> None:
        self._categories.append(CATEGORIES.index(category))
        self.counts["tasks"] += 1
        self.counts[category] += 1
        if category == "flipped":
            self.counts[f"flipped_{winner_of(category, old, new)}_win"] += 1
        elif category == "masked":
            self.counts["masked_old"] += old is not None and old.masked is not None
            self.counts["masked_new"] += new is not None and new.masked is not None
        elif category == "missing":
            self.counts["missing_new_only" if old is None else "missing_old_only"] += 1

    def __len__(self) -> int:
        return len(self._categories)

    @overload
    def __getitem__(self, task: int) -> TaskComparison: ...
    @overload
    def __getitem__(self, task: slice) -> list[TaskComparison]: ...
    def __getitem__(self, task: int | slice) -> TaskComparison | list[TaskComparison]:
        if isinstance(task, slice):
            return [self[i] for i in range(*task.indices(len(self)))]
        if not -len(self) <= task < len(self):
            raise IndexError(task)
        task %= len(self)
        named = len(self._joined.labels)
        if task >= named:
            return self._anonymous_task(*self._anonymous[task - named])
        old, new = (
            None if group == ABSENT else summarize_facts([table[row] for row in groups.rows(group)])
            for table, groups, group in self._groups(task)
        )
        category = self.category(task)
        return TaskComparison(
            self._joined.labels[task], category, winner_of(category, old, new), old, new, self._same_task.verdict(task)
        )

    def __iter__(self) -> Iterator[TaskComparison]:
        return (self[task] for task in range(len(self)))

    def category(self, task: int) -> Category:
        """The category of a task, by its position."""
        return CATEGORIES[self._categories[task]]

    def of(self, *categories: Category) -> Iterator[TaskComparison]:
        """The tasks of these categories, in order."""
        wanted = {CATEGORIES.index(category) for category in categories}
        return (self[task] for task, category in enumerate(self._categories) if category in wanted)

    def repeated_flips(self) -> Iterator[tuple[str, list[float], list[float]]]:
        """The flips of both kinds with several rows on both sides, in order: label and finite rewards of each side."""
        wanted = {CATEGORIES.index(category) for category in FLIPS}
        for task, category in enumerate(self._categories):
            if category in wanted:
                old, new = (_rewards(table, groups.rows(group)) for table, groups, group in self._groups(task))
                if len(old) > 1 and len(new) > 1:
                    yield self._joined.labels[task], old, new

    def _table(self, side: Side) -> FactTable:
        return self._tables[0 if side == "old" else 1]

    def _groups(self, task: int) -> tuple[tuple[FactTable, Groups, int], ...]:
        joined = self._joined
        return (
            (self._tables[0], joined.old, joined.old_groups[task]),
            (self._tables[1], joined.new, joined.new_groups[task]),
        )

    def _anonymous_task(self, label: str, side: Side, row: int) -> TaskComparison:
        failure = summarize_facts([self._table(side)[row]])
        old, new = (failure, None) if side == "old" else (None, failure)
        return TaskComparison(label, "masked", None, old, new, None)


def _outcome(table: FactTable, rows: Sequence[int]) -> Outcome:
    """The outcome of `summarize_facts`, without the facts: most tasks are looked at for nothing else."""
    if len(rows) == 1:
        only = table.signals(rows[0])
        return _Outcome(table.finite_reward(rows[0]), only.mask_reason, only.agent_error)
    signals = [table.signals(row) for row in rows]
    masks = [s.mask_reason for s in signals if s.mask_reason is not None]
    return _Outcome(
        exact_mean(_rewards(table, rows)),
        side_mask(len(signals), masks),
        next((s.agent_error for s in signals if s.agent_error is not None), None),
    )


def _rewards(table: FactTable, rows: Sequence[int]) -> list[float]:
    return [reward for row in rows if (reward := table.finite_reward(row)) is not None]


def _anonymous(joined: Joined) -> Iterator[tuple[str, Side, int]]:
    """The failures that name no task: label, side and row; labels that a task has are skipped (decision 6)."""
    taken = {label for label in joined.labels if label.startswith("unknown#")}
    labels = (f"unknown#{number}" for number in count(1))
    free = (label for label in labels if label not in taken)
    yield from ((next(free), "old", row) for row in joined.old.anonymous)
    yield from ((next(free), "new", row) for row in joined.new.anonymous)
