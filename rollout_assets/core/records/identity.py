"""Which rollout and which attempt a row belongs to (records.md §3, §8.2, decision 15)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records.keys import ATTEMPT_KEY, ROLLOUT_ID_KEY, ROLLOUT_INDEX_KEY, TASK_INDEX_KEY

_ID_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: The end of a capture key; an id must not look like one.
_RESERVED_SUFFIX: Final = re.compile(r"-a[1-9][0-9]*\Z")

#: Below this, `str` and f-strings write an integer whatever the interpreter's limit on digits.
_MANY: Final = 10**600


def logical_rollout_id(row: Mapping[str, Any]) -> str:
    """The id of the rollout that a row belongs to, in the inventory, the output and the sidecar alike (records.md §3).

    Args:
        row: A row, whole or projected. Its attempt number does not matter.

    Returns:
        `_ng_rollout_id` where it is set, else `<task index>-<rollout index>`.

    Raises:
        RunDataError: `E-ID-MISSING` without an id and without both indices; `E-ID-FORM` for an id or an index of
            another form.
    """
    explicit, task, rollout = row.get(ROLLOUT_ID_KEY), row.get(TASK_INDEX_KEY), row.get(ROLLOUT_INDEX_KEY)
    if explicit is None and type(task) is int and type(rollout) is int and 0 <= task < _MANY > rollout > -_MANY:
        return f"{task}-{rollout}"  # nearly every row; such a text always has the form of an id
    task = index_field(row, TASK_INDEX_KEY)
    rollout = index_field(row, ROLLOUT_INDEX_KEY)
    if explicit is not None:
        return checked_rollout_id(explicit)
    if task is None or rollout is None:
        missing = " and ".join(
            key for key, value in ((TASK_INDEX_KEY, task), (ROLLOUT_INDEX_KEY, rollout)) if value is None
        )
        raise RunDataError(
            "E-ID-MISSING",
            f"the row has no {ROLLOUT_ID_KEY} and lacks {missing}; outcomes cannot be recovered without an id or both "
            "indices, write one of them on every row",
        )
    return checked_rollout_id(f"{_text(task)}-{_text(rollout)}")


def checked_rollout_id(value: object) -> str:
    """The value, if it has the form of a logical rollout id (records.md §3, rules 2 and 4).

    Raises:
        RunDataError: `E-ID-FORM` with the reason and the value.
    """
    if not isinstance(value, str):
        raise RunDataError("E-ID-FORM", f"a rollout id must be a string, not {_shown(value)}")
    if not _ID_FORM.fullmatch(value):
        raise RunDataError(
            "E-ID-FORM",
            f"the rollout id {_shown(value)} must begin with a letter or digit and hold only letters, digits, '.', "
            "'_' and '-'",
        )
    if _RESERVED_SUFFIX.search(value):
        raise RunDataError(
            "E-ID-FORM",
            f"the rollout id {_shown(value)} ends like a capture key ('-a' and a number), which is reserved; rename it",
        )
    return value


def index_field(row: Mapping[str, Any], key: str) -> int | None:
    """A task or rollout index; null equals absent, anything but an integer is refused (decision 15).

    Raises:
        RunDataError: `E-ID-FORM` with the key and the value.
    """
    value = row.get(key)
    if value is None or type(value) is int:
        return value
    raise RunDataError("E-ID-FORM", f"{key} must be an integer, not {_shown(value)}")


def attempt_index(row: Mapping[str, Any]) -> int:
    """The attempt number of a row, 0 when absent (records.md §8.2, rule 3).

    Raises:
        RunDataError: `E-ATTEMPT` unless it is an integer that is not negative; a boolean, null or float is none.
    """
    value = row.get(ATTEMPT_KEY, 0)
    if type(value) is int and value >= 0:
        return value
    raise RunDataError("E-ATTEMPT", f"{ATTEMPT_KEY} must be an integer from 0, not {_shown(value)}")


def capture_key(rollout_id: str, attempt: int) -> str:
    """The name under which one attempt is captured: the id, with `-a<n>` from attempt 1 on (records.md §3, rule 5)."""
    return rollout_id if attempt == 0 else f"{rollout_id}-a{attempt}"


def _text(number: int) -> str:
    """The digits of an integer of any size."""
    return format(Decimal(number), "f")


def _shown(value: object) -> str:
    try:
        text = _text(value) if type(value) is int else repr(value)
    except ValueError:  # one of its integers has more digits than the interpreter writes
        text = f"a {type(value).__name__} with a huge integer"
    return text if len(text) <= 100 else text[:99] + "…"
