"""Reading rollout rows, and what each row says about itself (compare.md §1.2 to §1.4, §1.8; records.md §19.1).

Every rule here is a function on one row, a plain dict, whole or projected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.keys import KEY_CANDIDATES, TASK_INDEX, identity_of, number_or_none, text_of
from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.core.jsonl import Fault, FaultKind, Row, scan
from rollout_assets.core.records.paths import failures_path_for

StrPath = str | PathLike[str]
Attempt = tuple[int | float, int | float]

#: Set to true in a row that was folded in from a sidecar.
SIDECAR_FLAG: Final = "_rollout_assets_from_sidecar"
AGENT_ERROR_CHARACTERS: Final = 120

_HINTS: Final = {
    FaultKind.TRUNCATED_TAIL: "wait until the run is finished, or remove the incomplete line",
    FaultKind.NOT_UTF8: "write the file as UTF-8",
    FaultKind.LONE_SURROGATE: "write whole characters",
    FaultKind.DUPLICATE_KEY: "write the key once",
    FaultKind.DUPLICATE_COMPARED_KEY: "write the key once",
    FaultKind.NOT_AN_OBJECT: "write one JSON object a line",
}


# --- one row ---------------------------------------------------------------------------------------------------------


def strict_reward(row: Mapping[str, Any]) -> float | None:
    """The reward as a float; None when absent or null; NaN and infinities pass (compare.md §1.3, decision 3).

    Raises:
        CompareInputError: The reward is a boolean, a string, a list or an object, or an integer that no double holds.
    """
    value = row.get("reward")
    if value is None or type(value) is float:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _reward_error(row, "has more digits than a double can hold") from None
    shown = json.dumps(value) if isinstance(value, bool | str) else text_of(value)
    raise _reward_error(row, f"{_shortened(shown)} is {_JSON_NAMES[type(value)]}")


_JSON_NAMES: Final = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}


def _reward_error(row: Mapping[str, Any], what: str) -> CompareInputError:
    label = row_task_label(row)
    task = "" if label is None else f" of {label}"
    reason = f"the reward{task} is no usable number: {what}; write a JSON number, or null for no reward"
    return CompareInputError("E-REWARD", reason, kind=FaultKind.REWARD_NOT_A_NUMBER)


def finite_reward(row: Mapping[str, Any]) -> float | None:
    """The reward when it is a finite number, else None: what enters a mean (compare.md §1.9)."""
    reward = strict_reward(row)
    return reward if reward is not None and math.isfinite(reward) else None


def mask_reason(row: Mapping[str, Any]) -> str | None:
    """Why a row does not count, or None: masked, no reward, or a reward that is not finite (compare.md §1.8)."""
    return reason_of_mask(bool(row.get("mask_sample")), failure_kind(row), strict_reward(row))


def reason_of_mask(masked: bool, kind: str | None, reward: float | None) -> str | None:
    """The rule behind `mask_reason`, on the values it reads."""
    if masked:
        return "mask_sample" if kind is None else f"mask_sample (failure_kind={kind})"
    if reward is None:
        return "no reward"
    return None if math.isfinite(reward) else f"non-finite reward ({reward})"


def failure_kind(row: Mapping[str, Any]) -> str | None:
    """The `failure_kind` of a row as text, or None when it is not set."""
    value = row.get("failure_kind")
    return text_of(value) if value else None


def measured_failure_kind(row: Mapping[str, Any]) -> str | None:
    """The `failure_kind` of a row that counts: a scored failure, shown but never a mask (compare.md §1.8)."""
    return failure_kind(row) if mask_reason(row) is None else None


def agent_error(row: Mapping[str, Any]) -> str | None:
    """An error that the agent reports on a row that may well count (compare.md §1.8, decision 13).

    Returns:
        `error: ` and the last non-blank line of `error`, else `name=value` of the first `response.metadata` entry whose
        name ends in `error_type`, each cut to 120 characters; None when there is neither. A `response` or a metadata of
        another shape than an object says nothing.
    """
    error = row.get("error")
    if error:
        lines = [line for line in text_of(error).splitlines() if line.strip()]
        return f"error: {_shortened(lines[-1].strip() if lines else '')}"
    response = row.get("response")
    metadata = response.get("metadata") if isinstance(response, dict) else None
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if name.endswith("error_type") and value:
            return _shortened(f"{name}={text_of(value)}")
    return None


def attempt_key(row: Mapping[str, Any]) -> Attempt | None:
    """(task index, rollout index) of a row, or None when either is no finite number (decision 5)."""
    task, rollout = number_or_none(row.get(TASK_INDEX)), number_or_none(row.get("_ng_rollout_index"))
    return None if task is None or rollout is None else (task, rollout)


def is_evidence(row: Mapping[str, Any]) -> bool:
    """Whether a sidecar row only records that a rollout gave no result; never a failure (decision 4)."""
    return bool(row.get("_ng_omitted_rollout"))


def has_odd_mask(row: Mapping[str, Any]) -> bool:
    """Whether `mask_sample` masks the row without being `true`, as `1` or `"false"` do (decision 12)."""
    value = row.get("mask_sample")
    return bool(value) and value is not True


def row_task_label(row: Mapping[str, Any]) -> str | None:
    """The task of a row as well as the row alone tells, for an error message."""
    for key in (*KEY_CANDIDATES, TASK_INDEX):
        label, taskset = identity_of(row, key)
        if label is not None:
            name = label if taskset is None else f"{taskset}/{label}"
            return f"task index {name}" if key == TASK_INDEX else f"task {_shortened(name)!r}"
    return None


def _shortened(text: str) -> str:
    return text[:AGENT_ERROR_CHARACTERS]


# --- the sidecar -----------------------------------------------------------------------------------------------------


def current_failures(failures: Iterable[dict[str, Any]], scored: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The sidecar rows that still stand (compare.md §1.4, records.md §19.1).

    Of each attempt identity only the last row in file order, and none whose identity a scored row has. Rows without an
    identity are all kept. What stays keeps its order.
    """
    rows = list(failures)
    scored_keys = {attempt_key(row) for row in scored}
    return [rows[position] for position in surviving([attempt_key(row) for row in rows], scored_keys)]


