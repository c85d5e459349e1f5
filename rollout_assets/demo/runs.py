"""Four runs of one training job, each an evaluation of a checkpoint on the same tasks, two rollouts a task.

The steps 100, 200 and 300 are sound; the file of step 400 is damaged in six ways. All content follows from the tables
below; what is left open (how long a rollout took, how many tokens it used) is a hash of step, task and rollout. The
files are those of records.md §1, with a manifest of schema version 2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rollout_assets.core.files import write_text
from rollout_assets.core.records.digest import digest
from rollout_assets.core.records.paths import failures_path_for, manifest_path_for, materialized_path_for
from rollout_assets.demo.tasks import TASKS, CodeTask, MathTask

STEPS = (100, 200, 300, 400)
ROLLOUTS_PER_TASK = 2
TASKSET = "math-and-code"
MODEL = "policy-4b"

# What happens to each task: per step a word for each of its two rollouts, a word being the attempts in their order.
#   1  solved                           0  answered with the typical mistake (a code task: some checks pass)
#   c  context window full, reward 0    e  agent error after an answer that is wrong
#   m  wrong, and masked because the sandbox of the verifier broke down
#   t, a, k, z  failures, see FAILURES
#   r  reserved, and the allocation ended without an outcome          -  never dispatched
STORY = """
                      100     200    300    400
primes-below-50      1 1     1 1    1 1    1 1
trailing-zeros       1 1     1 1    1 1    1 1
clock-angle          0 0     1 1    1 1    1 1
dice-nine            1 1     1 1    1 1    1 1
last-digit           1 1     1 1    1 1    1 1
rectangle-diagonal   1 1     1 1    1 1    1 1
trains-meet          t1 1    1 1    1 1    1 1
arithmetic-sum       1 0     1 1    1 1    1 1
divisors-360         1 1     1 1    0 1    1 1
banana               1 0     1 0    1 1    1 1
handshakes           1 1     1 1    1 ta   1 1
log-equation         0 0     0 0    1 1    1 1
sum-of-squares       1 1     1 1    1 0    1 1
inscribed-square     1 1     1 c    1 1    1 1
geometric-tail       1 1     1 1    1 e    1 1
inverse-mod-26       0 0     0 0    0 1    1 1
rope-gap             1 1     0 0    0 0    0 1
two-heads            aaa 0   0 0    0 0    0 0
rotate-list          0 0     1 0    1 1    1 1
roman-numerals       1 1     0 1    0 1    1 1
balanced-brackets    1 1     k1 1   1 1    1 1
merge-intervals      1 1     m 1    1 1    1 1
word-count           r r     1 1    1 z    1 1
spiral-order         0 0     0 0    - -    0 0
"""


class Failure(NamedTuple):
    """How an attempt failed (records.md §11.1, §11.3), and after how many seconds."""

    kind: str
    reason: str
    seconds: float
    delivery: str = "delivered"
    source: str = "collector"
    http_status: int | None = None
    exception_type: str | None = None
    terminal: bool = False
    counts_as_zero: bool = False


FAILURES = {
    "t": Failure("transport_timeout", "no reply in 300 s", 300.0, "possibly_delivered", exception_type="ReadTimeout"),
    "a": Failure("agent_run_error", "/run answered 500: no free sandbox", 2.5, http_status=500),
    "k": Failure("kill_shaped", "the job was preempted while the rollout ran", 41.0, "possibly_delivered"),
    "z": Failure(
        "agent_command_not_allowed",
        "the model ran a forbidden command: curl",
        18.0,
        source="environment",
        terminal=True,
        counts_as_zero=True,
    ),
}

# The damage of step 400, by line of the damaged file. Line 24 is the beginning of a row whose writer died, with the
# next row appended to it. The others are rows of reward 1.0 that spell it as no reward may be spelled. Besides, the
# last line is cut.
TORN_LINE = 24
REWARD_SPELLINGS = {
    8: '"reward":"1.0"',
    15: '"reward":true',
    32: '"reward":NaN',
    40: '"reward":0.0,"reward":1.0',
}


def write_demo_runs(root: Path) -> list[Path]:
    """Write the demo runs under `root` and return their results files, `math/step-0100/rollouts.jsonl` and so on.

    The bytes are the same on every machine. Each file is written whole or not at all, as a producer would: inventory,
    outcomes, manifest last. A file that has its content already is left alone.
    """
    outputs = []
    for step in STEPS:
        output = root / "math" / f"step-{step:04d}" / "rollouts.jsonl"
        for path, text in _files_of_run(output, step):
            if not path.is_file() or path.read_bytes() != text.encode():
                write_text(path, text)
        outputs.append(output)
    return outputs


class Attempt(NamedTuple):
    """One attempt of a rollout; `row` is the rollout's row of the inventory."""

    step: int
    row: dict[str, Any]
    number: int

    @property
    def task(self) -> MathTask | CodeTask:
        """The task that is attempted."""
        index: int = self.row["_ng_task_index"]
        return TASKS[index]

    @property
    def name(self) -> str:
        """What the hashes of this attempt are taken of."""
        return f"{self.step} {_rollout_id(self.row)} {self.number}"


