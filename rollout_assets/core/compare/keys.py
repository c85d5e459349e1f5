"""Task keys: which fields can name the task of a row, and what a value of such a field says (compare.md §1.5)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

#: Fields that name a task, best first; a dot descends into an object (compare.md §1.5).
KEY_CANDIDATES: Final = (
    "_ng_task_id",
    "task_name",
    "task_id",
    "verifier_metadata.task_id",
    "verifier_metadata.task_name",
    "verifier_metadata.instance_id",
    "verifier_metadata.id",
)
TASK_INDEX: Final = "_ng_task_index"
#: Fields that may stand in for a task key when no candidate exists, or when asked for (decision 10).
FALLBACK_FIELDS: Final = (TASK_INDEX, "instance_id", "problem_id", "uuid", "id")
#: The last resort: the digest of the task's input in place of a name.
INPUT_DIGEST: Final = "input_digest"
FALLBACK_KEYS: Final = (*FALLBACK_FIELDS, INPUT_DIGEST)
#: All fields whose labels are kept for every row, in the order of `RowFacts.labels`.
ALL_KEYS: Final = (*KEY_CANDIDATES, *FALLBACK_FIELDS)

#: Longer integers are turned into text by `Decimal`: the interpreter refuses those of more than some 4,300 digits.
_LONG_INTEGER_BITS: Final = 10_000


def lookup(row: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key, or None; only objects are descended into."""
    value: Any = row
    for name in _path(key):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


@lru_cache
def _path(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


def identity_of(row: Mapping[str, Any], key: str) -> tuple[str | None, str | None]:
    """The label and the taskset that a row names under a key (compare.md §1.5, decisions 5 and 7).

    An object `{taskset, task_id or id}` names both; any other value names a label alone. A task index is a number:
    `1` and `1.0` are one label, and what is no number names nothing.
    """
    return identity_of_value(lookup(row, key), key)


def identity_of_value(value: Any, key: str) -> tuple[str | None, str | None]:
    """`identity_of` on the value that the row has under the key."""
    if type(value) is str and key != TASK_INDEX:
        return value, None  # nearly every id
    if value is None:
        return None, None
    if key == TASK_INDEX:
        return index_label(value), None
    if not isinstance(value, dict):
        return text_of(value), None
    task_id = value.get("task_id")
    if task_id is None:
        task_id = value.get("id")
    taskset = value.get("taskset")
    label = text_of(value if task_id is None else task_id)
    return label, None if taskset is None or taskset == "" else text_of(taskset)


def number_or_none(value: Any) -> int | float | None:
    """An index as an identity: a finite number that is no boolean, else None (decision 5)."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def index_label(value: Any) -> str | None:
    """The label of a task index; equal numbers have equal labels."""
    number = number_or_none(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return None if number is None else text_of(number)


def text_of(value: Any) -> str:
    """A JSON value as text: objects as sorted-key JSON, everything else as `str` has it; integers of any length."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value.bit_length() < _LONG_INTEGER_BITS else str(Decimal(value))
    try:
        return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
    except ValueError:
        return text_of(_without_huge_integers(value))


def _without_huge_integers(value: Any) -> Any:
    """Integers beyond the interpreter's digit limit, inside a container, as their exact hexadecimal text."""
    # Loops, not comprehensions: one frame a level lets a value of the deepest allowed nesting pass.
    if isinstance(value, dict):
        members = {}
        for key, item in value.items():
            members[key] = _without_huge_integers(item)
        return members
    if isinstance(value, list):
        items = []
        for item in value:
            items.append(_without_huge_integers(item))
        return items
    return hex(value) if isinstance(value, int) and value.bit_length() >= _LONG_INTEGER_BITS else value