def surviving(keys: Sequence[Hashable | None], scored: Container[Hashable | None]) -> list[int]:
    """The rule behind `current_failures`, on identities: positions of the failures that stand, in order."""
    last = {key: position for position, key in enumerate(keys)}
    return [
        position for position, key in enumerate(keys) if key is None or (last[key] == position and key not in scored)
    ]


def failure_as_row(failure: Mapping[str, Any]) -> dict[str, Any]:
    """A sidecar row as a masked row without reward, flagged as such (compare.md §1.4, decision 5)."""
    row = {key: value for key, value in failure.items() if key != "reward"}
    row["mask_sample"] = True
    row["failure_kind"] = failure_kind(failure) or failure_class(failure) or DEFAULT_FAILURE_KIND
    if row.get("failure_reason") is None and failure.get("_ng_failure_message") is not None:
        row["failure_reason"] = failure["_ng_failure_message"]
    row[SIDECAR_FLAG] = True
    return row


DEFAULT_FAILURE_KIND: Final = "failure"


def failure_class(row: Mapping[str, Any]) -> str | None:
    """The `_ng_failure_class` of a row as text, or None when it is not set."""
    value = row.get("_ng_failure_class")
    return text_of(value) if value else None


# --- files -----------------------------------------------------------------------------------------------------------


def load_rollouts(path: StrPath) -> list[dict[str, Any]]:
    """Read an output and, when there is one, its sidecar of failures, folded in as masked rows (compare.md §1.1-1.4).

    All rows are held in memory; `facts.load_facts` reads files of any size.

    Raises:
        CompareInputError: The output is missing or unreadable, or a line of either file cannot be used.
    """
    rows = [row.fields for row in read_rows(path, whole_rows=True)]
    sidecar = sidecar_path(path)
    if sidecar is None:
        return rows
    failures = [row.fields for row in read_rows(sidecar, whole_rows=True) if not is_evidence(row.fields)]
    return rows + [failure_as_row(failure) for failure in current_failures(failures, rows)]


def sidecar_path(path: StrPath) -> str | None:
    """The sidecar of an output whose name ends in `.jsonl`, if it is a regular file (compare.md §1.1)."""
    if not fspath(path).endswith(".jsonl"):
        return None
    sidecar = failures_path_for(path)
    return str(sidecar) if sidecar.is_file() else None


def read_rows(path: StrPath, *, whole_rows: bool = False) -> Iterator[Row]:
    """Yield the rows of one file in order; every reward is checked.

    Raises:
        CompareInputError: The file is missing or unreadable, or a line cannot be used: the first such line, with its
            kind of fault (compare.md, decision 1).
    """
    try:
        Path(path).stat()
        for line in scan(path, whole_rows=whole_rows):
            if isinstance(line, Fault):
                if not line.row_is_readable or line.kind is FaultKind.DUPLICATE_COMPARED_KEY:
                    raise _fault_error(line)
                continue
            try:
                strict_reward(line.fields)
            except CompareInputError as error:
                raise error.at(path, line.line, line.offset) from None
            yield line
    except OSError as error:
        raise _as_compare_error(unreadable_file(path, error)) from error
    except CompareInputError:
        raise
    except RunDataError as error:
        raise _as_compare_error(error) from error


def _fault_error(fault: Fault) -> CompareInputError:
    hint = _HINTS.get(fault.kind, "mend or remove the line")
    return CompareInputError(
        "E-JSON",
        f"{fault.kind}: {fault.message}; {hint}",
        **fault.place,
    )


def _as_compare_error(error: RunDataError) -> CompareInputError:
    return CompareInputError(
        error.code,
        error.reason,
        path=error.path,
        line=error.line,
        offset=error.offset,
        column=error.column,
        kind=error.kind,
    )
