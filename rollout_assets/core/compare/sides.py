"""One task on one side: its rows together (compare.md §1.9)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.compare.rows import strict_reward


class TaskSide(NamedTuple):
    """All rows of one task on one side, reduced to what the comparison shows.

    Attributes:
        rows: Number of rows.
        reward_rows: Rows with a finite reward.
        reward: Mean of the finite rewards, masked rows included; None when there are none.
        minimum: Least finite reward.
        maximum: Greatest finite reward.
        variance: Sample variance of the finite rewards; None below two of them.
        masked: Why the task is masked: the reason of its row, or `<k>/<n> rows masked: <first reason>`; else None.
        masked_rows: Rows that do not count.
        measured_reward: Mean reward of the rows that count; None when there are none.
        agent_error: First agent error.
        failure_kind: First failure kind of a row that counts.
        input_digest: Digest of the input, when all rows have the same.
        input_tokens: Sum over the rows that report it.
        output_tokens: Sum over the rows that report it.
        elapsed_seconds: Sum over the rows that report it.
        worst: The row with the least finite reward; the first one of several, and the first row when none has one.
        facts: The rows, in file order.
    """

    rows: int
    reward_rows: int
    reward: float | None
    minimum: float | None
    maximum: float | None
    variance: float | None
    masked: str | None
    masked_rows: int
    measured_reward: float | None
    agent_error: str | None
    failure_kind: str | None
    input_digest: str | None
    input_tokens: int | None
    output_tokens: int | None
    elapsed_seconds: float | None
    worst: RowFacts
    facts: tuple[RowFacts, ...]


def summarize_side(rows: Iterable[Mapping[str, Any]]) -> TaskSide:
    """Reduce the rows of one task to a `TaskSide`.

    Args:
        rows: At least one row, as `load_rollouts` gives them.

    Raises:
        CompareInputError: The reward of a row is no number.
    """
    rows = list(rows)
    for row in rows:
        strict_reward(row)
    return summarize_facts([row_facts(row, line=position) for position, row in enumerate(rows, 1)])


def summarize_facts(facts: Sequence[RowFacts]) -> TaskSide:
    """`summarize_side` on facts."""
    rewards = [row.reward for row in facts if row.reward is not None and row.reward_state == "number"]
    counting = [row for row in facts if row.mask_reason is None]
    masks = [row.mask_reason for row in facts if row.mask_reason is not None]
    elapsed = [row.elapsed_seconds for row in facts if row.elapsed_seconds is not None]
    digests = {row.input_digest for row in facts}
    return TaskSide(
        rows=len(facts),
        reward_rows=len(rewards),
        reward=exact_mean(rewards),
        minimum=min(rewards, default=None),
        maximum=max(rewards, default=None),
        variance=sample_variance(rewards),
        masked=side_mask(len(facts), masks),
        masked_rows=len(masks),
        measured_reward=exact_mean([row.reward for row in counting if row.reward is not None]),
        agent_error=next((row.agent_error for row in facts if row.agent_error is not None), None),
        failure_kind=next((row.failure_kind for row in counting if row.failure_kind is not None), None),
        input_digest=next(iter(digests)) if len(digests) == 1 else None,
        input_tokens=_sum(row.input_tokens for row in facts),
        output_tokens=_sum(row.output_tokens for row in facts),
        elapsed_seconds=_finite_sum(elapsed) if elapsed else None,
        worst=min(facts, key=_worst_first),
        facts=tuple(facts),
    )


def side_mask(rows: int, masks: Sequence[str]) -> str | None:
    """Why a side is masked: any masked row masks it (compare.md §1.9)."""
    if not masks:
        return None
    return masks[0] if rows == 1 else f"{len(masks)}/{rows} rows masked: {masks[0]}"


def exact_mean(values: Sequence[float]) -> float | None:
    """The correctly rounded mean; it cannot overflow (decision 13)."""
    if len(values) < 2:
        return values[0] if values else None
    if all(value.is_integer() and abs(value) < _EXACT_SUMMANDS for value in values):
        # The sum of such values is exact, and one division rounds correctly.
        return sum(values) / len(values)
    return float(sum(map(Fraction, values)) / len(values))


#: Whole numbers below this, a million of them, have an exact sum as doubles.
_EXACT_SUMMANDS: Final = 2.0**32


def sample_variance(values: Sequence[float]) -> float | None:
    """The unbiased variance; None below two values, or when no double holds it."""
    mean = exact_mean(values)
    if mean is None or len(values) < 2:
        return None
    return _finite_sum((value - mean) * (value - mean) / (len(values) - 1) for value in values)


def _worst_first(row: RowFacts) -> float:
    """Order of badness: the least finite reward first, rows without one last (compare.md §1.13)."""
    return row.reward if row.reward is not None and row.reward_state == "number" else math.inf


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _finite_sum(values: Iterable[float]) -> float | None:
    try:
        total = math.fsum(values)
    except OverflowError:
        return None
    return total if math.isfinite(total) else None
