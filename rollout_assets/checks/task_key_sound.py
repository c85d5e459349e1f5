"""The check `task_key_sound`: the key that names tasks is an id, and tells apart what differs."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rollout_assets.checks.partitioned import check_result, partitioned_check
from rollout_assets.core.compare.advisor import KeyAdvice, finer_keys
from rollout_assets.core.compare.keys import INPUT_DIGEST
from rollout_assets.core.text import counted
from rollout_assets.sides import Sides

TASK_KEY_SOUND = partitioned_check(
    "task_key_sound",
    "task_sides",
    blocking=False,
    description="Tasks are named by an id, not by a stand-in like the task index, and no task holds rows with "
    "different ids or inputs. Otherwise a comparison may join what are two tasks, and a mean may hide opposite "
    "changes.",
)


def task_key_sound(sides: Sides) -> dg.AssetCheckResult:
    """The result for a run: about the key that was used, and the other keys that its rows carry."""
    finer = finer_keys(sides.key_advice)
    unnamed = sum(task.startswith("unknown#") for task in sides.table["task"].to_pylist())
    figures = {
        "task_key": sides.key,
        "key_source": sides.key_source,
        "tasks": sides.table.num_rows,
        "failures_without_task": unnamed,
        "total": max((entry.split_tasks for entry in finer), default=0),
    }
    problems = []
    if sides.key_source == "fallback":
        if sides.key == INPUT_DIGEST:
            what = (
                "the digest of its input: a task with another prompt is not found again, and equal inputs are one task"
            )
        else:
            what = f"`{sides.key}`: two runs with other data or another order would be joined wrongly, or not at all"
        problems.append(
            f"No row names its task, so each is known by {what}. Have the producer write `_ng_task_id` or `task_id`."
        )
    if finer:
        told = ", ".join(
            f"{counted(entry.split_tasks, 'task')} with several values of `{entry.key}`" for entry in finer
        )
        problems.append(
            f"The key `{sides.key}` is coarse: {told}. If these are different tasks, name a finer key in the policy, "
            f"such as `key: {finer[0].key}`."
        )
    if not problems:
        text = f"{counted(sides.table.num_rows, 'task')}, named by `{sides.key}` ({sides.key_source})."
        return check_result(TASK_KEY_SOUND, text, passed=True, metadata=figures)
    places = [_place(entry) for entry in sides.key_advice]
    return check_result(TASK_KEY_SOUND, " ".join(problems), passed=False, metadata=figures, places=places)


def _place(entry: KeyAdvice) -> dict[str, Any]:
    return {
        "key": entry.key,
        "used": entry.chosen,
        "distinct values": entry.old_values,
        "on every row": entry.on_every_row,
        "tasks with several values": entry.split_tasks,
    }
