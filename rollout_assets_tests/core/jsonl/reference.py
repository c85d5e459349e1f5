"""A second, independent reading of a line, built on Python's json: slow, and simple enough to be believed."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from rollout_assets.core.jsonl.faults import FaultKind as K
from rollout_assets.core.jsonl.fields import RecordFields, RowFields

TASK_KEYS = {"_ng_task_id", "task_id", "task_name", "instance_id", "problem_id", "uuid", "id"}
VERIFIER_KEYS = {"task_id", "task_name", "instance_id", "id"}
LOGS = {"test_output", "verifier_stdout", "verifier_output"}
INDICES = {"_ng_task_index", "_ng_rollout_index", "_ng_attempt_index"}


class Pairs(list[tuple[str, Any]]):
    """An object as its members, duplicates included."""

    def repeated(self) -> set[str]:
        return {key for key, count in Counter(key for key, _ in self).items() if count > 1}

    def last(self, key: str) -> Any:
        return next((value for name, value in reversed(self) if name == key), None)


def read(line: bytes) -> tuple[dict[str, Any] | None, set[K]]:
    """The projected row (None: not readable) and all kinds of faults of a line that is no torn tail."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        # Which fault comes first is for the tests of places.
        return None, {K.NOT_UTF8, K.INVALID_JSON, K.LONE_SURROGATE, K.DUPLICATE_KEY, K.TOO_DEEP}
    if depth(text) > 512:
        return None, {K.TOO_DEEP, K.INVALID_JSON, K.LONE_SURROGATE, K.DUPLICATE_KEY}
    try:
        value = json.loads(text, object_pairs_hook=Pairs)
    except ValueError:
        return None, {K.INVALID_JSON, K.LONE_SURROGATE, K.DUPLICATE_KEY}
    faults: set[K] = set()
    inspect(value, faults)
    if not isinstance(value, Pairs):
        faults.add(K.NOT_AN_OBJECT)
    else:
        watch(value, faults)
    if faults & {K.LONE_SURROGATE, K.DUPLICATE_KEY, K.NOT_AN_OBJECT}:
        return None, faults
    return projected(plain(value)), faults


def depth(text: str) -> int:
    deepest = level = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest


def inspect(value: Any, faults: set[K]) -> None:
    if isinstance(value, Pairs):
        for key, inner in value:
            inspect(key, faults)
            inspect(inner, faults)
    elif isinstance(value, list):
        for inner in value:
            inspect(inner, faults)
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            faults.add(K.LONE_SURROGATE)
    elif isinstance(value, float) and not math.isfinite(value):
        faults.add(K.NON_FINITE_NUMBER)


def watch(row: Pairs, faults: set[K]) -> None:
    for key in row.repeated():
        if key in RecordFields.__annotations__:
            faults.add(K.DUPLICATE_KEY)
        elif key in RowFields.__annotations__ or key in LOGS:
            faults.add(K.DUPLICATE_COMPARED_KEY)
    for key, value in row:
        if key == "_ng_failure_record" and repeated_anywhere(value):
            faults.add(K.DUPLICATE_KEY)
        if is_compared_value_repetitive(key, value):
            faults.add(K.DUPLICATE_COMPARED_KEY)
        if key in INDICES and type(row.last(key)) is int and not -(2**63) <= row.last(key) < 2**63:
            faults.add(K.INTEGER_OUT_OF_RANGE)


def is_compared_value_repetitive(key: str, value: Any) -> bool:
    if key in TASK_KEYS:
        return repeated_anywhere(value)
    if not isinstance(value, Pairs):
        return False
    if key == "responses_create_params":
        return "input" in value.repeated()
    watched = {"response": {"metadata"}, "verifier_metadata": VERIFIER_KEYS}.get(key, set())
    return bool(value.repeated() & watched) or any(repeated_anywhere(inner) for name, inner in value if name in watched)


def repeated_anywhere(value: Any) -> bool:
    if isinstance(value, Pairs):
        return bool(value.repeated()) or any(repeated_anywhere(inner) for _, inner in value)
    return isinstance(value, list) and any(map(repeated_anywhere, value))


def plain(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: plain(inner) for key, inner in value}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def projected(row: dict[str, Any]) -> dict[str, Any]:
    row = {key: value for key, value in row.items() if key in RowFields.__annotations__}
    for key, names in (
        ("response", ("metadata", "model", "usage")),
        ("verifier_metadata", tuple(VERIFIER_KEYS)),
        ("responses_create_params", ("input",)),
    ):
        if isinstance(row.get(key), dict):
            row[key] = {name: value for name, value in row[key].items() if name in names}
    response = row.get("response")
    if isinstance(response, dict) and isinstance(response.get("usage"), dict):
        usage = response["usage"]
        response["usage"] = {name: usage[name] for name in ("input_tokens", "output_tokens") if name in usage}
    return row


def shape(value: Any) -> Any:
    """A value in a form in which NaN equals NaN, and `1`, `1.0` and `true`, or `0.0` and `-0.0`, differ."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__, hex(value) if isinstance(value, int) else repr(value)
