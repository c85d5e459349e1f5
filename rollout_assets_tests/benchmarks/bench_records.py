"""How fast a run is indexed and folded, and how much memory that takes, beside the plain loops.

    python -m rollout_assets_tests.benchmarks.bench_records --rows 1000000
    python -m rollout_assets_tests.benchmarks.bench_records --rows 0 --large-row 1.0

Each figure comes from a process of its own, best of `--repeat`; files are in the page cache. `anonymous` is the growth
of anonymous resident memory over the process before the work, at its end; `peak` at its highest, for large rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUN_ID = "a" * 32
SKIPPED = "ng_trajectory"


# --- the runs --------------------------------------------------------------------------------------------------------


def write_run(folder: Path, rows: int) -> Path:
    """A run of `rows` outcomes of 2 kB: nine in ten a result, the others a failure, later retried."""
    from rollout_assets.core.records import failures_path_for, materialized_path_for

    output = folder / "rollouts.jsonl"
    retried = rows // 10
    tasks = rows - retried
    with materialized_path_for(output).open("w") as file:
        for task in range(tasks):
            row = {"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    with output.open("w") as results, failures_path_for(output).open("w") as failures:
        for task in range(tasks):
            results.write(outcome_line(task, int(task < retried)))
            if task < retried:
                failures.write(outcome_line(task, 0, "agent_run_error"))
    write_manifest(output, {f"{task}-0": 1 + int(task < retried) for task in range(tasks)})
    return output


_UNSET = ("background", "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt", "user")
_SHARED = {**dict.fromkeys(_UNSET), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "truncation": None}
_PROMPT = "Solve the following problem.\n\nHow many of the first 100 primes are \u2264 \\frac{500}{2}? "
_ANSWER = "The primes up to that bound are counted one by one.\n\n\\boxed{42}"


def outcome_line(task: int, attempt: int, failure_class: str | None = None) -> str:
    """A row of about 2 kB in the shape that chat responses have: many small fields around some text."""
    content = {"annotations": [], "text": _ANSWER * 5, "type": "output_text", "logprobs": []}
    response = {
        "id": f"resp_{task:048x}",
        "created_at": 1761955953.0,
        "error": None,
        "metadata": {},
        "model": "model-2026-01-01",
        "object": "response",
        "output": [
            {"id": f"rs_{task:048x}", "summary": [], "type": "reasoning", "encrypted_content": None},
            {
                "id": f"msg_{task:048x}",
                "content": [content],
                "role": "assistant",
                "status": "completed",
                "type": "message",
            },
        ],
        **_SHARED,
        "temperature": 1.0,
        "top_p": 1.0,
        "reasoning": {"effort": "medium", "generate_summary": None, "summary": None},
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "usage": {
            "input_tokens": 84,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 4303,
            "output_tokens_details": {"reasoning_tokens": 4288},
            "total_tokens": 4387,
        },
    }
    message = {"content": _PROMPT * 4 + str(task), "role": "user", "type": "message"}
    row = {
        "responses_create_params": {
            **_SHARED,
            "input": [message],
            "metadata": None,
            "temperature": None,
            "store": None,
        },
        "response": response,
        "reward": 1.0,
        "mask_sample": False,
        "expected_answer": str(task),
        "extracted_answer": "42",
        "elapsed_seconds": 12.5,
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "_ng_attempt_index": attempt,
        "_ng_run_id": RUN_ID,
        "agent_ref": {"name": "agent"},
    }
    if failure_class is not None:
        del row["reward"], row["response"]
        row |= {"_ng_failure_class": failure_class, "_ng_failure_response": response}
    return json.dumps(row, separators=(",", ":")) + "\n"


def write_manifest(output: Path, reserved: dict[str, int]) -> None:
    from rollout_assets.core.records import manifest_path_for, materialized_path_for
    from rollout_assets.core.records.inventory import Inventory

    fields = {
        "schema_version": 3,
        "run_id": RUN_ID,
        "source_digest": "unverified",
        "config_digest": "unverified",
        "materialized_digest": Inventory.read(materialized_path_for(output)).digest,
        "next_attempt": reserved,
    }
    manifest_path_for(output).write_text(json.dumps(fields))


def write_large_row(folder: Path, gigabytes: float) -> Path:
    """A run of one result whose trajectory is a list of token ids of that many bytes."""
    from rollout_assets.core.records import failures_path_for, materialized_path_for

    output = folder / "rollouts.jsonl"
    materialized_path_for(output).write_text('{"_ng_task_index":0,"_ng_rollout_index":0}\n')
    failures_path_for(output).touch()
    piece = ",".join(str(100_000 + n) for n in range(10_000)).encode()
    with output.open("wb") as file:
        file.write(b'{"%s":[' % SKIPPED.encode() + piece)
        while file.tell() < gigabytes * 1e9:
            file.write(b"," + piece)
        file.write(outcome_line(0, 0).replace("{", "],", 1).encode())
    write_manifest(output, {"0-0": 1})
    return output


# --- what is measured ------------------------------------------------------------------------------------------------


def orjson_loop(output: Path) -> Any:
    """The plain loop: parse every line of both files, keep nothing."""
    import orjson

    from rollout_assets.core.records import failures_path_for

    for path in (failures_path_for(output), output):
        with path.open("rb") as file:
            for line in file:
                orjson.loads(line)


def json_loop(output: Path) -> Any:
    """The same with the standard library."""
    from rollout_assets.core.records import failures_path_for

    for path in (failures_path_for(output), output):
        with path.open("rb") as file:
            for line in file:
                json.loads(line)


def scan_loop(output: Path) -> Any:
    """The strict scan of both files alone."""
    from rollout_assets.core.jsonl import scan
    from rollout_assets.core.records import failures_path_for

    for path in (failures_path_for(output), output):
        for _ in scan(path):
            pass


def read_inventory(output: Path) -> Any:
    """The inventory with its digest."""
    from rollout_assets.core.records import materialized_path_for
    from rollout_assets.core.records.inventory import Inventory

    return Inventory.read(materialized_path_for(output))


def index(output: Path) -> Any:
    """The whole run: manifest, inventory, index."""
    from rollout_assets.core.records import open_run

    return open_run(output)


def index_and_fold(output: Path) -> Any:
    """The whole run, its coverage, and what a resume would do."""
    records = index(output)
    return records, records.coverage(), records.pending_identities()


def index_fold_timeline(output: Path) -> Any:
    """The same with every entry of the timeline."""
    from rollout_assets.core.records import timeline

    records = index(output)
    return records, records.coverage(), timeline(records)


def index_large_row(output: Path) -> Any:
    """The run of one very large row, its trajectory skipped."""
    from rollout_assets.core.records import open_run

    return open_run(output, skip_keys=frozenset({SKIPPED}))


STEPS: dict[str, Callable[[Path], Any]] = {
    step.__name__: step
    for step in (orjson_loop, json_loop, scan_loop, read_inventory, index, index_and_fold, index_fold_timeline)
}
LARGE_STEPS: dict[str, Callable[[Path], Any]] = {step.__name__: step for step in (index_large_row, orjson_loop)}


def anonymous_memory() -> int:
    """Resident anonymous memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise KeyError("RssAnon")


