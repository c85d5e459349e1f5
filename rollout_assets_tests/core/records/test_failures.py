"""Failure records, kinds, interruptions and evidence rows (records.md §11, §12)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rollout_assets.core.records import (
    FailureClass,
    FailureClassificationConfig,
    StageClassificationConfig,
    is_interruption_failure,
)
from rollout_assets.core.records.classification import DEFAULT_CLASSIFICATION, failure_class_of, resolved_kind
from rollout_assets.core.records.failures import (
    REGISTERED_KINDS,
    Evidence,
    cause_chain,
    evidence_kind,
    has_eligible_interruption_cause,
    note_kind,
    parsed_failure_record,
)
from rollout_assets_tests.core.records.runs import failure, record


def changed(value: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """The value with one member changed, or removed by an ellipsis."""
    first, _, rest = path.partition(".")
    inner = changed(value[first], rest, new) if rest else new
    return {key: item for key, item in {**value, first: inner}.items() if item is not ...}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", ...),
        ("episode_id.attempt", ...),
        ("http_status", None),
        ("http_status", 100),
        ("http_status", 599),
        ("exception_type", "E" * 2000),
        ("exception_type", None),
        ("failure.failure_kind", ...),
        ("failure.failure_kind", None),
        ("failure.stage", None),
        ("failure.stage", "cleanup"),
        ("failure.failure_reason", "é" * 2000),
        ("failure.failure_kind", "server:own kind"),
    ],
)
def test_valid_records(path: str, value: Any) -> None:
    parsed_failure_record(changed(record(), path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 0),
        ("schema_version", 3),
        ("schema_version", True),
        ("schema_version", None),
        ("episode_id", ...),
        ("episode_id.rollout_id", "x-a1"),
        ("episode_id.rollout_id", ""),
        ("episode_id.attempt", -1),
        ("episode_id.attempt", True),
        ("episode_id.more", 1),
        ("run_id", ""),
        ("run_id", None),
        ("source", "agent"),
        ("delivery", "maybe"),
        ("http_status", 99),
        ("http_status", 600),
        ("http_status", "500"),
        ("exception_type", "E" * 2001),
        ("more", 1),
        ("failure", None),
        ("failure.more", 1),
        ("failure.failure_reason", ...),
        ("failure.failure_reason", "x" * 2001),
        ("failure.terminal", ...),
        ("failure.terminal", 0),
        ("failure.stage", "judge"),
        ("failure.failure_kind", 1),
        ("failure.events", {}),
        ("failure.failure_id", "ev-1"),
    ],
)
def test_invalid_records(path: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed_failure_record(changed(record(), path, value))


def test_records_that_are_no_object() -> None:
    for value in (None, [], "x", 1):
        with pytest.raises(ValueError, match="Expected `object`"):
            parsed_failure_record(value)


def test_version_2_may_carry_events() -> None:
    value = record(schema_version=2)
    value["failure"] |= {"failure_id": "ev-1", "events": {"ev-1": {"stage": "agent"}}}
    assert parsed_failure_record(value).failure.failure_id == "ev-1"


def test_what_the_environment_reports_was_delivered() -> None:
    parsed_failure_record(record(source="environment", delivery="delivered"))
    with pytest.raises(ValueError, match="'delivered', not 'not_sent'"):
        parsed_failure_record(record(source="environment", delivery="not_sent"))


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("judge_failed", "environment", "judge_failed"),
        (None, "environment", "environment_server_failed"),
        (None, "collector", "agent_request_failed"),
    ],
)
def test_routing_class(kind: str | None, source: str, expected: str) -> None:
    parsed = parsed_failure_record(record(kind=kind, source=source, delivery="delivered"))
    assert parsed.routing_class == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (failure(label="kill_shaped"), True),
        (failure(label="cancelled"), True),
        (failure(label="shutdown"), True),
        (failure(label="kill_shaped", _ng_failure_terminal=True), False),
        (failure(label="kill_shaped", _ng_failure_terminal=1), False),
        (failure(label="kill_shaped", _ng_failure_terminal=0), True),
        (failure(label="kill_shaped", _ng_failure_counts_as_zero=True), False),
        (failure(label="kill_shaped", _ng_failure_counts_as_zero=1), True),
        (failure(label="agent_run_error"), False),
        (failure(label=None), False),
        (failure(label=["kill_shaped"]), False),
        ({}, False),
    ],
)
def test_interruptions(row: dict[str, Any], expected: bool) -> None:
    assert is_interruption_failure(row) is expected


EVENTS = {
    "a": {"stage": "agent", "cause_id": "b"},
    "b": {"failure_kind": "transport_unreachable", "cause_id": "c"},
    "c": {"cause_id": "a"},
    "d": {"stage": "admission"},
    "e": {"cause_id": "gone"},
    "f": "no event",
}


@pytest.mark.parametrize(
    ("row", "saved", "expected"),
    [
        (failure(label="kill_shaped"), None, False),
        (failure(label="kill_shaped"), record(delivery="not_sent"), True),
        (failure(label="kill_shaped"), record(), False),
        (failure(label="kill_shaped"), record(stage="admission"), True),
        (failure(label="kill_shaped", _ng_failure_stage="admission"), None, True),
        (failure(label="kill_shaped", _ng_failure_stage="agent"), None, False),
        (failure(label="kill_shaped", _ng_failure_events=EVENTS, _ng_failure_id="a"), None, True),
        (failure(label="kill_shaped", _ng_failure_events=EVENTS, _ng_failure_id="d"), None, True),
        (failure(label="kill_shaped", _ng_failure_events=EVENTS, _ng_failure_id="e"), None, False),
    ],
)
def test_eligible_causes(row: dict[str, Any], saved: dict[str, Any] | None, expected: bool) -> None:
    parsed = None if saved is None else parsed_failure_record(saved)
    assert has_eligible_interruption_cause(row, parsed) is expected


@pytest.mark.parametrize(
    ("start", "events", "expected"),
    [
        ("a", EVENTS, ["a", "b", "c"]),
        ("e", EVENTS, ["e"]),
        ("f", EVENTS, []),
        ("gone", EVENTS, []),
        (["a"], EVENTS, []),
        ("a", ["a"], []),
        ("a", None, []),
    ],
)
def test_the_chain_of_causes_ends(start: Any, events: Any, expected: list[str]) -> None:
    chain = list(cause_chain({"_ng_failure_id": start, "_ng_failure_events": events}))
    assert chain == [EVENTS[name] for name in expected]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"_ng_unrouted_run_error": True, "_ng_failure_class": "kill_shaped"}, Evidence.UNROUTED),
        ({"_ng_dispatch_drained": True, "_ng_failure_class": "kill_shaped"}, Evidence.NEVER_STARTED),
        ({"_ng_failure_class": "cancelled"}, Evidence.NEVER_STARTED),
        ({"_ng_failure_class": "cancelled", "_ng_attempt_index": 0}, Evidence.OTHER),
        ({"_ng_failure_class": "kill_shaped"}, Evidence.INTERRUPTED),
        ({}, Evidence.OTHER),
    ],
)
def test_evidence(row: dict[str, Any], expected: Evidence) -> None:
    assert evidence_kind(row) is expected


def test_an_unregistered_kind_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for kind in ("made_up_kind", "made_up_kind", "server:own", "skipped", "timeout_exceeded", *REGISTERED_KINDS):
            note_kind(kind)
    assert [entry.getMessage() for entry in caplog.records] == [
        "failure kind 'made_up_kind' is not registered; it is kept as it is"
    ]


# --- classification (§11.4) ------------------------------------------------------------------------------------------


def test_every_registered_kind_has_a_class() -> None:
    assert set(DEFAULT_CLASSIFICATION.kinds) == REGISTERED_KINDS


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("transport_timeout", 404, FailureClass.INFRASTRUCTURE),
        ("rollout_allocation_ended", None, FailureClass.INFRASTRUCTURE),
        ("judge_failed", None, FailureClass.VERIFIER),
        ("agent_timeout", None, FailureClass.MODEL),
        ("agent_run_error", None, FailureClass.AGENT),
        ("protocol_violation", None, FailureClass.ENVIRONMENT),
        ("server:own", 500, FailureClass.ENVIRONMENT),
        (None, 401, FailureClass.OPERATOR),
        (None, 403, FailureClass.OPERATOR),
        (None, 404, FailureClass.OPERATOR),
        (None, 408, FailureClass.INFRASTRUCTURE),
        (None, 429, FailureClass.INFRASTRUCTURE),
        (None, 500, FailureClass.INFRASTRUCTURE),
        ("unmapped", 503, FailureClass.INFRASTRUCTURE),
        (None, 400, FailureClass.AGENT),
        (None, 422, FailureClass.AGENT),
        (None, 302, FailureClass.UNCLASSIFIED),
        (None, None, FailureClass.UNCLASSIFIED),
        ("unmapped", None, FailureClass.UNCLASSIFIED),
    ],
)
def test_default_classes(kind: str | None, status: int | None, expected: FailureClass) -> None:
    assert DEFAULT_CLASSIFICATION.classify(kind, http_status=status) is expected


def test_a_stage_overrides_a_kind() -> None:
    config = FailureClassificationConfig(
        kinds={"agent_timeout": FailureClass.MODEL, "server:own": FailureClass.OPERATOR},
        stages={"seed": StageClassificationConfig({"agent_timeout": FailureClass.ENVIRONMENT})},
        statuses={418: FailureClass.MODEL},
    )
    assert config.classify("agent_timeout", "seed") is FailureClass.ENVIRONMENT
    assert config.classify("agent_timeout", "agent") is FailureClass.MODEL
    assert config.classify("server:own", "seed") is FailureClass.OPERATOR
    assert config.classify("judge_failed", "seed") is FailureClass.UNCLASSIFIED
    assert config.classify(None, None, 418) is FailureClass.MODEL


@pytest.mark.parametrize(
    ("row", "saved", "kind"),
    [
        (failure(label="judge_failed"), record(kind="judge_failed"), "judge_failed"),
        (failure(label="agent_request_failed"), record(kind=None), None),
        (
            failure(
                label="x",
                _ng_failure_id="a",
                _ng_failure_events={"a": {"failure_kind": "?", "cause_id": "b"}, "b": {"failure_kind": "session_lost"}},
            ),
            None,
            "session_lost",
        ),
        (failure(label="judge_failed"), None, "judge_failed"),
        (failure(label="environment_server_failed"), None, None),
        (failure(label="made up"), None, None),
    ],
)
def test_resolved_kind(row: dict[str, Any], saved: dict[str, Any] | None, kind: str | None) -> None:
    parsed = None if saved is None else parsed_failure_record(saved)
    assert resolved_kind(row, parsed) == kind


def test_stage_and_status_come_from_the_record_else_from_the_row() -> None:
    stages = {"seed": StageClassificationConfig({"agent_run_error": FailureClass.OPERATOR})}
    config = FailureClassificationConfig(stages=stages)
    row = failure(_ng_failure_stage="seed", _ng_failure_http_status=500)
    assert failure_class_of(row, None, config) is FailureClass.OPERATOR
    parsed = parsed_failure_record(record(stage="agent"))
    assert failure_class_of(row, parsed, config) is FailureClass.AGENT
    unknown = failure(label="agent_request_failed", _ng_failure_http_status=500)
    assert failure_class_of(unknown, None, config) is FailureClass.INFRASTRUCTURE
    parsed = parsed_failure_record(record(kind=None, http_status=404))
    assert failure_class_of(unknown, parsed, config) is FailureClass.OPERATOR
    odd = failure(label="agent_request_failed", _ng_failure_http_status="500")
    assert failure_class_of(odd, None, config) is FailureClass.UNCLASSIFIED
