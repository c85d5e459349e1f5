"""What a scan holds in memory: one line, and of a projected line only what is kept."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from rollout_assets.core.jsonl import Row, scan
from rollout_assets.core.jsonl.lines import read_blocks

MIB = 1024 * 1024


def peak_mib(path: Path, **options: object) -> tuple[int, float]:
    """Rows of a file, and the most memory that a scan had at a time."""
    list(scan(path.with_name("none")))  # what is imported late is imported now
    tracemalloc.start()
    rows = sum(isinstance(line, Row) for line in scan(path, **options))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()
    return rows, peak


@pytest.fixture
def long_lines(tmp_path: Path) -> Path:
    """Three rows of 12 MiB between small ones."""
    path = tmp_path / "long.jsonl"
    line = b'{"reward":1,"ng_trajectory":["' + b"text \\n " * (12 * MIB // 8) + b'"]}\n'
    path.write_bytes((b'{"reward":1}\n' + line) * 3)
    return path


def test_one_long_line_is_held_at_a_time(long_lines: Path) -> None:
    rows, peak = peak_mib(long_lines)
    assert rows == 6
    assert peak < 12 + 4


def test_a_projected_line_is_not_held(long_lines: Path) -> None:
    rows, peak = peak_mib(long_lines, skip_keys={"ng_trajectory"}, projected_row_bytes=MIB)
    assert rows == 6
    assert peak < 5


def test_many_brackets_cost_no_memory_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"x":[' + b"[]," * (2 * MIB) + b"1]}\n")
    rows, peak = peak_mib(path)
    assert rows == 1
    assert peak < 6 + 16  # the line, and what one window of it needs


@pytest.mark.parametrize("chunk_bytes", [1, 10, 100])
@pytest.mark.parametrize("limit", [None, 0, 5, 50, 500])
def test_blocks_are_the_file(tmp_path: Path, chunk_bytes: int, limit: int | None) -> None:
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
    assert read == content
