"""Opening a run for reading, in whatever state it was left (records.md §16.1)."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records.classification import FailureClassificationConfig
from rollout_assets.core.records.index import RolloutRecords
from rollout_assets.core.records.inventory import Inventory
from rollout_assets.core.records.legacy import made_up_manifest
from rollout_assets.core.records.manifest import RunManifest
from rollout_assets.core.records.paths import (
    failures_path_for,
    journal_path_for,
    manifest_path_for,
    materialized_path_for,
    resolve_rollout_path,
)
from rollout_assets.core.records.reading import StrPath


def open_run(
    path: StrPath,
    *,
    skip_keys: Set[str] = frozenset(),
    classification: FailureClassificationConfig | None = None,
) -> RolloutRecords | None:
    """Index a run for reading: no lock, no writes, no repair.

    The lengths of both files of outcomes are taken before the manifest is read, so that a writer may go on meanwhile:
    whatever lies within them has its reservation in the manifest (records.md §6.3).

    Args:
        path: The results file, or an alias of it.
        skip_keys: Top-level keys whose values are left out of very large rows.
        classification: Who is responsible for which failure.

    Returns:
        The index; of a run without manifest that has an inventory, a read-only import (§15.2); None when there is
        neither.

    Raises:
        RunDataError: `E-JOURNAL` when the run has a dispatch journal; `E-ALIAS`, `E-MANIFEST`, `E-MISSING`, and what
            `RolloutRecords.load` raises.
    """
    output = resolve_rollout_path(path, read_only=True)
    limits: dict[StrPath, int] = {
        file: file.stat().st_size for file in (output, failures_path_for(output)) if file.exists()
    }
    refuse_journal(output)
    if os.path.lexists(manifest_path_for(output)):
        manifest = RunManifest.read(manifest_path_for(output))
        return RolloutRecords.load(
            output, manifest, outcome_limits=limits, skip_keys=skip_keys, classification=classification
        )
    if not materialized_path_for(output).exists():
        return None
    inventory = Inventory.read(materialized_path_for(output))
    return RolloutRecords.load(
        output,
        made_up_manifest(inventory.digest),
        import_legacy=True,
        outcome_limits=limits,
        skip_keys=skip_keys,
        classification=classification,
        inventory=inventory,
    )


def refuse_journal(output: Path) -> None:
    """Refuse a run with a dispatch journal; its mere existence is enough (records.md §15.1).

    Raises:
        RunDataError: `E-JOURNAL` naming the journal.
    """
    journal = journal_path_for(output)
    if os.path.lexists(journal):
        raise RunDataError(
            "E-JOURNAL",
            "the run uses the superseded format with a dispatch journal; read it with the revision that wrote it, or "
            "collect into a new output path",
            path=journal,
        )
