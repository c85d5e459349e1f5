"""What is indexed of a row: each column of `record_index`, and the rule that gives its value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from rollout_assets.core.compare.digest import input_digest
from rollout_assets.core.compare.facts import model, reason_not_counted, reward_and_state, used_tokens
from rollout_assets.core.compare.keys import ALL_KEYS, TASK_INDEX, identity_of, number_or_none
from rollout_assets.core.compare.rows import agent_error, failure_class, failure_kind, has_odd_mask, is_evidence
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Row
from rollout_assets.core.jsonl.parse import INT64
from rollout_assets.core.records.identity import logical_rollout_id
from rollout_assets.core.records.outcomes import Spending, elapsed_seconds, is_final, spending
from rollout_assets.core.records.paths import File
from rollout_assets.core.records.timeline import sidecar_facts
from rollout_assets.tables import key_column

Fields = dict[str, Any]


class Rule(NamedTuple):
    """How one column follows from the fields of a row.

    Attributes:
        column: The column of `RECORD_INDEX`.
        reads: The fields that the rule reads, dotted: rows that are equal in these have the same value.
        value: The rule, on a projected row or on the part of one that has these fields.
    """

    column: str
    reads: tuple[str, ...]
    value: Callable[[Fields], Any]


def _index(key: str) -> Callable[[Fields], int | None]:
    return lambda row: _integer(number_or_none(row.get(key)))


def _label(key: str) -> Callable[[Fields], str | None]:
    return lambda row: identity_of(row, key)[0]


def _tokens(name: str) -> Callable[[Fields], int | None]:
    return lambda row: _integer(used_tokens(row, name))


def _integer(value: float | None) -> int | None:
    """An index as the 64-bit integer of its column; what is none (the scan reports it) has no identity there."""
    if value is None or value != int(value) or int(value) not in INT64:
        return None
    return int(value)


def _rollout_id(row: Fields) -> str | None:
    try:
        return logical_rollout_id(row)
    except RunDataError:
        return None


def _run_id(row: Fields) -> str | None:
    value = row.get("_ng_run_id")
    return value if isinstance(value, str) else None


def _tasksets(row: Fields) -> str | None:
    found = {key: taskset for key in ALL_KEYS if (taskset := identity_of(row, key)[1]) is not None}
    return json.dumps(found, sort_keys=True) if found else None


def _mask_reason(row: Fields) -> str | None:
    return reason_not_counted(bool(row.get("mask_sample")), failure_kind(row), *reward_and_state(row))


#: The columns that follow from a row alone.
RULES: Final = (
    Rule("rollout_id", ("_ng_rollout_id", TASK_INDEX, "_ng_rollout_index"), _rollout_id),
    Rule("task_index", (TASK_INDEX,), _index(TASK_INDEX)),
    Rule("rollout_index", ("_ng_rollout_index",), _index("_ng_rollout_index")),
    Rule("attempt_index", ("_ng_attempt_index",), _index("_ng_attempt_index")),
    Rule("run_id", ("_ng_run_id",), _run_id),
    *(Rule(key_column(key), (key,), _label(key)) for key in ALL_KEYS),
    Rule("tasksets", ALL_KEYS, _tasksets),
    Rule("input_digest", ("responses_create_params.input",), input_digest),
    Rule("reward", ("reward",), lambda row: reward_and_state(row)[0]),
    Rule("reward_state", ("reward",), lambda row: reward_and_state(row)[1]),
    Rule("mask_sample", ("mask_sample",), lambda row: bool(row.get("mask_sample"))),
    Rule("odd_mask_value", ("mask_sample",), has_odd_mask),
    Rule("mask_reason", ("mask_sample", "failure_kind", "reward"), _mask_reason),
    Rule("failure_class", ("_ng_failure_class",), failure_class),
    Rule("failure_kind", ("failure_kind",), failure_kind),
    Rule("failure_terminal", ("_ng_failure_terminal",), lambda row: bool(row.get("_ng_failure_terminal"))),
    Rule("counts_as_zero", ("_ng_failure_counts_as_zero",), lambda row: row.get("_ng_failure_counts_as_zero") is True),
    Rule("evidence", ("_ng_omitted_rollout",), is_evidence),
    Rule("agent_error", ("error", "response.metadata"), agent_error),
    Rule("elapsed_seconds", ("elapsed_seconds", "response.metadata"), elapsed_seconds),
    Rule("input_tokens", ("response.usage.input_tokens",), _tokens("input_tokens")),
    Rule("output_tokens", ("response.usage.output_tokens",), _tokens("output_tokens")),
    Rule("model", ("response.model",), model),
)

#: The columns of `RECORD_INDEX` in the order of `record_of`.
RECORD_COLUMNS: Final = (
    "file",
    "line",
    "offset",
    "length",
    "spends_attempt",
    "final",
    *(rule.column for rule in RULES),
)


def record_of(file: File, path: Path, row: Row) -> tuple[Any, ...]:
    """The values of a row in the order of `RECORD_COLUMNS`."""
    fields = row.fields
    spends, final = RESULT_COSTS if file == "output" else _sidecar_costs(path, row)
    return (file, row.line, row.offset, row.length, spends, final, *[rule.value(fields) for rule in RULES])


#: Whether a row of the results file spends an attempt, and whether it is final if it stands (records.md §9.1, §10.2).
RESULT_COSTS: Final = (False, True)


def _sidecar_costs(path: Path, row: Row) -> tuple[bool, bool]:
    """The same for a row of the sidecar."""
    outcome = sidecar_facts(path, row)
    return spending(outcome) is Spending.COUNTED, is_final(outcome, retry_terminal_timeouts=False)
