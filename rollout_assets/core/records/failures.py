"""What a failure row says: its record, its kind, and whether it is an interruption (records.md §11, §12)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records.identity import checked_rollout_id
from rollout_assets.core.records.keys import (
    ATTEMPT_KEY,
    COUNTS_AS_ZERO_ROW_KEY,
    DRAINED_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_EVENTS_KEY,
    FAILURE_ID_KEY,
    FAILURE_RECORD_KEY,
    FAILURE_STAGE_KEY,
    RUN_ID_KEY,
    TERMINAL_KEY,
    UNROUTED_KEY,
)

_log = logging.getLogger(__name__)

Row = Mapping[str, Any]
Stage = Literal["admission", "seed", "agent", "verification", "cleanup"]

# --- the vocabulary (§11.3) ------------------------------------------------------------------------------------------

#: Kinds that are registered; other names are kept and warned about once.
REGISTERED_KINDS: Final = frozenset(
    {
        "transport_unreachable",
        "transport_peer_drop",
        "transport_timeout",
        "transport_local_resource",
        "agent_run_error",
        "agent_request_failed",
        "agent_timeout",
        "agent_command_not_allowed",
        "environment_server_failed",
        "protocol_violation",
        "environment_protocol_violation",
        "judge_failed",
        "judge_unparseable",
        "verifier_error",
        "provider_unavailable",
        "provider_quota_exhausted",
        "provider_oom_killed",
        "session_lost",
        "session_expired",
        "session_release_failed",
        "cancelled",
        "kill_shaped",
        "shutdown",
        "persistence_failed",
        "cohort_incomplete",
        "rollout_allocation_ended",
    }
)
#: Classes of a failure whose kind is unknown: they only say who reported it (§11.1).
GENERIC_LABELS: Final = frozenset({"environment_server_failed", "agent_request_failed"})
#: Labels of older sidecars and the registered kind they stand for; proposal (§11.3, §8.4).
LEGACY_LABELS: Final[Mapping[str, str]] = {"timeout_exceeded": "agent_timeout", "judge_invalid": "judge_unparseable"}
#: Classes that agents stamp terminal although trying again may help (§9.2).
OVERRIDABLE_CLASSES: Final = frozenset(
    {"timeout_exceeded", "reference_missing", "eval_missing", "transport_ineligible"}
)
SKIPPED: Final = "skipped"
ALLOCATION_ENDED: Final = "rollout_allocation_ended"
#: Judge failures; proposal (§13.1).
JUDGE_FAILURES: Final = frozenset({"judge_failed", "judge_unparseable", "judge_invalid"})
#: Interruptions; `kill_shaped` is certain, the other two are a proposal (§12.1).
INTERRUPTIONS: Final = frozenset({"kill_shaped", "cancelled", "shutdown"})
#: Kinds that say a request never left; proposal (§12.1), the names of the reference are not public.
NEVER_SENT_KINDS: Final = frozenset({"transport_unreachable"})

_ENVIRONMENT_KIND: Final = re.compile(r"[^:]+:.+")
_warned_kinds: set[str] = set()


def is_environment_kind(kind: str) -> bool:
    """Whether a kind is an environment's own, `<server>:<kind>` (§11.3)."""
    return _ENVIRONMENT_KIND.fullmatch(kind) is not None


def note_kind(kind: str) -> None:
    """Log once that a kind is not registered; it is kept as it is (§11.3)."""
    known = kind in REGISTERED_KINDS or kind in LEGACY_LABELS or kind in OVERRIDABLE_CLASSES or kind == SKIPPED
    if kind and not known and kind not in _warned_kinds and not is_environment_kind(kind):
        _warned_kinds.add(kind)
        _log.warning("failure kind %r is not registered; it is kept as it is", kind)


# --- the record (§11.1) ----------------------------------------------------------------------------------------------

_Text = Annotated[str, Meta(max_length=2000)]


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`failure` of a record of version 1: what went wrong."""

    failure_reason: _Text
    terminal: bool
    failure_kind: str | None = None
    stage: Stage | None = None


class FailureWithEvents(Failure, frozen=True, forbid_unknown_fields=True):
    """`failure` of a record of version 2, which may carry its events; proposal (§11.1)."""

    failure_id: str | None = None
    events: dict[str, dict[str, Any]] | None = None


class Episode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`episode_id` of a record: the attempt it belongs to."""

    rollout_id: str
    attempt: Annotated[int, Meta(ge=0)] = 0


class FailureRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The canonical failure record in `_ng_failure_record`, versions 1 and 2 (§11.1)."""

    episode_id: Episode
    run_id: Annotated[str, Meta(min_length=1)]
    source: Literal["environment", "collector"]
    delivery: Literal["not_sent", "possibly_delivered", "delivered"]
    failure: FailureWithEvents
    schema_version: Literal[1, 2] = 1
    http_status: Annotated[int, Meta(ge=100, le=599)] | None = None
    exception_type: _Text | None = None

    @property
    def routing_class(self) -> str:
        """The class that the row of this record must carry."""
        if self.failure.failure_kind is not None:
            return self.failure.failure_kind
        return "environment_server_failed" if self.source == "environment" else "agent_request_failed"


def parsed_failure_record(value: object) -> FailureRecord:
    """The record of a `_ng_failure_record` value (§11.1).

    Raises:
        ValueError: It is not valid, or of a version that is not known; the text says what is wrong.
    """
    record = msgspec.convert(value, FailureRecord)
    if record.schema_version == 1:
        msgspec.convert(value["failure"], Failure)  # type: ignore[index]
    if record.source == "environment" and record.delivery != "delivered":
        raise ValueError(f"a record of source 'environment' must be 'delivered', not {record.delivery!r}")
    try:
        checked_rollout_id(record.episode_id.rollout_id)
    except RunDataError as error:
        raise ValueError(error.reason) from error
    return record


def checked_failure_record(row: Row, rollout_id: str, attempt: int) -> FailureRecord | None:
    """The record of a row, if it has one and it agrees with the row (§8.2, rule 6; decision 15).

    Raises:
        RunDataError: `E-RECORD-INVALID` when the record, or the failure class, is not valid; `E-RECORD-ENVELOPE` when
            record and row contradict each other. Both name (rollout id, attempt).
    """
    failure_class = row.get(FAILURE_CLASS_KEY)
    if failure_class is not None and not isinstance(failure_class, str):
        raise _invalid(rollout_id, attempt, f"{FAILURE_CLASS_KEY} must be a string, not {failure_class!r}")
    if FAILURE_RECORD_KEY not in row:
        return None
    try:
        record = parsed_failure_record(row[FAILURE_RECORD_KEY])
    except ValueError as error:
        raise _invalid(rollout_id, attempt, str(error)) from error
    pairs = {
        "run id": (record.run_id, row.get(RUN_ID_KEY)),
        "rollout id": (record.episode_id.rollout_id, rollout_id),
        "attempt": (record.episode_id.attempt, attempt),
        "failure class": (record.routing_class, failure_class),
        "terminal flag": (record.failure.terminal, bool(row.get(TERMINAL_KEY))),
    }
    for name, (in_record, in_row) in pairs.items():
        if in_record != in_row:
            raise RunDataError(
                "E-RECORD-ENVELOPE",
                f"the failure record of {(rollout_id, attempt)} contradicts its row: {name} is {in_record!r} in the "
                f"record and {in_row!r} in the row; write both from one failure",
            )
    return record


def _invalid(rollout_id: str, attempt: int, reason: str) -> RunDataError:
    return RunDataError(
        "E-RECORD-INVALID",
        f"the failure record of {(rollout_id, attempt)} is not valid: {reason}; upgrade this reader, or migrate the "
        "record",
    )


# --- interruptions (§12.1) -------------------------------------------------------------------------------------------


def counts_as_zero(row: Row) -> bool:
    """Whether the failure stands as a score of 0: exactly `true` (decision 15)."""
    return row.get(COUNTS_AS_ZERO_ROW_KEY) is True


def is_interruption_failure(row: Row) -> bool:
    """Whether a failure spends nothing of the budget and is no progress (§12.1; beyond `kill_shaped` a proposal).

    Args:
        row: A row of a sidecar, whole or projected.
    """
    failure_class = row.get(FAILURE_CLASS_KEY)
    return (
        isinstance(failure_class, str)
        and failure_class in INTERRUPTIONS
        and not row.get(TERMINAL_KEY)
        and not counts_as_zero(row)
    )


def has_eligible_interruption_cause(row: Row, record: FailureRecord | None) -> bool:
    """Whether an interruption names a cause that resume may act on (§12.1, proposal).

    A request that was never sent, or one that was refused at admission.
    """
    if record is not None and (record.delivery == "not_sent" or record.failure.stage == "admission"):
        return True
    return row.get(FAILURE_STAGE_KEY) == "admission" or any(
        event.get("stage") == "admission" or event.get(FAILURE_KIND_OF_EVENT) in NEVER_SENT_KINDS
        for event in cause_chain(row)
    )


# --- events (§11.2) --------------------------------------------------------------------------------------------------

#: Key names of an event are a proposal (§11.2).
FAILURE_KIND_OF_EVENT: Final = "failure_kind"
CAUSE_OF_EVENT: Final = "cause_id"


def cause_chain(row: Row) -> Iterator[Mapping[str, Any]]:
    """The event of the row's own failure, then its cause, and so on; ends at what does not resolve (§11.2)."""
    events, event_id = row.get(FAILURE_EVENTS_KEY), row.get(FAILURE_ID_KEY)
    seen: set[str] = set()
    while isinstance(events, dict) and isinstance(event_id, str) and event_id not in seen:
        seen.add(event_id)
        event = events.get(event_id)
        if not isinstance(event, dict):
            return
        yield event
        event_id = event.get(CAUSE_OF_EVENT)


# --- evidence rows (§12.2) -------------------------------------------------------------------------------------------


class Evidence(StrEnum):
    """What an evidence row (`_ng_omitted_rollout`) is evidence of."""

    UNROUTED = "a failed run that was not routed"
    NEVER_STARTED = "a rollout that was never started"
    INTERRUPTED = "an interrupted attempt"
    OTHER = "a rollout without a result"


def evidence_kind(row: Row) -> Evidence:
    """Tell evidence rows apart (§12.2, inferred)."""
    if row.get(UNROUTED_KEY):
        return Evidence.UNROUTED
    failure_class = row.get(FAILURE_CLASS_KEY)
    if row.get(DRAINED_KEY) or (failure_class == "cancelled" and row.get(ATTEMPT_KEY) is None):
        return Evidence.NEVER_STARTED
    return Evidence.INTERRUPTED if failure_class == "kill_shaped" else Evidence.OTHER
