"""Scanning one run: its results file and its sidecar, every line as a row or as what is wrong with it.

To the faults of `core.jsonl`, which knows JSON, this adds the one that takes a rule: a reward that is no number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rollout_assets.core.compare.keys import text_of
from rollout_assets.core.compare.rows import strict_reward
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Fault, FaultKind, Row, scan
from rollout_assets.core.jsonl.faults import excerpt
from rollout_assets.core.records.paths import File, failures_path_for


class ScannedLine(NamedTuple):
    """A row or a fault of a run, and which of its two files it is in."""

    file: File
    line: Row | Fault


def files_of_run(output: Path) -> list[tuple[File, Path]]:
    """The files of outcomes that exist: the results file, and its sidecar if it is a regular file."""
    sidecar = failures_path_for(output)
    return [("output", output), *([("failures", sidecar)] if sidecar.is_file() else [])]  # type: ignore[list-item]


def scan_run(output: Path) -> Iterator[ScannedLine]:
    """Yield every non-blank line of the results file, then of the sidecar; bad content never raises.

    A readable row with faults comes after them.

    Raises:
        RunDataError: `E-UNREADABLE` when a file cannot be opened or read.
    """
    for file, path in files_of_run(output):
        for line in scan(path):
            if isinstance(line, Row):
                fault = reward_fault(path, line)
                if fault is not None:
                    yield ScannedLine(file, fault)
            yield ScannedLine(file, line)


def reward_fault(path: Path, row: Row) -> Fault | None:
    """The fault of a row whose reward is neither a number nor null (compare.md §1.3), or `None`."""
    reward = row.fields.get("reward")
    if reward is None or type(reward) is float:
        return None
    try:
        strict_reward(row.fields)
    except RunDataError as error:
        shown = excerpt(_as_json(reward).encode())
        return Fault(FaultKind.REWARD_NOT_A_NUMBER, str(path), row.line, row.offset, row.length, error.reason, shown)
    return None


def _as_json(reward: Any) -> str:
    try:
        return json.dumps({"reward": reward})
    except ValueError:  # one of its integers has more digits than the interpreter writes
        return f'{{"reward": {text_of(reward)}}}'
