"""Comparing two outputs on disk, of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import msgspec

from rollout_assets.core.compare.compare import CompareResult, compare_facts
from rollout_assets.core.compare.digest import inventory_digest
from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.fold import load_facts
from rollout_assets.core.compare.reread import row_reader
from rollout_assets.core.compare.rows import Attempt, StrPath, attempt_key
from rollout_assets.core.compare.table import FactTable, LabelPool
from rollout_assets.core.compare.task_key import Fallback
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl.lines import read_lines
from rollout_assets.core.jsonl.parse import parse_line
from rollout_assets.core.records.paths import materialized_path_for


class _InventoryFields(TypedDict, total=False):
    """What is read of an inventory row; the rest is skipped."""

    _ng_task_index: Any
    _ng_rollout_index: Any
    responses_create_params: Any
    task_input: Any


_decode = msgspec.json.Decoder(_InventoryFields).decode


def compare_files(
    old_path: StrPath, new_path: StrPath, key: str | None = None, *, fallback: Fallback = "auto"
) -> CompareResult:
    """Compare two outputs with their sidecars, one row in memory at a time.

    Where both have an inventory beside them, the inputs that prove tasks to be the same are those of the inventories.

    Args:
        old_path: The output of the reference side.
        new_path: The output of the candidate side.
        key: Task key of both sides; found when None.
        fallback: Whether tasks that no candidate names may be known by a fallback key (decision 10).

    Raises:
        CompareInputError: A file cannot be read, or the rows cannot be compared.
    """
    pool = LabelPool()
    old, new = load_facts(old_path, key=key, pool=pool), load_facts(new_path, key=key, pool=pool)
    note = use_inventories(old, new)
    return compare_facts(
        old,
        new,
        key,
        fallback=fallback,
        old_whole_row=row_reader(old_path),
        new_whole_row=row_reader(new_path),
        notes=[] if note is None else [note],
    )


def use_inventories(old: FactTable, new: FactTable) -> str | None:
    """Replace the input digests of two sides by those of their inventories, if both have one (decision 11).

    Rows that an inventory does not list have no digest then: digests of rows and of inventories are never mixed.

    Returns:
        A note, when an inventory was used or could not be.
    """
    inventories = [materialized_path_for(table.path) for table in (old, new) if table.path is not None]
    if len(inventories) < 2 or not all(inventory.is_file() for inventory in inventories):
        return None
    try:
        digests = [dict(_digests(inventory)) for inventory in inventories]
    except RunDataError as error:
        return f"inputs are those of the rows, since an inventory cannot be read: {error}"
    for table, of_attempt in zip((old, new), digests, strict=True):
        for row in range(len(table)):
            identity = table.attempt(row)
            table.set_input_digest(row, None if identity is None else of_attempt.get(identity))
    return "inputs are those of the inventories"


def _digests(inventory: StrPath) -> Iterator[tuple[Attempt, str]]:
    for line in read_lines(inventory):
        if line.is_blank:
            continue
        row = _inventory_row(line.data)
        if row is None:
            raise CompareInputError("E-JSON", "no JSON object", path=inventory, line=line.number, offset=line.offset)
        identity, digest = attempt_key(row), inventory_digest(row)
        if identity is not None and digest is not None:
            yield identity, digest


def _inventory_row(data: bytes) -> dict[str, Any] | None:
    try:
        return dict(_decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return parse_line(data).row
