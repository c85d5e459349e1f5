"""The run manifest: identity of a run and its reserved attempt numbers (records.md §4.1)."""

from __future__ import annotations

import json
from collections import Counter
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.core.jsonl.parse import DEPTH_LIMIT, parse_line
from rollout_assets.core.records.reading import whole_row
from rollout_assets.core.records.rejudgment import PendingRejudge

STRICT_VERSION: Final = 2
_Hex32 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
_Hex64 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_DigestOrUnverified = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{64}|unverified)\Z")]
_Count = Annotated[int, Meta(ge=0)]


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a run.

    Version 2 knows the fields up to `next_attempt` and no others. The names of the later fields are a proposal
    (records.md §4.1); fields of a later version that are not known here are kept in `unknown_fields`.

    Attributes:
        run_id: 32 lower-case hexadecimal digits, stamped on the rows of the run.
        source_digest: SHA-256 of the source data set, or `unverified`.
        materialized_digest: Canonical digest of the list of inventory rows.
        config_digest: Canonical digest of the configuration identity, or `unverified`.
        schema_version: Format, 2 or later.
        selection_policy: How the standing outcome is chosen.
        legacy_import: The identity was never verified; rows without run id are numbered while reading.
        identity_overridden: Resumed on purpose across a mismatch.
        next_attempt: Rollout id -> next number to give; the numbers below it are reserved.
        max_rollout_attempts: The saved attempt cap; None when the manifest does not say.
        attempt_extension: Attempts that an explicit recovery added to the cap.
        retry_terminal_timeouts: Whether the run tries again what agents stamped as terminal timeouts (§9.2).
        rerun_masked: (task index, rollout index, attempt) of masked results approved to run again (§14.1).
        pending_rejudges: Re-judgments that were admitted (§13.4).
        configuration: The configuration identity without credentials, if it was saved.
        unknown_fields: Fields of a later version, as they were read.
    """

    run_id: _Hex32
    source_digest: _DigestOrUnverified
    materialized_digest: _Hex64
    config_digest: _DigestOrUnverified
    schema_version: Annotated[int, Meta(ge=2)] = STRICT_VERSION
    selection_policy: Literal["latest_allocated"] = "latest_allocated"
    legacy_import: bool = False
    identity_overridden: bool = False
    next_attempt: dict[str, _Count] = {}
    max_rollout_attempts: Annotated[int, Meta(ge=1)] | None = None
    attempt_extension: _Count = 0
    retry_terminal_timeouts: bool = False
    rerun_masked: list[tuple[int, int, _Count]] = []
    pending_rejudges: list[PendingRejudge] = []
    configuration: dict[str, Any] | None = None
    unknown_fields: dict[str, Any] = {}

    @classmethod
    def read(cls, path: str | PathLike[str]) -> RunManifest:
        """Read a manifest: version 2 strictly, later versions loosely (records.md §4.1).

        Raises:
            RunDataError: `E-MANIFEST` with the path and what is wrong; `E-UNREADABLE` when it cannot be opened.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise unreadable_file(path, error) from error
        return cls.parse(data, path)

    @classmethod
    def parse(cls, data: bytes, path: str | PathLike[str]) -> RunManifest:
        """The manifest of these bytes; `path` is for messages.

        Raises:
            RunDataError: `E-MANIFEST`, as `read`.
        """
        row = whole_row(data) if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT else parse_line(data).row
        if row is None:
            fault = parse_line(data).faults[0]
            raise _refused(path, f"{fault.message} (byte {fault.column})", fault.kind)
        try:
            _refuse_duplicate_keys(data)
            return cls.of(row)
        except msgspec.ValidationError as error:
            raise _refused(path, str(error)) from error

    @classmethod
    def of(cls, fields: dict[str, Any]) -> RunManifest:
        """The manifest of these fields.

        Raises:
            msgspec.ValidationError: A field is missing, unknown to version 2, or of a wrong type or value.
        """
        version = fields.get("schema_version", STRICT_VERSION)
        if version == 1 and type(version) is int:
            raise msgspec.ValidationError(
                "schema_version 1 is the superseded journal format; use the revision that wrote the run, or a new "
                "output path"
            )
        known = _FIELDS_OF_VERSION_2 if version == STRICT_VERSION else _FIELDS
        unknown = {name: value for name, value in fields.items() if name not in known}
        if unknown and version == STRICT_VERSION:
            raise msgspec.ValidationError(
                f"version {STRICT_VERSION} has no field {', '.join(map(repr, sorted(unknown)))}"
            )
        if "max_rollout_attempts" in fields and fields["max_rollout_attempts"] is None:
            raise msgspec.ValidationError("Expected `int`, got `null` - at `$.max_rollout_attempts`")
        manifest = {name: value for name, value in fields.items() if name in known}
        return msgspec.convert({**manifest, "unknown_fields": unknown}, cls)


_FIELDS: Final = frozenset(RunManifest.__struct_fields__) - {"unknown_fields"}
_FIELDS_OF_VERSION_2: Final = frozenset(
    {
        "schema_version",
        "selection_policy",
        "run_id",
        "source_digest",
        "materialized_digest",
        "config_digest",
        "legacy_import",
        "identity_overridden",
        "next_attempt",
    }
)


def _refuse_duplicate_keys(data: bytes) -> None:
    """A key that a rule reads may not occur twice (decision 14); in what is only kept the last one wins."""
    decoder = json.JSONDecoder(object_pairs_hook=_Members, parse_int=str, parse_float=str)
    fields = decoder.decode(data.decode("utf-8"))
    read = [fields, *(member for key, member in fields if key in ("next_attempt", "pending_rejudges"))]
    for value in read:
        for members in value if isinstance(value, list) and not isinstance(value, _Members) else [value]:
            keys = [key for key, _ in members] if isinstance(members, _Members) else []
            twice = Counter(keys) if len(set(keys)) < len(keys) else Counter[str]()
            for key, times in twice.items():
                if times > 1 and (members is not fields or key in _FIELDS):
                    raise msgspec.ValidationError(f"the key {key!r} occurs twice in one object")


class _Members(list[tuple[str, Any]]):
    """The members of an object, duplicates included."""


def _refused(path: str | PathLike[str], reason: str, kind: str | None = None) -> RunDataError:
    return RunDataError(
        "E-MANIFEST",
        f"the run manifest cannot be used: {reason}; restore it from a backup",
        path=fspath(path),
        kind=kind,
    )
