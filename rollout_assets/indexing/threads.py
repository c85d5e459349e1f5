"""Threads that scan ranges of files side by side: for the compiled engine, which lets them run at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Event, Lock
from typing import Final

import pyarrow as pa

from rollout_assets.indexing.batches import read_range
from rollout_assets.indexing.faults import fault_table
from rollout_assets.indexing.ranges import Range, ScannedRange

#: Ranges a thread may be ahead of the place that is needed next: what they found waits in memory.
RANGES_AHEAD: Final = 2


def scan_in_threads(ranges: Iterator[Range], workers: int, advance: Callable[[int], object]) -> Iterator[ScannedRange]:
    """Scan ranges side by side and yield them in their order.

    Args:
        ranges: What to scan.
        workers: How many threads.
        advance: Told how many more bytes were scanned, by one thread at a time.

    Raises:
        RunDataError: What the scan of a range raises.
    """
    lock, stopped = Lock(), Event()

    def scan(wanted: Range) -> ScannedRange:
        records: list[pa.Table] = []
        faults: list[pa.Table] = []
        lines, place = 0, wanted.start
        for batch in read_range(wanted.file, wanted.path, start=wanted.start, end=wanted.stop):
            if stopped.is_set():
                break
            records.append(batch.records)
            faults.append(fault_table(wanted.file, batch.faults))
            with lock:
                advance(batch.stop - place)
            lines, place = batch.lines, batch.stop
        return ScannedRange(wanted, records, faults, lines)

    waiting: deque[Future[ScannedRange]] = deque()
    with ThreadPoolExecutor(workers) as threads:
        try:
            waiting.extend(threads.submit(scan, wanted) for wanted in islice(ranges, workers * RANGES_AHEAD))
            while waiting:
                scanned = waiting.popleft().result()
                waiting.extend(threads.submit(scan, wanted) for wanted in islice(ranges, 1))
                yield scanned
        finally:
            stopped.set()
            threads.shutdown(cancel_futures=True)
