"""What a row says about itself, and how files are read (compare.md §1.1 to §1.4, §1.8; records.md §19.1)."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.compare import (
    CompareInputError,
    agent_error,
    current_failures,
    load_facts,
    load_rollouts,
    mask_reason,
    measured_failure_kind,
    row_facts,
)
from rollout_assets.core.compare.fold import failure_facts
from rollout_assets.core.compare.rows import SIDECAR_FLAG, attempt_key, failure_as_row, finite_reward, strict_reward
from rollout_assets_tests.core.compare.helpers import attempt, failure, task, write


@pytest.mark.parametrize(
    ("value", "reward"),
    [(None, None), (0, 0.0), (1, 1.0), (-2.5, -2.5), (19.4, 19.4), (math.inf, math.inf), (2**1023, 2.0**1023)],
)
def test_rewards_that_are_numbers(value: Any, reward: float | None) -> None:
    assert strict_reward({"reward": value}) == reward
    assert finite_reward({"reward": value}) == (None if reward == math.inf else reward)


def test_an_absent_reward_is_none() -> None:
    assert strict_reward({}) is None


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (True, "true is a boolean"),
        ("1.0", '"1.0" is a string'),
        ([1], "is a list"),
        ({"reward": 1}, "is an object"),
        (2**1024, "more digits than a double can hold"),
    ],
)
def test_rewards_that_are_none(value: Any, what: str) -> None:
    with pytest.raises(CompareInputError, match="task 'a'") as caught:
        strict_reward({"task_id": "a", "reward": value})
    assert what in str(caught.value)
    assert row_facts({"reward": value}).reward_state == "not_a_number"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"reward": 1}, None),
        ({"reward": 1, "mask_sample": True}, "mask_sample"),
        ({"reward": 1, "mask_sample": 1, "failure_kind": "x"}, "mask_sample (failure_kind=x)"),
        ({"mask_sample": True}, "mask_sample"),
        ({"reward": 1, "mask_sample": False, "failure_kind": "x"}, None),
        ({"reward": None}, "no reward"),
        ({"reward": math.nan}, "non-finite reward (nan)"),
        ({"reward": -math.inf}, "non-finite reward (-inf)"),
    ],
)
def test_mask_reason(row: dict[str, Any], reason: str | None) -> None:
    assert mask_reason(row) == reason
    assert row_facts(row).mask_reason == reason


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"reward": 0, "failure_kind": "timeout"}, "timeout"),
        ({"reward": 0, "failure_kind": ""}, None),
        ({"reward": 0, "failure_kind": 7}, "7"),
        ({"reward": None, "failure_kind": "timeout"}, None),
        ({"reward": 0, "mask_sample": True, "failure_kind": "timeout"}, None),
    ],
)
def test_measured_failure_kind(row: dict[str, Any], kind: str | None) -> None:
    assert measured_failure_kind(row) == kind


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({}, None),
        ({"error": ""}, None),
        ({"error": 0}, None),
        ({"error": "boom"}, "error: boom"),
        ({"error": "first\nlast\n \n"}, "error: last"),
        ({"error": "x" * 200}, "error: " + "x" * 120),
        ({"error": {"a": 1}}, 'error: {"a": 1}'),
        ({"error": True}, "error: True"),
        ({"error": " \n"}, "error: "),
        ({"response": {"metadata": {"agent_error_type": "Timeout"}}}, "agent_error_type=Timeout"),
        ({"response": {"metadata": {"error_type": "", "b_error_type": 3, "c_error_type": 4}}}, "b_error_type=3"),
        ({"response": {"metadata": {"error_types": "x"}}}, None),
        ({"error": "boom", "response": {"metadata": {"error_type": "x"}}}, "error: boom"),
        ({"response": [1]}, None),
        ({"response": {"metadata": "error_type"}}, None),
    ],
)
def test_agent_error(row: dict[str, Any], error: str | None) -> None:
    assert agent_error(row) == error


@pytest.mark.parametrize(
    ("indices", "key"),
    [
        (attempt(0, 1), (0, 1)),
        (attempt(0.0, 1), (0, 1)),
        (attempt(2**80, 0), (2**80, 0)),
        (attempt(True, 0), None),
        (attempt(None, 0), None),
        (attempt("0", 0), None),
        (attempt(math.nan, 0), None),
        ({"_ng_task_index": 0}, None),
    ],
)
def test_attempt_key(indices: dict[str, Any], key: tuple[float, float] | None) -> None:
    assert attempt_key(indices) == key


def test_current_failures_keeps_the_last_of_each_attempt_and_none_that_was_scored() -> None:
    failures = [
        failure("scored", **attempt(0, 0)),
        failure("first", **attempt(1, 0)),
        failure("half", _ng_task_index=1),
        failure("last", **attempt(1, 0)),
        failure("nameless"),
        failure("nameless"),
    ]
    scored = [task("a", None, mask_sample=True, **attempt(0.0, 0))]
    assert [row["_ng_failure_class"] for row in current_failures(failures, scored)] == [
        "half",
        "last",
        "nameless",
        "nameless",
    ]


def test_a_folded_failure_is_masked_and_has_no_reward() -> None:
    row = failure_as_row(failure("timeout", reward=0.0, _ng_failure_message="took too long", task_id="a"))
    assert row == {
        "_ng_failure_class": "timeout",
        "_ng_failure_message": "took too long",
        "task_id": "a",
        "mask_sample": True,
        "failure_kind": "timeout",
        "failure_reason": "took too long",
        SIDECAR_FLAG: True,
    }
    assert failure_as_row({})["failure_kind"] == "failure"
    kept = failure_as_row({"failure_kind": "own", "failure_reason": "own", "_ng_failure_message": "other"})
    assert (kept["failure_kind"], kept["failure_reason"]) == ("own", "own")


@pytest.mark.parametrize("record", [failure("timeout", reward=0.5, mask_sample="x"), {}, {"failure_kind": "own"}])
def test_folding_a_row_and_folding_its_facts_agree(record: dict[str, Any]) -> None:
    assert failure_facts(row_facts(record, file="failures")) == row_facts(failure_as_row(record))


def test_evidence_rows_are_left_out_and_supersede_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a",
        [],
        [failure("timeout", **attempt(0, 0)), failure("kill_shaped", _ng_omitted_rollout=True, **attempt(0, 0))],
    )
    assert [row["failure_kind"] for row in load_rollouts(path)] == ["timeout"]
    assert [facts.failure_kind for facts in load_facts(path)] == ["timeout"]


def test_the_reward_of_an_evidence_row_is_checked_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [], [{"_ng_omitted_rollout": True, "reward": "x"}])
    with pytest.raises(CompareInputError, match=r"a_failures\.jsonl:1: the reward"):
        load_rollouts(path)


def test_appended_to_sidecar(tmp_path: Path) -> None:
    """Example 40 of records.md."""
    path = write(
        tmp_path,
        "a",
        [
            {**attempt(0, 0), "reward": 1.0},
            {**attempt(2, 0), "reward": 0.0, "failure_kind": "verifier_error", "mask_sample": False},
        ],
        [
            failure("agent_run_error", **attempt(0, 0)),
            failure("agent_run_error", **attempt(1, 0)),
            failure("judge_failed", reward=0.0, **attempt(1, 0)),
            failure("agent_run_error"),
        ],
    )
    rows = load_rollouts(path)
    assert [(attempt_key(row), mask_reason(row), measured_failure_kind(row), row.get("reward")) for row in rows] == [
        ((0, 0), None, None, 1.0),
        ((2, 0), None, "verifier_error", 0.0),
        ((1, 0), "mask_sample (failure_kind=judge_failed)", None, None),
        (None, "mask_sample (failure_kind=agent_run_error)", None, None),
    ]


def test_a_sidecar_belongs_to_a_name_that_ends_in_jsonl(tmp_path: Path) -> None:
    write(tmp_path, "rollouts", [], [failure("timeout")])
    for name in ("rollouts.json", "rollouts.jsonl.gz", "rollouts.JSONL"):
        other = tmp_path / name
        other.write_text('{"task_id": "a", "reward": 1}\n')
        assert len(load_rollouts(other)) == 1


def test_a_sidecar_that_is_no_regular_file_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [task("a", 1)])
    (tmp_path / "a_failures.jsonl").mkdir()
    assert len(load_rollouts(path)) == 1


def test_a_missing_output_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(CompareInputError, match=r"absent\.jsonl: no such file; check the path"):
        load_rollouts(tmp_path / "absent.jsonl")


def test_a_directory_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(CompareInputError, match="is a directory"):
        load_facts(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_output_is_an_input_error(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [task("a", 1)])
    path.chmod(0)
    with pytest.raises(CompareInputError, match="permission denied"):
        load_rollouts(path)


def test_a_truncated_tail_has_its_own_kind_and_says_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [task("a", 1), b'{"task_id": "b", "rew'])
    with pytest.raises(CompareInputError, match="wait until the run is finished") as caught:
        load_rollouts(path)
    assert (caught.value.kind, caught.value.line) == ("truncated_tail", 2)


def test_a_complete_last_row_needs_no_line_feed(tmp_path: Path) -> None:
    assert load_rollouts(write(tmp_path, "a", [b'{"task_id": "a", "reward": 1}'])) == [{"task_id": "a", "reward": 1}]


@pytest.mark.parametrize("line", ["[1]", "7", '"x"', "null"])
def test_a_row_is_an_object(line: str, tmp_path: Path) -> None:
    with pytest.raises(CompareInputError, match=r"a\.jsonl:1:\d+: not_an_object"):
        load_rollouts(write(tmp_path, "a", [line]))


@pytest.mark.parametrize("line", ["\u00a0", "\u2028"])
def test_only_space_tab_and_cr_are_blank(line: str, tmp_path: Path) -> None:
    with pytest.raises(CompareInputError):
        load_rollouts(write(tmp_path, "a", [line]))
    assert load_rollouts(write(tmp_path, "b", [" \t\r"])) == []


def test_a_non_finite_number_anywhere_never_raises(tmp_path: Path) -> None:
    path = write(tmp_path, "a", ['{"task_id": "a", "reward": 1, "x": [NaN, {"y": 1e999}]}'])
    assert load_rollouts(path)[0]["reward"] == 1
    assert load_facts(path)[0].mask_reason is None


def test_facts_hold_the_place_of_each_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [b"\n", task("a", 1), task("b", 2)], [failure("x")])
    data = path.read_bytes()
    facts = load_facts(path)
    assert [(row.file, row.line) for row in facts] == [("output", 2), ("output", 3), ("failures", 1)]
    for row, start in zip(facts[:2], (b'{"task_id": "a"', b'{"task_id": "b"'), strict=True):
        line = data[row.offset : row.offset + row.length]
        assert line.startswith(start)
        assert line.endswith(b"\n")
