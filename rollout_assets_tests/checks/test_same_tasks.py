"""The check `same_tasks`."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rollout_assets.checks.same_tasks import same_tasks
from rollout_assets_tests.checks.comparisons import report, task


@pytest.mark.parametrize(
    ("rows", "says", "total"),
    [
        ([], "Nothing was compared.", 0),
        ([task("a", 1, 1), task("b", 1, 0)], "Against 'base': 2 of 2 tasks are in common (100.0%), 0 of these", 0),
        ([task("a", 1, 1, inputs="equal"), task("b", 0, 0, inputs="not_distinguishable")], "2 of 2 tasks", 0),
        ([task("a", 1, 1), task("b", 1, None), task("c", None, 1)], "1 of 3 tasks are in common (33.3%)", 2),
        ([task("a", 1, 1, inputs="different"), task("b", 1, 1)], "2 of 2 tasks are in common (100.0%), 1 of these", 1),
        ([task("a", 1, None)], "0 of 1 tasks are in common (0.0%)", 1),
        # A failure that names no task is on one side by nature.
        ([task("a", 1, 1), task("unknown#1", "masked", None)], "1 of 1 tasks are in common", 0),
        ([task("unknown#1", None, "masked")], "0 of 0 tasks are in common", 0),
        (
            [task("a", 1, 1), task("a", 1, None, baseline="other")],
            "Against 'base': 1 of 1 tasks are in common (100.0%), 0 of these with different inputs. "
            "Against 'other': 0 of 1",
            1,
        ),
    ],
)
def test_what_the_sides_share(rows: list[dict[str, Any]], says: str, total: int) -> None:
    result = same_tasks(report(*rows))
    assert says in (result.description or "")
    assert result.passed is (total == 0)
    assert result.severity is dg.AssetCheckSeverity.WARN
    if rows:
        assert result.metadata["total"].value == total


def test_different_inputs_are_listed_before_missing_tasks() -> None:
    rows = [task(f"m{n:02}", 1, None) for n in range(40)] + [task("z", 1, 0, inputs="different"), task("n", None, 1)]
    result = same_tasks(report(*rows))
    assert result.metadata["total"].value == 42
    places = [record.data for record in result.metadata["places"].value.records]
    assert len(places) == 30
    assert places[0] == {"task": "z", "problem": "different inputs", "row": "new output line 7 (byte 70)"}
    assert {place["problem"] for place in places[1:]} == {"only in the baseline"}
