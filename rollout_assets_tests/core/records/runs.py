"""Small runs written for the tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rollout_assets.core.records import (
    RolloutRecords,
    RunManifest,
    digest,
    failures_path_for,
    logical_rollout_id,
    manifest_path_for,
    materialized_path_for,
)

RUN_ID = "a" * 32
OTHER_RUN_ID = "b" * 32
ANSWER = {"id": "resp-1", "output": [{"type": "message", "content": []}]}

Row = dict[str, Any]


def inventory_row(task: int = 0, rollout: int = 0, **fields: Any) -> Row:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, **fields}


def result(task: int = 0, attempt: int = 0, *, reward: Any = 1.0, **fields: Any) -> Row:
    """A row of the output; `reward=...` (an ellipsis) leaves the reward out, a field of that value likewise."""
    row = {**inventory_row(task), "_ng_attempt_index": attempt, "_ng_run_id": RUN_ID, "reward": reward, **fields}
    return {key: value for key, value in row.items() if value is not ...}


def failure(task: int = 0, attempt: int = 0, label: Any = "agent_run_error", **fields: Any) -> Row:
    """A row of the sidecar; a field whose value is an ellipsis is left out."""
    return result(task, attempt, **{"reward": ..., "_ng_failure_class": label, **fields})


def record(task: int = 0, attempt: int = 0, kind: str | None = "agent_run_error", **fields: Any) -> Row:
    """A failure record of version 1; `failure` fields go by the names `terminal` and `stage`."""
    nested = {"failure_reason": "x", "terminal": fields.pop("terminal", False)}
    if kind is not None:
        nested["failure_kind"] = kind
    if "stage" in fields:
        nested["stage"] = fields.pop("stage")
    return {
        "schema_version": 1,
        "episode_id": {"rollout_id": f"{task}-0", "attempt": attempt},
        "run_id": RUN_ID,
        "source": "collector",
        "delivery": "possibly_delivered",
        "failure": nested,
        **fields,
    }


def legacy(row: Row, *, attempt: int | None = None) -> Row:
    """The row as an older generation wrote it: without run id, its attempt number only if it is given."""
    kept = {key: value for key, value in row.items() if key not in ("_ng_run_id", "_ng_attempt_index")}
    return kept if attempt is None else {**kept, "_ng_attempt_index": attempt}


def manifest(inventory: Iterable[Row], **fields: Any) -> Row:
    """A manifest of version 3; of version 2 when asked for."""
    return {
        "schema_version": 3,
        "selection_policy": "latest_allocated",
        "run_id": RUN_ID,
        "source_digest": "5" * 64,
        "materialized_digest": digest(list(inventory)),
        "config_digest": "c" * 64,
        "legacy_import": False,
        "identity_overridden": False,
        "next_attempt": {},
        **fields,
    }


def as_line(row: Row | bytes) -> bytes:
    return row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n"


def write_run(
    folder: Path,
    *,
    results: Iterable[Row | bytes] = (),
    failures: Iterable[Row | bytes] = (),
    inventory: Iterable[Row] | int = 1,
    reserved: Mapping[str, int] | None = None,
    with_manifest: bool = True,
    with_inventory: bool = True,
    **manifest_fields: Any,
) -> Path:
    """Write a run and return its output. By default exactly what was saved is reserved.

    A row may be bytes: then they are written as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "rollouts.jsonl"
    results, failures = list(results), list(failures)
    rows = [inventory_row(task) for task in range(inventory)] if isinstance(inventory, int) else list(inventory)
    output.write_bytes(b"".join(map(as_line, results)))
    failures_path_for(output).write_bytes(b"".join(map(as_line, failures)))
    if with_inventory:
        materialized_path_for(output).write_bytes(b"".join(map(as_line, rows)))
    if with_manifest:
        if reserved is None:
            reserved = reserved_by(results, failures)
        fields = manifest(
            [row for row in rows if isinstance(row, dict)], next_attempt=dict(reserved), **manifest_fields
        )
        manifest_path_for(output).write_text(json.dumps(fields, indent=2) + "\n")
    return output


def reserved_by(*files: Iterable[Row | bytes]) -> dict[str, int]:
    reserved: dict[str, int] = {}
    for row in (row for rows in files for row in rows if isinstance(row, dict) and "_ng_run_id" in row):
        rollout_id = logical_rollout_id(row)
        reserved[rollout_id] = max(reserved.get(rollout_id, 0), row.get("_ng_attempt_index", 0) + 1)
    return reserved


def load(output: Path, **options: Any) -> RolloutRecords:
    return RolloutRecords.load(output, RunManifest.read(manifest_path_for(output)), **options)


def index(folder: Path, *, options: Mapping[str, Any] | None = None, **run: Any) -> RolloutRecords:
    """Write a run and index it."""
    return load(write_run(folder, **run), **(options or {}))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def attempts(rows: Iterable[Row]) -> list[tuple[str, int]]:
    return [(logical_rollout_id(row), row["_ng_attempt_index"]) for row in rows]
