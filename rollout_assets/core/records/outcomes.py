"""The facts that are kept of a saved outcome, and what each of them costs (records.md §8.4, §9, §10.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from rollout_assets.core.records.classification import (
    DEFAULT_CLASSIFICATION,
    FailureClass,
    FailureClassificationConfig,
    failure_class_of,
    resolved_kind,
)
from rollout_assets.core.records.failures import (
    LEGACY_LABELS,
    OVERRIDABLE_CLASSES,
    SKIPPED,
    FailureRecord,
    counts_as_zero,
    has_eligible_interruption_cause,
    is_interruption_failure,
    note_kind,
)
from rollout_assets.core.records.keys import (
    ELAPSED_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_KIND_KEY,
    MASK_KEY,
    MIGRATED_KEY,
    OMITTED_KEY,
    RESPONSE_KEY,
    REWARD_KEY,
    TERMINAL_KEY,
)
from rollout_assets.core.records.paths import File
from rollout_assets.core.records.reading import FileIdentity, RolloutRecord
from rollout_assets.core.records.rejudgment import is_judge_failure

Row = Mapping[str, Any]


class Disposition(StrEnum):
    """What became of a rollout, judged by its newest attempt number (records.md §9)."""

    SUCCESS = "success"
    FAILURE = "failure"
    OMITTED = "omitted"
    UNKNOWN = "unknown"


class Measurement(StrEnum):
    """Whether a success counts in a comparison (records.md §9)."""

    MEASURED = "measured"
    MASKED = "masked"
    UNSCORED = "unscored"


class Spending(StrEnum):
    """What a failure costs: one attempt, one only while terminal timeouts are tried again, or nothing (§10.2)."""

    COUNTED = "counted"
    OVERRIDDEN = "overridden"
    FREE = "free"


class OutcomeFacts(msgspec.Struct, frozen=True, gc=False):
    """What the rules read of one outcome; no payload (records.md §8.4).

    Attributes:
        failure_class: `_ng_failure_class`; None for a result.
        failure_kind: The kind it resolves to (§11.4), None when unknown.
        legacy_failure_class: The label of the row where a registered kind stands for it; proposal.
        terminal: Truthiness of `_ng_failure_terminal`, as stamped.
        masked: Truthiness of `mask_sample`.
        has_reward: Whether `reward` is a finite number.
        omitted: Truthiness of `_ng_omitted`.
        final_zero: A failure that stands as a score of 0.
        counted_zero_kind: The kind under which such a zero is reported; proposal.
        not_sent: The failure record proves that the request never reached the environment server.
        interruption: An interruption (§12.1).
        interruption_cause_unknown: An interruption that names no cause resume may act on.
        judge_failure: A failure of the judge (§13.1).
        saved_answer: A failure that keeps the generated answer (§13.1).
        migrated: Moved from the output into the sidecar by the invalid-judge migration (§15.3).
        failed_rejudgment: Records that judging a saved answer again failed again (§13.3).
        unclassified_execution_failure: Left to recovery under an explicit classification (§11.4).
        masked_infrastructure: A masked result whose `failure_kind` is the fault of the infrastructure; inferred.
        rerun_approved: A masked result that an operator approved to run again (§14.1).
    """

    failure_class: str | None = None
    failure_kind: str | None = None
    legacy_failure_class: str | None = None
    terminal: bool = False
    masked: bool = False
    has_reward: bool = False
    omitted: bool = False
    final_zero: bool = False
    counted_zero_kind: str | None = None
    not_sent: bool = False
    interruption: bool = False
    interruption_cause_unknown: bool = False
    judge_failure: bool = False
    saved_answer: bool = False
    migrated: bool = False
    failed_rejudgment: bool = False
    unclassified_execution_failure: bool = False
    masked_infrastructure: bool = False
    rerun_approved: bool = False


class SourceFile(msgspec.Struct, frozen=True):
    """A file of outcomes as it was indexed."""

    name: File
    path: str
    identity: FileIdentity | None
    skip_keys: frozenset[str]


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """A saved outcome: whose it is, where it stands, and its facts.

    Attributes:
        rollout_id: Logical id of its rollout.
        attempt: Attempt number, given by the row or by a legacy import.
        source: The file it stands in.
        line: Line number from 1.
        offset: Byte offset of the row.
        length: Bytes of the row, with its line feed if it has one.
        run_id: `_ng_run_id` of the row; None for a legacy row.
        elapsed_seconds: Time the attempt took, greater than 0, where the row says.
        facts: What the rules read of it. Outcomes that say the same share them.
    """

    rollout_id: str
    attempt: int
    source: SourceFile
    line: int
    offset: int
    length: int
    run_id: str | None
    elapsed_seconds: float | None
    facts: OutcomeFacts

    @property
    def record(self) -> RolloutRecord:
        """The row by its place, for reading it again; refuses a row that changed meanwhile."""
        return RolloutRecord(
            path=self.source.path,
            offset=self.offset,
            length=self.length,
            line_number=self.line,
            legacy_attempt_index=self.attempt if self.run_id is None else None,
            file_identity=self.source.identity,
            expected_identity=(self.run_id, self.rollout_id, self.attempt),
            skip_keys=self.source.skip_keys,
        )


_PLAIN_RESULTS: Final = (OutcomeFacts(has_reward=False), OutcomeFacts(has_reward=True))


def result_facts(
    row: Row, *, rerun_approved: bool = False, classification: FailureClassificationConfig | None = None
) -> OutcomeFacts:
    """The facts of a row without failure class.

    Args:
        row: Whole or projected.
        rerun_approved: Whether the manifest lists this attempt of this rollout in `rerun_masked`.
        classification: Who is responsible for which kind; the default when None.
    """
    masked, reward = bool(row.get(MASK_KEY)), has_finite_reward(row)
    if not masked and not row.get(OMITTED_KEY):
        return _PLAIN_RESULTS[reward]
    kind = row.get(FAILURE_KIND_KEY)
    classes = classification or DEFAULT_CLASSIFICATION
    return OutcomeFacts(
        masked=masked,
        has_reward=reward,
        omitted=bool(row.get(OMITTED_KEY)),
        masked_infrastructure=masked
        and isinstance(kind, str)
        and classes.classify(kind) is FailureClass.INFRASTRUCTURE,
        rerun_approved=masked and rerun_approved,
    )


def failure_facts(
    row: Row,
    record: FailureRecord | None,
    *,
    saved_answer: bool,
    classification: FailureClassificationConfig | None = None,
) -> OutcomeFacts:
    """The facts of a row with a failure class.

    Args:
        row: Whole or projected.
        record: Its failure record, already checked against the row.
        saved_answer: Whether the whole row keeps an answer (`holds_saved_answer`).
        classification: Explicit classification, if there is one; without one nothing is unclassified.
    """
    label: str = row[FAILURE_CLASS_KEY]
    note_kind(label)
    kind = resolved_kind(row, record)
    terminal, zero, judge = bool(row.get(TERMINAL_KEY)), counts_as_zero(row), is_judge_failure(row)
    not_sent = record is not None and record.delivery == "not_sent"
    interruption = is_interruption_failure(row)
    execution_failure = not (terminal or interruption or judge or saved_answer or not_sent)
    return OutcomeFacts(
        failure_class=label,
        failure_kind=LEGACY_LABELS.get(label, kind),
        legacy_failure_class=label if label in LEGACY_LABELS else None,
        terminal=terminal,
        masked=bool(row.get(MASK_KEY)),
        has_reward=has_finite_reward(row),
        omitted=bool(row.get(OMITTED_KEY)),
        final_zero=zero,
        counted_zero_kind=_record_kind(record, label) if zero else None,
        not_sent=not_sent,
        interruption=interruption,
        interruption_cause_unknown=interruption and not has_eligible_interruption_cause(row, record),
        judge_failure=judge,
        saved_answer=saved_answer,
        migrated=bool(row.get(MIGRATED_KEY)),
        unclassified_execution_failure=execution_failure
        and classification is not None
        and failure_class_of(row, record, classification) is FailureClass.UNCLASSIFIED,
    )


def _record_kind(record: FailureRecord | None, label: str) -> str:
    return label if record is None or record.failure.failure_kind is None else record.failure.failure_kind


def has_finite_reward(row: Row) -> bool:
    """Whether `reward` is a number (§2.5); a boolean is none, and a non-finite one is unscored (decision 5)."""
    reward = row.get(REWARD_KEY)
    if type(reward) is float:
        return math.isfinite(reward)
    return type(reward) is int


def elapsed_seconds(row: Row) -> float | None:
    """How long the attempt took: the first candidate that is a number greater than 0 (§2.5, decision 15)."""
    value = row.get(ELAPSED_KEY)
    if type(value) is float and 0 < value < math.inf:
        return value
    if value is not None and (seconds := _positive(value)) is not None:
        return seconds
    response = row.get(RESPONSE_KEY)
    metadata = response.get("metadata") if isinstance(response, dict) else None
    value = metadata.get(ELAPSED_KEY) if isinstance(metadata, dict) else None
    return None if value is None else _positive(value)


def _positive(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < math.inf else None


def spending(facts: OutcomeFacts) -> Spending:
    """What an outcome costs (§10.2; a counted zero costs nothing: proposal).

    The stamped terminal flag counts, not the effective one (decision 11).
    """
    if facts.failure_class is None or facts.final_zero or facts.omitted or facts.not_sent:
        return Spending.FREE
    if facts.terminal:
        return Spending.OVERRIDDEN if facts.failure_class in OVERRIDABLE_CLASSES else Spending.FREE
    return Spending.FREE if facts.interruption or facts.failed_rejudgment else Spending.COUNTED


def disposition_of(facts: OutcomeFacts | None) -> Disposition:
    """The disposition of a rollout whose newest attempt has this outcome, or none (§9)."""
    if facts is None:
        return Disposition.UNKNOWN
    if facts.omitted or (facts.failure_class == SKIPPED and facts.terminal):
        return Disposition.OMITTED
    return Disposition.SUCCESS if facts.failure_class is None else Disposition.FAILURE


def measurement_of(facts: OutcomeFacts) -> Measurement:
    """Whether a success counts (§9): unscored without a reward, masked or not."""
    if not facts.has_reward:
        return Measurement.UNSCORED
    return Measurement.MASKED if facts.masked else Measurement.MEASURED


def is_effectively_terminal(facts: OutcomeFacts, retry_terminal_timeouts: bool) -> bool:
    """Whether a failure must not be attempted again under the run's retry option (§9.2)."""
    if retry_terminal_timeouts:
        if facts.failure_class in OVERRIDABLE_CLASSES:
            return False
        if facts.failure_class == SKIPPED:
            return True
    return facts.terminal


def is_answered_agent_deadline(facts: OutcomeFacts) -> bool:
    """Whether the agent ran into its deadline and its answer was kept: the model's own result (§9.1)."""
    return facts.failure_class == "agent_timeout" and facts.saved_answer


def is_final(facts: OutcomeFacts | None, retry_terminal_timeouts: bool) -> bool:
    """Whether no resume changes a rollout whose newest attempt has this outcome, or none (§9.1, inferred)."""
    if facts is None:
        return False
    disposition = disposition_of(facts)
    if disposition is Disposition.SUCCESS:
        return not facts.rerun_approved
    return (
        disposition is Disposition.OMITTED
        or facts.final_zero
        or is_effectively_terminal(facts, retry_terminal_timeouts)
        or is_answered_agent_deadline(facts)
    )


class DroppedRow(msgspec.Struct, frozen=True, gc=False):
    """A saved row that is the outcome of no attempt, and why not.

    `rollout_id` and `attempt` are None where an evidence row does not say; `spent` is what the row costs all the same.
    """

    source: SourceFile
    line: int
    offset: int
    length: int
    rollout_id: str | None
    attempt: int | None
    failure_class: str | None
    because: str
    spent: Spending
