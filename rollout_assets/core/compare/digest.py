"""The input digest: what a task asked, so that two rows can be shown to be the same task (compare.md, decision 11)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import orjson

from rollout_assets.core.compare.keys import lookup
from rollout_assets.core.records.digest import canonical_json

_PROMPT_ROLES: Final = frozenset({"system", "developer", "user"})
#: Members that a saved row has and an inventory row may lack; they say nothing about the task.
_ADDED_BY_SAVING: Final = (("type", "message"), ("detail", "auto"))


def input_digest(row: Mapping[str, Any]) -> str | None:
    """Digest of the input that a result row repeats, or None where it has none.

    Saved rows append later turns to the input, so only the messages before the first one that is not `system`,
    `developer` or `user` count.

    Args:
        row: A row of an output or a sidecar, whole or projected.

    Returns:
        64 hexadecimal digits (SHA-256), or None when the row has no input messages of those roles.
    """
    return digest_of_input(lookup(row, "responses_create_params.input"))


def digest_of_input(value: Any) -> str | None:
    """`input_digest`, given the value of `responses_create_params.input`."""
    messages = _messages(value)
    return _plain_digest(messages) or _digest(_prompt(messages))


def inventory_digest(row: Mapping[str, Any]) -> str | None:
    """Digest of the input of an inventory row: its `responses_create_params.input`, or its `task_input`.

    Comparable with other inventory digests only, never with `input_digest` of a row.
    """
    messages = _messages(lookup(row, "responses_create_params.input"))
    return _digest(messages) or _digest(row.get("task_input"))


def _messages(value: Any) -> list[Any]:
    """The input as a list of messages; a bare string is one user message, as in the Responses API."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value else []
    return value if isinstance(value, list) else []


def _prompt(messages: list[Any]) -> list[Any]:
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _PROMPT_ROLES:
            return messages[:position]
    return messages


def _digest(value: Any) -> str | None:
    if not value:
        return None
    try:
        text = canonical_json(_normalised(value)).encode("utf-8")
    except ValueError:
        # A NaN or an infinity in a prompt, or a lone surrogate: no JSON text, so no digest.
        return None
    return sha256(text).hexdigest()


def _plain_digest(messages: list[Any]) -> str | None:
    """The digest of a prompt of messages that are nothing but a role and a text, as most are; None for all else.

    The same as by `_normalised`, in a tenth of the time.
    """
    plain = []
    for message in messages:
        if not isinstance(message, dict):
            break
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in _PROMPT_ROLES:
            break
        if not isinstance(content, str) or len(message) != 2 + (message.get("type") == "message"):
            return None
        plain.append({"content": content, "role": role})
    try:
        return sha256(orjson.dumps(plain)).hexdigest() if plain else None
    except orjson.JSONEncodeError:
        return None


def _normalised(value: Any) -> Any:
    """The value without nulls and without what saving adds."""
    # Loops, not comprehensions: one frame a level lets an input of the deepest allowed nesting pass.
    if isinstance(value, dict):
        members = {}
        for key, item in value.items():
            if item is not None and (key, item) not in _ADDED_BY_SAVING:
                members[key] = _normalised(item)
        return members
    if isinstance(value, list):
        items = []
        for item in value:
            items.append(_normalised(item))
        return items
    return value
