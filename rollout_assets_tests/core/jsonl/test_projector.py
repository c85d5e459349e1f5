"""Rows above the limit are read without the values of some top-level keys (records.md §6.2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.jsonl import Fault, FaultKind, Row, scan
from rollout_assets.core.jsonl.projector import PROJECTED_ROW_BYTES, TopLevelProjector

SKIP = frozenset({"ng_trajectory", "é"})
ROW = rb'{"ng_trajectory":{"ng_trajectory":"a]}\"","x":[1,{"y":"}"}]},"keep":{"ng_trajectory":5},"_ng_attempt_index":0}'
CHUNKS = [1, 2, 3, 7, 63, 64, 65, 256 * 1024]


def projected(row: bytes, chunk_bytes: int, skip_keys: frozenset[str] = SKIP) -> bytes:
    projector = TopLevelProjector(skip_keys)
    for start in range(0, len(row), chunk_bytes):
        projector.feed(row[start : start + chunk_bytes])
    return projector.text()


def test_the_limit_is_64_mib() -> None:
    assert PROJECTED_ROW_BYTES == 67_108_864


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_the_values_of_top_level_keys_become_null(tmp_path: Path, chunk_bytes: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(ROW + b"\n" + ROW)
    options = {"skip_keys": SKIP, "projected_row_bytes": 40, "chunk_bytes": chunk_bytes, "whole_rows": True}
    expected = {"ng_trajectory": None, "keep": {"ng_trajectory": 5}, "_ng_attempt_index": 0}
    assert list(scan(path, **options)) == [  # type: ignore[arg-type]
        Row(1, 0, len(ROW) + 1, expected, True),
        Row(2, len(ROW) + 1, len(ROW), expected, False),
    ]
    assert [line.fields for line in scan(path, skip_keys=SKIP, projected_row_bytes=40)] == [
        {"_ng_attempt_index": 0}
    ] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_an_incomplete_row_is_no_record(tmp_path: Path, chunk_bytes: int) -> None:
    path = tmp_path / "a.jsonl"
    for length in range(41, len(ROW)):
        path.write_bytes(ROW[:length])
        (fault,) = scan(path, skip_keys=SKIP, projected_row_bytes=40, chunk_bytes=chunk_bytes)
        assert isinstance(fault, Fault)
        assert (fault.kind, fault.length, fault.column) == (FaultKind.TRUNCATED_TAIL, length, length + 1)


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize(("more", "is_projected"), [(-1, False), (0, False), (1, True)])
def test_rows_with_strictly_more_bytes_than_the_limit_are_projected(
    tmp_path: Path, more: int, is_projected: bool, chunk_bytes: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\n{"id":1}\n' + ROW + b'\n{"id":2}\n')
    limit = len(ROW) - more
    lines = list(scan(path, skip_keys=SKIP, projected_row_bytes=limit, chunk_bytes=chunk_bytes, whole_rows=True))
    assert [(line.line, line.offset) for line in lines] == [(2, 1), (3, 10), (4, 11 + len(ROW))]
    assert isinstance(lines[1], Row)
    assert lines[1].fields == {**json.loads(ROW), **({"ng_trajectory": None} if is_projected else {})}


def test_without_skip_keys_no_row_is_projected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(ROW)
    (row,) = scan(path, projected_row_bytes=1, whole_rows=True)
    assert isinstance(row, Row)
    assert row.fields == json.loads(ROW)


@pytest.mark.parametrize("chunk_bytes", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b'{"ng_trajectory":1,"ng_trajectory":[2]}', b'{"ng_trajectory":null,"ng_trajectory":null}'),
        ('{"é":"\\"}"}'.encode(), '{"é":null}'.encode()),
        (rb'{"\u00e9":1,"ng\u005ftrajectory":2}', rb'{"\u00e9":1,"ng\u005ftrajectory":2}'),
        (
            b' { "ng_trajectory" : [ ] , "a" : "ng_trajectory" } ',
            b' { "ng_trajectory" : null , "a" : "ng_trajectory" } ',
        ),
        (b'{"ng_trajectory":-1.5e3}', b'{"ng_trajectory":null}'),
        (b'{"ng_trajectory":true,"a":1}', b'{"ng_trajectory":null,"a":1}'),
        (b'{"ng_trajectory":"\\\\","a":1}', b'{"ng_trajectory":null,"a":1}'),
        (b'{"a":{"ng_trajectory":{"ng_trajectory":1}}}', b'{"a":{"ng_trajectory":{"ng_trajectory":1}}}'),
        (b'{"xng_trajectory":1,"ng_trajectoryx":2}', b'{"xng_trajectory":1,"ng_trajectoryx":2}'),
        (b'[{"ng_trajectory":1}]', b'[{"ng_trajectory":1}]'),
        (b'{"ng_trajectory":[[1,2],{"a":[]}]}', b'{"ng_trajectory":null}'),
        (b"", b""),
    ],
)
def test_projections(row: bytes, expected: bytes, chunk_bytes: int) -> None:
    assert projected(row, chunk_bytes) == expected


VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.none(), st.text('a"\\[]{},:é', max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "skip", "é"]), inner)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.one_of(st.sampled_from(["skip", "é", "a"]), st.text('a"\\{é', max_size=4)), VALUES)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(row=OBJECTS, spaced=st.booleans(), chunk_bytes=st.integers(1, 40))
def test_a_projection_is_the_row_with_nulls(row: dict[str, object], spaced: bool, chunk_bytes: int) -> None:
    text = json.dumps(row, ensure_ascii=False, separators=(", ", ": ") if spaced else (",", ":")).encode()
    skip = frozenset({"skip", "é"})
    expected = {key: None if key in skip else value for key, value in row.items()}
    assert json.loads(projected(text, chunk_bytes, skip)) == expected
    assert projected(text, chunk_bytes, frozenset()) == text


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1000])
@pytest.mark.parametrize(
    ("row", "kind", "column"),
    [
        (b'{"ng_trajectory":[1,2,3,4],"a":01}', FaultKind.INVALID_JSON, 33),
        (b'{"ng_trajectory":[1,2,3,4],"a":"\xff"}', FaultKind.NOT_UTF8, 33),
        (b'{"ng_trajectory":"abc","reward":1,"reward":2}', FaultKind.DUPLICATE_KEY, 35),
        (b'{"ng_trajectory":[1]}x', FaultKind.INVALID_JSON, 22),
        (b'{"ng_trajectory":[1]} , ', FaultKind.INVALID_JSON, 23),
        (b'{"ng_trajectory":,"a":1}', FaultKind.INVALID_JSON, 18),
        (b'{"ng_trajectory":}', FaultKind.INVALID_JSON, 18),
        (b'{"ng_trajectory" 1}', FaultKind.INVALID_JSON, 18),
        (b'{"a":1 2,"ng_trajectory":[1]}', FaultKind.INVALID_JSON, 8),
        (b'{"a":1,ng_trajectory:[1]}', FaultKind.INVALID_JSON, 8),
        (b'{"a":{"b":[}]},"ng_trajectory":1}', FaultKind.INVALID_JSON, 12),
        (b'[{"ng_trajectory":1}]', FaultKind.NOT_AN_OBJECT, 1),
    ],
)
def test_faults_of_projected_rows_are_at_their_place_in_the_file(
    tmp_path: Path, row: bytes, kind: FaultKind, column: int, chunk_bytes: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n" + row + b"\n")
    (fault,) = scan(path, skip_keys=SKIP, projected_row_bytes=5, chunk_bytes=chunk_bytes)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.line, fault.offset, fault.length, fault.column) == (kind, 2, 1, len(row) + 1, column)


def test_readable_faults_of_projected_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"ng_trajectory":[NaN,1e999],"reward":NaN,"x":1e999}\n')
    *faults, row = scan(path, skip_keys=SKIP, projected_row_bytes=5)
    # Of skipped values only the structure is checked.
    assert [fault.column for fault in faults if isinstance(fault, Fault)] == [39, 47]
    assert isinstance(row, Row)


@pytest.mark.parametrize("chunk_bytes", [3, 1000])
def test_a_long_blank_line_is_no_row(tmp_path: Path, chunk_bytes: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b" " * 100 + b'\n{"id":1}\n')
    (row,) = scan(path, skip_keys=SKIP, projected_row_bytes=50, chunk_bytes=chunk_bytes)
    assert row == Row(2, 101, 9, {"id": 1}, True)


def test_the_copy_is_all_that_a_projector_keeps() -> None:
    projector = TopLevelProjector(SKIP)
    projector.feed(b'{"keep":1,"ng_trajectory":["')
    for _ in range(1000):
        projector.feed(rb"text \" ] } " * 20)
        projector.feed(b'",{"a":[1,2,{}],"b":"')
    projector.feed(b'"')
    assert len(projector.text()) < 100
