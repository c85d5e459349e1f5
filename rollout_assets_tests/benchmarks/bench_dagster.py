"""What the Dagster layer costs with many runs: loading, a tick of the sensor, one partition.

    python -m rollout_assets_tests.benchmarks.bench_dagster [--partitions 2000] [--tree 10000] [--sample 5]

Everything lies in a temporary folder: runs of four small rows without a manifest, in groups of 100 checkpoints, and a
local instance on SQLite. Only the sampled runs are really taken in. The others get the tables and the verdict of a real
one, their partitions and their materializations, so that the sensor, the policy and the event log see as many runs as
if they had been. The whole takes about four minutes on two cores.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import dagster as dg
from rich.console import Console
from rich.table import Table

from rollout_assets.automation.discovery_sensor import discover_runs
from rollout_assets.core.discovery import DiscoveredRun, discover
from rollout_assets.home import local_instance
from rollout_assets.ingest import ingest
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.settings import Settings
from rollout_assets.store import DOWNSTREAM_TABLES, Store, Verdict
from rollout_assets_tests.conftest import as_jsonl

T = TypeVar("T")
GROUP_SIZE = 100
ASSETS = ("record_index", "producer_faults", *DOWNSTREAM_TABLES)
ROWS = as_jsonl([{"task_id": task, "reward": 1.0, "response": {"output": []}} for task in "abcd"])

LOAD = """
import time
started = time.perf_counter()
from rollout_assets.definitions import defs
imported = time.perf_counter()
defs.get_repository_def().validate_loadable()
print(imported - started, time.perf_counter() - imported)
"""


def main() -> None:
    """Measure and print one table."""
    options = _options()
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="rollout-bench-") as folder:
        settings = Settings.inside(Path(folder))
        os.environ["ROLLOUT_SETTLE_SECONDS"] = "0"
        with local_instance(settings) as instance:
            rows += _partitions(settings, instance, options)
            rows += _loading(options)
            rows += _ticks(settings, instance, f"{options.partitions} runs in the instance", options.profile)
    with tempfile.TemporaryDirectory(prefix="rollout-bench-") as folder:
        settings = Settings.inside(Path(folder))
        with local_instance(settings) as instance:
            write_runs(settings.runs_root, range(options.tree))
            found, seconds = _timed(lambda: discover(settings.runs_root))
            rows.append((f"scan of a tree of {options.tree} runs", _show(seconds), ""))
            rows += _ticks(settings, instance, f"a tree of {options.tree} new runs", options.profile)
            [first] = ingest(found.runs[:1], instance)
            assert first.succeeded, first.failure
            pretend(Store(settings.store_root, settings.runs_root), found.runs[0], found.runs[1:], None)
            rows += _ticks(settings, instance, f"a tree of {options.tree} runs, all taken in", options.profile)
    _print(rows)


def write_runs(root: Path, numbers: Iterable[int]) -> None:
    """Write runs `experiment-000/step-00/rollouts.jsonl` and so on."""
    for number in numbers:
        group, step = divmod(number, GROUP_SIZE)
        output = root / f"experiment-{group:03d}" / f"step-{step:02d}" / "rollouts.jsonl"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(ROWS)


def pretend(
    store: Store, real: DiscoveredRun, runs: Iterable[DiscoveredRun], instance: dg.DagsterInstance | None
) -> None:
    """Make runs look taken in, after the image of a real one; with an instance, there too."""
    runs = list(runs)
    for run in runs:
        store.write_verdict(run.key, Verdict("sound", run.fingerprint))
    for table in ASSETS:
        for run in runs:
            target = store.table_path(table, run.key)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(store.table_path(table, real.key), target)
    if instance is not None:
        instance.add_dynamic_partitions("rollout_runs", [run.key for run in runs])
        for run in runs:
            for asset in ASSETS:
                instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=run.key))


def _partitions(
    settings: Settings, instance: dg.DagsterInstance, options: argparse.Namespace
) -> list[tuple[str, str, str]]:
    """The cost of one partition when there are few and when there are many, the last ones of a group."""
    store = Store(settings.store_root, settings.runs_root)
    few, sample, many = 10, options.sample, options.partitions
    write_runs(settings.runs_root, range(few))
    rows = [(f"one partition, {few} in the instance", *_one_partition(settings, instance, sample))]
    write_runs(settings.runs_root, range(few, many))
    runs = discover(settings.runs_root).runs
    pretend(store, runs[0], runs[few : many - sample], instance)
    return [*rows, (f"one partition, {many} in the instance", *_one_partition(settings, instance, sample))]


def _one_partition(settings: Settings, instance: dg.DagsterInstance, sample: int) -> tuple[str, str]:
    """Take in what is left; the median of the last runs. The first ones of a process pay for its imports."""
    store = Store(settings.store_root, settings.runs_root)
    due = [run for run in discover(settings.runs_root).runs if not store.is_taken_in(run.key, run.fingerprint)]
    seconds, processor = [], []
    for run in due:
        before = time.process_time()
        [result], taken = _timed(lambda run=run: ingest([run], instance))  # type: ignore[misc]
        assert result.succeeded, result.failure
        seconds.append(taken)
        processor.append(time.process_time() - before)
    seconds, processor = seconds[-sample:], processor[-sample:]
    how = f"{_show(statistics.median(processor))} of CPU; {_show(min(seconds))} to {_show(max(seconds))}, in process"
    return _show(statistics.median(seconds)), how


def _loading(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    told = [
        subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(3)
    ]
    importing, resolving = (statistics.median(float(run[part]) for run in told) for part in (0, 1))
    what = f"definitions load, {options.partitions} partitions"
    return [(what, _show(importing + resolving), f"{_show(importing)} import, {_show(resolving)} resolve; bound 3 s")]


def _ticks(settings: Settings, instance: dg.DagsterInstance, what: str, profile: bool) -> list[tuple[str, str, str]]:
    """Two ticks of the sensor, the second with the cursor of the first."""
    workspace = RolloutWorkspace(
        runs_root=str(settings.runs_root), store_root=str(settings.store_root), policy_file=str(settings.policy)
    )
    cursor, rows = None, []
    for name in ("first", "next"):
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources={"workspace": workspace}) as context:
            profiler = cProfile.Profile() if profile else None
            result, seconds = _timed(lambda: discover_runs(context), profiler)
        cursor = result.cursor
        note = f"{len(result.run_requests or [])} requests, cursor of {len(cursor or '')} bytes; bound 10 s"
        rows.append((f"{name} tick, {what}", _show(seconds), note))
        if profiler is not None:
            pstats.Stats(profiler).sort_stats("cumulative").print_stats(18)
    return rows


def _timed(work: Callable[[], T], profiler: cProfile.Profile | None = None) -> tuple[T, float]:
    started = time.perf_counter()
    value = work() if profiler is None else profiler.runcall(work)
    return value, time.perf_counter() - started


def _show(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _print(rows: list[tuple[str, str, str]]) -> None:
    table = Table("what", "time", "how")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--tree", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=5, help="partitions really taken in per measurement")
    parser.add_argument("--profile", action="store_true", help="print where the ticks spend their time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
