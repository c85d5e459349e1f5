"""All that a comparison needs of one row, without the row (architecture.md §3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from rollout_assets.core.compare.digest import input_digest
from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.keys import ALL_KEYS, TASK_INDEX, identity_of, identity_of_value, number_or_none
from rollout_assets.core.compare.rows import (
    SIDECAR_FLAG,
    StrPath,
    agent_error,
    failure_class,
    failure_kind,
    has_odd_mask,
    is_evidence,
    read_rows,
    reason_of_mask,
    sidecar_path,
    strict_reward,
)
from rollout_assets.core.jsonl import Row
from rollout_assets.core.records.outcomes import elapsed_seconds
from rollout_assets.core.records.paths import File

RewardState = Literal["number", "absent", "non_finite", "not_a_number"]


class RowFacts(NamedTuple):
    """One row of an output or a sidecar, reduced to what the comparison rules read.

    Attributes:
        file: Whether the row is in the output or in its sidecar of failures.
        line: Line number from 1, blank lines counted; of rows in memory, the position from 1.
        offset: Byte offset of the row in its file.
        length: Bytes of the row, with its LF if it has one.
        task_index: `_ng_task_index` where it is a finite number.
        rollout_index: `_ng_rollout_index` where it is a finite number.
        attempt_index: `_ng_attempt_index` where it is a finite number.
        labels: The label under each key of `ALL_KEYS`, in that order; one more when the rows were read for another key.
        tasksets: Key -> taskset, of the keys whose value is an object that names one; None when there is none.
        reward: The reward; non-finite values are kept, so that they can be named.
        reward_state: What `reward` is.
        mask_sample: Whether `mask_sample` is truthy.
        mask_reason: Why the row does not count; None when it counts.
        odd_mask_value: `mask_sample` is truthy but not `true`.
        failure_kind: `failure_kind` as text; None when not set.
        failure_class: `_ng_failure_class` as text; None when not set.
        evidence: An evidence row (`_ng_omitted_rollout`); only in sidecars has this a meaning.
        agent_error: An error that the agent reports, at most 127 characters.
        elapsed_seconds: Seconds the rollout took; a positive finite number.
        input_tokens: `response.usage.input_tokens`.
        output_tokens: `response.usage.output_tokens`.
        model: `response.model`.
        input_digest: `digest.input_digest` of the row, or the digest of its inventory row.
    """

    file: File
    line: int
    offset: int
    length: int
    task_index: int | float | None
    rollout_index: int | float | None
    attempt_index: int | float | None
    labels: tuple[str | None, ...]
    tasksets: dict[str, str] | None
    reward: float | None
    reward_state: RewardState
    mask_sample: bool
    mask_reason: str | None
    odd_mask_value: bool
    failure_kind: str | None
    failure_class: str | None
    evidence: bool
    agent_error: str | None
    elapsed_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    model: str | None
    input_digest: str | None


def row_facts(
    row: Mapping[str, Any],
    *,
    file: File = "output",
    line: int = 1,
    offset: int = 0,
    length: int = 0,
    key: str | None = None,
) -> RowFacts:
    """The facts of a row, whole or projected; never raises for what the row holds.

    Args:
        row: The row.
        file: The file it is in; a row that `load_rollouts` folded in is `failures` whatever is said here.
        line: Its line number from 1.
        offset: Its byte offset.
        length: Its bytes, LF included.
        key: A key outside `ALL_KEYS` whose label to keep as well; needs the whole row.
    """
    reward, reward_state = reward_and_state(row)
    masked = bool(row.get("mask_sample"))
    kind = failure_kind(row)
    labels, tasksets = _labels_and_tasksets(row, key)
    return RowFacts(  # by position: this is called for every row of every run
        "failures" if row.get(SIDECAR_FLAG) is True else file,
        line,
        offset,
        length,
        number_or_none(row.get(TASK_INDEX)),
        number_or_none(row.get("_ng_rollout_index")),
        number_or_none(row.get("_ng_attempt_index")),
        labels,
        tasksets,
        reward,
        reward_state,
        masked,
        reason_not_counted(masked, kind, reward, reward_state),
        has_odd_mask(row),
        kind,
        failure_class(row),
        is_evidence(row),
        agent_error(row),
        elapsed_seconds(row),
        used_tokens(row, "input_tokens"),
        used_tokens(row, "output_tokens"),
        model(row),
        input_digest(row),
    )


def read_facts(path: StrPath, *, key: str | None = None) -> Iterator[RowFacts]:
    """Yield the facts of every row of an output, then of its sidecar; one row is in memory at a time.

    The rows are not folded yet: `fold.fold` does that.

    Raises:
        CompareInputError: As `load_rollouts` does.
    """
    yield from (_facts_of(row, "output", key) for row in _rows_for(path, key))
    sidecar = sidecar_path(path)
    if sidecar is not None:
        yield from (_facts_of(row, "failures", key) for row in _rows_for(sidecar, key))


def _rows_for(path: StrPath, key: str | None) -> Iterator[Row]:
    return read_rows(path, whole_rows=key is not None and key not in ALL_KEYS)


def _facts_of(row: Row, file: File, key: str | None) -> RowFacts:
    return row_facts(row.fields, file=file, line=row.line, offset=row.offset, length=row.length, key=key)


def reward_and_state(row: Mapping[str, Any]) -> tuple[float | None, RewardState]:
    """The reward of a row and what it is; None for what is no number."""
    try:
        reward = strict_reward(row)
    except CompareInputError:
        return None, "not_a_number"
    if reward is None:
        return None, "absent"
    return reward, "number" if math.isfinite(reward) else "non_finite"


def reason_not_counted(masked: bool, kind: str | None, reward: float | None, state: RewardState) -> str | None:
    """Why a row does not count (compare.md §1.8); one whose reward is no number does not either."""
    return reason_of_mask(masked, kind, reward) if masked or state != "not_a_number" else "reward is not a number"


def used_tokens(row: Mapping[str, Any], name: str) -> int | None:
    """The integer `response.usage.<name>`."""
    value = _object(_object(row.get("response")).get("usage")).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def model(row: Mapping[str, Any]) -> str | None:
    """The text `response.model`."""
    value = _object(row.get("response")).get("model")
    return value if isinstance(value, str) else None


def _labels_and_tasksets(
    row: Mapping[str, Any], key: str | None
) -> tuple[tuple[str | None, ...], dict[str, str] | None]:
    labels: list[str | None] = [None] * len(ALL_KEYS)
    tasksets: dict[str, str] = {}
    for position, name, first, second in _KEY_PLACES:
        value = row.get(first)
        if value is None or (second and (value := _object(value).get(second)) is None):
            continue  # rows lack most keys
        labels[position], taskset = identity_of_value(value, name)
        if taskset is not None:
            tasksets[name] = taskset
    if key is not None and key not in ALL_KEYS:
        label, taskset = identity_of(row, key)
        labels.append(label)
        if taskset is not None:
            tasksets[key] = taskset
    return tuple(labels), tasksets or None


#: Each key with its place among the labels and the one or two names of its path.
_KEY_PLACES: Final = tuple((place, key, *key.partition(".")[::2]) for place, key in enumerate(ALL_KEYS))
_NOTHING: Final[Mapping[str, Any]] = {}


def _object(value: Any) -> Mapping[str, Any]:
    """An object as it is; what is no object has no members."""
    return value if isinstance(value, dict) else _NOTHING
