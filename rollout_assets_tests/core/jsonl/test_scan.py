"""The scan: places of lines, every kind of fault with its place, and agreement with a second reading."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import READABLE, Fault, FaultKind, Row, scan
from rollout_assets.core.jsonl.fields import RecordFields, RowFields
from rollout_assets.core.jsonl.lines import read_lines
from rollout_assets_tests.core.jsonl import reference
from rollout_assets_tests.core.jsonl.reference import shape
from rollout_assets_tests.shared_material import NEMO_GYM, needs_nemo_gym

K = FaultKind
CHUNKS = [1, 2, 3, 7, 63, 64, 65, 256 * 1024]


def scanned(tmp_path: Path, content: bytes, **options: Any) -> list[Row | Fault]:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(content)
    return list(scan(path, **options))


# ---- lines ----


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    assert list(scan(tmp_path / "none.jsonl")) == []


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as caught:
        list(scan(tmp_path))
    assert (caught.value.code, caught.value.path) == ("E-UNREADABLE", str(tmp_path))


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_lines_end_at_lf_only_and_blank_ones_count(tmp_path: Path, chunk_bytes: int) -> None:
    first, second = '{"id":"a\u2028\u0085b"}'.encode(), b'{"id":2}'
    content = b"\n \t\r\n" + first + b"\r\n\n" + second
    rows = scanned(tmp_path, content, chunk_bytes=chunk_bytes)
    assert rows == [
        Row(3, 5, len(first) + 2, {"id": "a\u2028\u0085b"}, True),
        Row(5, 8 + len(first), len(second), {"id": 2}, False),
    ]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("end_offset", [0, 1, 8, 9, 10, 17, 18, 99])
def test_only_a_prefix_is_read(tmp_path: Path, end_offset: int, chunk_bytes: int) -> None:
    content = b'{"id":1}\n{"id":2}\n'
    lines = scanned(tmp_path, content, end_offset=end_offset, chunk_bytes=chunk_bytes)
    assert lines == scanned(tmp_path, content[:end_offset])


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n", b"\r", b" \n\t", b"\r\n"])
def test_blank_files(tmp_path: Path, content: bytes) -> None:
    assert scanned(tmp_path, content) == []


@pytest.mark.parametrize("chunk_bytes", [*CHUNKS, 1000])
def test_raw_lines_are_those_of_the_file(tmp_path: Path, chunk_bytes: int) -> None:
    rng = random.Random(chunk_bytes)
    content = b"".join(b"x" * rng.choice([0, 1, 5, 63, 64, 300]) + b"\n" * rng.choice([0, 1, 1, 2]) for _ in range(60))
    path = tmp_path / "a"
    path.write_bytes(content)
    lines = list(read_lines(path, chunk_bytes=chunk_bytes))
    assert b"".join(line.data + b"\n" * line.terminated for line in lines) == content
    assert [line.data for line in lines] == content.removesuffix(b"\n").split(b"\n")
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert all(content[line.offset :].startswith(line.data) for line in lines)
    assert [line.length for line in lines] == [len(line.data) + line.terminated for line in lines]


def test_what_a_writer_appends_meanwhile_is_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(b'{"id":1}\n' * 3)
    lines = scan(path, chunk_bytes=8)
    next(lines)
    with path.open("ab") as file:
        file.write(b'{"id":2}\n')
    assert [line.line for line in lines] == [2, 3]


# ---- faults ----

GOOD = b'{"reward":1.0,"response":{"metadata":{},"output":[{"text":"a"}]},"_ng_task_index":0}'
SKIPPED = b'{"reward":1,"x":%s}'
WANTED = b'{"x":1,"error":%s}'
BAD_VALUES: list[tuple[bytes, FaultKind, int]] = [
    # a value, its fault, and at which of its bytes (from 0)
    (b"bare", K.INVALID_JSON, 0),
    (b"[1 2]", K.INVALID_JSON, 3),
    (b"[1,]", K.INVALID_JSON, 3),
    (b"01", K.INVALID_JSON, 1),
    (b"1.", K.INVALID_JSON, 2),
    (b"+1", K.INVALID_JSON, 0),
    (b"-", K.INVALID_JSON, 1),
    (b"1e", K.INVALID_JSON, 2),
    (b"[{]}", K.INVALID_JSON, 2),
    (b"'a'", K.INVALID_JSON, 0),
    (b"{1:2}", K.INVALID_JSON, 1),
    (rb'"\x"', K.INVALID_JSON, 2),
    (rb'"\u12G4"', K.INVALID_JSON, 5),
    (b'"\x01"', K.INVALID_JSON, 1),
    (b'"\t"', K.INVALID_JSON, 1),
    (b'"\x00"', K.INVALID_JSON, 1),
    (b'"\xff"', K.NOT_UTF8, 1),
    (b'"\xc0\x80"', K.NOT_UTF8, 1),
    (b'"\xed\xa0\x80"', K.NOT_UTF8, 1),
    (b'"\xe2\x82"', K.NOT_UTF8, 1),
    (b'{"\xff":1}', K.NOT_UTF8, 2),
    (rb'"\ud800"', K.LONE_SURROGATE, 1),
    (rb'{"\ud800":1}', K.LONE_SURROGATE, 2),
    (b"NaN", K.NON_FINITE_NUMBER, 0),
    (b"[-Infinity]", K.NON_FINITE_NUMBER, 1),
    (b"/* */1", K.INVALID_JSON, 0),
    (b"1e999", K.NON_FINITE_NUMBER, 0),
    (b"[0,-1E+0400]", K.NON_FINITE_NUMBER, 3),
    (b"1" * 400 + b".5", K.NON_FINITE_NUMBER, 0),
    (b"-" + b"9" * 309 + b".0", K.NON_FINITE_NUMBER, 0),
    (b"1" * 250 + b"e99", K.NON_FINITE_NUMBER, 0),
    (b"[" * 512 + b"]" * 512, K.TOO_DEEP, 511),
    (b'{"a":' * 700 + b"1" + b"}" * 700, K.TOO_DEEP, 511 * 5),
    (b"[" * 100_000 + b"]" * 100_000, K.TOO_DEEP, 511),
]
GOOD_VALUES = [
    b"1e308",
    b"1e-999",
    b"2" * 300,
    b"7" * 5000,
    b"1180591620717411303424",
    rb'"\ud83d\ude00 \\ud800 1e999 NaN"',
    b'"' + b"9" * 400 + b'"',
    b'["' + b"[" * 1000 + b'"]',
    rb'["\"[[[[{{{{\\",' + b"[]," * 600 + b"1]",
]


@pytest.mark.parametrize("chunk_bytes", [7, 65, 256 * 1024])
@pytest.mark.parametrize("frame", [SKIPPED, WANTED])
@pytest.mark.parametrize(("value", "kind", "place"), BAD_VALUES, ids=lambda value: repr(value)[:30])
def test_every_fault_at_its_place(
    tmp_path: Path, frame: bytes, value: bytes, kind: FaultKind, place: int, chunk_bytes: int
) -> None:
    line = frame % value
    content = GOOD + b"\n\n" + line + b"\n" + GOOD + b"\n"
    offset = len(GOOD) + 2
    before, *faults, after = scanned(tmp_path, content, chunk_bytes=chunk_bytes)
    assert isinstance(before, Row)
    assert isinstance(after, Row)
    assert (after.line, after.offset) == (4, offset + len(line) + 1)
    fault = faults[0]
    assert isinstance(fault, Fault)
    column = frame.index(b"%") + place + 1
    assert (fault.kind, fault.line, fault.offset, fault.length, fault.column) == (
        kind,
        3,
        offset,
        len(line) + 1,
        column,
    )
    assert fault.path == str(tmp_path / "rollouts.jsonl")
    assert len(fault.excerpt) <= 200
    assert fault.excerpt.isprintable()
    rows = [row for row in faults[1:] if isinstance(row, Row)]
    assert len(rows) == (kind in READABLE)
    assert all((row.line, row.offset, row.length) == (3, offset, len(line) + 1) for row in rows)


@pytest.mark.parametrize("frame", [SKIPPED, WANTED])
@pytest.mark.parametrize("value", GOOD_VALUES, ids=lambda value: repr(value)[:30])
def test_what_only_looks_like_a_fault(tmp_path: Path, frame: bytes, value: bytes) -> None:
    (row,) = scanned(tmp_path, frame % value + b"\n")
    assert isinstance(row, Row)
    assert shape(row.fields) == shape(reference_row(frame % value))


@pytest.mark.parametrize("frame", [SKIPPED, WANTED])
@pytest.mark.parametrize(
    "value", [b"[" * 511 + b"]" * 511, b'{"a":' * 511 + b"1" + b"}" * 511], ids=["lists", "objects"]
)
def test_the_deepest_rows(tmp_path: Path, frame: bytes, value: bytes) -> None:
    (row,) = scanned(tmp_path, frame % value + b"\n")
    assert isinstance(row, Row)
    inner, levels = row.fields.get("error"), 0
    while inner and isinstance(inner, list | dict):
        inner, levels = inner[0] if isinstance(inner, list) else inner["a"], levels + 1
    assert levels == (0 if frame == SKIPPED else 511 - (inner == []))


def reference_row(line: bytes) -> dict[str, Any]:
    import sys

    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        row, faults = reference.read(line)
    finally:
        sys.set_int_max_str_digits(limit)
    assert row is not None
    assert not faults
    return row


@pytest.mark.parametrize("row", [b"[]", b"1", b'"a"', b"null", b"[{}]"])
def test_rows_must_be_objects(tmp_path: Path, row: bytes) -> None:
    (fault,) = scanned(tmp_path, b"  " + row + b"\n")
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.column) == (K.NOT_AN_OBJECT, 3)


@pytest.mark.parametrize(
    ("line", "kind", "column"),
    [
        (b'\xef\xbb\xbf{"id":1}', K.INVALID_JSON, 1),
        (b"\xc2\xa0", K.INVALID_JSON, 1),
        (b"\xe2\x80\xa8", K.INVALID_JSON, 1),
        (b"\x0c", K.INVALID_JSON, 1),
        (b"\x00", K.INVALID_JSON, 1),
        (b'{"id":1}{"id":2}', K.INVALID_JSON, 9),
        (b'{"id":1}\r{"id":2}', K.INVALID_JSON, 10),
    ],
)
def test_what_is_no_blank(tmp_path: Path, line: bytes, kind: FaultKind, column: int) -> None:
    for content in (line + b"\n", GOOD + b"\n" + line + b"\n" + GOOD):
        (fault,) = (found for found in scanned(tmp_path, content) if isinstance(found, Fault))
        assert (fault.kind, fault.column) == (kind, column)


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("length", [1, 2, 9, 20, 40, 60, len(GOOD) - 1])
def test_a_torn_tail(tmp_path: Path, length: int, chunk_bytes: int) -> None:
    row, fault = scanned(tmp_path, GOOD + b"\n" + GOOD[:length], chunk_bytes=chunk_bytes)
    assert isinstance(row, Row)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.line, fault.offset) == (K.TRUNCATED_TAIL, 2, len(GOOD) + 1)
    assert (fault.length, fault.column) == (length, length + 1)


def test_the_same_text_with_a_newline_is_no_torn_tail(tmp_path: Path) -> None:
    (fault,) = scanned(tmp_path, GOOD[:20] + b"\n")
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.column) == (K.INVALID_JSON, 21)


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (b'{"id":1}}', K.INVALID_JSON),
        (b'{"id":01', K.INVALID_JSON),
        (b'{"id":"\xff', K.NOT_UTF8),
        (rb'{"id":"\ud800"}', K.LONE_SURROGATE),
        (b'{"reward":1,"reward":2}', K.DUPLICATE_KEY),
        (b"[1]", K.NOT_AN_OBJECT),
        (b'{"id":"\xe2\x82', K.TRUNCATED_TAIL),
        (b'{"reward":1,"reward":2', K.TRUNCATED_TAIL),
        (b'{"x":' + b"[" * 9000, K.TRUNCATED_TAIL),
    ],
)
def test_faults_of_an_unterminated_last_line(tmp_path: Path, tail: bytes, kind: FaultKind) -> None:
    (fault,) = scanned(tmp_path, tail)
    assert isinstance(fault, Fault)
    assert fault.kind is kind


@pytest.mark.parametrize(
    "key", [*sorted(RowFields.__annotations__), "test_output", "verifier_stdout", "verifier_output"]
)
@pytest.mark.parametrize(
    ("one", "two"), [(b"1", b"2"), (b"{}", b"null"), (b"null", b"{}"), (b"{}", b"{}"), (b"[]", b'"a"')]
)
def test_duplicates_of_every_field(tmp_path: Path, key: str, one: bytes, two: bytes) -> None:
    name = key.encode()
    escaped = b"\\u%04x" % name[0] + name[1:]
    kind = K.DUPLICATE_KEY if key in RecordFields.__annotations__ else K.DUPLICATE_COMPARED_KEY
    for first, second in ((name, name), (name, escaped), (escaped, name)):
        line = b'{"x":{"%s":0},"%s":%s,"y":"%s","%s" : %s}' % (name, first, one, name, second, two)
        fault, *rows = scanned(tmp_path, line)
        assert isinstance(fault, Fault)
        assert (fault.kind, fault.column) == (kind, line.rindex(b'"' + second + b'"') + 1)
        assert len(rows) == (kind in READABLE)


@pytest.mark.parametrize("spelled", [b"reward", b"re\\u0077ard", b"\\u0072eward"])
def test_a_key_is_what_it_spells(tmp_path: Path, spelled: bytes) -> None:
    (row,) = scanned(tmp_path, b'{"%s":0.5}' % spelled)
    assert isinstance(row, Row)
    assert row.fields == {"reward": 0.5}


def test_faults_that_leave_a_row_readable_come_before_it_in_order(tmp_path: Path) -> None:
    line = b'{"uuid":1,"x":NaN,"uuid":2,"_ng_task_index":9223372036854775808,"reward":Infinity}\n'
    *faults, row = scanned(tmp_path, line)
    assert [fault.kind for fault in faults if isinstance(fault, Fault)] == [
        K.NON_FINITE_NUMBER,
        K.DUPLICATE_COMPARED_KEY,
        K.INTEGER_OUT_OF_RANGE,
        K.NON_FINITE_NUMBER,
    ]
    assert isinstance(row, Row)
    assert row.fields == {"uuid": 2, "_ng_task_index": 2**63, "reward": float("inf")}


# ---- agreement ----

SCALARS = st.one_of(
    st.sampled_from(["0", "-0", "-0.0", "1", "1.0", "1e5", "1.2e-05", "1E+2", "0.1", "1e-400"]),
    st.sampled_from(
        ["12345678901234567890", "-9223372036854775809", "1e999", "-1e400", "NaN", "Infinity", "-Infinity"]
    ),
    st.sampled_from(["true", "false", "null", '""', '"1.0"', '"é"', '"\\u00e9\\n"', '"a\\\\"', '"\\""', '"[{"']),
    st.sampled_from(['"\\ud83d\\ude00"', '"\\ud800"', '"😀"', '"1e999"']),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
KEYS = st.one_of(
    st.sampled_from(sorted(RowFields.__annotations__)),
    st.sampled_from(["reward", "id", "metadata", "input", "usage", "model", "x", "input_tokens", "taskset", "é"]),
    st.sampled_from(["test_output", "verifier_output", "re\\u0077ard", "\\u0069d", "meta\\u0064ata"]),
)
BLANKS = st.sampled_from(["", "", "", " ", "\t", "\r"])


def objects(values: st.SearchStrategy[str], keys: st.SearchStrategy[str] = KEYS) -> st.SearchStrategy[str]:
    members = st.tuples(BLANKS, keys, BLANKS, values).map(lambda m: f'{m[0]}"{m[1]}"{m[2]}:{m[0]}{m[3]}{m[2]}')
    return st.lists(members, max_size=6).map(lambda found: "{" + ",".join(found) + "}")


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(objects(inner), st.lists(inner, max_size=4).map(lambda found: "[" + ",".join(found) + "]")),
    max_leaves=8,
)
NESTED_KEYS = st.sampled_from(
    [
        "response",
        "verifier_metadata",
        "responses_create_params",
        "_ng_failure_record",
        "_ng_task_id",
        "task_id",
        "reward",
    ]
)
ROWS = st.one_of(objects(VALUES), objects(objects(VALUES), NESTED_KEYS), VALUES).map(str.encode)
FRAGMENTS = st.one_of(
    st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"e", b"E+", b"-", b" ", b"\r", b"\x00"]),
    st.sampled_from([b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xc2\xa0", b"\xef\xbb\xbf", b"\\ud800", b"\\u0"]),
    st.sampled_from([b"NaN", b"tru", b"1e999", b'"reward":1,', b"9" * 220]),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    row = draw(ROWS)
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(row)))
        stop = min(len(row), start + draw(st.integers(0, 3)))
        row = row[:start] + draw(st.one_of(FRAGMENTS, st.just(b""))) + row[stop:]
    return row


FILES = st.lists(st.one_of(ROWS, damaged(), st.sampled_from([b"", b" \r"])), min_size=1, max_size=5)


def agrees(lines: list[bytes], found: Iterator[Row | Fault]) -> None:
    """Check a scan of terminated lines against the second reading."""
    rows: dict[int, Row] = {}
    faults: dict[int, list[Fault]] = {}
    for line in found:
        if isinstance(line, Row):
            assert line.line not in rows
            rows[line.line] = line
        else:
            assert line.line not in rows, "a fault comes before its row"
            faults.setdefault(line.line, []).append(line)
    offset = 0
    for number, line in enumerate(lines, start=1):
        here = faults.get(number, [])
        for place in [*here, *([rows[number]] if number in rows else [])]:
            assert (place.offset, place.length) == (offset, len(line) + 1)
        offset += len(line) + 1
        if not line.strip(b" \t\r"):
            assert number not in rows
            assert not here
            continue
        expected, kinds = reference.read(line)
        assert (number in rows) == (expected is not None), line
        if expected is None:
            assert len(here) == 1
            assert here[0].kind in kinds - READABLE, (line, here)
        else:
            assert shape(rows[number].fields) == shape(expected), line
            assert {fault.kind for fault in here} == kinds, line


@settings(max_examples=250, derandomize=True, deadline=None)
@given(lines=FILES)
def test_a_scan_agrees_with_a_second_reading(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "agreement.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    for chunk_bytes in CHUNKS:
        agrees(lines, scan(path, chunk_bytes=chunk_bytes))


@settings(max_examples=100, derandomize=True, deadline=None)
@given(lines=FILES)
def test_whole_rows_have_the_same_faults_and_project_to_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.getbasetemp() / "whole.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    projected, whole = list(scan(path)), list(scan(path, whole_rows=True))
    assert len(projected) == len(whole)
    for one, other in zip(projected, whole, strict=True):
        if isinstance(one, Row):
            assert isinstance(other, Row)
            assert shape(one.fields) == shape(reference.projected(other.fields))
        else:
            assert one == other


@settings(max_examples=100, derandomize=True, deadline=None)
@given(lines=st.lists(objects(VALUES).map(str.encode), min_size=1, max_size=3), cut=st.integers(0, 10_000))
def test_a_cut_file_has_the_same_rows_and_at_most_a_torn_tail(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    content = b"".join(line + b"\n" for line in lines)
    path.write_bytes(content)
    end = cut % (len(content) + 1)
    start = content.rfind(b"\n", 0, end) + 1
    whole, found = list(scan(path)), list(scan(path, end_offset=end))
    assert repr([line for line in found if line.offset < start]) == repr(
        [line for line in whole if line.offset < start]
    )
    tail = [line for line in found if line.offset >= start]
    if start == end:
        assert tail == []
    elif content[end : end + 1] == b"\n":  # all of a row but its LF
        same = [line for line in whole if line.offset == start]
        assert [type(line) for line in tail] == [type(line) for line in same]
        assert all(line.length == end - start for line in tail)
    else:
        (fault,) = tail
        assert isinstance(fault, Fault)
        assert (fault.kind, fault.column) == (K.TRUNCATED_TAIL, end - start + 1)


@needs_nemo_gym
def test_real_rows_are_read_alike(tmp_path: Path) -> None:
    for path in sorted(NEMO_GYM.glob("*/rollouts.jsonl")):
        lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(b"".join(line + b"\n" for line in lines))
        agrees(lines, scan(copy))
