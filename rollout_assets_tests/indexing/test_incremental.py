"""Going on from a stored index gives what a whole scan gives, whatever happened to the files in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from rollout_assets.indexing import run as run_module
from rollout_assets.indexing import state as state_module
from rollout_assets.indexing.incremental import NewIndex, block, keep, make_index
from rollout_assets.indexing.state import INDEX_TABLES, load_state
from rollout_assets.store import Store
from rollout_assets_tests.indexing.material import FAILURE, GOOD, LINES, OTHER, rows

BAD = b"{oops\n"
TORN = b'{"task_id": "t", "rew'


@dataclass
class Place:
    """A store with one run, `run`."""

    root: Path

    def __post_init__(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "runs").mkdir(parents=True)
        self.output.touch()
        self.store = Store(self.root / "store", self.root / "runs")

    @property
    def output(self) -> Path:
        return self.root / "runs" / "run.jsonl"

    @property
    def sidecar(self) -> Path:
        return self.root / "runs" / "run_failures.jsonl"

    def index(self, *, whole: bool = False, advance: Callable[[int], object] = lambda _: None) -> NewIndex:
        """Index the run as a command would, whatever its faults."""
        spool = self.store.new_spool()
        index = make_index(self.store, "run", spool, whole=whole, advance=advance)
        for name in INDEX_TABLES:
            target = self.store.table_path(name, "run")
            target.parent.mkdir(parents=True, exist_ok=True)
            (spool / f"{name}.parquet").replace(target)
        keep(self.store, index)
        return index

    def tables(self) -> list[list[dict[str, object]]]:
        return [rows(self.store.table_path(name, "run")) for name in INDEX_TABLES]


def check_as_fresh(place: Place) -> NewIndex:
    """Index once more, and as a whole: the same tables and the same summary, and the same is remembered."""
    index = place.index()
    tables, state = place.tables(), load_state(place.store, "run")
    fresh = place.index(whole=True)
    assert tables == place.tables()
    assert index.summary == fresh.summary
    assert list(index.summary.counts) == list(fresh.summary.counts)
    assert state is not None
    assert state.files == fresh.state.files
    return index


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_only_what_was_appended_is_scanned(place: Place) -> None:
    append(place.output, GOOD * 3 + b"{oops\n")
    assert str(place.index().scope) == "scanned as a whole: there is no earlier index of it to go on from"
    append(place.output, b"\n" + OTHER)
    index = check_as_fresh(place)
    assert str(index.scope) == f"only the last {len(OTHER) + 1} bytes of run.jsonl had to be scanned"
    assert [row["line"] for row in place.tables()[0]] == [1, 2, 3, 6]
    assert str(check_as_fresh(place).scope) == "nothing had to be scanned: nothing was appended"
    append(place.output, OTHER)
    append(place.sidecar, FAILURE + b"[]\n")
    assert str(check_as_fresh(place).scope) == (
        f"only the last {len(OTHER)} bytes of run.jsonl and the last {len(FAILURE) + 3} bytes of run_failures.jsonl "
        "had to be scanned"
    )


def test_the_old_table_is_copied_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    append(place.output, GOOD * 3)
    append(place.sidecar, FAILURE + BAD)
    place.index()
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", forbidden(pq.ParquetFile.read_row_group))
    append(place.output, OTHER)
    place.index()
    append(place.sidecar, FAILURE)
    place.index()
    append(place.output, GOOD)
    append(place.sidecar, FAILURE)
    place.index()
    assert pq.read_metadata(place.store.table_path("record_index", "run")).num_row_groups == 6
    monkeypatch.undo()
    assert [(row["file"], row["line"]) for row in place.tables()[0]] == [
        *(("output", line) for line in (1, 2, 3, 4, 5)), *(("failures", line) for line in (1, 3, 4)),
    ]  # fmt: skip
    check_as_fresh(place)


def forbidden(read: Callable[..., Any]) -> Callable[..., Any]:
    """Reading a row group, of a table of faults alone: their first ones are told."""

    def guarded(file: pq.ParquetFile, *arguments: Any, **options: Any) -> Any:
        assert "kind" in file.schema_arrow.names
        return read(file, *arguments, **options)

    return guarded


def test_a_table_of_too_many_row_groups_is_written_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "SPARE_ROW_GROUPS", 3)
    seen = []
    for _ in range(7):
        append(place.output, GOOD)
        assert check_as_fresh(place) is not None
    place.index(whole=True)
    for _ in range(7):
        append(place.output, GOOD)
        place.index()
        seen.append(pq.read_metadata(place.store.table_path("record_index", "run")).num_row_groups)
    assert seen == [2, 3, 4, 1, 2, 3, 4]
    check_as_fresh(place)


@pytest.mark.parametrize("tail", [TORN, OTHER.rstrip(), b"  ", b'{"task_id": "n", "reward": NaN}'])
@pytest.mark.parametrize("goes_on", [b'ard": 1}\n', b"\n" + GOOD, b"", GOOD])
def test_a_line_that_is_not_finished_is_read_again(place: Place, tail: bytes, goes_on: bytes) -> None:
    append(place.output, GOOD + tail)
    append(place.sidecar, FAILURE + tail)
    place.index()
    append(place.output, goes_on)
    assert check_as_fresh(place).scope.why_whole is None
    append(place.sidecar, goes_on)
    assert check_as_fresh(place).scope.why_whole is None


def test_a_torn_line_that_was_cut_off_by_a_resume_is_no_reason_to_begin_anew(place: Place) -> None:
    append(place.output, GOOD + TORN)
    place.index()
    os.truncate(place.output, len(GOOD))
    append(place.output, OTHER * 2)
    assert check_as_fresh(place).scope.why_whole is None


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes() + GOOD)
    copy.replace(path)


def edit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"1.0", b"0.0"))


def edit_and_append(path: Path) -> None:
    edit(path)
    append(path, GOOD)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replace, "run.jsonl has another inode"),
        (lambda path: os.truncate(path, len(GOOD)), "run.jsonl is shorter"),
        (edit, "run.jsonl was written to and has not grown"),
        (edit_and_append, "run.jsonl no longer begins with what was indexed"),
        (lambda path: path.with_name("run_failures.jsonl").unlink(), "run_failures.jsonl is gone"),
    ],
)
def test_any_other_change_is_a_reason_to_scan_everything(
    place: Place, change: Callable[[Path], None], reason: str
) -> None:
    append(place.output, GOOD * 2)
    append(place.sidecar, FAILURE)
    place.index()
    change(place.output)
    assert str(check_as_fresh(place).scope) == f"scanned as a whole: {reason}"


def test_a_state_of_other_code_or_other_tables_is_not_used(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    append(place.output, GOOD)
    place.index()
    with monkeypatch.context() as patch:
        patch.setattr(state_module, "CODE_VERSION", "0")
        assert place.index().scope.why_whole == "another version of this project made the earlier index"
    for name in INDEX_TABLES:
        place.index(whole=True)
        path = place.store.table_path(name, "run")
        shutil.copy(path, path.with_name("copy"))
        path.with_name("copy").replace(path)
        assert f"stored table {name} is not the one" in str(check_as_fresh(place).scope)
        path.unlink()
        assert f"stored table {name} is not the one" in str(check_as_fresh(place).scope)
    for damaged in ('{"files": 1}', '{"files": {}, "tables": {}}', '{"files": ', ""):
        place.index()
        place.store.index_state_path("run").write_text(damaged)
        assert "no earlier index" in str(check_as_fresh(place).scope)


@pytest.mark.parametrize("whole", [True, False])
def test_another_process_may_index_the_same_run_at_the_same_time(place: Place, whole: bool) -> None:
    append(place.output, GOOD * 20)
    place.index()
    append(place.output, BAD + GOOD * 10)
    others: list[NewIndex] = []

    def other(_: int) -> None:
        if not others:
            others.append(place.index(whole=whole))

    assert place.index(advance=other).scope.why_whole is None
    assert others
    tables = place.tables()
    assert check_as_fresh(place).scope.why_whole is None
    assert tables == place.tables()


def test_a_store_without_hard_links_has_its_runs_scanned_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    append(place.output, GOOD)
    place.index()
    monkeypatch.setattr("os.link", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    assert str(place.index().scope) == (
        "scanned as a whole: the stored tables cannot be linked to: Operation not permitted"
    )


def test_the_runs_root_may_not_move_unseen(place: Place) -> None:
    append(place.output, GOOD)
    place.index()
    (place.root / "runs").rename(place.root / "moved")
    place.store = Store(place.root / "store", place.root / "moved")
    scope = str(place.index().scope)
    assert scope == f"scanned as a whole: run.jsonl was at {place.root / 'runs' / 'run.jsonl'}"


def test_the_runs_root_need_not_be_unicode(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    runs = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        (place.root / "runs").rename(runs)
    except OSError:
        pytest.skip("this file system has only names in Unicode")
    place.store = Store(place.root / "store", runs)
    output = runs / "run.jsonl"
    append(output, GOOD)
    place.index()
    append(output, GOOD)
    assert str(place.index().scope) == f"only the last {len(GOOD)} bytes of run.jsonl had to be scanned"


def test_a_blocked_run_is_scanned_as_a_whole_the_next_time(place: Place) -> None:
    append(place.output, GOOD)
    place.index()
    append(place.output, b"{oops\n")
    block(place.store, make_index(place.store, "run", place.store.new_spool()), "jsonl_strict: bad")
    assert not place.store.index_state_path("run").exists()
    verdict = place.store.verdict("run")
    assert verdict is not None
    assert (verdict.state, verdict.output) == ("blocked", str(place.output))
    append(place.output, GOOD)
    assert "no earlier index" in str(check_as_fresh(place).scope)


def test_a_store_that_is_not_local_says_that_it_scans_everything(place: Place) -> None:
    append(place.output, GOOD)
    place.store = Store(UPath("memory://incremental"), place.root / "runs")
    spool = place.store.new_spool()
    for _ in range(2):
        index = make_index(place.store, "run", spool)
        keep(place.store, index)
        assert str(index.scope) == "scanned as a whole: the store is not on a local disk"
    shutil.rmtree(spool)


def test_samples_of_a_large_file_see_its_ends_and_what_lies_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "WHOLE_BYTES", 1000)
    path, size = tmp_path / "large", 2_000_000
    path.write_bytes(bytes(size))
    before = state_module.digest_of(path, size - 100)
    for offset in (0, 65_535, size // 65 * 30 + 100, size - 101):
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(b"x")
        assert state_module.digest_of(path, size - 100) != before
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(b"\0")
    append(path, b"more")
    assert state_module.digest_of(path, size - 100) == before


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["output", "failures"]),
        st.one_of(
            st.tuples(st.just("append"), st.lists(st.sampled_from((*LINES, TORN)), max_size=4).map(b"".join)),
            st.tuples(st.just("cut"), st.integers(0, 60)),
            st.tuples(st.just("write"), st.lists(st.sampled_from(LINES), max_size=3).map(b"".join)),
            st.tuples(st.just("remove"), st.none()),
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("incremental")


@given(STEPS)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_any_history_gives_what_a_whole_scan_gives(
    folder: Path, steps: list[tuple[str, tuple[str, object], bool]]
) -> None:
    place = Place(folder / "place")
    append(place.output, GOOD + OTHER)
    place.index()
    for file, (what, value), looked_at in steps:
        path = place.output if file == "output" else place.sidecar
        if what == "append":
            append(path, value)
        elif what == "cut" and path.exists():
            os.truncate(path, max(0, path.stat().st_size - value))
        elif what == "write":
            path.write_bytes(value)
        elif what == "remove" and file == "failures":
            path.unlink(missing_ok=True)
        if looked_at:
            place.index()
    index = place.index()
    tables, state = place.tables(), load_state(place.store, "run")
    fresh = place.index(whole=True)
    assert tables == place.tables()
    assert index.summary == fresh.summary
    assert state is not None
    assert state.files == fresh.state.files
