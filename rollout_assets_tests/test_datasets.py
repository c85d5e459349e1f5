"""Each table of all runs is one dataset for readers that know nothing of this project."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import dagster as dg
import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from rollout_assets.demo.runs import write_demo_runs
from rollout_assets.store import Store
from rollout_assets.tables import TABLES
from rollout_assets_tests.conftest import Project

#: A folder that looks like a partition of a Hive dataset, with the name of a column.
LIKE_HIVE = "sweep/task=3/rollouts"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The demo runs, a run with nothing but a failure, an empty one, and one whose key could be misread."""
    root = tmp_path_factory.mktemp("datasets")
    write_demo_runs(root / "runs")
    with dg.DagsterInstance.ephemeral() as instance:
        project = Project(root, instance)
        for key in (LIKE_HIVE, "sweep/other/rollouts"):
            project.write_run(key, [{"task_id": "a", "reward": 1}])
        project.write_run("odd/failed/rollouts", [], [{"task_id": "a", "_ng_failure_class": "cancelled"}])
        project.write_run("odd/none/rollouts", [])
        for path in sorted((root / "runs").rglob("rollouts.jsonl")):
            project.run(path.relative_to(root / "runs").with_suffix("").as_posix())
    return project.store


def rows_by_run(store: Store, table: str) -> dict[str, int]:
    """Rows of each stored file of a table, by run key; files without rows are left out."""
    counted = {
        run_key(store, table, path): pq.read_metadata(path).num_rows
        for path in store.root.glob(f"{table}/**/*.parquet")
    }
    return {key: rows for key, rows in counted.items() if rows}


def run_key(store: Store, table: str, path: str | Path) -> str:
    return Path(path).relative_to(str(store.root / table)).as_posix().removesuffix(".parquet")


def of_all_runs(store: Store, table: str) -> str:
    return f"read_parquet('{store.root}/{table}/**/*.parquet', hive_partitioning = false, filename = true)"


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_reads_a_table_of_all_runs(store: Store, table: str) -> None:
    columns = duckdb.sql(f"select * from {of_all_runs(store, table)}").columns
    assert columns == [*(column.name for column in TABLES[table].columns), "filename"]
    counted = duckdb.sql(f"select filename, count(*) from {of_all_runs(store, table)} group by filename").fetchall()
    expected = rows_by_run(store, table)
    assert {run_key(store, table, name): rows for name, rows in counted} == expected
    assert expected


def test_duckdb_counts_the_categories_of_all_comparisons(store: Store) -> None:
    """The query of the README."""
    path = f"{store.root}/comparison_report/**/*.parquet"
    counts = duckdb.sql(f"select category, count(*) from '{path}' group by category").fetchall()
    expected: Counter[str] = Counter()
    for key in rows_by_run(store, "comparison_report"):
        expected.update(store.read_table("comparison_report", key)["category"].to_pylist())
    assert dict(counts) == expected
    assert expected["flipped"] > 0


def test_duckdb_joins_the_tasks_of_two_runs(store: Store) -> None:
    """What `comparison_report` says of two runs follows from `task_sides` of both."""
    old, new = (f"'{store.table_path('task_sides', f'math/step-0{step}00/rollouts')}'" for step in (2, 3))
    joined = duckdb.sql(
        f"select task, n.reward_mean - o.reward_mean from {old} o join {new} n using (task) "
        "where o.masked is null and n.masked is null and n.reward_mean <> o.reward_mean"
    ).fetchall()
    report = store.read_table("comparison_report", "math/step-0300/rollouts").to_pylist()
    flipped = {row["task"]: row["difference"] for row in report if row["category"].startswith("flipped")}
    assert dict(joined) == flipped
    assert flipped


def test_pandas_reads_one_run_and_all_runs(store: Store) -> None:
    one = pd.read_parquet(store.table_path("task_sides", "math/step-0100/rollouts"), dtype_backend="pyarrow")
    assert one["reward_mean"].mean() == pytest.approx(
        store.read_table("task_sides", "math/step-0100/rollouts").to_pandas()["reward_mean"].mean()
    )
    everything = pd.read_parquet(store.root / "task_sides", partitioning=None, dtype_backend="pyarrow")
    assert len(everything) == sum(rows_by_run(store, "task_sides").values())
    assert list(everything.columns) == [column.name for column in TABLES["task_sides"].columns]


def test_a_folder_that_looks_like_a_hive_partition_changes_no_column(store: Store) -> None:
    path = store.table_path("task_sides", LIKE_HIVE)
    assert store.read_table("task_sides", LIKE_HIVE)["task"].to_pylist() == ["a"]
    assert duckdb.sql(f"select task from read_parquet('{path}', hive_partitioning = false)").fetchall() == [("a",)]
