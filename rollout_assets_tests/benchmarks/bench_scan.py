"""How fast a scan is, beside a bare loop over the lines of the same file with orjson and with json.

Run: python -m rollout_assets_tests.benchmarks.bench_scan [--mb N] [--rounds N] [--kinds A,B,D,R]

Kinds of files, written to a temporary folder:
    A   rows of about 2 kB
    B   rows of about 180 kB, by bytes half token ids, a quarter log probabilities, a quarter transcript
    C   rows of about 100 MB, of the same mix
    D   a mix of 1 kB to a tenth of the file
    R   the real rollouts of NeMo Gym beside the checkout, over and over; left out where they are absent

Every measurement is a process of its own; the methods take turns, so that a busy machine hits all of them. Shown are
the medians in MB/s (1e6 bytes), how many times as fast as orjson that is, and the greatest memory above what the
process had before it opened the file, in MiB.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle
from pathlib import Path

import orjson

from rollout_assets_tests.shared_material import NEMO_GYM

WORDS = [
    "the",
    "agent",
    "reads",
    "a",
    "file",
    "and",
    "runs",
    "its",
    "tests",
    "then",
    "it",
    "looks",
    "at",
    "what",
    "failed",
    "in",
    "line",
    "12,",
    "column",
    "7:",
    "expected",
    "'x'",
    "and",
    "got",
    "None;",
    '"retry"',
    "is",
    "set",
    "to",
    "3\n\tso",
    "we",
    "go",
    "on",
    "—",
    "✓",
    "done.",
]


class Producer:
    """Makes rows like those of a run: every row its own, four rollouts to a task, which share its input."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        # A slice of a long text is as good as one of its own, and made at once.
        self._text = " ".join(self._random.choices(WORDS, k=200_000))
        self._input: list[dict[str, str]] = []

    def _words(self, count: int) -> str:
        start, size = self._random.randrange(100_000), 5 * count
        while start + size > len(self._text):
            self._text += self._text
        return self._text[start : start + size]

    def row(self, index: int, text_words: int, tokens: int) -> dict[str, object]:
        """One rollout; `tokens` token ids, and log probabilities for a fifth as many."""
        rng = self._random
        if index % 4 == 0:
            self._input = [{"role": "user", "content": self._words(60)}]
        message: dict[str, object] = {
            "id": f"msg_{rng.getrandbits(128):032x}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": self._words(text_words), "annotations": []}],
        }
        if tokens:
            message["prompt_token_ids"] = [rng.randrange(150_000) for _ in range(tokens // 2)]
            message["generation_token_ids"] = [rng.randrange(150_000) for _ in range(tokens // 2)]
            message["generation_log_probs"] = [-(rng.random() ** 12) * 9 for _ in range(tokens // 5)]
        call = {
            "id": f"fc_{rng.getrandbits(96):024x}",
            "type": "function_call",
            "name": "run",
            "arguments": '{"cmd": "ls"}',
        }
        written = rng.randrange(4_000)
        return {
            "_ng_task_index": index // 4,
            "_ng_rollout_index": index % 4,
            "_ng_attempt_index": 0,
            "_ng_run_id": "a" * 32,
            "agent_ref": {"type": "responses_api_agents", "name": "simple_agent"},
            "responses_create_params": {"input": self._input, "tools": []},
            "response": {
                "id": f"resp_{rng.getrandbits(128):032x}",
                "object": "response",
                "model": "policy",
                "metadata": None,
                "output": [call, message],
                "usage": {"input_tokens": 311, "output_tokens": written, "total_tokens": 311 + written},
            },
            "reward": rng.choice((0.0, 1.0, 0.25)),
            "mask_sample": False,
            "elapsed_seconds": round(rng.random() * 90, 3),
        }


def rows_of_kind(kind: str, size: int) -> Iterator[bytes]:
    """The lines of a file of about `size` bytes, without end."""
    make = Producer(kind).row
    if kind == "R":
        real = [line for path in sorted(NEMO_GYM.glob("*/rollouts.jsonl")) for line in path.read_bytes().split(b"\n")]
        yield from cycle(line for line in real if line.startswith(b"{"))
    elif kind == "A":
        yield from (orjson.dumps(make(index, 200, 0)) for index in count())
    else:
        if kind == "B":
            rows = [make(index, 9_000, 13_000) for index in range(40)]
        elif kind == "C":
            rows = [make(index, 5_000_000, 7_500_000) for index in range(2)]
        else:
            scales = [1, 1, 1, 3, 10, 30, 100, 300, max(1, size // 20_000), max(1, size // 10_000)]
            rows = [make(index, 45 * n, 80 * n) for index, n in enumerate(scales)]
        # Writing such rows is slower than reading them: a few are made, and used again and again under other indices.
        tails = [orjson.dumps(row).split(b",", 2)[2] for row in rows]
        for index in count():
            yield b'{"_ng_task_index":%d,"_ng_rollout_index":%d,%s' % (index // 4, index % 4, tails[index % len(tails)])


def write_file(path: Path, kind: str, size: int) -> None:
    with path.open("wb") as file:
        for line in rows_of_kind(kind, size):
            file.write(line + b"\n")
            if file.tell() >= size:
                return


def with_scan(path: str) -> int:
    from rollout_assets.core.jsonl import Row, scan

    return sum(isinstance(line, Row) for line in scan(path))


def with_orjson(path: str) -> int:
    count = 0
    with open(path, "rb") as file:
        for line in file:
            orjson.loads(line)
            count += 1
    return count


def with_json(path: str) -> int:
    import json

    count = 0
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)
            count += 1
    return count


METHODS: dict[str, Callable[[str], int]] = {"scan": with_scan, "orjson": with_orjson, "json": with_json}


def measure_here(method: str, path: str) -> None:
    """Print rows, seconds and MiB of one pass in this process."""
    METHODS[method](str(Path(__file__).parent / "no such file")) if method == "scan" else None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    rows = METHODS[method](path)
    seconds = time.perf_counter() - started
    print(rows, seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def measure(method: str, path: Path) -> tuple[int, float, float]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--measure", method, str(path)]
    rows, seconds, mib = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(rows), float(seconds), float(mib)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=100, help="size of each file in MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="A,B,D,R")
    parser.add_argument("--measure", nargs=2, metavar=("METHOD", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure_here(*options.measure)
        return
    print(
        f"{'kind':5}{'rows':>8}{'MB':>7}   " + "".join(f"{m + ' MB/s':>13}{'x orjson':>10}{'+MiB':>7}" for m in METHODS)
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds.split(","):
            if kind == "R" and not NEMO_GYM.is_dir():
                print("R    the real rollout files are not beside the checkout")
                continue
            path = Path(folder) / f"{kind}.jsonl"
            write_file(path, kind, options.mb * 1_000_000)
            found = {method: [] for method in METHODS}
            for _ in range(options.rounds):
                for method in METHODS:
                    found[method].append(measure(method, path))
            report(kind, path.stat().st_size, found)
            path.unlink()


def report(kind: str, size: int, found: dict[str, list[tuple[int, float, float]]]) -> None:
    """Print one line of the table."""
    seconds = {method: statistics.median(run[1] for run in runs) for method, runs in found.items()}
    cells = f"{kind:5}{found['scan'][0][0]:8}{size / 1e6:7.0f}   "
    for method, runs in found.items():
        speed, ratio = size / seconds[method] / 1e6, seconds["orjson"] / seconds[method]
        cells += f"{speed:13.0f}{ratio:10.2f}{max(run[2] for run in runs):7.0f}"
    print(cells, flush=True)


if __name__ == "__main__":
    main()
