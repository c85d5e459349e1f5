"""What is done with a whole table at once is what the rule for single rows does."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets import distinct, standing
from rollout_assets.core.compare.rows import surviving
from rollout_assets.core.compare.table import FactTable, LabelPool
from rollout_assets.core.discovery import find_run
from rollout_assets.facts_table import fact_table, standing_rows
from rollout_assets.indexing import index_run
from rollout_assets.standing import fold_index
from rollout_assets.tables import RECORD_INDEX

INDEX = st.one_of(st.none(), st.integers(0, 3), st.sampled_from([-(2**63), 2**63 - 1, 2**40]))
ROW = st.tuples(st.sampled_from(["output", "failures", "failures"]), INDEX, INDEX, st.booleans())
Row = tuple[str, int | None, int | None, bool]


def table_of(rows: list[Row], cuts: list[int]) -> pa.Table:
    """The columns that the fold reads, cut into parts; each part has its own categories."""
    schema = pa.schema([RECORD_INDEX.schema.field(name) for name in standing.FOLD_COLUMNS])
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = []
    for start, stop in pairwise(edges):
        columns = zip(*rows[start:stop], strict=True) if stop > start else [()] * 4
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        parts.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(parts)


@pytest.mark.parametrize("few", [1 << 16, 0], ids=["a place for each", "by rank"])
@settings(max_examples=150, derandomize=True, deadline=None)
@given(rows=st.lists(ROW, max_size=14), cuts=st.lists(st.integers(0, 14), max_size=3))
def test_a_table_is_folded_like_its_rows(few: int, rows: list[Row], cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing, "_FEW", few)
        fold = fold_index(table_of(rows, cuts))

    def key(row: Row) -> tuple[int, int] | None:
        return None if row[1] is None or row[2] is None else (row[1], row[2])

    failures = [place for place, row in enumerate(rows) if row[0] == "failures" and not row[3]]
    scored = {key(row) for row in rows if row[0] == "output"} - {None}
    stand = {failures[place] for place in surviving([key(rows[place]) for place in failures], scored)}
    stand |= {place for place, row in enumerate(rows) if row[0] == "output"}
    assert fold.stands().tolist() == [place in stand for place in range(len(rows))]
    named = [place for place in failures if key(rows[place]) is not None]
    assert fold.failures.tolist() == named
    for place, last_failure, last_result in zip(named, fold.last_failure, fold.last_result, strict=True):
        same = [other for other, row in enumerate(rows) if key(row) == key(rows[place])]
        assert last_failure == max(other for other in same if other in failures)
        assert last_result == max((other for other in same if rows[other][0] == "output"), default=-1)


def test_a_table_without_rows_and_one_without_failures() -> None:
    assert fold_index(table_of([], [])).stands().tolist() == []
    assert fold_index(table_of([("output", None, None, False)] * 2, [1])).stands().tolist() == [True, True]


# ---- facts of a whole table ----

LABEL = st.sampled_from(["a", "b", 7, {"taskset": "T", "task_id": "a"}, {"taskset": "U", "id": 2.5}])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "_ng_task_index": st.sampled_from([0, 1, 2**62, -(2**63), 0.5]),
    "_ng_rollout_index": st.integers(0, 2),
    "_ng_attempt_index": st.integers(0, 2),
    "_ng_task_id": LABEL,
    "task_name": LABEL,
    "verifier_metadata": st.fixed_dictionaries({"id": LABEL}),
    "reward": st.sampled_from([0, 1.5, -0.0, float("nan"), float("inf"), "1", True]),
    "mask_sample": st.sampled_from([True, False, 1]),
    "failure_kind": st.sampled_from(["timeout", ""]),
    "_ng_failure_class": st.sampled_from(["agent_timeout", "skipped"]),
    "_ng_omitted_rollout": st.booleans(),
    "error": st.sampled_from(["first", "second"]),
    "elapsed_seconds": st.sampled_from([1.25, 3]),
    "response": st.fixed_dictionaries(
        {"model": st.sampled_from(["m", "n"]), "usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 2**63)})}
    ),
    "responses_create_params": st.fixed_dictionaries(
        {"input": st.sampled_from(["question", [{"role": "user", "content": "é"}]])}
    ),
}
FIELDS_OF_ROW = st.fixed_dictionaries({}, optional=FIELDS)


def indexed(folder: Path, results: list[dict[str, Any]], failures: list[dict[str, Any]]) -> pa.Table:
    for name, rows in (("run.jsonl", results), ("run_failures.jsonl", failures)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    index_run(find_run(folder, "run"), folder / "index.parquet", folder / "faults.parquet")
    return pq.read_table(folder / "index.parquet")


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    results=st.lists(FIELDS_OF_ROW, max_size=6),
    failures=st.lists(FIELDS_OF_ROW, max_size=5),
    start=st.integers(0, 3),
)
def test_columns_of_facts_are_the_facts_of_the_rows(
    results: list[dict[str, Any]], failures: list[dict[str, Any]], start: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = indexed(Path(folder), results, failures)
    cut = pa.concat_tables([index.slice(start, 2), index.slice(start + 2)])
    expected = FactTable.of(standing_rows(cut), LabelPool())
    pool = LabelPool()
    pool.number("of another table")
    table = fact_table(cut, pool)
    assert repr(list(table)) == repr(list(expected))
    for row in range(len(table)):
        assert table.signals(row) == expected.signals(row)
        assert repr(table.reward(row)) == repr(expected.reward(row))


def test_a_table_of_facts_may_grow(tmp_path: Path) -> None:
    index = indexed(tmp_path, [{"task_name": "a", "reward": 1}, {"task_id": "b"}], [])
    table = fact_table(index)
    more = list(standing_rows(index))
    for row in more:
        table.append(row)
    assert list(table) == more * 2


def test_signals_that_are_too_many_to_number_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:

    rows = [{"error": f"e{n % 5}", "_ng_rollout_index": n % 7, "_ng_attempt_index": n % 3} for n in range(50)]
    index = indexed(tmp_path, rows, [])
    expected = list(fact_table(index))
    monkeypatch.setattr(distinct, "_MOST_NUMBERS", 10)
    assert list(fact_table(index)) == expected


def test_a_digest_of_another_length_is_refused(tmp_path: Path) -> None:
    index = indexed(tmp_path, [{"reward": 1}] * 2, [])
    place = index.schema.get_field_index("input_digest")
    for digests in (["00" * 31, None], ["zz" * 32, None]):
        with pytest.raises(ValueError, match="hexadecimal"):
            fact_table(index.set_column(place, index.schema.field(place), pa.array(digests)))
    assert np.all([fact.input_digest is None for fact in fact_table(index)])
