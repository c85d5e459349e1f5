"""Row facts from stored tables: comparing reads the index, never the files again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from rollout_assets.core.compare.facts import RowFacts
from rollout_assets.core.compare.fold import failure_facts
from rollout_assets.core.compare.keys import ALL_KEYS
from rollout_assets.core.compare.table import FactTable, LabelPool
from rollout_assets.store import Store
from rollout_assets.tables import key_column

_KEY_COLUMNS = [key_column(key) for key in ALL_KEYS]
#: Fields of `RowFacts` that are columns of the same name.
_PLAIN = [name for name in RowFacts._fields if name not in {"labels", "tasksets"}]


def standing_facts(store: Store, key: str, *, pool: LabelPool | None = None, allow_gone: bool = False) -> FactTable:
    """The facts of the rows of a run that stand: output rows, then failures as masked rows without reward.

    Raises:
        RunDataError: when the guard refuses the run, or a table is missing.
    """
    index = store.read_table("record_index", key, allow_gone=allow_gone)
    outcomes = store.read_table("attempt_outcomes", key, ["file", "line", "selected"], allow_gone=allow_gone)
    standing = outcomes.filter(outcomes["selected"])
    places = set(zip(standing["file"].to_pylist(), standing["line"].to_pylist(), strict=True))
    rows = (facts for facts in facts_of(index) if (facts.file, facts.line) in places)
    return FactTable.of((failure_facts(row) if row.file == "failures" else row for row in rows), pool)


def facts_of(index: pa.Table) -> Iterator[RowFacts]:
    """The facts of every row of a `record_index` table, in its order."""
    plain = {name: index[name].to_pylist() for name in _PLAIN}
    labels = zip(*(index[name].to_pylist() for name in _KEY_COLUMNS), strict=True)
    tasksets = [None if text is None else json.loads(text) for text in index["tasksets"].to_pylist()]
    for label, taskset, values in zip(labels, tasksets, zip(*plain.values(), strict=True), strict=True):
        yield RowFacts(labels=tuple(label), tasksets=taskset, **dict(zip(plain, values, strict=True)))
