"""The check `reward_finite`, on tables of every kind of reward."""

from __future__ import annotations

import math
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from rollout_assets.checks.reward_finite import REWARD_COLUMNS, reward_finite
from rollout_assets.tables import RECORD_INDEX


def index(*rewards: float | None) -> pa.Table:
    schema = pa.schema([RECORD_INDEX.schema.field(name) for name in REWARD_COLUMNS])
    rows: dict[str, list[Any]] = {
        "file": ["output"] * len(rewards),
        "line": list(range(1, len(rewards) + 1)),
        "offset": [100 * line for line in range(len(rewards))],
        "reward": list(rewards),
        "reward_state": ["absent" if r is None else "number" if math.isfinite(r) else "non_finite" for r in rewards],
    }
    return pa.Table.from_pydict(rows, schema=schema)


@pytest.mark.parametrize(
    ("rewards", "total"),
    [((), 0), ((1.0, 0.0), 0), ((None, 1.0), 0), ((math.nan, 1.0), 1), ((1.0, math.inf, -math.inf), 2)],
)
def test_only_what_is_not_finite_counts(rewards: tuple[float | None, ...], total: int) -> None:
    result = reward_finite(index(*rewards))
    assert result.passed is (total == 0)
    assert result.metadata["total"].value == total
    assert result.metadata["rows"].value == len(rewards)
    assert result.metadata["rows_without_reward"].value == rewards.count(None)


def test_the_first_places_are_listed_and_all_are_counted() -> None:
    result = reward_finite(index(1.0, *[math.inf] * 40))
    assert result.severity is dg.AssetCheckSeverity.WARN
    assert "40 of 41 rows" in (result.description or "")
    assert "output line 2 (row at byte 100): inf" in (result.description or "")
    assert "Mend the scorer" in (result.description or "")
    places = result.metadata["places"].value.records
    assert len(places) == 30
    assert places[0].data == {"file": "output", "line": 2, "byte offset": 100, "reward": "inf"}
