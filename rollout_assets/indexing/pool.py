"""Worker processes that scan ranges of files side by side.

Each is a new interpreter (`worker.py`), because a fork of a process with threads is unsafe, spoken to through its
standard streams: one JSON line a range goes in, JSON lines about its progress come out, and what it found goes to
files. A worker ends when its input ends, so none outlives this process, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final, NamedTuple

import pyarrow as pa

from rollout_assets.core.errors import RunDataError
from rollout_assets.indexing.ranges import Range, ScannedRange

WORKER_MODULE: Final = "rollout_assets.indexing.worker"
#: Ranges a worker may be ahead of the place that is needed next: what they found waits in files.
RANGES_AHEAD: Final = 2


def scan_in_processes(
    ranges: Iterator[Range], workers: int, folder: Path, advance: Callable[[int], object]
) -> Iterator[ScannedRange]:
    """Scan ranges side by side and yield them in their order; the files of each are removed after its turn.

    Args:
        ranges: What to scan.
        workers: How many processes.
        folder: Where the files go.
        advance: Told how many more bytes were scanned, by one thread at a time.

    Raises:
        RunDataError: What the scan of a range raises; `E-WORKER` when a worker died.
    """
    lock, numbers = Lock(), count()

    def tell(more: int) -> None:
        with lock:
            advance(more)

    started: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    threads = ThreadPoolExecutor(workers)

    def scan(wanted: Range, name: str) -> _Written:
        worker = idle.get()
        try:
            return worker.scan(wanted, folder / f"{name}.records", folder / f"{name}.faults", tell)
        finally:
            idle.put(worker)  # a dead one too: nobody waits for ever

    def submit() -> None:
        waiting.extend(threads.submit(scan, wanted, str(next(numbers))) for wanted in islice(ranges, 1))

    waiting: deque[Future[_Written]] = deque()
    try:
        for _ in range(workers):
            started.append(_Worker())
            idle.put(started[-1])
        for _ in range(workers * RANGES_AHEAD):
            submit()
        while waiting:
            written = waiting.popleft().result()
            submit()
            yield ScannedRange(written.scanned, _tables(written.records), _tables(written.faults), written.lines)
            written.records.unlink()
            written.faults.unlink()
    finally:
        for worker in started:
            worker.kill()
        # The threads that read what the workers say see that nothing comes any more.
        threads.shutdown(cancel_futures=True)


class _Written(NamedTuple):
    """What a worker wrote of a range: two Arrow IPC streams, and how many lines it counted."""

    scanned: Range
    records: Path
    faults: Path
    lines: int


def _tables(path: Path) -> Iterator[pa.Table]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])


class _Worker:
    """One process that scans one range at a time."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
        command = [sys.executable, "-P", "-m", WORKER_MODULE]
        try:
            # A group of its own: what Ctrl-C interrupts is this process, and this one ends its workers.
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
            )
        except OSError as error:
            reason = f"a worker process cannot be started ({error.strerror or error}); {_FEWER}"
            raise RunDataError("E-WORKER", reason) from error

    def scan(self, wanted: Range, records: Path, faults: Path, advance: Callable[[int], object]) -> _Written:
        """Have a range scanned; what is found goes to the two files."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        task = [wanted.file, os.fspath(wanted.path), wanted.start, wanted.stop, os.fspath(records), os.fspath(faults)]
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                said = json.loads(line)
                if "bytes" in said:
                    advance(said["bytes"])
                elif "lines" in said:
                    return _Written(wanted, records, faults, said["lines"])
                else:
                    raise RunDataError(**said["error"])
        except BrokenPipeError:
            pass
        raise RunDataError("E-WORKER", _death(self._process.wait(), wanted), path=wanted.path)

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # a task that it did not read
                    stream.close()


_FEWER: Final = "use fewer of them (--workers 1 or ROLLOUT_WORKERS=1 does without)"


def _death(code: int, wanted: Range) -> str:
    """Why a worker is no more, and what to do."""
    what = f"the worker process that read the bytes {wanted.start} to {wanted.stop}"
    if code == -signal.SIGKILL:
        return f"{what} was killed, as the system does when memory runs out; make room or {_FEWER}"
    if code < 0:
        return f"{what} was ended by {signal.Signals(-code).name}; index again, and if it ends again {_FEWER}"
    return f"{what} ended with exit code {code}, see its messages; if that lasts, {_FEWER}"
