"""Saved answers and judging them again without a new model attempt (records.md §13)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from os import PathLike
from typing import Annotated, Any, Final, TypedDict

import msgspec
from msgspec import Meta

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Row as ScannedRow
from rollout_assets.core.jsonl import scan
from rollout_assets.core.jsonl.decode import UNDECODED
from rollout_assets.core.records.digest import digest, json_equal
from rollout_assets.core.records.failures import JUDGE_FAILURES
from rollout_assets.core.records.identity import attempt_index, logical_rollout_id
from rollout_assets.core.records.keys import (
    FAILURE_CLASS_KEY,
    FAILURE_ID_KEY,
    REJUDGE_ADMITTED_AT_KEY,
    REJUDGE_OPERATION_ID_KEY,
    REJUDGED_FAILURE_ID_KEY,
    RESPONSE_KEY,
    RESULT_PREDECESSOR_PREFIX,
    RUN_ID_KEY,
)
from rollout_assets.core.records.reading import read_row, row_text

Row = Mapping[str, Any]
StrPath = str | PathLike[str]


class PendingRejudge(msgspec.Struct, frozen=True):
    """A re-judgment that was admitted in the manifest before its judge call; the layout is a proposal (§13.4).

    Attributes:
        operation_id: The judge-only operation.
        predecessor_id: Id of the row to judge again (`rejudge_predecessor_id`).
        predecessor_sha256: Canonical digest of that row, whole and as saved.
        rollout_id: Logical id of the rollout.
        attempt: Its attempt number.
        admitted_at: UTC time of admission, ISO 8601, compared as text.
    """

    operation_id: Annotated[str, Meta(min_length=1)]
    predecessor_id: Annotated[str, Meta(min_length=1)]
    predecessor_sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    rollout_id: str
    attempt: Annotated[int, Meta(ge=0)]
    admitted_at: str


def holds_saved_answer(row: Row) -> bool:
    """Whether a row keeps the generated answer (§13.1, proposal).

    Args:
        row: A whole row; a projected one lacks what this reads.

    Returns:
        Whether `response` is a non-empty object whose `output`, if it has one, is a non-empty list.
    """
    response = row.get(RESPONSE_KEY)
    if not isinstance(response, dict) or not response:
        return False
    return "output" not in response or (isinstance(response["output"], list) and bool(response["output"]))


def keeps_answer_at(path: StrPath, offset: int, length: int, skip_keys: Set[str]) -> bool:
    """`holds_saved_answer` of the row that stands at a place of a file; nothing of it is built, for it may be large."""
    line = row_text(path, offset, length)
    if line is None:
        return False
    try:
        response = _decode_response(line).get("response", {})
    except UNDECODED:
        row = read_row(path, offset, length, skip_keys=skip_keys)
        return row is not None and holds_saved_answer(row)
    output = response.get("output")
    return bool(response) and (output is None or _BEGINS_FILLED_LIST.match(output) is not None)


class _Answered(TypedDict, total=False):
    response: dict[str, msgspec.Raw]


_decode_response: Final = msgspec.json.Decoder(_Answered).decode
_BEGINS_FILLED_LIST: Final = re.compile(rb"\[[ \t\r\n]*+[^] \t\r\n]")


def is_judge_failure(row: Row) -> bool:
    """Whether a row is a failure of the judge (§13.1, proposal)."""
    failure_class = row.get(FAILURE_CLASS_KEY)
    return isinstance(failure_class, str) and failure_class in JUDGE_FAILURES


def rejudge_predecessor_id(row: Row) -> str | None:
    """The id by which a re-judgment names this row (§13.2).

    Args:
        row: A whole row as saved, without an injected attempt number.

    Returns:
        A failure's `_ng_failure_id`; for a result `result-sha256:` and the digest of the row; None for a failure
        without id and for a result with a non-finite number.
    """
    if row.get(FAILURE_CLASS_KEY) is not None:
        failure_id = row.get(FAILURE_ID_KEY)
        return failure_id if isinstance(failure_id, str) and failure_id else None
    try:
        return RESULT_PREDECESSOR_PREFIX + digest(row)
    except ValueError:
        return None


def is_rejudgment_of(failure: Row, result: Row) -> bool:
    """Whether `result` scores the saved answer of `failure` again, without a new model attempt (§13.2, inferred).

    Args:
        failure: A failure or a saved result that keeps its answer; a whole row as saved.
        result: A whole row as saved.
    """
    return result.get(FAILURE_CLASS_KEY) is None and _judges_again(failure, result)


def is_rejudgment_failure_of(failure: Row, row: Row) -> bool:
    """Whether `row` records that judging the saved answer of `failure` again failed again (§13.3, inferred).

    Args:
        failure: A failure that keeps its answer; it need not be a judge failure (decision 13). A whole row as saved.
        row: A whole row as saved.
    """
    own_id = row.get(FAILURE_ID_KEY)
    return (
        failure.get(FAILURE_CLASS_KEY) is not None
        and is_judge_failure(row)
        and isinstance(own_id, str)
        and own_id not in ("", failure.get(FAILURE_ID_KEY))
        and _judges_again(failure, row)
    )


def _judges_again(predecessor: Row, row: Row) -> bool:
    """What both kinds of re-judgment need: same run, rollout, attempt and answer, and the two protocol keys."""
    operation, named = row.get(REJUDGE_OPERATION_ID_KEY), row.get(REJUDGED_FAILURE_ID_KEY)
    return (
        isinstance(operation, str)
        and bool(operation)
        and isinstance(named, str)
        and predecessor.get(RUN_ID_KEY) == row.get(RUN_ID_KEY)
        and logical_rollout_id(predecessor) == logical_rollout_id(row)
        and attempt_index(predecessor) == attempt_index(row)
        and holds_saved_answer(predecessor)
        and json_equal(predecessor[RESPONSE_KEY], row.get(RESPONSE_KEY))
        and named == rejudge_predecessor_id(predecessor)
    )


def rejudgment_admission_closed_by(
    pending: PendingRejudge, outcome: Row, identity: str, failures_path: StrPath, results_path: StrPath
) -> bool:
    """Whether a saved outcome closes an admitted re-judgment (§13.4).

    Operation, predecessor, digest of the predecessor's row, rollout, attempt and time of admission must all match.

    Args:
        pending: The admission.
        outcome: A saved row, whole or projected.
        identity: The logical rollout id of `outcome`.
        failures_path: The sidecar; a failed predecessor is looked up there.
        results_path: The output; a saved result as predecessor is looked up there.
    """
    if not names_admission(pending, outcome, identity):
        return False
    is_result = pending.predecessor_id.startswith(RESULT_PREDECESSOR_PREFIX)
    path = results_path if is_result else failures_path
    return any(
        _precedes(pending, read_row(path, line.offset, line.length))
        for line in scan(path)
        if isinstance(line, ScannedRow) and _may_precede(pending, line.fields)
    )


def names_admission(pending: PendingRejudge, outcome: Row, identity: str) -> bool:
    """Whether a row claims to be the outcome of an admission; its predecessor is not looked at."""
    return (
        outcome.get(REJUDGE_OPERATION_ID_KEY) == pending.operation_id
        and outcome.get(REJUDGED_FAILURE_ID_KEY) == pending.predecessor_id
        and outcome.get(REJUDGE_ADMITTED_AT_KEY) == pending.admitted_at
        and identity == pending.rollout_id
        and attempt_index(outcome) == pending.attempt
    )


def _may_precede(pending: PendingRejudge, row: Row) -> bool:
    try:
        same_attempt = logical_rollout_id(row) == pending.rollout_id and attempt_index(row) == pending.attempt
    except RunDataError:
        return False
    if pending.predecessor_id.startswith(RESULT_PREDECESSOR_PREFIX):
        return same_attempt and row.get(FAILURE_CLASS_KEY) is None
    return same_attempt and row.get(FAILURE_ID_KEY) == pending.predecessor_id


def _precedes(pending: PendingRejudge, row: Row | None) -> bool:
    try:
        found = digest(row)
    except ValueError:
        return False
    named = pending.predecessor_id
    return found == pending.predecessor_sha256 and (
        not named.startswith(RESULT_PREDECESSOR_PREFIX) or named == RESULT_PREDECESSOR_PREFIX + found
    )
