"""Findings beside the result: what may mislead in it, without changing any category (compare.md, decision 12)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from rollout_assets.core.compare.classify import Side, Tasks
from rollout_assets.core.compare.facts import RowFacts
from rollout_assets.core.compare.join import ABSENT, Joined
from rollout_assets.core.compare.sides import exact_mean, sample_variance
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.records.paths import File

FindingKind = Literal[
    "odd_mask_value",
    "coarse_key",
    "duplicate_rollout",
    "partly_masked",
    "late_attempt",
    "inputs_differ",
    "not_distinguishable",
    "within_noise",
]

#: A flip within this many standard errors of the difference of two means is within the noise of the repeats.
NOISE_STANDARD_ERRORS = 2.0


class Finding(NamedTuple):
    """One thing to know about one task.

    Attributes:
        kind: What it is.
        side: The side it is about; None when it is about both.
        task: Label of the task; None when it is about all of them.
        detail: A sentence for a person.
        lines: Lines of the rows it is about, where these are few.
        files: The file that each of these lines is in; empty for rows in memory, whose lines are positions.
    """

    kind: FindingKind
    side: Side | None
    task: str | None
    detail: str
    lines: tuple[int, ...] = ()
    files: tuple[File, ...] = ()


def side_findings(side: Side, table: FactTable, joined: Joined) -> Iterator[Finding]:
    """Odd mask values, duplicate rollouts and partly masked tasks of one side, in the order of the tasks."""
    groups, numbers = (joined.old, joined.old_groups) if side == "old" else (joined.new, joined.new_groups)
    for label, group in zip(joined.labels, numbers, strict=True):
        if group != ABSENT and _is_worth_a_look(table, groups.rows(group)):
            rows = [table[row] for row in groups.rows(group)]
            yield from _odd_masks(side, label, rows)
            yield from _duplicates(side, label, rows)
            yield from _partly_masked(side, label, rows)
    for kept, later in table.late_attempts:
        yield Finding(
            "late_attempt",
            side,
            None,
            f"of two failures of one attempt identity the last line stands (attempt {kept.attempt_index}), "
            f"though line {later.line} has the later attempt {later.attempt_index}",
            *_places([kept, later]),
        )


def _is_worth_a_look(table: FactTable, rows: Sequence[int]) -> bool:
    """Whether any of the three findings applies to a task; most tasks have none, and this is cheap to tell."""
    if len(rows) == 1:
        return table.signals(rows[0]).odd_mask_value
    signals = [table.signals(row) for row in rows]
    masked = sum(row.mask_reason is not None for row in signals)
    rollouts = [
        (table.task_index(row), s.rollout_index)
        for row, s in zip(rows, signals, strict=True)
        if s.rollout_index is not None and s.file == "output"
    ]
    return any(row.odd_mask_value for row in signals) or 0 < masked < len(rows) or len(set(rollouts)) < len(rollouts)


def _odd_masks(side: Side, label: str, rows: list[RowFacts]) -> Iterator[Finding]:
    odd = [row for row in rows if row.odd_mask_value]
    if odd:
        detail = f"{len(odd)} of {len(rows)} rows have a mask_sample that masks them but is not true"
        yield Finding("odd_mask_value", side, label, detail, *_places(odd))


def _duplicates(side: Side, label: str, rows: list[RowFacts]) -> Iterator[Finding]:
    """Output rows of one task with the same rollout index: one rollout saved twice counts as two repeats."""
    first: dict[tuple[object, object], RowFacts] = {}
    for row in rows:
        if row.file == "output" and row.rollout_index is not None:
            identity = (row.task_index, row.rollout_index)
            before = first.setdefault(identity, row)
            if before is not row:
                detail = f"rollout index {row.rollout_index} occurs again: both rows enter the mean"
                yield Finding("duplicate_rollout", side, label, detail, *_places([before, row]))


def _partly_masked(side: Side, label: str, rows: list[RowFacts]) -> Iterator[Finding]:
    counting = [row.reward for row in rows if row.mask_reason is None and row.reward is not None]
    masked = [row for row in rows if row.mask_reason is not None]
    if counting and masked:
        detail = (
            f"{len(masked)} of {len(rows)} rows are masked, so the task is; "
            f"the mean of the other {len(counting)} is {exact_mean(counting)!r}"
        )
        yield Finding("partly_masked", side, label, detail, *_places(masked))


def _places(rows: Sequence[RowFacts]) -> tuple[tuple[int, ...], tuple[File, ...]]:
    """The lines of rows, and the file that each is in; rows in memory, which have no length, are in none."""
    return tuple(row.line for row in rows), tuple(row.file for row in rows if row.length)


class Noise(NamedTuple):
    """What the repeats say of the flips: means are compared with no notion of noise (§1.17, defect 13).

    Attributes:
        flips: Flips of both kinds.
        estimated: Flips with repeats on both sides, for which a standard error exists.
        within: Of these, the ones within the noise, each as a finding.
    """

    flips: int
    estimated: int
    within: list[Finding]


def noise_of_flips(tasks: Tasks) -> Noise:
    """Tell the flips that the spread of the repeats explains from those it does not."""
    estimated, within = 0, []
    for label, old, new in tasks.repeated_flips():
        error = standard_error(old, new)
        if error is None:
            continue
        estimated += 1
        difference = abs((exact_mean(new) or 0.0) - (exact_mean(old) or 0.0))
        if difference <= NOISE_STANDARD_ERRORS * error:
            detail = (
                f"the means differ by {difference:.4g}, within {NOISE_STANDARD_ERRORS:g} standard errors "
                f"({error:.4g} each) of the repeats"
            )
            within.append(Finding("within_noise", None, label, detail))
    return Noise(tasks.counts["flipped"] + tasks.counts["flipped_agent_error"], estimated, within)


def standard_error(old: Sequence[float], new: Sequence[float]) -> float | None:
    """Standard error of the difference of two means, from the spread of the values; None below two values a side."""
    old_variance, new_variance = sample_variance(old), sample_variance(new)
    if old_variance is None or new_variance is None:
        return None
    return math.sqrt(old_variance / len(old) + new_variance / len(new))
