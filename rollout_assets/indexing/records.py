"""What is indexed of one row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.compare.keys import ALL_KEYS
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Row
from rollout_assets.core.jsonl.parse import INT64
from rollout_assets.core.records.identity import logical_rollout_id
from rollout_assets.core.records.outcomes import Spending, is_final, spending
from rollout_assets.core.records.paths import File
from rollout_assets.core.records.timeline import sidecar_facts
from rollout_assets.tables import key_column


def record_of(file: File, path: Path, row: Row) -> tuple[Any, ...]:
    """The values of a row in the order of `RECORD_COLUMNS`."""
    facts = row_facts(row.fields, file=file, line=row.line, offset=row.offset, length=row.length)
    return index_record(row.fields, facts, *spends_and_final(file, path, row))


def spends_and_final(file: File, path: Path, row: Row) -> tuple[bool, bool]:
    """Whether a row spends an attempt, and whether it is final if it stands (records.md §9.1, §10.2)."""
    if file == "output":
        return False, True
    outcome = sidecar_facts(path, row)
    return spending(outcome) is Spending.COUNTED, is_final(outcome, retry_terminal_timeouts=False)


#: The columns of `RECORD_INDEX` in the order of `index_record`.
RECORD_COLUMNS = (
    *(
        name
        for field_name in RowFacts._fields
        for name in ([key_column(key) for key in ALL_KEYS] if field_name == "labels" else [field_name])
    ),
    "rollout_id",
    "run_id",
    "failure_terminal",
    "counts_as_zero",
    "spends_attempt",
    "final",
)


def index_record(row: dict[str, Any], facts: RowFacts, spends_attempt: bool, final: bool) -> tuple[Any, ...]:
    """The values of a row in the order of `RECORD_COLUMNS`: its facts as they are, then what else is indexed."""
    known: tuple[Any, ...] = facts
    file, line, offset, length, task, rollout, attempt, labels, tasksets, *signals, read, written, model, digest = known
    return (
        file,
        line,
        offset,
        length,
        _integer(task),
        _integer(rollout),
        _integer(attempt),
        *labels,
        None if tasksets is None else json.dumps(tasksets, sort_keys=True),
        *signals,
        _integer(read),
        _integer(written),
        model,
        digest,
        _rollout_id(row),
        _text(row.get("_ng_run_id")),
        bool(row.get("_ng_failure_terminal")),
        row.get("_ng_failure_counts_as_zero") is True,
        spends_attempt,
        final,
    )


def _rollout_id(row: dict[str, Any]) -> str | None:
    try:
        return logical_rollout_id(row)
    except RunDataError:
        return None


def _integer(value: float | None) -> int | None:
    """An index as the 64-bit integer of its column; what is none (the scan reports it) has no identity there."""
    if value is None or value != int(value) or int(value) not in INT64:
        return None
    return int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
