"""The fold of a stored index agrees with the fold of the files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.discovery import find_run
from rollout_assets.core.records import rows_only_timeline
from rollout_assets.indexing import index_run
from rollout_assets.outcomes import fold_rows

INDEX = st.sampled_from([0, 1, None])
RESULT = st.fixed_dictionaries({"_ng_task_index": INDEX, "_ng_rollout_index": INDEX, "reward": st.sampled_from([0, 1])})
FAILURE = st.fixed_dictionaries(
    {
        "_ng_task_index": INDEX,
        "_ng_rollout_index": INDEX,
        "_ng_failure_class": st.sampled_from(["agent_run_error", "agent_timeout", "kill_shaped", "skipped"]),
        "_ng_failure_terminal": st.booleans(),
        "_ng_omitted_rollout": st.booleans(),
        "_ng_failure_counts_as_zero": st.booleans(),
        "response": st.sampled_from([None, {}, {"output": [1]}]),
    }
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(results=st.lists(RESULT, min_size=1, max_size=5), failures=st.lists(FAILURE, max_size=8))
def test_the_table_is_folded_like_the_rows(results: list[dict[str, object]], failures: list[dict[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, rows in (("run.jsonl", results), ("run_failures.jsonl", failures)):
            (root / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        index_run(find_run(root, "run"), root / "index.parquet", root / "faults.parquet")
        folded = fold_rows(pq.read_table(root / "index.parquet")).to_pylist()
        expected = rows_only_timeline(root / "run.jsonl")
    fields = ("file", "line", "offset", "length", "rollout_id", "selected", "disposition", "counted", "final")

    def reason(text: str | None) -> str | None:
        return text and text.split(":")[0]

    assert sorted((*(row[name] for name in fields), reason(row["dropped_because"])) for row in folded) == sorted(
        (*(getattr(entry, name) for name in fields), reason(entry.dropped_because)) for entry in expected
    )
