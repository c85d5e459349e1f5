"""Who is held responsible for a failure, for reports (records.md §11.4; the classes and the maps are a proposal)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from rollout_assets.core.records.failures import (
    FAILURE_KIND_OF_EVENT,
    GENERIC_LABELS,
    REGISTERED_KINDS,
    FailureRecord,
    cause_chain,
    is_environment_kind,
)
from rollout_assets.core.records.keys import FAILURE_CLASS_KEY, FAILURE_STAGE_KEY, HTTP_STATUS_KEY


class FailureClass(StrEnum):
    """Who is held responsible. It triggers nothing by itself."""

    MODEL = "model"
    AGENT = "agent"
    ENVIRONMENT = "environment"
    VERIFIER = "verifier"
    INFRASTRUCTURE = "infrastructure"
    OPERATOR = "operator"
    UNCLASSIFIED = "unclassified"


_DEFAULT_CLASSES: Final[Mapping[FailureClass, tuple[str, ...]]] = {
    FailureClass.INFRASTRUCTURE: (
        "transport_unreachable",
        "transport_peer_drop",
        "transport_timeout",
        "transport_local_resource",
        "provider_unavailable",
        "provider_quota_exhausted",
        "provider_oom_killed",
        "session_lost",
        "session_expired",
        "session_release_failed",
        "persistence_failed",
        "cancelled",
        "kill_shaped",
        "shutdown",
        "cohort_incomplete",
        "rollout_allocation_ended",
    ),
    FailureClass.VERIFIER: ("judge_failed", "judge_unparseable", "verifier_error"),
    FailureClass.MODEL: ("agent_timeout", "agent_command_not_allowed"),
    FailureClass.AGENT: ("agent_run_error", "agent_request_failed"),
    FailureClass.ENVIRONMENT: ("environment_server_failed", "protocol_violation", "environment_protocol_violation"),
}
_DEFAULT_KINDS: Final[Mapping[str, FailureClass]] = MappingProxyType(
    {kind: failure_class for failure_class, kinds in _DEFAULT_CLASSES.items() for kind in kinds}
)
_DEFAULT_STATUSES: Final[Mapping[int, FailureClass]] = MappingProxyType(
    {
        401: FailureClass.OPERATOR,
        403: FailureClass.OPERATOR,
        404: FailureClass.OPERATOR,
        408: FailureClass.INFRASTRUCTURE,
        429: FailureClass.INFRASTRUCTURE,
    }
)


@dataclass(frozen=True)
class StageClassificationConfig:
    """Kinds that mean something else when the failure began in one stage."""

    kinds: Mapping[str, FailureClass] = field(default_factory=dict)


@dataclass(frozen=True)
class FailureClassificationConfig:
    """Which kinds, stages and HTTP statuses are whose responsibility.

    Attributes:
        kinds: Kind -> class.
        stages: Stage -> the kinds it overrides.
        statuses: HTTP status -> class, before the rule for its hundred.
    """

    kinds: Mapping[str, FailureClass] = field(default_factory=lambda: _DEFAULT_KINDS)
    stages: Mapping[str, StageClassificationConfig] = field(default_factory=dict)
    statuses: Mapping[int, FailureClass] = field(default_factory=lambda: _DEFAULT_STATUSES)

    def classify(self, kind: str | None, stage: str | None = None, http_status: int | None = None) -> FailureClass:
        """The class of a failure: by stage and kind, else by kind, else by HTTP status (§11.4)."""
        if kind is not None:
            override = self.stages.get(stage) if stage is not None else None
            if override is not None and kind in override.kinds:
                return override.kinds[kind]
            if kind in self.kinds:
                return self.kinds[kind]
            if is_environment_kind(kind):
                return FailureClass.ENVIRONMENT
        return self._by_status(http_status)

    def _by_status(self, http_status: int | None) -> FailureClass:
        if http_status is None:
            return FailureClass.UNCLASSIFIED
        if http_status in self.statuses:
            return self.statuses[http_status]
        if 500 <= http_status <= 599:
            return FailureClass.INFRASTRUCTURE
        return FailureClass.AGENT if 400 <= http_status <= 499 else FailureClass.UNCLASSIFIED


DEFAULT_CLASSIFICATION: Final = FailureClassificationConfig()


def resolved_kind(row: Mapping[str, Any], record: FailureRecord | None) -> str | None:
    """The kind of a failure: of its record, else of its causes, else its class (§11.4, rule 1)."""
    if record is not None and record.failure.failure_kind is not None:
        return record.failure.failure_kind
    for event in cause_chain(row):
        kind = event.get(FAILURE_KIND_OF_EVENT)
        if isinstance(kind, str) and kind in REGISTERED_KINDS:
            return kind
    label = row.get(FAILURE_CLASS_KEY)
    return label if label in REGISTERED_KINDS and label not in GENERIC_LABELS else None


def failure_class_of(
    row: Mapping[str, Any], record: FailureRecord | None, classification: FailureClassificationConfig
) -> FailureClass:
    """The class of a failure row under a classification (§11.4)."""
    stage = record.failure.stage if record is not None else None
    status = record.http_status if record is not None else None
    return classification.classify(
        resolved_kind(row, record),
        stage if stage is not None else _as(str, row.get(FAILURE_STAGE_KEY)),
        status if status is not None else _as(int, row.get(HTTP_STATUS_KEY)),
    )


def _as(kind: type, value: Any) -> Any:
    return value if type(value) is kind else None
