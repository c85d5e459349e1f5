"""The fast decoder of a line: msgspec with typed fields, which validates what it does not build.

msgspec keeps the last of duplicate keys and does not tell. Here every field that must not occur twice tells when it is
decoded: its type is one that msgspec hands to a hook, or a struct with a hook of its own. As many calls as fields in
the row: nothing occurred twice, whatever escapes its key is spelled with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, TypedDict

import msgspec
from msgspec import UNSET

from rollout_assets.core.jsonl.duplicates import LOG_KEYS, ROW_WATCH
from rollout_assets.core.jsonl.fields import (
    INDEX_KEYS,
    NOT_AN_OBJECT,
    ROW_KEYS,
    UsageFields,
    VerifierMetadataFields,
    project,
)
from rollout_assets.core.jsonl.parse import INT64

#: What msgspec raises for a line that it does not accept; it lets the last two through.
UNDECODED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_LOWEST, _HIGHEST = INT64[0], INT64[-1]
_CONTAINERS: Final = frozenset((dict, list))
_NESTED: Final = ("response", "verifier_metadata", "responses_create_params")


class _AnyValue(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True


class _Watched(metaclass=_AnyValue):
    """Type of a field in whose value keys must not occur twice either. The type of the other fields is `object`."""


class _Log(metaclass=_AnyValue):
    """Type of a field that is not kept."""


class RowDecoder:
    """Decodes lines to projected rows. Not for two threads at a time."""

    def __init__(self) -> None:
        self._calls: list[None] = []
        self._peculiar: list[None] = []
        self._typed = _decoder(_nested_structs(self._calls.append), self._hook())

    def _hook(self) -> Callable[[type, Any], Any]:
        called, peculiar = self._calls.append, self._peculiar.append

        def hook(kind: type, value: Any) -> Any:
            called(None)
            if kind is not object:
                if kind is _Log:
                    peculiar(None)
                    return None
                if value and value.__class__ in _CONTAINERS:
                    peculiar(None)
            return value

        return hook

    @cached_property
    def _with_odd_objects(self) -> Callable[[bytes | memoryview], dict[str, Any]]:
        return _decoder(dict.fromkeys(_NESTED, _Watched), self._hook())

    def decode(self, line: bytes | memoryview) -> dict[str, Any] | None:
        """Return the projected row of a line, or `None` if only `parse` can tell what it is.

        Numbers that overflow, nesting beyond the limit and bytes that are not UTF-8 go unnoticed in values that are
        skipped; `guards` finds them.
        """
        self._calls.clear()
        self._peculiar.clear()
        try:
            row = self._typed(line)
        except msgspec.ValidationError:
            return self._decode_odd_objects(line)
        except UNDECODED:
            return None
        if len(self._calls) != len(row) + _unwrap(row) or not _has_int64_indices(row):
            return None
        if self._peculiar:
            for key in LOG_KEYS:
                row.pop(key, None)
            if not _has_unique_keys(line, list(_watched_containers(row))):
                return None
        return row

    def _decode_odd_objects(self, line: bytes | memoryview) -> dict[str, Any] | None:
        """The same for a row in which `response` or the like is no object; all of it is built."""
        self._calls.clear()
        try:
            row = self._with_odd_objects(line)
        except UNDECODED:
            return None
        if len(self._calls) != len(row) or not _has_int64_indices(row):
            return None
        watched = [key for key in row if key in ROW_WATCH.below]
        return project(row) if _has_unique_keys(line, watched) else None


class WholeRowDecoder:
    """Decodes lines to whole rows. Not for two threads at a time."""

    def __init__(self) -> None:
        self._projected = RowDecoder()
        self._whole = msgspec.json.Decoder(dict[str, Any])

    def decode(self, line: bytes | memoryview) -> dict[str, Any] | None:
        """Return the whole row of a line, or `None` if only `parse` can tell what it is."""
        if self._projected.decode(line) is None:
            return None
        try:
            return self._whole.decode(line)
        except UNDECODED:
            return None


def _decoder(
    nested: dict[str, type], hook: Callable[[type, Any], Any]
) -> Callable[[bytes | memoryview], dict[str, Any]]:
    fields: dict[str, type] = dict.fromkeys(ROW_KEYS, object)
    fields |= dict.fromkeys(ROW_WATCH.below, _Watched)
    fields |= dict.fromkeys(LOG_KEYS, _Log)
    fields |= nested
    row_type = TypedDict("row_type", fields, total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(row_type, dec_hook=hook).decode  # type: ignore[return-value]


def _nested_structs(called: Callable[[None], None]) -> dict[str, type]:
    """Types of the nested objects of a row; each calls `called` when it is decoded."""

    def __post_init__(self: msgspec.Struct) -> None:  # noqa: N807 - the name that msgspec calls
        called(None)

    def struct(name: str, fields: dict[str, Any]) -> type[msgspec.Struct]:
        declared = [(key, kind, UNSET) for key, kind in fields.items()]
        return msgspec.defstruct(name, declared, namespace={"__post_init__": __post_init__})

    return {
        "response": struct("Response", {"metadata": _Watched, "model": Any, "usage": UsageFields | NOT_AN_OBJECT}),
        "verifier_metadata": struct(
            "VerifierMetadata", dict.fromkeys(VerifierMetadataFields.__annotations__, _Watched)
        ),
        "responses_create_params": struct("Request", {"input": object}),
    }


def _unwrap(row: dict[str, Any]) -> int:
    """Put plain objects in place of the structs of a row; return how many of their fields called the hook."""
    calls = 0
    if "response" in row:
        response = row["response"]
        row["response"] = fields = {}
        if response.metadata is not UNSET:
            fields["metadata"] = response.metadata
            calls += 1
        if response.model is not UNSET:
            fields["model"] = response.model
        if response.usage is not UNSET:
            fields["usage"] = response.usage
    for key in ("responses_create_params", "verifier_metadata"):
        if key in row:
            struct = row[key]
            row[key] = fields = {}
            for name in struct.__struct_fields__:
                value = getattr(struct, name)
                if value is not UNSET:
                    fields[name] = value
                    calls += 1
    return calls


def _has_int64_indices(row: dict[str, Any]) -> bool:
    get = row.get
    try:
        is_int64: bool = (
            _LOWEST <= get("_ng_task_index", 0) <= _HIGHEST
            and _LOWEST <= get("_ng_rollout_index", 0) <= _HIGHEST
            and _LOWEST <= get("_ng_attempt_index", 0) <= _HIGHEST
        )
        return is_int64
    except TypeError:  # one of them is no number
        return all(type(index := get(key)) is not int or index in INT64 for key in INDEX_KEYS)


# A key that a rule reads holds none but these characters; an escape may spell each of them.
_ESCAPED_KEY_CHARACTER: Final = re.compile(rb"\\u00[567]")


#: How much of a line is looked at first where a value starts.
_FIRST_LOOK_BYTES: Final = 1024


class _KeyOccursTwiceError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _KeyOccursTwiceError


_JSON_WITH_UNIQUE_KEYS: Final = json.JSONDecoder(object_pairs_hook=_unique)


def _has_unique_keys(line: bytes | memoryview, containers: list[str]) -> bool:
    """Whether no key occurs twice in the values of certain keys, wherever in the line a key of that name stands."""
    if not containers:
        return True
    if _ESCAPED_KEY_CHARACTER.search(line):
        return False
    for key in containers:
        for value in re.finditer(rb'"%s"[ \t\r]*:[ \t\r]*(?=[\[{])' % key.encode(), line):
            if not _has_unique_keys_at(line, value.end()):
                return False
    return True


def _has_unique_keys_at(line: bytes | memoryview, start: int) -> bool:
    """Whether no key occurs twice in the value that starts at a byte of a line.

    Where the value ends is not known: more and more of the line is looked at, so that a short value in a very long line
    costs little.
    """
    size = _FIRST_LOOK_BYTES
    while True:
        try:
            _JSON_WITH_UNIQUE_KEYS.raw_decode(str(line[start : start + size], "utf-8", "replace"))
        except (_KeyOccursTwiceError, RecursionError):
            return False
        except ValueError:
            if start + size >= len(line):
                return False
            size *= 4
        else:
            return True


def _watched_containers(row: dict[str, Any]) -> Iterator[str]:
    """Keys of a row, and of its nested objects, whose values are containers in which keys must not occur twice."""
    for key, watch in ROW_WATCH.below.items():
        value = row.get(key)
        if watch.every and value.__class__ in _CONTAINERS:
            yield key
        elif value.__class__ is dict:
            yield from (inner for inner in watch.below if value.get(inner).__class__ in _CONTAINERS)
