"""A Parquet file that grew is the file that would have been written at once."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rollout_assets.indexing.footer import Footer
from rollout_assets.indexing.grow import Growth, parquet_writer
from rollout_assets.tables import Column, Table

NUMBERS = Table(
    "numbers",
    "Numbers of many kinds.",
    (
        Column("number", pa.int64(), "the number", nullable=False),
        Column("kind", pa.dictionary(pa.int32(), pa.string()), "its kind"),
        Column("text", pa.string(), "the number in words", repeats=False),
    ),
)
SCHEMA = NUMBERS.schema


def table(start: int, stop: int) -> pa.Table:
    kinds = pa.array(
        [None if n % 7 == 0 else f"kind {n // 10}" for n in range(start, stop)], pa.string()
    ).dictionary_encode()
    texts = [None if n % 5 == 0 else f"text {n} é" for n in range(start, stop)]
    return pa.table({"number": range(start, stop), "kind": kinds, "text": texts}, schema=SCHEMA)


def write(path: Path, *tables: pa.Table, behind: Path | None = None) -> Path:
    growth = behind and Growth(behind, pq.read_metadata(behind).num_row_groups)
    with parquet_writer(path, NUMBERS, growth) as add:
        for rows in tables:
            add(rows)
    return path


def test_a_file_that_grew_three_times_reads_as_one(tmp_path: Path) -> None:
    path = write(tmp_path / "0", table(0, 100), table(100, 150))
    for number, stop in enumerate((151, 400, 1000), 1):
        start = pq.read_metadata(path).num_rows
        path = write(tmp_path / str(number), table(start, stop), behind=path)
    assert pq.read_table(path).to_pylist() == table(0, 1000).to_pylist()
    assert pq.read_schema(path).equals(SCHEMA, check_metadata=True)
    assert pq.read_metadata(path).num_row_groups == 5
    with pq.ParquetFile(path) as file:
        assert file.read_row_group(3)["number"].to_pylist() == list(range(151, 400))
    assert pq.read_table(path, filters=[("number", ">=", 990)]).num_rows == 10
    query = f"select count(*), sum(number), count(distinct kind), max(text) from read_parquet('{path}')"
    assert duckdb.sql(query).fetchall() == [(1000, 499500, 100, "text 999 é")]


@pytest.mark.parametrize("rows", [0, 3])
def test_nothing_behind_or_nothing_before(tmp_path: Path, rows: int) -> None:
    old = write(tmp_path / "old", *([table(0, rows)] if rows else []))
    same = write(tmp_path / "same", behind=old)
    assert pq.read_table(same).to_pylist() == table(0, rows).to_pylist()
    assert same.read_bytes() == old.read_bytes()
    more = write(tmp_path / "more", table(rows, 5), behind=old)
    assert pq.read_table(more).to_pylist() == table(0, 5).to_pylist()


def test_the_old_file_stays_as_it_was_and_another_schema_is_refused(tmp_path: Path) -> None:
    old = write(tmp_path / "old", table(0, 10))
    before = old.read_bytes()
    other = Table("others", "", (Column("number", pa.string(), ""),))
    with pytest.raises(ValueError, match="schema"), parquet_writer(tmp_path / "new", other, Growth(old, 1)) as add:
        add(pa.table({"number": ["x"]}, schema=other.schema))
    assert old.read_bytes() == before


@pytest.mark.parametrize("groups", [1, 13, 14, 15, 16, 130])
@pytest.mark.parametrize("inserted", [0, 1, 2])
def test_new_rows_may_be_read_between_old_ones(tmp_path: Path, groups: int, inserted: int) -> None:
    old = write(tmp_path / "old", *(table(n, n + 1) for n in range(groups)), table(200, 220))
    growth = Growth(old, groups)
    with parquet_writer(tmp_path / "new", NUMBERS, growth) as add:
        add(table(150, 160))
        add(table(160, 170))
        growth.inserted = inserted
    new = [*range(150, 170)]
    expected = [*range(groups), *new[: inserted * 10], *range(200, 220), *new[inserted * 10 :]]
    assert pq.read_table(tmp_path / "new")["number"].to_pylist() == expected
    assert pq.read_metadata(tmp_path / "new").num_rows == groups + 40
    assert pq.read_table(tmp_path / "new", filters=[("number", "=", 155)])["text"].to_pylist() == [None]
    query = f"select number, kind from read_parquet('{tmp_path / 'new'}')"
    assert duckdb.sql(query).fetchall() == [(n, table(n, n + 1)["kind"][0].as_py()) for n in expected]


def test_a_footer_that_is_taken_apart_and_put_together_is_the_same(tmp_path: Path) -> None:
    content = write(tmp_path / "file", *(table(n, n + 100) for n in range(0, 2000, 100))).read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    data = content[-8 - length : -8]
    footer = Footer.of(data)
    assert len(footer.row_groups) == 20
    assert footer.with_row_groups(footer.row_groups, 2000) == data


@pytest.mark.parametrize("data", [b"\x00", b"\x15\x02\x19\x0c\x00", b"\x36\x02\x15\x02\x00", b"\x1f"])
def test_what_is_no_footer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no "):
        Footer.of(data)
