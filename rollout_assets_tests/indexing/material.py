"""Lines, good and bad, and indexes to compare."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rollout_assets.core.discovery import find_run
from rollout_assets.indexing.run import IndexedRun, index_run

GOOD = b'{"task_id": "a", "reward": 1.0, "_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_run_id": "r"}\n'
OTHER = b'{"task_id": "b", "reward": 0.25, "agent_ref": {"name": "agent"}, "response": {"model": "m"}}\n'
FAILURE = b'{"task_id": "c", "_ng_failure_class": "timeout", "_ng_task_index": 1, "_ng_rollout_index": 1}\n'
#: One line of each kind of trouble, and lines that are none.
LINES = (
    GOOD,
    OTHER,
    FAILURE,
    b"\n",
    b"{oops\n",
    b'{"task_id": "n", "reward": NaN}\n',
    b'{"task_id": "t", "reward": "1"}\n',
    b'{"reward": 1, "reward": 2}\n',
    b'{"task_id": "\xff"}\n',
    b'{"task_id": "z", "pad": "' + b"z" * 300 + b'"}\n',
)


def indexed(root: Path, place: Path, **options: Any) -> tuple[IndexedRun, list[dict[str, Any]], list[dict[str, Any]]]:
    """The index of the run `run` below a root: what was said of it, and the rows of its two tables."""
    found = index_run(find_run(root, "run"), place / "records.parquet", place / "faults.parquet", **options)
    return found, rows(place / "records.parquet"), rows(place / "faults.parquet")


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file; NaN is a word, so that it equals itself."""
    return [
        {name: "nan" if value != value else value for name, value in row.items()}
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]


def told(found: IndexedRun) -> tuple[Counter[str], Counter[Any], list[Any]]:
    """What a summary says, to compare."""
    return found.summary.rows, found.summary.counts, found.summary.faults
