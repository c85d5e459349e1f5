"""Comparing two sides: keys, join, classification, notes and findings (compare.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollout_assets.core.compare.advisor import KeyAdvice, advise, coarse_key_findings
from rollout_assets.core.compare.classify import Side, TaskComparison, Tasks
from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.compare.findings import Finding, Noise, noise_of_flips, side_findings
from rollout_assets.core.compare.join import ABSENT, Joined, join, taskset_of_group
from rollout_assets.core.compare.keys import ALL_KEYS, INPUT_DIGEST
from rollout_assets.core.compare.rows import strict_reward
from rollout_assets.core.compare.same_task import SameTask, Verdict
from rollout_assets.core.compare.table import FactTable, LabelPool
from rollout_assets.core.compare.task_key import Fallback, KeySource, TaskKeys, choose_keys

#: Gives the row that facts were taken from, for what facts do not hold: its keys and its verifier output.
WholeRow = Callable[[RowFacts], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class CompareResult:
    """What changed between two sides.

    Attributes:
        old_key: Task key of the old side.
        new_key: Task key of the new side.
        key_source: How the keys were found.
        old_rows: Rows of the old side, folded failures included.
        new_rows: Rows of the new side.
        old_masked_rows: Rows of the old side that do not count.
        new_masked_rows: Rows of the new side that do not count.
        old_prefix_stripped: Prefix that was taken off the labels of the old side, with its slash; None if none was.
        new_prefix_stripped: The same of the new side.
        keyed_by_taskset: Labels are `taskset/id` on both sides.
        tasks: The tasks in the order of their labels, then failures that name none.
        counts: The counts of compare.md §1.11.
        input_counts: Joined tasks by verdict on their inputs.
        notes: Sentences on how the sides were joined.
        findings: What may mislead in the result.
        noise: How many of the flips the repeats explain.
        key_advice: Every possible task key, with what it would distinguish.
        old_path: The old output, if it was read from a file.
        new_path: The new output, if it was read from a file.
        old_whole_row: Gives a whole row of the old side; None when rows are out of reach.
        new_whole_row: The same of the new side.
    """

    old_key: str
    new_key: str
    key_source: KeySource
    old_rows: int
    new_rows: int
    old_masked_rows: int
    new_masked_rows: int
    old_prefix_stripped: str | None
    new_prefix_stripped: str | None
    keyed_by_taskset: bool
    tasks: Tasks
    counts: dict[str, int]
    input_counts: dict[Verdict, int]
    notes: list[str]
    findings: list[Finding]
    noise: Noise
    key_advice: list[KeyAdvice]
    old_path: str | None = None
    new_path: str | None = None
    old_whole_row: WholeRow | None = field(default=None, repr=False)
    new_whole_row: WholeRow | None = field(default=None, repr=False)

    def finding_counts(self) -> dict[str, int]:
        """Number of findings by kind."""
        counts: dict[str, int] = {}
        for finding in self.findings:
            counts[finding.kind] = counts.get(finding.kind, 0) + 1
        return counts


def compare_rollouts(
    old_rows: Iterable[dict[str, Any]], new_rows: Iterable[dict[str, Any]], key: str | None = None
) -> CompareResult:
    """Compare two lists of rows by the reference's rules, newest generation.

    Args:
        old_rows: Rows of the reference side, as `load_rollouts` gives them.
        new_rows: Rows of the candidate side.
        key: Task key of both sides, dotted; detected when None.

    Returns:
        The result. Rows have no place in a file, so the lines in it are their positions from 1.

    Raises:
        CompareInputError: A reward is no number, no key is on every row, or there are no rows.
    """
    pool = LabelPool()
    old, new = list(old_rows), list(new_rows)
    return compare_facts(
        FactTable.of(_facts_of(old, "old", key), pool),
        FactTable.of(_facts_of(new, "new", key), pool),
        key,
        old_whole_row=lambda facts: old[facts.line - 1],
        new_whole_row=lambda facts: new[facts.line - 1],
    )


def compare_facts(
    old: Iterable[RowFacts],
    new: Iterable[RowFacts],
    key: str | None = None,
    *,
    fallback: Fallback = "off",
    old_whole_row: WholeRow | None = None,
    new_whole_row: WholeRow | None = None,
    notes: Sequence[str] = (),
) -> CompareResult:
    """`compare_rollouts` on facts that are folded already (`fold.fold`, `fold.load_facts`).

    Args:
        old: Facts of the reference side.
        new: Facts of the candidate side.
        key: Task key of both sides; one outside `keys.ALL_KEYS` must have been given when the facts were read.
        fallback: `auto` allows the keys of decision 10 where no candidate exists; the result says so.
        old_whole_row: Gives a whole row of the old side, for verifier output.
        new_whole_row: The same of the new side.
        notes: What else to say beside the result, after the notes of compare.md §1.12.

    Raises:
        CompareInputError: As `compare_rollouts` does.
        ValueError: The facts were not read for this key.
    """
    old_table = FactTable.of(old)
    new_table = FactTable.of(new, old_table.pool)
    for table in (old_table, new_table):
        _refuse_bad_rewards(table)
        if key is not None and key not in (*ALL_KEYS, INPUT_DIGEST) and len(table) and not table.has_extra_label:
            raise ValueError(f"the facts were read without the key {key!r}")
    keys = choose_keys(old_table, new_table, key, fallback)
    joined = join(
        old_table,
        new_table,
        keys,
        old_row=_row_reader(old_table, old_whole_row),
        new_row=_row_reader(new_table, new_whole_row),
    )
    if not joined.labels:
        raise CompareInputError("E-NO-KEY", f"no row of either side names a task under `{keys.old}`")
    same_task = SameTask(old_table, new_table, joined, keys)
    tasks = Tasks(old_table, new_table, joined, same_task)
    noise = noise_of_flips(tasks)
    advice = advise(old_table, joined.old, new_table, joined.new, keys)
    return CompareResult(
        old_key=keys.old,
        new_key=keys.new,
        key_source=keys.source,
        old_rows=len(old_table),
        new_rows=len(new_table),
        old_masked_rows=_masked_rows(old_table),
        new_masked_rows=_masked_rows(new_table),
        old_prefix_stripped=joined.old_prefix,
        new_prefix_stripped=joined.new_prefix,
        keyed_by_taskset=joined.keyed_by_taskset,
        tasks=tasks,
        counts=tasks.counts,
        input_counts=same_task.counts,
        notes=[*joined.notes, *_notes(old_table, new_table, joined, keys), *notes],
        findings=[
            *coarse_key_findings(advice),
            *_input_findings(same_task),
            *side_findings("old", old_table, joined),
            *side_findings("new", new_table, joined),
            *noise.within,
        ],
        noise=noise,
        key_advice=advice,
        old_path=old_table.path,
        new_path=new_table.path,
        old_whole_row=old_whole_row,
        new_whole_row=new_whole_row,
    )


def _facts_of(rows: Sequence[dict[str, Any]], side: Side, key: str | None) -> Iterator[RowFacts]:
    for position, row in enumerate(rows, 1):
        try:
            strict_reward(row)
        except CompareInputError as error:
            raise CompareInputError(error.code, f"{side} row {position}: {error.reason}", kind=error.kind) from None
        yield row_facts(row, line=position, key=key)


def _refuse_bad_rewards(table: FactTable) -> None:
    for row in range(len(table)):
        if table.signals(row).reward_state == "not_a_number":
            raise CompareInputError(
                "E-REWARD", f"{table.place(row)}: the reward is not a number; write a number or null"
            )


def _row_reader(table: FactTable, whole_row: WholeRow | None) -> Callable[[int], Mapping[str, Any]] | None:
    return None if whole_row is None else lambda row: whole_row(table[row])


def _masked_rows(table: FactTable) -> int:
    return sum(table.signals(row).mask_reason is not None for row in range(len(table)))


def _notes(old: FactTable, new: FactTable, joined: Joined, keys: TaskKeys) -> Iterator[str]:
    """The notes after those of the join (compare.md §1.12, decisions 6, 8 and 10)."""
    repeated = [
        label
        for label, old_group, new_group in zip(joined.labels, joined.old_groups, joined.new_groups, strict=True)
        if (old_group != ABSENT and len(joined.old.rows(old_group)) > 1)
        or (new_group != ABSENT and len(joined.new.rows(new_group)) > 1)
    ]
    if repeated:
        tasks = "1 task has" if len(repeated) == 1 else f"{len(repeated)} tasks have"
        yield f"{tasks} several rows on a side, compared on their mean: {', '.join(repeated)}"
    if not joined.keyed_by_taskset:
        differing = [
            f"{label} (old {a}, new {b})"
            for label, a, b in _named_tasksets(old, new, joined, keys)
            if a is not None and b is not None and a != b
        ]
        if differing:
            yield f"joined although the tasksets differ: {', '.join(differing)}"
    anonymous = len(joined.old.anonymous), len(joined.new.anonymous)
    if any(anonymous):
        yield (
            f"failures that name no task: {anonymous[0]} on the old side, {anonymous[1]} on the new; "
            "listed as unknown#<n>, masked"
        )
    if keys.source == "fallback":
        what = "the digest of its input" if keys.old == INPUT_DIGEST else f"`{keys.old}`"
        yield f"not both sides name their tasks, so each is known by {what}: a fallback, no id"


def _named_tasksets(
    old: FactTable, new: FactTable, joined: Joined, keys: TaskKeys
) -> Iterator[tuple[str, str | None, str | None]]:
    if not old.tasksets(keys.old) or not new.tasksets(keys.new):
        return
    for label, old_group, new_group in zip(joined.labels, joined.old_groups, joined.new_groups, strict=True):
        if ABSENT not in (old_group, new_group):
            yield (
                label,
                taskset_of_group(old, joined.old, old_group, keys.old),
                taskset_of_group(new, joined.new, new_group, keys.new),
            )


def _input_findings(same_task: SameTask) -> Iterator[Finding]:
    for label in same_task.labels("different"):
        yield Finding("inputs_differ", None, label, "the two sides were given different inputs under one name")
    for label in same_task.labels("not_distinguishable"):
        detail = "equal inputs prove nothing here: several tasks of a side share them"
        yield Finding("not_distinguishable", None, label, detail)


__all__ = ["CompareResult", "TaskComparison", "WholeRow", "compare_facts", "compare_rollouts"]
