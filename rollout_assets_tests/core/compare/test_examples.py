"""The worked examples of compare.md §2, by their numbers.

Where the decisions of the specification win over the table, the case says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.compare import CompareInputError, compare_rollouts, load_rollouts, summary_dict
from rollout_assets_tests.core.compare.helpers import Line, attempt, compared, failure, native, outcomes, task, write

SAME = ("identical", None)
OLD = ("flipped", "old")
NEW = ("flipped", "new")
MASKED = ("masked", None)
MISSING = ("missing", None)

A1 = task("a", 1)


@dataclass(frozen=True)
class Case:
    """Two sides and what comes of them: the outcome of every task, or an error."""

    number: str
    old: list[Line]
    new: list[Line]
    tasks: dict[str, tuple[str, str | None]] | None = None
    old_sidecar: list[Line] | None = None
    new_sidecar: list[Line] | None = None
    key: str | None = None
    #: Substrings of the error.
    error: list[str] = field(default_factory=list)
    #: Mask reasons of the old side by task.
    masked: dict[str, str | None] = field(default_factory=dict)
    #: Attributes of the result.
    has: dict[str, Any] = field(default_factory=dict)
    #: Substrings that some note has.
    notes: list[str] = field(default_factory=list)
    findings: set[str] = field(default_factory=set)


def reward(text: str) -> str:
    """A row of task `a` with a reward written as it is."""
    return f'{{"task_id": "a", "reward": {text}}}'


def masked_by(value: str) -> str:
    return f'{{"task_id": "a", "reward": 1, "mask_sample": {value}}}'


CASES = [
    Case("E01", [reward("1.0"), task("b", 0)], [A1, task("b", 1.0)], {"a": SAME, "b": NEW}),
    Case("E02", [task("a", 0.3)], [reward("0.30000000000000004")], {"a": SAME}),
    Case("E02b inclusive", [task("a", 0.0)], [reward("1e-9")], {"a": SAME}),
    Case("E02b beyond", [task("a", 0.0)], [reward("1.1e-9")], {"a": NEW}),
    Case(
        "E03",
        ['{"task_id": "a", "reward": 1, "x": "\u2028\u2029\u0085"}'],
        [A1],
        {"a": SAME},
    ),
    Case(
        "E04",
        [b'{"task_id": "a", "reward": 1}\r\n{"task_id": "b", "reward": 0}\r\n'],
        [A1, task("b", 0)],
        {"a": SAME, "b": SAME},
    ),
    # Decision 2: CR is JSON white space inside a row.
    Case("E04b", [b'{"task_id": "a",\r"reward": 1}\n'], [A1], {"a": SAME}),
    Case("E04b between rows", [b'{"task_id": "a"}\r{"task_id": "b"}\n'], [A1], error=["old.jsonl:1:"]),
    Case("E05", [b'\xef\xbb\xbf{"task_id": "a", "reward": 1}\n'], [A1], error=["old.jsonl:1:"]),
    *(
        Case(
            f"E07 {text}",
            [reward(text)],
            [task("a", 0.0)],
            {"a": MASKED},
            masked={"a": f"non-finite reward ({shown})"},
        )
        for text, shown in (("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"))
    ),
    Case("E08", [reward("1e999")], [task("a", 0.0)], {"a": MASKED}, masked={"a": "non-finite reward (inf)"}),
    *(Case(f"E09 {text}", [reward(text)], [task("a", 0.0)], {"a": SAME}) for text in ("-0.0", "-0", "1e-400")),
    Case("E10", [reward("1" + 400 * "0")], [task("a", 0)], error=["old.jsonl:1:", "'a'", "double"]),
    Case("E10b", [reward("1" * 5001)], [task("a", 0)], error=["old.jsonl:1:", "'a'", "double"]),
    Case("E11", ['{"task_id":"a","reward":0,"reward":1}'], [A1], error=["old.jsonl:1:", "duplicate", "reward"]),
    Case(
        "E11b",
        ['{"task_id":"a","task_id":"b","reward":1}'],
        [task("b", 1)],
        error=["old.jsonl:1:", "duplicate", "task_id"],
    ),
    Case(
        "E12",
        ['{"task_id":"\\ud800","reward":1}'],
        ['{"task_id":"\\ud800","reward":0}'],
        error=["old.jsonl:1:", "surrogate"],
    ),
    *(
        Case(f"E14 {text}", [reward(text)], [task("a", 0)], error=["old.jsonl:1:", "task 'a'", "reward"])
        for text in ("true", "false", '"1.0"', "[1]", '{"reward":1}')
    ),
    Case("E15 null", [reward("null")], [task("a", 0)], {"a": MASKED}, masked={"a": "no reward"}),
    Case("E15 absent", [{"task_id": "a"}], [task("a", 0)], {"a": MASKED}, masked={"a": "no reward"}),
    *(
        Case(f"E16 {text}", [masked_by(text)], [task("a", 0)], {"a": MASKED}, findings=odd)
        for text, odd in (
            ("true", set()),
            ("1", {"odd_mask_value"}),
            ('"false"', {"odd_mask_value"}),
            ("[0]", {"odd_mask_value"}),
        )
    ),
    *(Case(f"E16b {text}", [masked_by(text)], [task("a", 0)], {"a": OLD}) for text in ("0", '""', "[]", "{}", "null")),
    Case(
        "E17",
        [A1 | attempt(0, 0)],
        [A1],
        {"a": SAME},
        old_sidecar=[failure("timeout", task_id="a", **attempt(0, 0))],
    ),
    Case(
        "E18",
        [],
        [A1],
        {"a": MASKED},
        old_sidecar=[
            failure("timeout", task_id="a", **attempt(0, 0)),
            failure("agent_run_error", task_id="a", **attempt(0, 0)),
        ],
        masked={"a": "mask_sample (failure_kind=agent_run_error)"},
        has={"old_rows": 1},
    ),
    Case(
        "E18b",
        [],
        [A1],
        {"a": MASKED},
        old_sidecar=[
            failure("late", task_id="a", _ng_attempt_index=1, **attempt(0, 0)),
            failure("early", task_id="a", _ng_attempt_index=0, **attempt(0, 0)),
        ],
        masked={"a": "mask_sample (failure_kind=early)"},
        findings={"late_attempt"},
    ),
    Case(
        "E19",
        [A1 | attempt(0, 0)],
        [A1],
        {"a": MASKED},
        old_sidecar=[failure("timeout", task_id="a")],
        masked={"a": "1/2 rows masked: mask_sample (failure_kind=timeout)"},
        findings={"partly_masked"},
    ),
    Case(
        "E20",
        [A1],
        [A1],
        {"a": SAME, "unknown#1": MASKED, "unknown#2": MASKED},
        new_sidecar=[failure("timeout"), failure("timeout")],
        notes=["name no task: 0 on the old side, 2 on the new"],
    ),
    Case("E20b", [A1], [], {"a": MISSING, "unknown#1": MASKED}, new_sidecar=[failure("timeout")]),
    Case("E22", [task("t", 1), task("t", 0)], [task("t", 0.5)], {"t": SAME}, notes=["1 task has several rows", "t"]),
    Case("E22b", [task("t", 1), task("t", 1)], [task("t", 1), task("t", 0)], {"t": OLD}, findings={"within_noise"}),
    Case(
        "E23",
        [native("A", "x", 1), native("B", "x", 0)],
        [native("A", "x", 1), native("B", "x", 1)],
        {"A/x": SAME, "B/x": NEW},
        has={"keyed_by_taskset": True},
        notes=["both sides hold several tasksets"],
    ),
    Case(
        "E24",
        [native("A", "x", 1), native("B", "x", 0)],
        [native("A", "x", 1)],
        {"x": SAME, "B/x": MISSING},
        has={"keyed_by_taskset": False},
        notes=["the old side holds several tasksets (A, B)"],
    ),
    Case("E26", [native("A", "x", 1), native("B", "y", 0)], [task("x", 1), task("y", 0)], {"x": SAME, "y": SAME}),
    Case(
        "E27",
        [task("tb/a", 1), task("tb/b", 0)],
        [A1, task("b", 0)],
        {"a": SAME, "b": SAME},
        has={"old_prefix_stripped": "tb/", "new_prefix_stripped": None},
    ),
    Case(
        "E27b",
        [task("tb/a", 1), task("b", 0)],
        [A1, task("c", 0)],
        {"tb/a": MISSING, "a": MISSING, "b": MISSING, "c": MISSING},
        has={"old_prefix_stripped": None},
    ),
    Case("E27c", [task("tb/a", 1)], [task("x/a", 1)], {"tb/a": MISSING, "x/a": MISSING}),
    Case("E27e", [task("o/r/a", 1)], [A1], {"r/a": MISSING, "a": MISSING}, has={"old_prefix_stripped": "o/"}),
    Case("E28", [A1, {"task_name": "b", "reward": 1}], [A1], error=["no task key", "old", "--key"]),
    Case(
        "E28 with a key",
        [A1, {"task_name": "b", "reward": 1}],
        [A1],
        key="task_id",
        error=["old.jsonl:2", "task_id", "--key"],
    ),
    Case("E29 integer", [task(1, 1)], [task("1", 1)], {"1": SAME}),
    Case("E29 float", ['{"task_id":1.0,"reward":1}'], [task(1, 1)], {"1.0": MISSING, "1": MISSING}),
    Case("E29 boolean", [task(True, 1)], [task("True", 1)], {"True": SAME}),
    Case("E30", [task("a", 1, error="boom")], [A1], {"a": SAME}),
    Case("E30b", [task("a", 0, error="boom")], [A1], {"a": ("flipped_agent_error", "new")}),
    Case("E30c", [task("a", 0, error="boom")], [task("a", None)], {"a": MASKED}),
    Case("E31", [A1], [task("a", 0, mask_sample=False, failure_kind="verifier_timeout")], {"a": OLD}),
    Case("E32 empty", [], [], error=["no rows in either input"]),
    Case("E32 blank", [b"\n \t\r\n"], [], error=["no rows in either input"]),
    Case("E32b", [task("tb/t", 1)], [], {"tb/t": MISSING}, has={"old_prefix_stripped": None}),
    Case("E33", [A1, b'{"task_id":"b","rew'], [A1], error=["old.jsonl:2:", "truncated_tail"]),
    Case("E34", [A1], [A1], old_sidecar=["{oops"], error=["old_failures.jsonl:1:"]),
    Case(
        "E35",
        [{"task_name": "kk", "task_id": 1, "reward": 1}, {"task_name": "kk", "task_id": 2, "reward": 0}],
        [{"task_name": "kk", "task_id": 1, "reward": 0}, {"task_name": "kk", "task_id": 2, "reward": 1}],
        {"kk": SAME},
        findings={"coarse_key"},
    ),
    Case(
        "E36",
        [{"_ng_task_id": {"foo": 1}, "reward": 1}],
        [{"_ng_task_id": {"foo": 1}, "reward": 1}],
        {'{"foo": 1}': SAME},
    ),
    Case("E38", [task("a", 1, response=[1])], [A1], {"a": SAME}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.number.replace(" ", "_"))
def test_worked_example(case: Case, tmp_path: Path) -> None:
    old = write(tmp_path, "old", case.old, case.old_sidecar)
    new = write(tmp_path, "new", case.new, case.new_sidecar)
    if case.tasks is None:
        with pytest.raises(CompareInputError) as caught:
            compared(old, new, case.key)
        assert all(part in str(caught.value) for part in case.error), str(caught.value)
        with pytest.raises(CompareInputError):
            compare_rollouts(load_rollouts(old), load_rollouts(new), case.key)
        return
    result = compared(old, new, case.key)
    assert outcomes(result) == case.tasks
    assert {name: result.tasks[_position(result, name)].old.masked for name in case.masked} == case.masked
    assert {name: getattr(result, name) for name in case.has} == case.has
    for note in case.notes:
        assert any(note in text for text in result.notes), result.notes
    assert {finding.kind for finding in result.findings} == case.findings
    assert _without_places(summary_dict(compare_rollouts(load_rollouts(old), load_rollouts(new), case.key))) == (
        _without_places(summary_dict(result))
    )


def _position(result: Any, name: str) -> int:
    return next(number for number, entry in enumerate(result.tasks) if entry.task == name)


def _without_places(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary less what only files have; rows in memory are numbered through, so lines of findings differ too."""
    for entry in summary["tasks"]:
        entry.pop("verifier_output")
        for side in ("old", "new"):
            if entry[side] is not None:
                entry[side].pop("places")
    # Superseded failures are gone from rows in memory, so nothing can be said about their order.
    findings = [finding["kind"] for finding in summary.pop("findings") if finding["kind"] != "late_attempt"]
    summary.pop("finding_counts")
    return summary | {"old": None, "new": None, "findings": findings}
