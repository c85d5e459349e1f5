"""How fast an index is folded, beside a reading of bare integer arrays with numpy.

Run: python -m rollout_assets_tests.benchmarks.bench_fold [--rows N] [--rounds N] [--methods a,b] [--sparse]

The index holds results and, for a fifth of its rows, failures; a third of a million of these stand, as in
performance.md §5, and lies in a temporary folder as it is stored. Methods:
    sort      yardstick: packed keys of bare arrays in memory, without nulls, sorted
    scatter   yardstick: the same, where keys are small enough to be places of an array
    fold      which rows stand, given the table in memory
    stored    the same, and the reading of its columns from the file
    outcomes  the whole table `attempt_outcomes`, given the table in memory
    facts     the facts of all rows for a comparison, given the table in memory
    rows      the same, row by row, as before there were columns

Every measurement is a process of its own; the methods take turns, so that a busy machine hits all of them. Shown are
the medians in seconds, how many times as long as the faster yardstick that is, and the greatest memory above what the
process had before it began, in MiB (Linux).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rollout_assets.core.compare.table import FactTable
from rollout_assets.facts_table import fact_table, standing_rows
from rollout_assets.outcomes import fold_rows
from rollout_assets.standing import FOLD_COLUMNS, fold_index
from rollout_assets.tables import RECORD_INDEX

Integers = npt.NDArray[np.int64]
REPEATS = 8


def arrays(rows: int, sparse: bool) -> dict[str, Integers]:
    """Task index, rollout index and file (1: sidecar) of the rows of a run, in file order."""
    rng = np.random.default_rng(7)
    scored = rows * 4 // 5
    tasks = rows // REPEATS
    # A random order of attempts, some of which were run more than once.
    results = rng.permutation(tasks * REPEATS)[:scored]
    results = np.concatenate([results, results[: scored - results.size]])
    failures = rng.integers(0, tasks * REPEATS, rows - scored)
    attempts = np.concatenate([results, failures])
    task = attempts // REPEATS
    if sparse:
        task = rng.integers(0, 2**59, tasks)[task]
    return {
        "task_index": task,
        "rollout_index": attempts % REPEATS,
        "sidecar": np.concatenate([np.zeros(scored, np.int64), np.ones(rows - scored, np.int64)]),
    }


def write_index(folder: Path, rows: int, sparse: bool) -> None:
    """The arrays, and the same as a stored index."""
    columns = arrays(rows, sparse)
    for name, values in columns.items():
        np.save(folder / f"{name}.npy", values)
    schema = RECORD_INDEX.schema
    with pq.ParquetWriter(folder / "index.parquet", schema, compression="zstd") as writer:
        for start in range(0, rows, 1_000_000):
            part = {name: values[start : start + 1_000_000] for name, values in columns.items()}
            writer.write_table(index_of(part, start))


def index_of(part: dict[str, Integers], start: int) -> pa.Table:
    """Rows of an index; what the fold does not read is the same in all of them."""
    count = len(part["sidecar"])
    line = np.arange(start + 1, start + 1 + count)
    given: dict[str, Any] = {
        "file": pa.DictionaryArray.from_arrays(part["sidecar"].astype(np.int32), ["output", "failures"]),
        "line": line,
        "offset": line * 2000,
        "length": np.full(count, 2000),
        "task_index": part["task_index"],
        "rollout_index": part["rollout_index"],
        "reward_state": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), ["number"]),
        "reward": part["rollout_index"] / REPEATS,
        "key_ng_task_index": pa.array(part["task_index"]).cast(pa.string()),
        "input_digest": pa.array([f"{line % 1_000_003:064x}" for line in line.tolist()]),
    }
    fields = []
    for field in RECORD_INDEX.schema:
        if field.name in given:
            fields.append(
                pa.array(given[field.name], field.type)
                if isinstance(given[field.name], np.ndarray)
                else given[field.name]
            )
        elif pa.types.is_boolean(field.type):
            fields.append(pa.array(np.zeros(count, np.bool_)))
        else:
            fields.append(pa.nulls(count, field.type))
    return pa.Table.from_arrays(fields, schema=RECORD_INDEX.schema)


# ---- methods: what is measured, given what was loaded before ----


def raw(folder: Path) -> list[Integers]:
    return [np.load(folder / f"{name}.npy") for name in ("task_index", "rollout_index", "sidecar")]


def with_sort(columns: list[Integers]) -> int:
    """The last row of each key among the failures, and which of these keys no result has."""
    task, rollout, sidecar = columns
    keys = task * REPEATS + rollout
    failed, scored = keys[sidecar == 1], np.sort(keys[sidecar == 0])
    order = np.argsort(failed, kind="stable")
    ordered = failed[order]
    last = ordered[np.append(ordered[1:] != ordered[:-1], True)]
    places = np.minimum(np.searchsorted(scored, last), scored.size - 1)
    return scored.size + int(np.count_nonzero(scored[places] != last))


def with_scatter(columns: list[Integers]) -> int:
    """The same without sorting."""
    task, rollout, sidecar = columns
    keys = task * REPEATS + rollout
    rows = np.arange(keys.size)
    last = np.full(int(keys.max()) + 1, -1)
    last[keys[sidecar == 1]] = rows[sidecar == 1]
    last[keys[sidecar == 0]] = -1
    return int(np.count_nonzero(sidecar == 0)) + int(np.count_nonzero(last >= 0))


def path(folder: Path) -> Path:
    return folder / "index.parquet"


def fold_columns(folder: Path) -> pa.Table:
    return pq.read_table(path(folder), columns=list(FOLD_COLUMNS))


def whole_index(folder: Path) -> pa.Table:
    return pq.read_table(path(folder))


def with_fold(index: pa.Table) -> int:
    return int(np.count_nonzero(fold_index(index).stands()))


def with_stored(path: Path) -> int:
    return with_fold(pq.read_table(path, columns=list(FOLD_COLUMNS)))


def with_outcomes(index: pa.Table) -> int:
    """The whole table `attempt_outcomes`."""
    return fold_rows(index)["selected"].to_numpy().sum()


def with_facts(index: pa.Table) -> int:
    return len(fact_table(index))


def with_rows(index: pa.Table) -> int:
    return len(FactTable.of(standing_rows(index)))


METHODS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], int]]] = {
    "sort": (raw, with_sort),
    "scatter": (raw, with_scatter),
    "fold": (fold_columns, with_fold),
    "stored": (path, with_stored),
    "outcomes": (whole_index, with_outcomes),
    "facts": (whole_index, with_facts),
    "rows": (whole_index, with_rows),
}
YARDSTICKS = ("sort", "scatter")


def memory(name: str) -> float:
    """A line of /proc/self/status in MiB; NaN where there is none."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), float("nan"))


