"""Reading rows, and reading one row again by its place (records.md §6)."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from rollout_assets.core.jsonl import scan
from rollout_assets.core.records import RolloutRecord, RunDataError, indexer, prepare_append, read_records, reading
from rollout_assets_tests.core.records.runs import RUN_ID, index, legacy, load, result, write_run


def test_rows_are_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": {"b": 1}, "z": 2}\r\n \t\r\n\n{"c": 1e400}')
    assert list(read_records(path)) == [{"a": {"b": 1}, "z": 2}, {"c": float("inf")}]
    assert list(read_records(tmp_path / "none.jsonl")) == []


def test_the_first_bad_line_is_raised_after_the_rows_before_it(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n7\n{}\n")
    rows = read_records(path)
    assert next(rows) == {}
    with pytest.raises(RunDataError) as raised:
        next(rows)
    assert (raised.value.code, raised.value.line, raised.value.offset) == ("E-OBJECT", 2, 3)


def test_an_incomplete_last_row(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{}\n{"a')
    with pytest.warns(UserWarning, match=r"x.jsonl:2"):
        assert list(read_records(path)) == [{}]
    assert list(read_records(path, end_offset=5)) == [{}]  # the limit cut it


def test_a_record_reads_its_row(tmp_path: Path) -> None:
    records = index(tmp_path, inventory=2, results=[result(0), result(1, note="é")])
    record = records.outcome("1-0").record
    assert record.read() == result(1, note="é")
    assert record.line_number == 2
    assert record.expected_identity == (RUN_ID, "1-0", 0)


def test_the_legacy_number_is_put_into_the_row(tmp_path: Path) -> None:
    records = index(tmp_path, results=[legacy(result()), legacy(result(reward=0))], legacy_import=True)
    assert records.outcome("0-0").record.read() == {**legacy(result(reward=0)), "_ng_attempt_index": 1}


@pytest.mark.parametrize(
    "changed",
    [result(1), result(attempt=3), result(_ng_run_id="b" * 32), result(_ng_run_id=None), b"{bad}\n", b"[]\n", b"{}"],
)
def test_a_changed_row_is_refused(tmp_path: Path, changed: dict | bytes) -> None:
    output = write_run(tmp_path, results=[result()])
    record = load(output).outcome("0-0").record
    text = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    with output.open("r+b") as file:  # in place, so that the file is still the one that was indexed
        file.truncate(0)
        file.write(text.rstrip().ljust(record.length))
    with pytest.raises(RunDataError) as raised:
        record.read()
    assert (raised.value.code, raised.value.path, raised.value.offset) == ("E-RECORD-CHANGED", str(output), 0)
    with output.open("r+b") as file:
        file.truncate(record.length // 2)
    with pytest.raises(RunDataError, match="changed after it was indexed"):
        record.read()


def test_a_replaced_file_is_refused(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result()])
    records = load(output)
    copy = tmp_path / "copy"
    copy.write_bytes(output.read_bytes())
    os.replace(copy, output)
    with pytest.raises(RunDataError) as raised:
        records.selected("success")[0]
    assert (raised.value.code, raised.value.path) == ("E-FILE-REPLACED", str(output))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as raised:
        RolloutRecord(str(tmp_path / "none"), 0, 1, 1).read()
    assert raised.value.code == "E-UNREADABLE"


def test_a_large_row_is_read_without_its_skipped_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PROJECTED_ROW_BYTES", 40)
    monkeypatch.setattr(reading, "_CHUNK_BYTES", 7)
    path = tmp_path / "x.jsonl"
    text = (
        b'{"ng_trajectory":{"ng_trajectory":"a]}\\"","x":[1,{"y":"}"}]},'
        b'"keep":{"ng_trajectory":5},"_ng_attempt_index":0}'
    )
    small = b'{"ng_trajectory":[1,2,3]}'
    path.write_bytes(small + b"\n" + text + b"\n" + text[:-1])
    keys = frozenset({"ng_trajectory"})
    projected = {"ng_trajectory": None, "keep": {"ng_trajectory": 5}, "_ng_attempt_index": 0}
    assert reading.read_row(path, 0, len(small) + 1, skip_keys=keys) == {"ng_trajectory": [1, 2, 3]}
    start = len(small) + 1
    assert reading.read_row(path, start, len(text) + 1, skip_keys=keys) == projected
    assert reading.read_row(path, start, len(text), skip_keys=keys) == projected
    assert reading.read_row(path, start, len(text) + 1)["ng_trajectory"]["x"] == [1, {"y": "}"}]
    torn = start + len(text) + 1
    assert reading.read_row(path, torn, len(text) - 1, skip_keys=keys) is None
    assert reading.read_row(path, torn, len(text), skip_keys=keys) is None  # the file ends before


@pytest.mark.parametrize(("limit", "projected"), [(24, True), (25, False), (26, False)])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_the_line_feed_does_not_make_a_row_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, projected: bool, end: bytes
) -> None:
    monkeypatch.setattr(reading, "PROJECTED_ROW_BYTES", limit)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"ng_trajectory":[1,2,3]}' + end)
    row = reading.read_row(path, 0, 25 + len(end), skip_keys={"ng_trajectory"})
    assert row == {"ng_trajectory": None if projected else [1, 2, 3]}
    scanned = scan(path, skip_keys={"ng_trajectory"}, whole_rows=True, projected_row_bytes=limit)
    assert [line.fields for line in scanned] == [row]


def test_an_index_reads_large_rows_as_it_scanned_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PROJECTED_ROW_BYTES", 40)
    monkeypatch.setattr(indexer, "scan", partial(indexer.scan, projected_row_bytes=40))
    rows = [result(ng_trajectory=["secret"]), result(ng_trajectory=["other"])]  # equal but for what is skipped
    records = index(tmp_path, results=rows, options={"skip_keys": {"ng_trajectory"}})
    assert records.selected("success")[0] == {**rows[0], "ng_trajectory": None}
    assert records.dropped[0].because == "duplicate of line 1"


def test_a_reader_never_mends_and_a_writer_may(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result(), b'{"a'])
    with pytest.warns(UserWarning, match="incomplete"):
        load(output)
    assert output.read_bytes().endswith(b'{"a')
    with pytest.warns(UserWarning, match="3 bytes"):
        prepare_append(output)
    assert output.read_bytes().endswith(b"}\n")
    assert load(output).disposition("0-0") == "success"
