"""Ranges are made of whole lines, in order, and nothing is lost between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.errors import RunDataError
from rollout_assets.indexing.ranges import CHUNK_BYTES, Range, cut, end_of_last_line

TEXT = st.lists(st.integers(0, 40), max_size=30).map(lambda lengths: b"\n".join(b"x" * length for length in lengths))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranges") / "run.jsonl"


def ranges_of(path: Path, size: int, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
    whole = Range("output", path, start, path.stat().st_size if stop is None else stop)
    return [(found.start, found.stop) for found in cut(whole, size, size, 1)]


@given(TEXT, st.integers(1, 60))
@settings(derandomize=True, deadline=None)
def test_ranges_hold_whole_lines_and_everything(place: Path, text: bytes, size: int) -> None:
    place.write_bytes(text)
    found = ranges_of(place, size)
    assert b"".join(text[start:stop] for start, stop in found) == text
    assert all(start < stop for start, stop in found)
    assert all(text[start - 1 : start] in (b"", b"\n") for start, _ in found)
    longest = max(map(len, text.split(b"\n"))) + 1
    assert all(stop - start <= size + size // 2 + longest for start, stop in found)


@given(TEXT, st.integers(1, 60), st.data())
@settings(derandomize=True, deadline=None)
def test_a_part_of_a_file_is_cut_alike(place: Path, text: bytes, size: int, data: st.DataObject) -> None:
    place.write_bytes(text)
    starts = [0, *(index + 1 for index, byte in enumerate(text) if byte == 10)]
    start = data.draw(st.sampled_from(starts))
    stop = data.draw(st.integers(start, len(text)))
    found = ranges_of(place, size, start, stop)
    assert b"".join(text[first:last] for first, last in found) == text[start:stop]


def test_the_last_ranges_are_small(place: Path) -> None:
    place.write_bytes(b"123456789\n" * 1000)
    sizes = [found.stop - found.start for found in cut(Range("output", place, 0, 10_000), 200, 1500, 4)]
    assert sum(sizes) == 10_000
    assert sizes[:3] == [1500, 1500, 1500]
    assert sizes == sorted(sizes, reverse=True) or sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert 200 <= sizes[-2] < 300


def test_a_line_longer_than_many_ranges_lies_in_one(place: Path) -> None:
    long = b"y" * (3 * CHUNK_BYTES)
    place.write_bytes(b"a\n" + long + b"\nb\nc\n")
    assert ranges_of(place, 1000) == [(0, len(long) + 3), (len(long) + 3, len(long) + 7)]


@given(TEXT, st.data())
@settings(derandomize=True, deadline=None)
def test_the_end_of_the_last_line(place: Path, text: bytes, data: st.DataObject) -> None:
    place.write_bytes(text)
    end = data.draw(st.integers(0, len(text)))
    assert end_of_last_line(place, end) == text[:end].rfind(b"\n") + 1


def test_the_end_of_a_last_line_before_a_long_torn_one(place: Path) -> None:
    place.write_bytes(b"a\n" + b"y" * (2 * CHUNK_BYTES))
    assert end_of_last_line(place, place.stat().st_size) == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for read in (lambda: end_of_last_line(tmp_path, 5), lambda: list(cut(Range("output", tmp_path, 0, 5), 1, 1, 1))):
        with pytest.raises(RunDataError, match="is a directory") as caught:
            read()
        assert caught.value.code == "E-UNREADABLE"