def measure_here(method: str, folder: str) -> None:
    """Print rows that stand, seconds and MiB of one fold in this process."""
    load, fold = METHODS[method]
    loaded = load(Path(folder))
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of loading does not count
    before = memory("VmRSS")
    started = time.perf_counter()
    standing = fold(loaded)
    seconds = time.perf_counter() - started
    print(standing, seconds, memory("VmHWM") - before)


def run(*arguments: str) -> str:
    """What this program prints in a process of its own."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(method: str, folder: str) -> tuple[int, float, float]:
    standing, seconds, mib = run("--measure", method, folder).split()
    return int(standing), float(seconds), float(mib)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", default="sort,scatter,fold,stored,outcomes,facts")
    parser.add_argument("--sparse", action="store_true", help="task indices anywhere among 59-bit integers")
    parser.add_argument("--measure", nargs=2, metavar=("METHOD", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--write", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure_here(*options.measure)
        return
    if options.write:
        write_index(Path(options.write), options.rows, options.sparse)
        return
    methods = [method for method in options.methods.split(",") if not (options.sparse and method == "scatter")]
    with tempfile.TemporaryDirectory() as folder:
        run("--write", folder, "--rows", str(options.rows), *(["--sparse"] if options.sparse else []))
        found: dict[str, list[tuple[int, float, float]]] = {method: [] for method in methods}
        for _ in range(options.rounds):
            for method in methods:
                found[method].append(measure(method, folder))
    seconds = {method: statistics.median(run[1] for run in runs) for method, runs in found.items()}
    yardstick = min((seconds[method] for method in YARDSTICKS if method in seconds), default=float("nan"))
    print(f"{'method':10}{'rows':>10}{'s':>8}{'x numpy':>9}{'+MiB':>7}")
    for method, runs in found.items():
        memory_peak = max(run[2] for run in runs)
        print(f"{method:10}{runs[0][0]:10}{seconds[method]:8.2f}{seconds[method] / yardstick:9.2f}{memory_peak:7.0f}")


if __name__ == "__main__":
    main()