class PeakMemory(threading.Thread):
    """Looks at the anonymous memory every few milliseconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, anonymous_memory())

    def stop(self) -> int:
        self._done.set()
        self.join()
        return max(self.bytes, anonymous_memory())


def measure(step: str, output: Path) -> dict[str, float]:
    """Run one step in this process."""
    import rollout_assets.core.records

    list(rollout_assets.core.records.read_records("/dev/null"))  # what is imported late is not what is measured
    before = anonymous_memory()
    peak = PeakMemory()
    if step in LARGE_STEPS:
        peak.start()  # looking costs time; only the few seconds of a large row are looked at
    started = time.perf_counter()
    kept = (STEPS | LARGE_STEPS)[step](output)
    seconds = time.perf_counter() - started
    after = anonymous_memory()
    highest = peak.stop() if step in LARGE_STEPS else after
    del kept
    return {"seconds": seconds, "anonymous": after - before, "peak": highest - before}


def in_own_process(step: str, output: Path, repeat: int) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name, "--measure", step, str(output)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(repeat)]
    return min(runs, key=lambda run: run["seconds"])


def main() -> None:
    """Write the runs, measure every step, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="outcome rows of 2 kB")
    parser.add_argument("--large-row", type=float, default=0.0, help="GB of the one row of a second run")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("STEP", "OUTPUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], Path(options.measure[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.rows:
            output = write_run(Path(folder), options.rows)
            size = output.stat().st_size + output.with_name("rollouts_failures.jsonl").stat().st_size
            print(f"{options.rows:,} outcome rows, {size / 1e6:,.0f} MB")
            show(STEPS, output, options.repeat, size, options.rows)
    with tempfile.TemporaryDirectory() as folder:
        if options.large_row:
            output = write_large_row(Path(folder), options.large_row)
            print(f"one row of {output.stat().st_size / 1e9:.2f} GB")
            show(LARGE_STEPS, output, options.repeat, output.stat().st_size, 1)


def show(steps: dict[str, Callable[[Path], Any]], output: Path, repeat: int, size: int, rows: int) -> None:
    """Print one line a step, beside the first one: the plain loop."""
    print(f"{'':<22}{'seconds':>9}{'rows/s':>12}{'GB/s':>8}{'of plain':>10}{'anonymous':>15}{'a row':>9}{'peak':>12}")
    plain = None
    for step in steps:
        found = in_own_process(step, output, repeat)
        seconds = found["seconds"]
        plain = plain or seconds
        print(
            f"{step:<22}{seconds:>9.2f}{rows / seconds:>12,.0f}{size / seconds / 1e9:>8.3f}{plain / seconds:>9.2f}x"
            f"{found['anonymous'] / 2**20:>11,.1f} MiB{found['anonymous'] / rows:>7,.0f} B"
            f"{found['peak'] / 2**20:>8,.0f} MiB"
        )


if __name__ == "__main__":
    main()
