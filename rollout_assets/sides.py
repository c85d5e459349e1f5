"""One run as a side of a comparison: its standing rows by task, as the table `task_sides`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rollout_assets.core.compare.advisor import KeyAdvice, advise
from rollout_assets.core.compare.groups import Groups, group_rows
from rollout_assets.core.compare.join import taskset_of_group
from rollout_assets.core.compare.sides import TaskSide, summarize_facts
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.compare.task_key import KeySource, TaskKeys, choose_keys
from rollout_assets.tables import TASK_SIDES


@dataclass(frozen=True)
class Sides:
    """The table `task_sides` of a run, how its tasks are named, and what other keys would tell apart."""

    table: pa.Table
    key: str
    key_source: KeySource
    key_advice: list[KeyAdvice]


def summarize_run(facts: FactTable, key: str | None) -> Sides:
    """Group the standing rows of a run by task and summarise each.

    The key is found as for a comparison of this run with nothing: asked for, else detected, else a fallback.

    Raises:
        CompareInputError: No key names the tasks of the run.
    """
    nothing = FactTable()
    keys = choose_keys(facts, nothing, key, "auto")
    groups = group_rows(facts, keys.old, with_taskset=len(facts.tasksets(keys.old)) > 1)
    rows = [_record(label, taskset, side, keys) for label, taskset, side in _tasks(facts, groups, keys.old)]
    return Sides(
        TASK_SIDES.build(sorted(rows, key=lambda row: row["task"])),
        keys.old,
        keys.source,
        advise(facts, groups, nothing, group_rows(nothing, keys.old, with_taskset=False), keys),
    )


def _tasks(facts: FactTable, groups: Groups, key: str) -> Iterator[tuple[str, str | None, TaskSide]]:
    for group in range(len(groups)):
        side = summarize_facts([facts[row] for row in groups.rows(group)])
        yield groups.label(group), taskset_of_group(facts, groups, group, key), side
    for number, row in enumerate(groups.anonymous, 1):
        yield f"unknown#{number}", None, summarize_facts([facts[row]])


def _record(label: str, taskset: str | None, side: TaskSide, keys: TaskKeys) -> dict[str, Any]:
    return {
        "task": label,
        "task_key": keys.old,
        "key_source": keys.source,
        "taskset": taskset,
        "input_digest": side.input_digest,
        "rows": side.rows,
        "reward_rows": side.reward_rows,
        "reward_mean": side.reward,
        "reward_min": side.minimum,
        "reward_max": side.maximum,
        "reward_variance": side.variance,
        "masked": side.masked,
        "masked_rows": side.masked_rows,
        "agent_error": side.agent_error,
        "failure_kind": side.failure_kind,
        "input_tokens": side.input_tokens,
        "output_tokens": side.output_tokens,
        "elapsed_seconds": side.elapsed_seconds,
        "worst_file": side.worst.file,
        "worst_line": side.worst.line,
        "worst_offset": side.worst.offset,
        "worst_length": side.worst.length,
    }
