"""How fast a run is indexed, beside bare loops over the lines of the same file with orjson and with json.

Run: python -m rollout_assets_tests.benchmarks.bench_index [--mb N] [--large-mb N] [--rounds N] [--kinds A,B,C,D,R]

"Index" is the whole thing: every line judged, the fields that rules read found, faults and facts written as Parquet.
The kinds of files are those of `bench_scan`; here C counts too. For each kind:

    1 process    how many times as fast as each loop, on a file of `--mb`
    2 processes  how many times as fast as one, on a file of `--large-mb`
    memory       the highest resident memory above the idle process, and the part of it that is no mapping of a file
    + 1 %        an index of a file of `--large-mb` to which 1 % was appended, in % of its first index

then the memory for one row of 1 GB. Every measurement is a process of its own and does not count its start; they take
turns, so that a busy machine hits all of them; shown are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from rollout_assets_tests.benchmarks.bench_scan import rows_of_kind, with_json, with_orjson, write_file
from rollout_assets_tests.shared_material import NEMO_GYM

# ---- what is measured, each in a process of its own ----


def index(path: str, workers: int = 1) -> None:
    """Index a run into a temporary folder."""
    from rollout_assets.core.discovery import find_run
    from rollout_assets.indexing import index_run

    output = Path(path)
    run = find_run(output.parent, output.stem)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        index_run(run, Path(folder) / "records.parquet", Path(folder) / "faults.parquet", workers=workers)


def index_in_store(path: str) -> None:
    """Index a run into a store beside it: from what an earlier index left there, if there is one."""
    from rollout_assets.indexing.incremental import keep, make_index
    from rollout_assets.indexing.state import INDEX_TABLES
    from rollout_assets.store import Store

    output = Path(path)
    store = Store(output.parent / "store", output.parent)
    spool = store.new_spool()
    made = make_index(store, output.stem, spool)
    for name in INDEX_TABLES:
        target = store.table_path(name, output.stem)
        target.parent.mkdir(parents=True, exist_ok=True)
        (spool / f"{name}.parquet").rename(target)
    keep(store, made)


WORK: dict[str, Callable[[str], object]] = {
    "index": index,
    "2 processes": lambda path: index(path, 2),
    "in store": index_in_store,
    "orjson": with_orjson,
    "json": with_json,
}


class Memory:
    """Watches the memory of this process, in MiB above what it had at first."""

    def __init__(self) -> None:
        self._first = self._now()
        self.resident = self.anonymous = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def _now() -> tuple[float, float]:
        status = Path("/proc/self/status").read_text()
        found = {
            line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith(("VmRSS", "RssA"))
        }
        return int(found["VmRSS"]) / 1024, int(found["RssAnon"]) / 1024

    def _watch(self) -> None:
        while True:
            resident, anonymous = self._now()
            self.resident = max(self.resident, resident - self._first[0])
            self.anonymous = max(self.anonymous, anonymous - self._first[1])
            time.sleep(0.002)


def measure_here(work: str, path: str) -> None:
    """Print seconds and MiB of one pass in this process."""
    if not work.endswith("json"):  # what has to be imported is there, and has been used once
        with tempfile.TemporaryDirectory() as folder:
            warm = Path(folder) / "warm.jsonl"
            warm.write_bytes(b'{"reward":1}\n{"reward":"1"}\n')
            WORK[work](str(warm))
    memory = Memory()
    started = time.perf_counter()
    WORK[work](path)
    seconds = time.perf_counter() - started
    time.sleep(0.01)
    print(seconds, memory.resident, memory.anonymous)


def measure(work: str, path: Path) -> tuple[float, float, float]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--measure", work, str(path)]
    seconds, resident, anonymous = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(resident), float(anonymous)


def in_turn(works: list[str], path: Path, rounds: int) -> dict[str, tuple[float, float, float]]:
    """For each kind of work the median seconds and the highest memory."""
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for work in works:
            found[work].append(measure(work, path))
    return {
        work: (statistics.median(s for s, _, _ in runs), max(r for _, r, _ in runs), max(a for _, _, a in runs))
        for work, runs in found.items()
    }


# ---- the table ----


def cells(kind: str, folder: Path, mb: int, large_mb: int, rounds: int) -> list[str]:
    """The measurements of one kind of file, as cells of the table."""
    path = folder / f"{kind}.jsonl"
    size = 400 if kind == "C" and mb < 400 else mb
    write_file(path, kind, size * 1_000_000)
    size = path.stat().st_size
    small = in_turn(["index", "orjson", "json"], path, rounds)
    seconds, resident, anonymous = small["index"]
    path.unlink()
    write_file(path, kind, large_mb * 1_000_000)
    large = in_turn(["index", "2 processes"], path, rounds)
    path.unlink()
    return [
        kind,
        f"{size / seconds / 1e6:.0f}",
        f"{small['orjson'][0] / seconds:.2f}",
        f"{small['json'][0] / seconds:.1f}",
        f"{large['index'][0] / large['2 processes'][0]:.2f}",
        f"{resident:.0f} ({anonymous:.0f})",
        appended(kind, folder, large_mb, rounds),
    ]


def appended(kind: str, folder: Path, mb: int, rounds: int) -> str:
    """What part of the time of a first index one takes after 1 % was appended, in %; - where rows are longer."""
    parts = []
    for number in range(min(rounds, 3)):
        path = folder / f"grows{number}.jsonl"
        write_file(path, kind, mb * 1_000_000)
        size = path.stat().st_size
        first = measure("in store", path)[0]
        append_one_percent(path, rows_of_kind(kind, mb * 1_000_000))
        if path.stat().st_size > size:
            parts.append(measure("in store", path)[0] / first)
        path.unlink()
    return f"{100 * statistics.median(parts):.1f}" if parts else "-"


def append_one_percent(path: Path, rows: Iterator[bytes]) -> None:
    """Append the rows that fit into 1 % of a file; none does where they are longer than that."""
    with path.open("ab") as file:
        room, too_long = file.tell() // 100, 0
        while too_long < 20:
            row = next(rows)
            if len(row) < room:
                file.write(row + b"\n")
                room, too_long = room - len(row) - 1, 0
            else:
                too_long += 1


def one_large_row(folder: Path) -> str:
    """The memory that a row of 1 GB takes."""
    path = folder / "row.jsonl"
    numbers = ",".join(map(str, range(100_000, 110_000)))
    with path.open("w") as file:
        file.write('{"reward":1,"response":{"output":[')
        while file.tell() < 1_000_000_000:
            file.write(numbers + ",")
        file.write('0]},"_ng_task_index":0,"_ng_rollout_index":0}\n')
    seconds, resident, anonymous = measure("index", path)
    path.unlink()
    return f"a row of 1 GB: {1000 / seconds:.0f} MB/s, {resident:.0f} MiB resident, {anonymous:.0f} of them anonymous"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=100, help="size of the files for one process, in MB")
    parser.add_argument("--large-mb", type=int, default=1000, help="size of the other files, in MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="A,B,C,D,R")
    parser.add_argument("--folder", type=Path, help="where the files are written; a temporary folder by default")
    parser.add_argument("--measure", nargs=2, metavar=("WORK", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure_here(*options.measure)
        return
    names = ["kind", "MB/s", "x orjson", "x json", "2 processes", "MiB (anonymous)", "+ 1 %"]
    row = "{:6}{:>7}{:>10}{:>8}{:>13}{:>17}{:>8}".format
    print(f"{os.cpu_count()} cores; index of {options.mb} and {options.large_mb} MB, median of {options.rounds}")
    print(row(*names))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for kind in options.kinds.split(","):
            if kind == "R" and not NEMO_GYM.is_dir():
                print("R     the real rollout files are not beside the checkout")
                continue
            print(row(*cells(kind, Path(folder), options.mb, options.large_mb, options.rounds)), flush=True)
        print(one_large_row(Path(folder)))


if __name__ == "__main__":
    main()
