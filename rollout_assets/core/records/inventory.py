"""The inventory of a run: one row per expected rollout (records.md §1, §8.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from os import fspath
from pathlib import Path
from typing import Any

import msgspec

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Fault, FaultKind, scan
from rollout_assets.core.records.digest import canonical_json
from rollout_assets.core.records.identity import logical_rollout_id
from rollout_assets.core.records.keys import ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from rollout_assets.core.records.reading import (
    FileIdentity,
    RolloutRecord,
    StrPath,
    identity_of_file,
    placed,
    refuse_unreadable,
)


class InventoryEntry(msgspec.Struct, frozen=True, gc=False):
    """What is kept of one inventory row: its id, its position from 0, its indices, its place."""

    rollout_id: str
    position: int
    task_index: int | None
    rollout_index: int | None
    line: int
    offset: int
    length: int


class Inventory(Mapping[str, dict[str, Any]]):
    """The expected rollouts in inventory order: logical rollout id -> inventory row.

    Rows that were read from a file are not kept; asking for one reads it again.

    Attributes:
        entries: Logical rollout id -> what is kept of the row, in inventory order.
        digest: Canonical digest of the list of rows, 64 hexadecimal digits.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        """An inventory of rows that are in memory.

        Raises:
            RunDataError: As `read`, without a place.
        """
        self.entries: dict[str, InventoryEntry] = {}
        self._rows = [dict(row) for row in rows]
        self._path: str | None = None
        self._identity: FileIdentity | None = None
        running = _ListDigest()
        for row in self._rows:
            running.add(row)
            self._add(row, 0, 0, 0)
        self.digest = running.hexdigest()

    @classmethod
    def read(cls, path: StrPath, *, expected_digest: str | None = None) -> Inventory:
        """Read the inventory of a run, one row at a time.

        Args:
            path: The inventory file.
            expected_digest: The digest that the manifest states, if there is a manifest.

        Raises:
            RunDataError: `E-JSON` or `E-OBJECT` for an unreadable line; `E-INVENTORY-DIGEST` when the rows are not
                those of the manifest, or hold a non-finite number; then `E-ID-FORM`, `E-ID-MISSING` or `E-DUP-ID` for
                the first row whose id is at fault. Path and line are named.
        """
        inventory = cls()
        inventory._path = fspath(path)
        inventory._identity = identity_of_file(path) if Path(path).exists() else None
        running, first_error = _ListDigest(), None
        for line in scan(path, whole_rows=True):
            if isinstance(line, Fault):
                _refuse_in_inventory(line)
                continue
            running.add(line.fields)
            try:
                inventory._add(line.fields, line.line, line.offset, line.length)
            except RunDataError as error:
                first_error = first_error or placed(error, path, line.line, line.offset)
        inventory.digest = running.hexdigest()
        if expected_digest is not None and inventory.digest != expected_digest:
            raise RunDataError(
                "E-INVENTORY-DIGEST",
                f"inventory and manifest disagree: the digest of the rows is {inventory.digest}, the manifest says "
                f"{expected_digest}; restore the inventory that the run was started with",
                path=path,
            )
        if first_error is not None:
            raise first_error
        return inventory

    def _add(self, row: Mapping[str, Any], line: int, offset: int, length: int) -> None:
        rollout_id = logical_rollout_id(row)
        if rollout_id in self.entries:
            raise RunDataError(
                "E-DUP-ID", f"the rollout id {rollout_id!r} stands twice in the inventory; ids must be unique"
            )
        task, rollout = row.get(TASK_INDEX_KEY), row.get(ROLLOUT_INDEX_KEY)  # integers or null: the id saw to that
        self.entries[rollout_id] = InventoryEntry(rollout_id, len(self.entries), task, rollout, line, offset, length)

    def __getitem__(self, rollout_id: str) -> dict[str, Any]:
        entry = self.entries[rollout_id]
        if self._path is None:
            return self._rows[entry.position]
        place = RolloutRecord(self._path, entry.offset, entry.length, entry.line, file_identity=self._identity)
        return place.read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, rollout_id: object) -> bool:
        return rollout_id in self.entries


class _ListDigest:
    """`digest` of a list of rows that are never all in memory (records.md §5)."""

    def __init__(self) -> None:
        self._running = sha256()
        self._separator = b"["

    def add(self, row: Mapping[str, Any]) -> None:
        self._running.update(self._separator + canonical_json(row).encode("utf-8"))
        self._separator = b","

    def hexdigest(self) -> str:
        whole = self._running.copy()
        whole.update(b"[]" if self._separator == b"[" else b"]")
        return whole.hexdigest()


def _refuse_in_inventory(fault: Fault) -> None:
    """As in every file, but a non-finite number has no digest and is refused here (decision 14)."""
    if fault.kind is FaultKind.NON_FINITE_NUMBER:
        raise RunDataError(
            "E-INVENTORY-DIGEST",
            f"inventory and manifest disagree: {fault.message}, so the inventory has no digest; restore the inventory "
            "that the run was started with",
            **fault.place,
        )
    refuse_unreadable(fault)
