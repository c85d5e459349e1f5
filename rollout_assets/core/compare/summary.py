"""The JSON summary (compare.md §1.15): the reference's fields, and beside them where everything is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rollout_assets.core.compare.classify import TaskComparison
from rollout_assets.core.compare.compare import CompareResult
from rollout_assets.core.compare.facts import RowFacts
from rollout_assets.core.compare.rows import StrPath
from rollout_assets.core.compare.sides import TaskSide
from rollout_assets.core.compare.wording import DEFAULT_TAIL, Excerpts

SCHEMA_VERSION: Final = 1


def summary_dict(
    result: CompareResult,
    *,
    old_path: StrPath | None = None,
    new_path: StrPath | None = None,
    old_roots: Sequence[StrPath] = (),
    new_roots: Sequence[StrPath] = (),
    tail: int = DEFAULT_TAIL,
) -> dict[str, Any]:
    """The result as JSON values; no NaN and no infinity among them.

    Args:
        result: What to summarise.
        old_path: What to call the old side; the file it was read from by default.
        new_path: The same of the new side.
        old_roots: Folders under which relative log paths of the old side are looked for (`verifier.roots_for`).
        new_roots: The same of the new side.
        tail: Lines of verifier output to keep for a flip.
    """
    excerpts = Excerpts(result, old_roots, new_roots, tail)
    return {**_head(result, old_path, new_path), "tasks": [_task(task, excerpts) for task in result.tasks]}


def summary_text(
    result: CompareResult, *, old_roots: Sequence[StrPath], new_roots: Sequence[StrPath], tail: int
) -> Iterator[str]:
    """`summary_dict` as JSON text, indented by 2, in pieces made as they are asked for."""
    excerpts = Excerpts(result, old_roots, new_roots, tail)
    empty = _json({**_head(result, None, None), "tasks": []})
    head, tail_text = empty[: empty.rindex("[]")], empty[empty.rindex("[]") + 2 :]
    yield head + "["
    separator = "\n"
    for task in result.tasks:
        yield separator + "    " + _json(_task(task, excerpts)).replace("\n", "\n    ")
        separator = ",\n"
    yield ("\n  ]" if len(result.tasks) else "]") + tail_text + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False)


def _head(result: CompareResult, old_path: StrPath | None, new_path: StrPath | None) -> dict[str, Any]:
    old, new = old_path or result.old_path, new_path or result.new_path
    return {
        "schema_version": SCHEMA_VERSION,
        "old": None if old is None else str(old),
        "new": None if new is None else str(new),
        "counts": result.counts,
        "join": {
            "old_key": result.old_key,
            "new_key": result.new_key,
            "old_prefix_stripped": result.old_prefix_stripped,
            "new_prefix_stripped": result.new_prefix_stripped,
            "keyed_by_taskset": result.keyed_by_taskset,
            "key_source": result.key_source,
        },
        "rows": {
            "old": result.old_rows,
            "new": result.new_rows,
            "old_masked": result.old_masked_rows,
            "new_masked": result.new_masked_rows,
        },
        "notes": result.notes,
        "inputs": result.input_counts,
        "noise": {
            "flips": result.noise.flips,
            "estimated": result.noise.estimated,
            "within": len(result.noise.within),
        },
        "finding_counts": result.finding_counts(),
        "findings": [finding._asdict() for finding in result.findings],
        "keys": [advice._asdict() for advice in result.key_advice],
    }


def _task(task: TaskComparison, excerpts: Excerpts) -> dict[str, Any]:
    excerpt = excerpts.of(task)
    return {
        "task": task.task,
        "category": task.category,
        "winner": task.winner,
        "inputs": task.inputs,
        "old": None if task.old is None else _side(task.old),
        "new": None if task.new is None else _side(task.new),
        "verifier_output": None
        if excerpt is None
        else {
            "side": excerpt.side,
            "line": excerpt.row.line,
            "source": excerpt.source,
            "lines": excerpt.lines,
        },
    }


def _side(side: TaskSide) -> dict[str, Any]:
    return {
        "reward": side.reward,
        "rows": side.rows,
        "masked": side.masked,
        "agent_error": side.agent_error,
        "failure_kind": side.failure_kind,
        "reward_rows": side.reward_rows,
        "masked_rows": side.masked_rows,
        "measured_reward": side.measured_reward,
        "places": [_place(row) for row in side.facts],
    }


def _place(row: RowFacts) -> dict[str, Any]:
    return {
        "file": row.file,
        "line": row.line,
        "offset": row.offset,
        "length": row.length,
        "reward": row.reward if row.reward is not None and math.isfinite(row.reward) else None,
        "mask_reason": row.mask_reason,
    }