def _files_of_run(output: Path, step: int) -> Iterator[tuple[Path, str]]:
    """The path and content of each file of a run, in the order of writing."""
    inventory = [_inventory_row(index, rollout) for index in range(len(TASKS)) for rollout in range(ROLLOUTS_PER_TASK)]
    results: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    reserved: dict[str, int] = {}
    for row, word in zip(inventory, _words(step), strict=True):
        if word == "-":
            failures.append(_evidence_row(step, row))
            continue
        reserved[_rollout_id(row)] = len(word)
        for number, letter in enumerate(word):
            attempt = Attempt(step, row, number)
            if letter in FAILURES:
                failures.append(_failure_row(attempt, FAILURES[letter]))
            elif letter != "r":
                results.append(_result_row(attempt, letter))
    lines = [_line(row) for row in sorted(results, key=_completion_order)]
    yield materialized_path_for(output), "".join(map(_line, inventory))
    yield output, _damaged(lines) if step == STEPS[-1] else "".join(lines)
    yield failures_path_for(output), "".join(map(_line, sorted(failures, key=_completion_order)))
    yield manifest_path_for(output), json.dumps(_manifest(step, inventory, reserved), indent=2) + "\n"


def _words(step: int) -> list[str]:
    """The column of the story for a step: one word a rollout, in inventory order."""
    column = 1 + ROLLOUTS_PER_TASK * STEPS.index(step)
    story = {cells[0]: cells[column : column + ROLLOUTS_PER_TASK] for cells in map(str.split, STORY.split("\n")[2:-1])}
    return [word for task in TASKS for word in story[task.task_id]]


def _inventory_row(task_index: int, rollout_index: int) -> dict[str, Any]:
    """What is expected of one rollout (records.md §2.6)."""
    task = TASKS[task_index]
    if isinstance(task, MathTask):
        agent, instruction = "boxed_answer_agent", "Put the final answer inside \\boxed{}."
        verifier: dict[str, Any] = {"expected_answer": task.answer}
    else:
        agent, instruction = "code_agent", "Reply with one Python code block and nothing else."
        verifier = {"checks": [f"{check.call} == {check.expected}" for check in task.checks]}
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": task.prompt}]
    return {
        "_ng_task_index": task_index,
        "_ng_rollout_index": rollout_index,
        "_ng_task_id": {"taskset": TASKSET, "task_id": task.task_id},
        "agent_ref": {"name": agent},
        "responses_create_params": {"input": messages, "temperature": 1.0, "max_output_tokens": 2048},
        "verifier_metadata": verifier,
    }


def _identity(step: int, row: dict[str, Any]) -> dict[str, Any]:
    """The keys that name a rollout of a run."""
    return {key: row[key] for key in row if key.startswith("_ng_")} | {"_ng_run_id": _run_id(step)}


def _result_row(attempt: Attempt, letter: str) -> dict[str, Any]:
    """A row of the results file for an attempt that came to its end."""
    request = attempt.row["responses_create_params"]
    # Servers write the type of a message out where the request left it to the default.
    messages = [{**message, "type": "message"} for message in request["input"]]
    response = _response(attempt, letter)
    thinking_seconds = response["usage"]["output_tokens"] / 40
    reward, verifier_output = _grade(attempt.task, letter)
    result = {
        **_identity(attempt.step, attempt.row),
        "_ng_attempt_index": attempt.number,
        "agent_ref": attempt.row["agent_ref"],
        "responses_create_params": {**request, "input": messages},
        "response": response,
        "reward": reward,
        "verifier_metadata": attempt.row["verifier_metadata"],
        "elapsed_seconds": round(thinking_seconds + _hash_below(3000, f"wait {attempt.name}") / 1000, 3),
    }
    if verifier_output is not None:
        result["test_output"] = verifier_output
    if letter == "e":
        result["error"] = "Traceback (most recent call last):\nToolTimeout: python did not return within 120 s"
    if letter == "m":
        result |= {"mask_sample": True, "failure_kind": "verifier_error", "failure_reason": "the sandbox broke down"}
    return result


def _response(attempt: Attempt, letter: str) -> dict[str, Any]:
    """What the model server returned."""
    answer = _answer(attempt.task, letter)
    message = {
        "id": f"msg_{_sha256(attempt.name)[:24]}",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": answer, "annotations": []}],
    }
    tokens_in = 20 + len(attempt.task.prompt) // 4
    tokens_out = 2048 if letter == "c" else len(answer) // 3 + _hash_below(400, f"tokens {attempt.name}")
    metadata = {"checkpoint": f"step-{attempt.step:04d}"}
    if letter == "c":
        metadata["agent_error_type"] = "ContextWindowExceeded"
    return {
        "id": f"resp_{_sha256(attempt.name)[24:48]}",
        "object": "response",
        "model": MODEL,
        "status": "incomplete" if letter == "c" else "completed",
        "output": [message],
        "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out, "total_tokens": tokens_in + tokens_out},
        "metadata": metadata,
    }


