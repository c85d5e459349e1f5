"""The check `row_count_not_shrinking`."""

from __future__ import annotations

import pytest

from rollout_assets.checks.row_count_not_shrinking import row_count_not_shrinking
from rollout_assets_tests.conftest import Project

ROWS = [{"task_id": "a", "reward": 1.0}, {"task_id": "b", "reward": 0.0}, {"task_id": "c", "reward": 0.0}]


@pytest.mark.parametrize(
    ("before", "now", "missing"),
    [
        (None, {"output": 3}, 0),
        ({"output": 3}, {"output": 3}, 0),
        ({"output": 3}, {"output": 4, "failures": 1}, 0),
        ({"output": 3}, {"output": 2}, 1),
        ({"output": 3}, {}, 3),
        ({"output": 3, "failures": 2}, {"output": 9}, 2),  # what one file gained does not hide what the other lost
    ],
)
def test_each_file_is_held_against_its_earlier_index(
    before: dict[str, int] | None, now: dict[str, int], missing: int
) -> None:
    result = row_count_not_shrinking(before, now)
    assert result.passed is (missing == 0)
    if missing:
        assert result.metadata["total"].value == missing
        assert f"{missing} row{'s' * (missing > 1)} fewer" in (result.description or "")
        assert "restore it" in (result.description or "")


def test_a_run_that_lost_rows_warns_once_and_is_then_accepted(project: Project) -> None:
    def judged() -> tuple[bool, str]:
        result = project.run("run")
        assert result.success
        [check] = [e for e in result.get_asset_check_evaluations() if e.check_name == "row_count_not_shrinking"]
        return check.passed, check.description or ""

    project.write_run("run", ROWS, failures=[{"task_id": "d", "_ng_failure_class": "x"}])
    assert judged() == (True, "4 rows; there is no earlier index of this run to compare with.")
    project.write_run("run", ROWS[:2])
    passed, told = judged()
    assert not passed
    assert "output 2 rows instead of 3" in told
    assert judged()[0]


def test_an_index_that_cannot_be_read_is_no_index(project: Project) -> None:
    path = project.store.table_path("record_index", "run")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no parquet")
    assert project.store.indexed_rows("run") is None
