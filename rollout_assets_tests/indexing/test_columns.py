"""The index is the same whether rows are read one by one or as columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.jsonl import Row, scan
from rollout_assets.core.jsonl.engine import new_engine
from rollout_assets.facts_table import facts_of
from rollout_assets.indexing import batches
from rollout_assets.indexing.batches import Batch, read_range
from rollout_assets.indexing.records import RULES
from rollout_assets_tests.benchmarks.bench_scan import rows_of_kind
from rollout_assets_tests.shared_material import NEMO_GYM, needs_nemo_gym

needs_engine = pytest.mark.skipif(new_engine() is None, reason="the engine is not compiled: no C compiler was there")

SCALARS = st.sampled_from(
    [None, True, False, 0, 1, -3, 2**62, 2**63, 10**30, 0.0, 1.5, -0.25, 1e300, "", "a", "1", "\u00e9", "\U0001f600"]
)
VALUES = (
    SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["task_id", "id", "taskset"]), SCALARS)
)
PLAIN = st.fixed_dictionaries(
    {
        "_ng_task_index": st.integers(0, 3),
        "_ng_rollout_index": st.integers(0, 3),
        "reward": st.sampled_from([0.0, 1, 0.5, None]),
    },
    optional={
        "_ng_attempt_index": st.integers(0, 2),
        "_ng_run_id": st.sampled_from(["r", "s"]),
        "task_id": st.sampled_from(["x", "y"]),
        "elapsed_seconds": st.floats(0.1, 9),
        "mask_sample": st.booleans(),
        "failure_kind": st.sampled_from(["timeout", "other"]),
        "error": st.sampled_from(["", "E\nlast line"]),
        "responses_create_params": st.fixed_dictionaries(
            {"input": st.sampled_from(["hello", [{"role": "user", "content": "hello"}], [{"role": "assistant"}]])}
        ),
        "response": st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.sampled_from([None, {}, {"agent_error_type": "x"}, {"elapsed_seconds": "3"}]),
                "model": st.sampled_from(["m", "n"]),
                "usage": st.fixed_dictionaries(
                    {}, optional={"input_tokens": st.integers(0, 5), "output_tokens": SCALARS}
                ),
            },
        ),
    },
)
READ = sorted({name for rule in RULES for name in rule.reads})


@st.composite
def odd_rows(draw: st.DrawFn) -> dict[str, Any]:
    """A plain row in which some fields that rules read hold anything."""
    row = draw(PLAIN)
    for name in draw(st.lists(st.sampled_from(READ), max_size=3)):
        *above, last = name.split(".")
        inner = row
        for outer in above:
            if not isinstance(inner.get(outer), dict):
                inner[outer] = {}
            inner = inner[outer]
        inner[last] = draw(VALUES)
    for name in draw(
        st.lists(st.sampled_from(["response", "verifier_metadata", "responses_create_params"]), max_size=1)
    ):
        row[name] = draw(VALUES)
    return row


ROWS = st.lists(PLAIN | odd_rows(), max_size=6)
LINES = ROWS.map(lambda rows: [json.dumps(row).encode() for row in rows])
BAD = st.sampled_from(
    [b"", b" \r", b"[1]", b"{", b'{"reward":1,"reward":2}', b'{"reward":NaN}', b'{"reward":"1"}', b"\xff"]
)


def read(path: Path, *, columns: bool, rows_per_batch: int = 3) -> tuple[list[dict[str, Any]], list[Any], int]:
    """The records, faults and number of lines of a file."""
    with mock.patch.object(batches, "ROWS_PER_BATCH", rows_per_batch):
        if columns:
            found = list(read_range("output", path))
        else:
            with mock.patch.object(batches, "new_engine", lambda: None):
                found = list(read_range("output", path))
    return whole(found), [fault for batch in found for fault in batch.faults], found[-1].lines


def whole(found: list[Batch]) -> list[dict[str, Any]]:
    return pa.concat_tables([batch.records for batch in found]).unify_dictionaries().to_pylist()


@needs_engine
@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    lines=st.lists(LINES.flatmap(lambda lines: st.permutations([*lines, b""])) | st.lists(BAD, max_size=2), max_size=4)
)
@example(lines=[[b'{"_ng_task_index":-1,"_ng_rollout_index":0}', b'{"_ng_task_index":1,"_ng_rollout_index":0}']])
@example(lines=[[b'{"elapsed_seconds":-1.5}', b'{"elapsed_seconds":1.5}', b'{"elapsed_seconds":0.0}']])
@example(lines=[[b'{"elapsed_seconds":1.5}', b'{"response":{"metadata":{"elapsed_seconds":2}}}']])
@example(lines=[[b'{"task_id":{"taskset":"t","id":1}}', b'{"task_id":"b"}', b'{"response":null}', b'{"response":[]}']])
def test_columns_hold_what_reading_row_by_row_gives(
    lines: list[list[bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("law") / "a.jsonl"
    path.write_bytes(b"\n".join(line for part in lines for line in part))
    assert repr(read(path, columns=True)) == repr(read(path, columns=False))


@needs_engine
@pytest.mark.parametrize("kind", ["A", "D"])
def test_columns_of_usual_rows(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = rows_of_kind(kind, 100_000)
    path.write_bytes(b"".join(next(rows) + b"\n" for _ in range(60)))
    assert read(path, columns=True, rows_per_batch=25) == read(path, columns=False)


@needs_engine
def test_more_combinations_than_64_bits_can_number(tmp_path: Path) -> None:
    rows = [
        {"_ng_task_id": {"id": "a", "taskset": f"t{n % 3}"}}
        | dict.fromkeys(("task_name", "task_id", "instance_id", "problem_id", "uuid"), f"v{min(n, 8_190)}")
        for n in range(8_200)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    records, _, _ = read(path, columns=True, rows_per_batch=10_000)
    assert [record["tasksets"] for record in records] == [f'{{"_ng_task_id": "t{n % 3}"}}' for n in range(8_200)]


@needs_engine
@needs_nemo_gym
@pytest.mark.parametrize("folder", sorted(path.name for path in NEMO_GYM.glob("*") if path.is_dir()))
def test_columns_of_real_rows(folder: str) -> None:
    path = NEMO_GYM / folder / "rollouts.jsonl"
    assert repr(read(path, columns=True)) == repr(read(path, columns=False))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(rows=ROWS)
def test_the_index_holds_the_facts_of_each_row(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("law") / "a.jsonl"
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    index = pa.concat_tables([batch.records for batch in read_range("output", path)]).unify_dictionaries()
    scanned = [line for line in scan(path) if isinstance(line, Row)]
    facts = [row_facts(row.fields, line=row.line, offset=row.offset, length=row.length) for row in scanned]
    assert list(facts_of(index)) == list(map(as_stored, facts))


def as_stored(facts: RowFacts) -> RowFacts:
    """Indices and counts that are no 64-bit integers have no place in the index."""

    def stored(value: float | None) -> int | None:
        return int(value) if value is not None and value == int(value) and -(2**63) <= value < 2**63 else None

    integers = ("task_index", "rollout_index", "attempt_index", "input_tokens", "output_tokens")
    return facts._replace(**{name: stored(getattr(facts, name)) for name in integers})


def part(row: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """Of a row, only the fields with these paths."""
    found: dict[str, Any] = {}
    for path in paths:
        *above, last = path.split(".")
        inner, copied = row, found
        for name in above:
            inner = inner.get(name) if isinstance(inner.get(name), dict) else {}
            copied = copied.setdefault(name, {})
        if last in inner:
            copied[last] = inner[last]
    return found


@settings(max_examples=200, derandomize=True, deadline=None)
@given(row=odd_rows())
def test_the_value_of_a_column_depends_on_the_fields_that_its_rule_declares(row: dict[str, Any]) -> None:
    for rule in RULES:
        assert rule.value(part(row, rule.reads)) == rule.value(row), rule.column
