"""Rows and files for the tests of the comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout_assets.core.compare import CompareResult, compare_facts, load_facts
from rollout_assets.core.compare.task_key import Fallback

#: A row given as the text of its line, or as the object to write.
Line = str | bytes | dict[str, Any]


def task(name: Any, reward: Any = None, **more: Any) -> dict[str, Any]:
    """A row that names its task by `task_id`."""
    return {"task_id": name, "reward": reward, **more}


def native(taskset: str | None, name: Any, reward: Any = None, **more: Any) -> dict[str, Any]:
    """A row that names its task by an object under `_ng_task_id`."""
    return {"_ng_task_id": {"taskset": taskset, "task_id": name}, "reward": reward, **more}


def attempt(task_index: Any, rollout_index: Any, **more: Any) -> dict[str, Any]:
    """The identity of an attempt."""
    return {"_ng_task_index": task_index, "_ng_rollout_index": rollout_index, **more}


def failure(kind: str, **more: Any) -> dict[str, Any]:
    """A row of a sidecar."""
    return {"_ng_failure_class": kind, **more}


def encode(lines: list[Line]) -> bytes:
    """The bytes of a file; a `bytes` line is written as it is, LF included or not."""
    written = []
    for line in lines:
        if isinstance(line, bytes):
            written.append(line)
        else:
            written.append((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
    return b"".join(written)


def write(folder: Path, name: str, lines: list[Line], sidecar: list[Line] | None = None) -> Path:
    """Write an output and its sidecar."""
    path = folder / f"{name}.jsonl"
    path.write_bytes(encode(lines))
    if sidecar is not None:
        (folder / f"{name}_failures.jsonl").write_bytes(encode(sidecar))
    return path


def compared(old: Path, new: Path, key: str | None = None, fallback: Fallback = "off") -> CompareResult:
    """Compare two files by their facts."""
    return compare_facts(load_facts(old, key=key), load_facts(new, key=key), key, fallback=fallback)


def outcomes(result: CompareResult) -> dict[str, tuple[str, str | None]]:
    """Category and winner of every task."""
    return {entry.task: (entry.category, entry.winner) for entry in result.tasks}
