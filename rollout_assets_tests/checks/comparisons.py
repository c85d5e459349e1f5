"""Rows of the table `comparison_report`, written by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rollout_assets.tables import COMPARISON_REPORT


def side(name: str, reward: float | None, masked: str | None = None) -> dict[str, Any]:
    return {
        f"{name}_rows": 1,
        f"{name}_reward": reward,
        f"{name}_masked": masked,
        f"{name}_file": "output",
        f"{name}_line": 7,
        f"{name}_offset": 70,
    }


def task(
    name: str, old: float | str | None, new: float | str | None, *, agent_error: bool = False, **more: Any
) -> dict[str, Any]:
    """A task: a reward, `masked`, or None where the side lacks it."""
    row: dict[str, Any] = {"baseline": "base", "task": name, "inputs": "unknown"}
    for label, value in (("old", old), ("new", new)):
        if value is not None:
            row |= side(label, None, "no reward") if value == "masked" else side(label, float(value))
    if "masked" in (old, new):
        row["category"] = "masked"
    elif old is None or new is None:
        row |= {"category": "missing", "inputs": None}
    elif old == new:
        row |= {"category": "identical", "difference": 0.0}
    else:
        row["category"] = "flipped_agent_error" if agent_error else "flipped"
        row |= {"winner": "old" if float(old) > float(new) else "new", "difference": float(new) - float(old)}
    return row | more


def report(*rows: dict[str, Any]) -> pa.Table:
    return COMPARISON_REPORT.build(rows)