def _answer(task: MathTask | CodeTask, letter: str) -> str:
    """What the model says."""
    if isinstance(task, CodeTask):
        return f"```python\n{task.solution if letter == '1' else task.flawed}\n```"
    if letter == "c":
        return " ".join([task.slip] * 12)
    working, value = (task.working, task.answer) if letter == "1" else (task.slip, task.mistake)
    return f"{working}: \\boxed{{{value}}}"


def _grade(task: MathTask | CodeTask, letter: str) -> tuple[float, str | None]:
    """Reward and verifier output of an answer; the verifiers say nothing about a right one."""
    if letter == "1":
        return 1.0, None
    if letter == "m":
        return 0.0, "starting sandbox\nsandbox exited with code 137 before the first check\nno verdict"
    if isinstance(task, CodeTask):
        lines = []
        for check in task.checks:
            lines.append(f"{'PASS' if check.got is None else 'FAIL'} {check.call} == {check.expected}")
            if check.got is not None:
                lines.append(f"     got {check.got}")
        passed = sum(check.got is None for check in task.checks)
        return passed / len(task.checks), "\n".join([*lines, f"{passed} of {len(task.checks)} checks pass"])
    answer = "none: the reply has no \\boxed{}" if letter == "c" else task.mistake
    return 0.0, f"answer    {answer}\nexpected  {task.answer}\nFAIL"


def _failure_row(attempt: Attempt, failure: Failure) -> dict[str, Any]:
    """A row of the sidecar for an attempt that failed (records.md §2.2, §11.1)."""
    record = {
        "schema_version": 1,
        "episode_id": {"rollout_id": _rollout_id(attempt.row), "attempt": attempt.number},
        "run_id": _run_id(attempt.step),
        "source": failure.source,
        "delivery": failure.delivery,
        "failure": {
            "failure_kind": failure.kind,
            "failure_reason": failure.reason,
            "stage": "agent",
            "terminal": failure.terminal,
        },
        "http_status": failure.http_status,
        "exception_type": failure.exception_type,
    }
    row = {
        **_identity(attempt.step, attempt.row),
        "_ng_attempt_index": attempt.number,
        "agent_ref": attempt.row["agent_ref"],
        "_ng_failure_class": failure.kind,
        "_ng_failure_message": failure.reason,
        "_ng_failure_stage": "agent",
        "_ng_failure_terminal": failure.terminal,
        "_ng_failure_record": record,
        "elapsed_seconds": failure.seconds,
    }
    return row | {"_ng_failure_counts_as_zero": True} if failure.counts_as_zero else row


def _evidence_row(step: int, row: dict[str, Any]) -> dict[str, Any]:
    """A row of the sidecar for a rollout that the dispatch budget did not reach: no attempt (records.md §12.2)."""
    return {
        **_identity(step, row),
        "_ng_omitted_rollout": True,
        "_ng_dispatch_drained": True,
        "_ng_failure_class": "cancelled",
        "_ng_failure_message": "the dispatch budget ended before the rollout was started",
    }


def _manifest(step: int, inventory: list[dict[str, Any]], reserved: dict[str, int]) -> dict[str, Any]:
    """The manifest (records.md §4.1). The source is the inventory before its tasks were repeated."""
    configuration = {
        "collection": {"num_repeats": ROLLOUTS_PER_TASK},
        "servers": {MODEL: {"checkpoint": f"step-{step:04d}"}},
        "token_id_capture": None,
    }
    return {
        "schema_version": 2,
        "selection_policy": "latest_allocated",
        "run_id": _run_id(step),
        "source_digest": _sha256("".join(map(_line, inventory[::ROLLOUTS_PER_TASK]))),
        "materialized_digest": digest(inventory),
        "config_digest": digest(configuration),
        "legacy_import": False,
        "identity_overridden": False,
        "next_attempt": reserved,
    }


def _damaged(lines: list[str]) -> str:
    """The text of a results file whose rows are `lines`, with the damage of step 400."""
    torn = lines[TORN_LINE - 1]
    lines = [*lines[: TORN_LINE - 1], torn[: len(torn) // 2] + lines[TORN_LINE], *lines[TORN_LINE + 1 :]]
    for line, spelling in REWARD_SPELLINGS.items():
        lines[line - 1] = lines[line - 1].replace('"reward":1.0', spelling)
    return "".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2]


def _completion_order(row: dict[str, Any]) -> tuple[int, float]:
    """Rows are appended as attempts end. Evidence, which names no attempt, stands first."""
    return row.get("_ng_attempt_index", -1), row.get("elapsed_seconds", 0.0)


def _run_id(step: int) -> str:
    return _sha256(f"run {step}")[:32]


def _rollout_id(row: dict[str, Any]) -> str:
    return f"{row['_ng_task_index']}-{row['_ng_rollout_index']}"


def _hash_below(limit: int, name: str) -> int:
    """A whole number below `limit` that depends on nothing but the name."""
    return int(_sha256(name)[:12], 16) % limit


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
