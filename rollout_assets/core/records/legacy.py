"""Runs that older generations left: import without a manifest, and the invalid-judge migration (records.md §15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import uuid4

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Row, scan
from rollout_assets.core.records.digest import json_equal
from rollout_assets.core.records.keys import (
    FAILURE_CLASS_KEY,
    INVALID_JUDGE_KEY,
    MIGRATED_KEY,
    REUSE_DELIVERABLE_KEY,
    RUN_ID_KEY,
    TERMINAL_KEY,
)
from rollout_assets.core.records.manifest import RunManifest
from rollout_assets.core.records.reading import StrPath

#: Keys in which a migrated row may differ from the row it was moved from (§15.3).
_CHANGED_BY_MIGRATION: Final = frozenset({FAILURE_CLASS_KEY, TERMINAL_KEY, REUSE_DELIVERABLE_KEY, MIGRATED_KEY})


def made_up_manifest(materialized_digest: str) -> RunManifest:
    """The manifest of a run that has none: a new identity that nothing verified (§15.2, rule 3)."""
    return RunManifest(
        run_id=uuid4().hex,
        source_digest="unverified",
        materialized_digest=materialized_digest,
        config_digest="unverified",
        legacy_import=True,
    )


def lost_manifest(paths: Iterable[StrPath]) -> RunDataError:
    """The error for rows with a run id in a run without manifest (§15.2, rule 2).

    `E-MIXED-RUNS` when the files hold several run ids, else `E-LOST-MANIFEST`.
    """
    run_ids = {
        str(line.fields[RUN_ID_KEY])
        for path in paths
        for line in scan(path)
        if isinstance(line, Row) and line.fields.get(RUN_ID_KEY) is not None
    }
    if len(run_ids) > 1:
        return RunDataError(
            "E-MIXED-RUNS",
            f"there is no manifest and the rows belong to different runs ({', '.join(sorted(run_ids))}); separate "
            "them, or restore the manifest from a backup",
        )
    return RunDataError(
        "E-LOST-MANIFEST",
        f"the row belongs to run {', '.join(run_ids)}, whose manifest is missing; restore it from a backup, or collect "
        "into a new output path. Reservations cannot be rebuilt from outcomes",
    )


def is_migration_candidate(row: Mapping[str, Any]) -> bool:
    """Whether an output row is one that the invalid-judge migration moves: flagged, and without a failure class."""
    return bool(row.get(INVALID_JUDGE_KEY)) and row.get(FAILURE_CLASS_KEY) is None


def is_migrated_image(original: Mapping[str, Any], moved: Mapping[str, Any]) -> bool:
    """Whether a sidecar row is the exact image that the migration made of an output row (§15.3).

    Args:
        original: The whole row of the output.
        moved: The whole row of the sidecar. Both carry their attempt numbers.
    """
    return (
        is_migration_candidate(original)
        and bool(moved.get(MIGRATED_KEY))
        and moved.get(FAILURE_CLASS_KEY) == "judge_invalid"
        and TERMINAL_KEY not in moved
        and json_equal(_kept(original), _kept(moved))
    )


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in _CHANGED_BY_MIGRATION}


def legacy_number(counter: int, explicit: int | None, held_by_another_row: bool) -> int:
    """The attempt number of a row without run id (§15.2, rule 4).

    Args:
        counter: One above the greatest number given to such a row of this rollout, from 0.
        explicit: The number that the row carries, if it does.
        held_by_another_row: Whether a different row already holds that number.
    """
    number = counter if explicit is None else explicit
    return max(counter, number + 1) if held_by_another_row else number
