"""Saved answers, re-judgments and their admissions (records.md §13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.records import (
    PendingRejudge,
    RunDataError,
    digest,
    is_rejudgment_failure_of,
    is_rejudgment_of,
    reading,
    rejudge_predecessor_id,
    rejudgment_admission_closed_by,
)
from rollout_assets.core.records.rejudgment import holds_saved_answer, keeps_answer_at
from rollout_assets_tests.core.records.runs import (
    ANSWER,
    OTHER_RUN_ID,
    attempts,
    failure,
    index,
    legacy,
    result,
    write_run,
)

JUDGED = failure(label="judge_failed", response=ANSWER, _ng_failure_id="ev-1")
MASKED = result(reward=0.0, mask_sample=True, response=ANSWER)
KEYS = {"_ng_rejudged_failure_id": "ev-1", "_ng_rejudge_operation_id": "op-1"}
REJUDGED = result(response=ANSWER, **KEYS)
FAILED_AGAIN = failure(label="judge_unparseable", response=ANSWER, _ng_failure_id="ev-2", **KEYS)
ADMITTED_AT = "2026-11-01T00:00:00Z"


def predecessor(row: dict[str, Any]) -> dict[str, str]:
    return {"_ng_rejudged_failure_id": "result-sha256:" + digest(row), "_ng_rejudge_operation_id": "op-2"}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (ANSWER, True),
        ({"id": "x"}, True),
        ({"output": [{}]}, True),
        ({"output": []}, False),
        ({"output": None}, False),
        ({"output": {"a": 1}}, False),
        ({}, False),
        ([1], False),
        ("text", False),
        (None, False),
        (..., False),
    ],
)
def test_saved_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, response: Any, expected: bool) -> None:
    row = failure(response=response)
    assert holds_saved_answer(row) is expected
    path = tmp_path / "x.jsonl"
    for longest_held in (reading.MAPPED_LINE_BYTES, 1):  # the row is read, and mapped
        monkeypatch.setattr(reading, "MAPPED_LINE_BYTES", longest_held)
        for more in ({}, {"x": float("nan")}, {"x": "é" * 5000}):
            for text in (json.dumps({**row, **more}), json.dumps({**more, **row}, indent=2).replace("\n", "\r ")):
                path.write_text(f"{{}}\n{text}\n")
                assert keeps_answer_at(path, 3, len(text) + 1, frozenset()) is expected
                path.write_text(f"{{}}\n{text[:-1]}")  # cut off since
                assert keeps_answer_at(path, 3, len(text) + 1, frozenset()) is False
    with pytest.raises(RunDataError, match="none"):
        keeps_answer_at(tmp_path / "none", 0, 1, frozenset())


def test_predecessor_ids() -> None:
    assert rejudge_predecessor_id(JUDGED) == "ev-1"
    assert rejudge_predecessor_id(failure(_ng_failure_id=None)) is None
    assert rejudge_predecessor_id(failure(_ng_failure_id="")) is None
    assert rejudge_predecessor_id(failure()) is None
    assert rejudge_predecessor_id(MASKED) == "result-sha256:" + digest(MASKED)
    assert rejudge_predecessor_id(result(reward=float("nan"))) is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (JUDGED, REJUDGED, True),
        (MASKED, result(response=ANSWER, **predecessor(MASKED)), True),
        (failure(response=ANSWER, _ng_failure_id="ev-1"), REJUDGED, True),  # need not be a judge failure
        (JUDGED, {**REJUDGED, "response": {"id": "resp-1", "output": [{"type": "message", "content": [1]}]}}, False),
        (JUDGED, {**REJUDGED, "_ng_run_id": OTHER_RUN_ID}, False),
        (JUDGED, {**REJUDGED, "_ng_task_index": 1}, False),
        (JUDGED, {**REJUDGED, "_ng_attempt_index": 1}, False),
        (JUDGED, {**REJUDGED, "_ng_rejudge_operation_id": ""}, False),
        (JUDGED, {**REJUDGED, "_ng_rejudge_operation_id": 5}, False),
        (JUDGED, {**REJUDGED, "_ng_rejudged_failure_id": "ev-2"}, False),
        (JUDGED, {**REJUDGED, "_ng_rejudged_failure_id": None}, False),
        ({**JUDGED, "_ng_failure_id": None}, {**REJUDGED, "_ng_rejudged_failure_id": None}, False),
        ({**JUDGED, "response": {}}, {**REJUDGED, "response": {}}, False),  # no answer was saved
        (JUDGED, FAILED_AGAIN, False),
        (
            MASKED,
            result(response=ANSWER, **{**predecessor(MASKED), "_ng_rejudged_failure_id": "result-sha256:0"}),
            False,
        ),
    ],
)
def test_rejudgments(first: dict[str, Any], second: dict[str, Any], expected: bool) -> None:
    assert is_rejudgment_of(first, second) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (JUDGED, FAILED_AGAIN, True),
        (failure(response=ANSWER, _ng_failure_id="ev-1"), FAILED_AGAIN, True),
        (JUDGED, {**FAILED_AGAIN, "_ng_failure_id": "ev-1"}, False),  # needs an id of its own
        (JUDGED, {**FAILED_AGAIN, "_ng_failure_id": ""}, False),
        (JUDGED, {**FAILED_AGAIN, "_ng_failure_id": None}, False),
        (JUDGED, {**FAILED_AGAIN, "_ng_failure_class": "agent_run_error"}, False),
        (JUDGED, {**FAILED_AGAIN, "response": {"id": "resp-2"}}, False),
        (MASKED, {**FAILED_AGAIN, **predecessor(MASKED)}, False),  # a saved result stands; no row is written
        (JUDGED, REJUDGED, False),
    ],
)
def test_failed_rejudgments(first: dict[str, Any], second: dict[str, Any], expected: bool) -> None:
    assert is_rejudgment_failure_of(first, second) is expected


# --- in the index ----------------------------------------------------------------------------------------------------


def test_a_judge_failure_is_left_to_reverification(tmp_path: Path) -> None:
    records = index(tmp_path, failures=[JUDGED])
    assert attempts(records.pending()) == []
    assert (records.stopped_count(), records.exhausted_count(), records.failure_count("0-0")) == (1, 0, 1)


def test_a_rejudgment_takes_the_place_of_the_failure_which_stays_counted(tmp_path: Path) -> None:
    records = index(tmp_path, failures=[JUDGED], results=[REJUDGED])
    assert records.disposition("0-0") == "success"
    assert records.failure_count("0-0") == 1
    assert list(records.selected("success")) == [REJUDGED]
    assert records.check_outcome(REJUDGED) is False
    assert records.check_outcome(JUDGED) is False  # equal to a row that was accepted before


def test_one_that_failed_again_costs_nothing_and_keeps_the_rollout_stopped(tmp_path: Path) -> None:
    third = {**FAILED_AGAIN, "_ng_failure_id": "ev-3", "_ng_rejudged_failure_id": "ev-2"}
    records = index(tmp_path, failures=[JUDGED, FAILED_AGAIN, third])
    assert records.disposition("0-0") == "failure"
    assert (records.stopped_count(), records.failure_count("0-0")) == (1, 1)
    outcome = records.outcome("0-0")
    assert outcome is not None
    assert outcome.line == 3
    assert outcome.facts.failed_rejudgment


def test_a_chain_must_name_the_last_one(tmp_path: Path) -> None:
    third = {**FAILED_AGAIN, "_ng_failure_id": "ev-3"}  # names ev-1 again
    with pytest.raises(RunDataError) as raised:
        index(tmp_path, failures=[JUDGED, FAILED_AGAIN, third])
    assert (raised.value.code, raised.value.line) == ("E-CONFLICT", 3)


def test_a_duplicate_of_an_earlier_link_is_a_duplicate(tmp_path: Path) -> None:
    records = index(tmp_path, failures=[JUDGED, FAILED_AGAIN, JUDGED])
    assert records.failure_count("0-0") == 1
    assert records.dropped[-1].because == "duplicate of line 1"


def test_the_digest_is_over_the_row_as_saved(tmp_path: Path) -> None:
    again = result(response=ANSWER, **predecessor(MASKED))
    assert index(tmp_path / "a", results=[MASKED, again]).outcome("0-0").line == 2
    renumbered = result(response=ANSWER, **predecessor({**MASKED, "reward": 0}))  # 0 and 0.0 differ in a digest
    with pytest.raises(RunDataError, match="second, different outcome"):
        index(tmp_path / "b", results=[MASKED, renumbered])


def test_rows_of_an_import_have_no_protocol(tmp_path: Path) -> None:
    records = index(tmp_path, failures=[legacy(JUDGED)], results=[legacy(REJUDGED)], legacy_import=True)
    assert records.latest == {"0-0": 1}  # the later row is another attempt


# --- admissions (§13.4) ----------------------------------------------------------------------------------------------


def admission(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "operation_id": "op-1",
        "predecessor_id": rejudge_predecessor_id(row),
        "predecessor_sha256": digest(row),
        "rollout_id": "0-0",
        "attempt": 0,
        "admitted_at": ADMITTED_AT,
        **changes,
    }


CLOSING = {**REJUDGED, "_ng_rejudge_admitted_at": ADMITTED_AT}


@pytest.mark.parametrize(
    ("changes", "outcome", "closed"),
    [
        ({}, CLOSING, True),
        ({"operation_id": "op-2"}, CLOSING, False),
        ({"predecessor_id": "ev-2"}, CLOSING, False),
        ({"predecessor_sha256": "0" * 64}, CLOSING, False),
        ({"rollout_id": "1-0"}, CLOSING, False),
        ({"attempt": 1}, CLOSING, False),
        ({"admitted_at": "2026-11-01T00:00:01Z"}, CLOSING, False),
        ({}, REJUDGED, False),
        ({}, {**CLOSING, "_ng_rejudged_failure_id": "ev-2"}, False),
    ],
)
def test_what_closes_an_admission(
    tmp_path: Path, changes: dict[str, Any], outcome: dict[str, Any], closed: bool
) -> None:
    output = write_run(tmp_path, failures=[failure(task=1), JUDGED], results=[CLOSING], inventory=2)
    pending = PendingRejudge(**admission(JUDGED, **changes))
    sidecar = output.with_name("rollouts_failures.jsonl")
    assert rejudgment_admission_closed_by(pending, outcome, "0-0", sidecar, output) is closed


def test_a_result_as_predecessor_is_looked_up_in_the_output(tmp_path: Path) -> None:
    closing = result(response=ANSWER, **predecessor(MASKED), _ng_rejudge_admitted_at=ADMITTED_AT)
    output = write_run(tmp_path, results=[result(task=1), MASKED, closing], inventory=2)
    pending = PendingRejudge(**admission(MASKED, operation_id="op-2"))
    assert rejudgment_admission_closed_by(pending, closing, "0-0", tmp_path / "none", output)
    assert not rejudgment_admission_closed_by(pending, closing, "0-0", output, tmp_path / "none")


def test_an_open_admission_blocks_its_rollout(tmp_path: Path) -> None:
    records = index(tmp_path, failures=[JUDGED], pending_rejudges=[admission(JUDGED)])
    assert records.replay_blocked == ["0-0"]
    assert (records.stopped_count(), attempts(records.pending())) == (1, [])


def test_a_final_failure_is_blocked_and_not_stopped(tmp_path: Path) -> None:
    terminal = {**JUDGED, "_ng_failure_terminal": True}
    records = index(tmp_path, failures=[terminal], pending_rejudges=[admission(terminal)])
    assert (records.replay_blocked, records.stopped_count(), records.is_final("0-0")) == (["0-0"], 0, True)


def test_a_closed_one_does_not(tmp_path: Path) -> None:
    records = index(tmp_path, failures=[JUDGED], results=[CLOSING], pending_rejudges=[admission(JUDGED)])
    assert records.open_admissions == []
    assert records.replay_blocked == []
    assert records.disposition("0-0") == "success"


def test_blocked_while_unknown_shows_only_in_replay_blocked(tmp_path: Path) -> None:
    run = {"failures": [JUDGED], "reserved": {"0-0": 3}, "pending_rejudges": [admission(JUDGED)]}
    records = index(tmp_path, **run)
    assert records.disposition("0-0") == "unknown"
    assert (records.replay_blocked, records.stopped_count(), attempts(records.pending())) == (["0-0"], 0, [])
    assert list(records.allocation_end_charges()) == []
    assert records.unresolved_dispatches == ["0-0"]


def test_an_approved_rerun_waits_for_an_open_admission(tmp_path: Path) -> None:
    run = {"results": [MASKED], "rerun_masked": [[0, 0, 0]], "pending_rejudges": [admission(MASKED)]}
    records = index(tmp_path, **run)
    assert records.rerun_approved_identities() == ["0-0"]
    assert (records.replay_blocked, attempts(records.pending()), records.stopped_count()) == (["0-0"], [], 0)
