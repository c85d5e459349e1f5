"""Facts of an outcome, what it costs, whether it is final, and what a resume does (records.md §8.4, §9, §10)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rollout_assets.core.records import FailureClass, FailureClassificationConfig
from rollout_assets.core.records.failures import parsed_failure_record
from rollout_assets.core.records.outcomes import (
    OutcomeFacts,
    disposition_of,
    elapsed_seconds,
    failure_facts,
    has_finite_reward,
    is_final,
    measurement_of,
    result_facts,
    spending,
)
from rollout_assets.core.records.rejudgment import holds_saved_answer
from rollout_assets.core.records.resume import base_attempt_cap, resume_action
from rollout_assets_tests.core.records.runs import ANSWER, failure, record, result


def facts(row: dict[str, Any], **options: Any) -> OutcomeFacts:
    """The facts of a whole row."""
    if row.get("_ng_failure_class") is None:
        return result_facts(row, **options)
    saved = row.get("_ng_failure_record")
    parsed = None if saved is None else parsed_failure_record(saved)
    return failure_facts(row, parsed, saved_answer=holds_saved_answer(row), **options)


NOT_SENT = {"_ng_failure_record": record(delivery="not_sent")}
ZERO = {"_ng_failure_counts_as_zero": True}
TERMINAL = {"_ng_failure_terminal": True}
OMITTED = {"_ng_omitted": True}


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (0, True),
        (0.0, True),
        (-1.5, True),
        (10**400, True),
        (True, False),
        ("1.0", False),
        (None, False),
        (..., False),
        ([1], False),
        (float("nan"), False),
        (float("inf"), False),
    ],
)
def test_rewards(reward: Any, expected: bool) -> None:
    assert has_finite_reward(result(reward=reward)) is expected
    assert result_facts(result(reward=reward)).has_reward is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"elapsed_seconds": 2}, 2.0),
        ({"elapsed_seconds": "2.5"}, 2.5),
        ({"elapsed_seconds": 0, "response": {"metadata": {"elapsed_seconds": 3}}}, 3.0),
        ({"elapsed_seconds": "soon", "response": {"metadata": {"elapsed_seconds": "4"}}}, 4.0),
        ({"elapsed_seconds": True, "response": {"metadata": {"elapsed_seconds": -1}}}, None),
        ({"elapsed_seconds": float("inf")}, None),
        ({"elapsed_seconds": float("nan")}, None),
        ({"elapsed_seconds": "nan"}, None),
        ({"elapsed_seconds": 10**400}, None),
        ({"elapsed_seconds": [1]}, None),
        ({"response": "text"}, None),
        ({"response": {"metadata": ["elapsed_seconds"]}}, None),
        ({}, None),
    ],
)
def test_elapsed_seconds(fields: dict[str, Any], expected: float | None) -> None:
    assert elapsed_seconds(result(**fields)) == expected


def test_facts_of_a_result() -> None:
    plain = facts(result())
    assert plain == OutcomeFacts(has_reward=True)
    masked = facts(result(mask_sample="yes", failure_kind="provider_unavailable"), rerun_approved=True)
    assert masked == OutcomeFacts(masked=True, has_reward=True, masked_infrastructure=True, rerun_approved=True)
    assert not facts(result(mask_sample=True, failure_kind="judge_failed")).masked_infrastructure
    assert not facts(result(mask_sample=True, failure_kind=["provider_unavailable"])).masked_infrastructure
    assert not facts(result(failure_kind="provider_unavailable")).masked_infrastructure
    assert not facts(result(mask_sample=0), rerun_approved=True).rerun_approved


def test_facts_of_a_failure() -> None:
    found = facts(failure(label="timeout_exceeded", **TERMINAL, **ZERO, response=ANSWER))
    assert (found.failure_class, found.failure_kind, found.legacy_failure_class) == (
        "timeout_exceeded",
        "agent_timeout",
        "timeout_exceeded",
    )
    assert (found.terminal, found.final_zero, found.counted_zero_kind) == (True, True, "timeout_exceeded")
    assert found.saved_answer
    assert not facts(failure(_ng_failure_counts_as_zero=1)).final_zero
    assert facts(failure(**NOT_SENT)).not_sent
    assert facts(failure(label="kill_shaped")).interruption_cause_unknown
    assert not facts(failure(label="kill_shaped", _ng_failure_stage="admission")).interruption_cause_unknown
    assert facts(failure(label="judge_invalid")).judge_failure


@pytest.mark.parametrize(
    ("row", "unclassified"),
    [
        (failure(label="made_up"), True),
        (failure(label="agent_run_error"), False),
        (failure(label="made_up", _ng_failure_http_status=500), False),
        (failure(label="made_up", **TERMINAL), False),
        (failure(label="made_up", response=ANSWER), False),
        (failure(label="made_up", _ng_failure_record=record(kind="made_up", delivery="not_sent")), False),
        (failure(label="kill_shaped"), False),
        (failure(label="judge_invalid"), False),
    ],
)
def test_unclassified_execution_failures(row: dict[str, Any], unclassified: bool) -> None:
    explicit = FailureClassificationConfig(kinds={"agent_run_error": FailureClass.AGENT})
    assert facts(row, classification=explicit).unclassified_execution_failure is unclassified
    assert not facts(row).unclassified_execution_failure  # only with an explicit classification
    action = resume_action(facts(row, classification=explicit), blocked=False, retry_terminal_timeouts=False)
    assert (action == "leave to recovery") is (
        unclassified or "response" in row or row["_ng_failure_class"] == "judge_invalid"
    )


# One row of the table: the outcome, what it costs, its disposition, whether it is final and what a resume does, first
# with terminal timeouts kept, then with terminal timeouts retried.
OUTCOMES = [
    (result(), "free", "success", True, "keep", True, "keep"),
    (result(reward=...), "free", "success", True, "keep", True, "keep"),
    (result(mask_sample=True), "free", "success", True, "keep", True, "keep"),
    (result(**OMITTED), "free", "omitted", True, "keep", True, "keep"),
    (failure(), "counted", "failure", False, "run", False, "run"),
    (failure(label=""), "counted", "failure", False, "run", False, "run"),
    (failure(**NOT_SENT), "free", "failure", False, "run", False, "run"),
    (failure(**TERMINAL), "free", "failure", True, "keep", True, "keep"),
    (failure(_ng_failure_terminal="yes"), "free", "failure", True, "keep", True, "keep"),
    (failure(label="timeout_exceeded", **TERMINAL), "overridden", "failure", True, "keep", False, "run"),
    (failure(label="timeout_exceeded"), "counted", "failure", False, "run", False, "run"),
    (failure(label="reference_missing", **TERMINAL), "overridden", "failure", True, "keep", False, "run"),
    (failure(label="eval_missing", **TERMINAL), "overridden", "failure", True, "keep", False, "run"),
    (failure(label="transport_ineligible", **TERMINAL), "overridden", "failure", True, "keep", False, "run"),
    (failure(label="timeout_exceeded", **TERMINAL, **ZERO), "free", "failure", True, "keep", True, "keep"),
    (failure(**ZERO), "free", "failure", True, "keep", True, "keep"),
    (failure(label="skipped", **TERMINAL), "free", "omitted", True, "keep", True, "keep"),
    (failure(label="skipped"), "counted", "failure", False, "run", True, "keep"),
    (failure(label="skipped", **OMITTED), "free", "omitted", True, "keep", True, "keep"),
    (failure(label="kill_shaped"), "free", "failure", False, "run", False, "run"),
    (failure(label="kill_shaped", **TERMINAL), "free", "failure", True, "keep", True, "keep"),
    (failure(label="agent_timeout"), "counted", "failure", False, "run", False, "run"),
    (failure(label="agent_timeout", response=ANSWER), "counted", "failure", True, "keep", True, "keep"),
    (failure(response=ANSWER), "counted", "failure", False, "leave to recovery", False, "leave to recovery"),
    (failure(label="judge_failed"), "counted", "failure", False, "leave to recovery", False, "leave to recovery"),
    (failure(label="judge_failed", **TERMINAL), "free", "failure", True, "keep", True, "keep"),
    (
        failure(label="judge_invalid", _ng_migrated_invalid_judge_response=True, response=ANSWER),
        "counted",
        "failure",
        False,
        "run",
        False,
        "run",
    ),
    (failure(label="rollout_allocation_ended"), "counted", "failure", False, "run", False, "run"),
]


@pytest.mark.parametrize(
    ("row", "cost", "disposition", "final", "action", "final_if_retried", "action_if_retried"), OUTCOMES
)
def test_what_an_outcome_means(
    row: dict[str, Any],
    cost: str,
    disposition: str,
    final: bool,
    action: str,
    final_if_retried: bool,
    action_if_retried: str,
) -> None:
    known = facts(row)
    assert spending(known) == cost
    assert disposition_of(known) == disposition
    assert is_final(known, retry_terminal_timeouts=False) is final
    assert is_final(known, retry_terminal_timeouts=True) is final_if_retried
    assert resume_action(known, blocked=False, retry_terminal_timeouts=False) == action
    assert resume_action(known, blocked=False, retry_terminal_timeouts=True) == action_if_retried
    blocked = resume_action(known, blocked=True, retry_terminal_timeouts=False)
    assert blocked == ("keep" if disposition == "omitted" else "blocked")


def test_no_outcome() -> None:
    assert disposition_of(None) == "unknown"
    assert not is_final(None, retry_terminal_timeouts=True)
    assert resume_action(None, blocked=False, retry_terminal_timeouts=False) == "run"
    assert resume_action(None, blocked=True, retry_terminal_timeouts=False) == "blocked"


def test_an_approved_rerun_is_not_final() -> None:
    approved = facts(result(mask_sample=True), rerun_approved=True)
    assert disposition_of(approved) == "success"
    assert not is_final(approved, retry_terminal_timeouts=False)
    assert resume_action(approved, blocked=False, retry_terminal_timeouts=False) == "run"


def test_a_failed_rejudgment_is_free() -> None:
    judged = failure_facts(failure(label="judge_failed"), None, saved_answer=True)
    assert spending(judged) == "counted"
    assert spending(replace(judged, failed_rejudgment=True)) == "free"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (result(reward=0.0), "measured"),
        (result(mask_sample=True), "masked"),
        (result(reward=..., mask_sample=True), "unscored"),
        (result(reward=True), "unscored"),
        (result(reward=float("nan")), "unscored"),
    ],
)
def test_measurement(row: dict[str, Any], expected: str) -> None:
    assert measurement_of(facts(row)) == expected


@pytest.mark.parametrize(("text", "cap"), [(None, 3), ("5", 5), (" 7 ", 7)])
def test_the_cap_without_a_saved_one(monkeypatch: pytest.MonkeyPatch, text: str | None, cap: int) -> None:
    monkeypatch.delenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", raising=False)
    if text is not None:
        monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", text)
    assert base_attempt_cap(None) == cap
    assert base_attempt_cap(9) == 9


@pytest.mark.parametrize("text", ["0", "-1", "", "many", "2.0"])
def test_a_cap_that_is_no_number_is_warned_about(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", text)
    with pytest.warns(UserWarning, match="NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"):
        assert base_attempt_cap(None) == 3
