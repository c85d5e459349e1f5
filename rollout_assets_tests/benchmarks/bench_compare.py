"""Time and peak memory of `rollout-assets compare` on two large files, beside a plain `json.loads` loop over them.

    python -m rollout_assets_tests.benchmarks.bench_compare [--mb 300] [--repeats 4] [--rounds 1]

The files are written to a temporary folder: rows of about 2 kB, some tasks flipped, some masked, a small sidecar each.
Every figure is of a process of its own, start-up included; the two are run in turn and the median is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

_WORDS = (
    "solve",
    "the",
    "problem",
    "step",
    "by",
    "value",
    "result",
    "check",
    "again",
    "therefore",
    "x=1",
    "“so”",
    "\n",
)
_PLAIN = """
import json, sys
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)
"""
_COMPARE = "import sys; from rollout_assets.cli import main; sys.argv[1:1] = ['compare']; main()"


def write_side(path: Path, megabytes: int, repeats: int, seed: int) -> int:
    """Write an output of about this size and its sidecar; returns the number of rows."""
    texts = random.Random(0)
    rewards = random.Random(seed)
    answers = [" ".join(texts.choices(_WORDS, k=220)) for _ in range(500)]
    rows = size = 0
    with path.open("w", encoding="utf-8") as output, path.with_name(f"{path.stem}_failures.jsonl").open("w") as sidecar:
        while size < megabytes * 1_000_000:
            task, repeat = divmod(rows, repeats)
            identity = {
                "_ng_task_index": task,
                "_ng_rollout_index": repeat,
                "_ng_attempt_index": 0,
                "_ng_run_id": f"{seed:032x}",
                "task_id": f"benchmark-{task:07d}",
            }
            if rows % 1000 == 999:
                sidecar.write(json.dumps({**identity, "_ng_failure_class": "agent_timeout"}) + "\n")
            else:
                size += output.write(json.dumps(_row(identity, task, rewards, answers), ensure_ascii=False) + "\n")
            rows += 1
    return rows


def _row(identity: dict[str, object], task: int, rewards: random.Random, answers: list[str]) -> dict[str, object]:
    prompt = f"Task {task}: {answers[task % len(answers)][:400]}"
    return {
        "responses_create_params": {
            "input": [
                {"role": "system", "content": "You are a careful assistant.", "type": "message"},
                {"role": "user", "content": prompt, "type": "message"},
            ],
            "temperature": 1.0,
        },
        "response": {
            "id": f"resp_{task}",
            "model": "policy",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": rewards.choice(answers)}]}],
            "usage": {"input_tokens": 120, "output_tokens": rewards.randrange(4000), "total_tokens": 0},
            "metadata": {"elapsed_seconds": rewards.random() * 100},
        },
        **identity,
        "reward": float(rewards.random() < 0.9),
        "mask_sample": False,
    }


def measure(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak resident megabytes (1e6 bytes) of a process."""
    start = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, *arguments],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)],
        )
        _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{arguments[:2]} failed")
    return time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=300, help="size of each of the two files")
    parser.add_argument("--repeats", type=int, default=4, help="rows of a task; 1 is the worst case for memory")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each, in turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "old.jsonl", Path(folder) / "new.jsonl"]
        rows = [write_side(path, options.mb, options.repeats, seed) for seed, path in enumerate(paths, 1)]
        gigabytes = sum(path.stat().st_size for path in paths) / 1e9
        cases = {"json.loads, rows not kept": ["-c", _PLAIN], "rollout-assets compare": ["-c", _COMPARE]}
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for _ in range(options.rounds):
            for name, code in cases.items():
                figures[name].append(measure([*code, *map(str, paths)]))
    print(f"{gigabytes:.2f} GB in two files, {sum(rows):,} rows, {options.repeats} a task; {os.cpu_count()} cores")
    print(f"{'':<28}{'seconds':>10}{'MB/s':>10}{'peak MB':>10}")
    for name, runs in figures.items():
        seconds = statistics.median(second for second, _ in runs)
        print(f"{name:<28}{seconds:>10.1f}{gigabytes * 1000 / seconds:>10.0f}{max(peak for _, peak in runs):>10.0f}")


if __name__ == "__main__":
    main()
