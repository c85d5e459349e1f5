"""What a scan holds in memory: a chunk, a line that is not very long, and of a projected line only what is kept."""

from __future__ import annotations

import mmap
import tracemalloc
import weakref
from pathlib import Path

import pytest

from rollout_assets.core.jsonl import Row, lines, parse, scan
from rollout_assets.core.jsonl.lines import MAPPED_LINE_BYTES, read_blocks
from rollout_assets_tests.core.jsonl.test_scan import BAD_VALUES, GOOD, GOOD_VALUES, SKIPPED, WANTED

MIB = 1024 * 1024


def peak_mib(path: Path, **options: object) -> tuple[int, float]:
    """Rows of a file, and the most memory that a scan had at a time."""
    list(scan(path.with_name("none")))  # what is imported late is imported now
    tracemalloc.start()
    rows = sum(isinstance(line, Row) for line in scan(path, **options))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()
    return rows, peak


def write_lines(path: Path, mib: int, end: bytes = b'"]}') -> Path:
    """Three rows of so many MiB between small ones."""
    line = b'{"reward":1,"_ng_task_id":{"id":7},"ng_trajectory":["' + b"text \\n " * (mib * MIB // 8) + end + b"\n"
    path.write_bytes((b'{"reward":1}\n' + line) * 3)
    return path


@pytest.fixture
def long_lines(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "long.jsonl", 12)


def test_one_line_that_is_not_very_long_is_held_at_a_time(tmp_path: Path) -> None:
    rows, peak = peak_mib(write_lines(tmp_path / "a.jsonl", 6))
    assert rows == 6
    assert peak < 6 + 4


def test_a_very_long_line_takes_no_memory(long_lines: Path) -> None:
    rows, peak = peak_mib(long_lines)
    assert rows == 6
    assert peak < 4


@pytest.mark.parametrize(("end", "rows"), [(b'",1e999]}', 6), (b'\xff"]}', 3), (b'"', 3), (b'",[NaN,1]]}', 6)])
def test_nor_does_the_exact_reading_of_one(tmp_path: Path, end: bytes, rows: int) -> None:
    found, peak = peak_mib(write_lines(tmp_path / "a.jsonl", 12, end))
    assert found == rows
    assert peak < 4


def test_a_projected_line_is_not_held(long_lines: Path) -> None:
    rows, peak = peak_mib(long_lines, skip_keys={"ng_trajectory"}, projected_row_bytes=MIB)
    assert rows == 6
    assert peak < 5


def test_many_brackets_cost_no_memory_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"x":[' + b"[]," * (4 * MIB) + b"1]}\n")
    rows, peak = peak_mib(path)
    assert rows == 1
    assert peak < 16  # what one window of it needs


@pytest.mark.parametrize("chunk_bytes", [1, 10, 100])
@pytest.mark.parametrize("limit", [None, 0, 5, 50, 500])
@pytest.mark.parametrize("mapped", [MAPPED_LINE_BYTES, 20])
def test_blocks_are_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chunk_bytes: int, limit: int | None, mapped: int
) -> None:
    monkeypatch.setattr(lines, "MAPPED_LINE_BYTES", mapped)
    content = b"".join(b"x" * length + b"\n" for length in (3, 0, 200, 1, 99, 100, 101, 0, 1000, 7)) + b"y" * 60
    path = tmp_path / "a"
    path.write_bytes(content)
    read, pieces = b"", b""
    for block in read_blocks(path, chunk_bytes=chunk_bytes, line_limit=limit):
        data = bytes(block.buffer[: block.length])
        assert block.offset == len(read)
        read += data
        if block.is_piece:
            pieces += data
            assert b"\n" not in data[:-1]
            if block.is_last_piece:
                assert limit is not None
                assert len(pieces.removesuffix(b"\n")) > limit
                pieces = b""
            else:
                assert not data.endswith(b"\n")
        else:
            assert pieces == b""
            assert data.endswith(b"\n") or len(read) == len(content)
        stops = lines.line_stops(block.buffer, block.length)
        if isinstance(block.buffer, memoryview):
            assert len(data.removesuffix(b"\n")) > mapped
            assert not block.is_piece
        assert b"".join(data[a:b] for a, b in zip([0, *stops], stops, strict=False)) == data
        assert all(b"\n" not in data[a : b - 1] for a, b in zip([0, *stops], stops, strict=False))
    assert read == content


LINES = [GOOD, b" \t" * 40 + b"\r", *GOOD_VALUES]
LINES += [frame % value for frame in (SKIPPED, WANTED) for value, *_ in BAD_VALUES] + [GOOD[:-40] + b"[1,", b"x" * 200]


@pytest.mark.parametrize("chunk_bytes", [1, 50, 1000])
@pytest.mark.parametrize("whole_rows", [False, True])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_mapped_lines_are_read_like_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chunk_bytes: int, whole_rows: bool, end: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    for last in (b'{"reward":1,"x":"%s"}' % (b"y" * 4096), GOOD[:-9], b'{"x":[' + b"1e999" * 200):
        path.write_bytes(b"\n".join([*(line for line in LINES if len(line) < 5000), last]) + end)
        expected = repr(list(scan(path, whole_rows=whole_rows)))
        with monkeypatch.context() as patched:
            for module in (lines, parse):
                patched.setattr(module, "MAPPED_LINE_BYTES", 20)
            mapped = list(scan(path, chunk_bytes=chunk_bytes, whole_rows=whole_rows))
            assert repr(mapped) == expected


def test_a_mapping_is_given_back_when_the_next_block_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, long_lines: Path
) -> None:
    mappings: list[weakref.ref[mmap.mmap]] = []

    class Mapping(mmap.mmap):
        def __init__(self, *arguments: object, **options: object) -> None:
            mappings.append(weakref.ref(self))

    monkeypatch.setattr(mmap, "mmap", Mapping)
    held = []
    for line in scan(long_lines):
        held.append(sum(mapping() is not None for mapping in mappings))
        assert isinstance(line, Row)
    assert held == [0, 1, 0, 1, 0, 1]


def test_a_file_that_cannot_be_mapped_is_read(monkeypatch: pytest.MonkeyPatch, long_lines: Path) -> None:
    expected = list(scan(long_lines))

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no such device")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert list(scan(long_lines)) == expected
    assert all(isinstance(block.buffer, bytearray) for block in read_blocks(long_lines))


@pytest.mark.parametrize("left_mib", [0, 4, 9])
def test_a_file_that_becomes_shorter_is_read_as_far_as_it_goes(tmp_path: Path, left_mib: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x\n" + b"y" * (12 * MIB) + b"\nz\n")
    blocks = read_blocks(path)
    first = next(blocks)
    assert bytes(first.buffer[: first.length]) == b"x\n"
    with path.open("rb+") as file:
        file.truncate(2 + left_mib * MIB)
    rest = b"".join(bytes(block.buffer[: block.length]) for block in blocks)
    assert rest == b"y" * max(left_mib * MIB, 256 * 1024 - 2)
