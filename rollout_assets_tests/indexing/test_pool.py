"""Several threads or processes give what one gives; whatever ends one of them leaves no half-written table behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.errors import RunDataError
from rollout_assets.indexing import pieces, pool
from rollout_assets.indexing.ranges import Range
from rollout_assets_tests.indexing.material import FAILURE, GOOD, LINES, OTHER, indexed, told


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes for any file, and many ranges."""
    monkeypatch.setattr(pieces, "is_compiled", lambda: False)
    monkeypatch.setattr(pieces, "PROCESS_BYTES", 1)
    monkeypatch.setattr(pieces, "LEAST_RANGE_BYTES", 3_000)
    monkeypatch.setattr(pieces, "MOST_RANGE_BYTES", 3_000)


@pytest.fixture(params=["threads", "processes"])
def either_kind(request: pytest.FixtureRequest, small_ranges: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads or processes, for any file, and many ranges."""
    if request.param == "threads":
        monkeypatch.setattr(pieces, "is_compiled", lambda: True)


def write_run(root: Path, *, tail: bytes = b"") -> Path:
    rng = random.Random(1)
    output = root / "run.jsonl"
    output.write_bytes(b"".join(rng.choices(LINES, k=400)) + tail)
    output.with_name("run_failures.jsonl").write_bytes(b"".join(rng.choices((FAILURE, GOOD, b"[]\n"), k=100)))
    return output


@pytest.mark.parametrize("tail", [b"", b'{"task_id": "torn', OTHER.rstrip()])
def test_two_workers_give_what_one_gives(tmp_path: Path, either_kind: None, tail: bytes) -> None:
    write_run(tmp_path, tail=tail)
    one, *tables = indexed(tmp_path, tmp_path / "one")
    bytes_done: list[int] = []
    two, *others = indexed(tmp_path, tmp_path / "two", workers=2, advance=bytes_done.append)
    assert tables == others
    assert told(one) == told(two)
    assert one.marks == two.marks
    assert sum(bytes_done) == sum(one.scanned.values()) == sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    assert len(bytes_done) > 10
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["faults.parquet", "records.parquet"]


def test_little_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_Worker", None)
    write_run(tmp_path)
    assert indexed(tmp_path, tmp_path / "one", workers=8)[1]


class Killing:
    """Kills the workers at the first progress that one reports."""

    def __init__(self) -> None:
        self.workers: list[Any] = []

    def __call__(self, _: int) -> None:
        for worker in self.workers:
            os.kill(worker._process.pid, signal.SIGKILL)


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Killing:
    killing = Killing()

    class Remembered(pool._Worker):
        def __init__(self) -> None:
            super().__init__()
            killing.workers.append(self)

    monkeypatch.setattr(pool, "_Worker", Remembered)
    return killing


def test_a_worker_that_is_killed_is_told_and_nothing_is_left(
    tmp_path: Path, small_ranges: None, killing: Killing
) -> None:
    output = write_run(tmp_path)
    with pytest.raises(
        RunDataError, match=r"was killed, as the system does when memory runs out.*--workers 1"
    ) as caught:
        indexed(tmp_path, tmp_path / "two", workers=2, advance=killing)
    assert caught.value.code == "E-WORKER"
    assert caught.value.path == str(output)
    assert list((tmp_path / "two").iterdir()) == []
    assert len(killing.workers) == 2
    assert all(worker._process.returncode is not None for worker in killing.workers)


def test_a_file_that_cannot_be_read_is_named_as_ever(tmp_path: Path, small_ranges: None) -> None:
    ranges = iter([Range("output", tmp_path, 0, 10)])
    with pytest.raises(RunDataError, match="is a directory") as caught:
        list(pool.scan_in_processes(ranges, 1, tmp_path, lambda _: None))
    assert caught.value.code == "E-UNREADABLE"
    assert caught.value.path == str(tmp_path)


def test_a_worker_that_cannot_write_says_where(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_bytes(GOOD)
    ranges = iter([Range("output", tmp_path / "run.jsonl", 0, len(GOOD))])
    with pytest.raises(RunDataError, match="cannot be written") as caught:
        list(pool.scan_in_processes(ranges, 1, tmp_path / "no folder", lambda _: None))
    assert caught.value.code == "E-UNWRITABLE"


def test_what_is_read_ahead_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(GOOD * 40)
    taken = 0

    def ranges() -> Iterator[Range]:
        nonlocal taken
        for number in range(40):
            taken += 1
            yield Range("output", path, number * len(GOOD), (number + 1) * len(GOOD))

    spool = tmp_path / "spool"
    spool.mkdir()
    for number, result in enumerate(pool.scan_in_processes(ranges(), 2, spool, lambda _: None)):
        assert result.scanned.start == number * len(GOOD)
        assert taken <= number + 1 + 2 * pool.RANGES_AHEAD
        assert len(list(spool.iterdir())) <= 2 * (1 + 2 * pool.RANGES_AHEAD)
    assert taken == 40
    assert list(spool.iterdir()) == []


SCAN = """
import sys
from pathlib import Path
from rollout_assets.core.discovery import find_run
from rollout_assets.indexing import index_run, pieces, pool
pieces.is_compiled, pieces.PROCESS_BYTES = (lambda: False), 1
pieces.LEAST_RANGE_BYTES = pieces.MOST_RANGE_BYTES = 3_000
class Told(pool._Worker):
    def __init__(self):
        super().__init__()
        print(self._process.pid, flush=True)
pool._Worker = Told
def stay(_):
    print("scanning", flush=True)
    import time
    time.sleep(60)
root = Path(sys.argv[1])
index_run(find_run(root, "run"), root / "s" / "r.parquet", root / "s" / "f.parquet", workers=2, advance=stay)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_the_process_that_started_it(tmp_path: Path, ending: signal.Signals) -> None:
    write_run(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", SCAN, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    workers = [int(process.stdout.readline()), int(process.stdout.readline())]
    assert process.stdout.readline() == "scanning\n"
    assert all(is_there(worker) for worker in workers)
    process.send_signal(ending)
    ended = threading.Thread(target=process.communicate)
    ended.start()
    for _ in range(200):
        if not any(is_there(worker) for worker in workers):
            break
        time.sleep(0.05)
    assert not any(is_there(worker) for worker in workers)
    process.kill()
    ended.join()


def is_there(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
