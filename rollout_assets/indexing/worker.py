"""A worker process: scans the ranges that its parent names, until the parent is gone.

Reads one JSON array a range from its standard input (file, path, start, stop, place for the records, place for the
faults) and writes JSON objects, one a line, to its standard output: `{"bytes": n}` for n more bytes that were scanned,
then `{"lines": n}` when the range is done, or `{"error": {…}}` with the arguments of a `RunDataError`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pyarrow as pa

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records.paths import File
from rollout_assets.indexing.batches import read_range
from rollout_assets.indexing.faults import fault_table
from rollout_assets.indexing.startup import spare_pandas
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX


def main() -> None:
    """Scan what is asked for on the standard streams."""
    spare_pandas()
    # What else might print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    tasks: SimpleQueue[list[Any]] = SimpleQueue()
    Thread(target=_listen, args=(tasks,), daemon=True).start()

    def answer(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    while True:
        file, path, start, stop, records, faults = tasks.get()
        try:
            lines = scan_to_files(file, Path(path), start, stop, records, faults, lambda n: answer({"bytes": n}))
            answer({"lines": lines})
        except RunDataError as error:
            answer({"error": {"code": error.code, "reason": error.reason, "path": error.path}})


def _listen(tasks: SimpleQueue[list[Any]]) -> None:
    """Pass on what is asked for. When nobody can ask any more nobody waits for an answer: stop at once."""
    for line in sys.stdin.buffer:
        tasks.put(json.loads(line))
    os._exit(0)


def scan_to_files(
    file: File, path: Path, start: int, stop: int, records: str, faults: str, advance: Callable[[int], object]
) -> int:
    """Scan a range into two Arrow IPC streams, its lines counted from 1.

    Args:
        file: Which file of its run this is.
        path: The file.
        start: Where a line starts.
        stop: Where to stop, behind a line.
        records: Where the rows go.
        faults: Where the faults go.
        advance: Told how many more bytes were scanned.

    Returns:
        How many lines the range has, blank ones counted.

    Raises:
        RunDataError: `E-UNREADABLE` when the file cannot be read; `E-UNWRITABLE` when there is no room for the result.
    """
    lines, place = 0, start
    try:
        with (
            pa.OSFile(records, "wb") as record_file,
            pa.OSFile(faults, "wb") as fault_file,
            pa.ipc.new_stream(record_file, RECORD_INDEX.schema) as add_records,
            pa.ipc.new_stream(fault_file, PRODUCER_FAULTS.schema) as add_faults,
        ):
            for batch in read_range(file, path, start=start, end=stop):
                add_records.write_table(batch.records)
                add_faults.write_table(fault_table(file, batch.faults))
                advance(batch.stop - place)
                lines, place = batch.lines, batch.stop
    except OSError as error:
        reason = f"cannot be written: {error.strerror or error}; make room or give write access"
        raise RunDataError("E-UNWRITABLE", reason, path=records) from error
    return lines


if __name__ == "__main__":
    main()
