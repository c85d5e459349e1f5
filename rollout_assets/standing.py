"""Which rows of an index stand, when a run is known by its rows alone: the simple fold of records.md §19.1, in columns.

The rule for single rows is `core.records.rows_only_timeline`, and `core.compare.rows.surviving` on identities; here it
is applied to a whole table (performance.md §5), a batch at a time, so that little memory beside the table is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.integer]
Flags = npt.NDArray[np.bool_]

#: The columns of `record_index` that the fold reads.
FOLD_COLUMNS: Final = ("file", "task_index", "rollout_index", "evidence")
#: Numbers below this, and below so many for each row, are small: an array has a place for each of them.
_FEW: Final = 1 << 16
_FEW_PER_ROW: Final = 2


class Fold(NamedTuple):
    """What the fold says of the rows of an index. Rows are named by their place in it, from 0.

    Attributes:
        in_sidecar: For each row, whether it is in the sidecar.
        evidence: For each row, whether it is an evidence row of the sidecar: no result and no failure.
        failures: The failures that have both indices, in order.
        last_failure: For each of `failures`, the last one in file order with the same indices.
        last_result: For each of `failures`, the last row of the output with the same indices; -1 where there is none.
    """

    in_sidecar: Flags
    evidence: Flags
    failures: Integers
    last_failure: Integers
    last_result: Integers

    def stands(self) -> Flags:
        """For each row, whether it stands."""
        stands = ~self.evidence
        stands[self.failures[(self.last_failure != self.failures) | (self.last_result >= 0)]] = False
        return stands


def fold_index(index: pa.Table) -> Fold:
    """Fold the rows of a table `record_index` (at least its `FOLD_COLUMNS`).

    Every row of the output stands. Of the failures of a (task index, rollout index) only the last in file order stands,
    and none when the output has that pair. Rows that lack an index are all kept; evidence rows never stand.
    """
    rows = len(index)
    paired = _paired(index)
    row_type = np.min_scalar_type(-1 - rows)
    last_failure, last_result = np.full(paired.size, -1, row_type), np.full(paired.size, -1, row_type)
    in_sidecar, evidence = np.empty(rows, np.bool_), np.empty(rows, np.bool_)
    failures, failed_pairs = [], []
    start = 0
    for batch in paired.table.to_batches():
        here = slice(start, start + len(batch))
        in_sidecar[here] = is_category(batch["file"], "failures")
        np.logical_and(in_sidecar[here], flags(batch["evidence"]), out=evidence[here])
        pair, row = paired.pair(batch), np.arange(start, start + len(batch), dtype=row_type)
        is_result, is_failure = ~in_sidecar[here], in_sidecar[here] & ~evidence[here]
        if pair.null_count:
            identified = flags(pair.is_valid())
            is_result &= identified
            is_failure &= identified
        number = pair.fill_null(0).to_numpy()
        # Of several rows that are put into one place the last one stays.
        if is_result.all():
            last_result[number] = row  # nearly all batches of an index
        else:
            last_result[number[is_result]] = row[is_result]
            failures.append(row[is_failure])
            failed_pairs.append(number[is_failure])
            last_failure[failed_pairs[-1]] = failures[-1]
        start += len(batch)
    number = np.concatenate(failed_pairs) if failed_pairs else np.zeros(0, np.int64)
    return Fold(
        in_sidecar,
        evidence,
        np.concatenate(failures) if failures else np.zeros(0, np.int64),
        last_failure[number],
        last_result[number],
    )


class _Paired(NamedTuple):
    """A table with `file`, `evidence` and small numbers in place of (task index, rollout index)."""

    table: pa.Table
    size: int
    pair: Callable[[pa.RecordBatch], pa.Array]


def _paired(index: pa.Table) -> _Paired:
    """Equal pairs have one number, below `size`; null where either half is."""
    tasks, rollouts = _small(index["task_index"]), _small(index["rollout_index"])
    table = (
        index.select(["file", "evidence"]).append_column("task", tasks.column).append_column("rollout", rollouts.column)
    )

    def pair(batch: pa.RecordBatch) -> pa.Array:
        # Each half is so small that this is within 64 bits.
        task, rollout = pc.subtract(batch["task"], tasks.least), pc.subtract(batch["rollout"], rollouts.least)
        return pc.add(pc.multiply(task, rollouts.size), rollout)

    size = tasks.size * rollouts.size
    if size <= _few(len(index)):
        return _Paired(table, size, pair)
    pairs = _small(pa.chunked_array([pair(batch) for batch in table.to_batches()]))
    table = index.select(["file", "evidence"]).append_column("pair", pairs.column)
    return _Paired(table, pairs.size, lambda batch: pc.subtract(batch["pair"], pairs.least))


class _Small(NamedTuple):
    """A column of integers from `least`, `size` of them at most."""

    column: pa.ChunkedArray
    least: int
    size: int


def _small(column: pa.ChunkedArray) -> _Small:
    """The column, or if its integers are far apart, small numbers in their place: equal ones have one number."""
    least, greatest = pc.min_max(column).as_py().values()
    if least is None:
        return _Small(column, 0, 0)
    size = greatest - least + 1
    if size <= _few(len(column)):
        return _Small(column, least, size)
    encoded = column.combine_chunks().dictionary_encode()  # of many chunks at once it takes ten times as long
    return _Small(pa.chunked_array([encoded.indices.cast(pa.int64())]), 0, len(encoded.dictionary))


def _few(rows: int) -> int:
    return _FEW + _FEW_PER_ROW * rows


def flags(array: pa.Array) -> Flags:
    """An array of booleans, false where it is null."""
    if not array.true_count:
        return np.zeros(len(array), np.bool_)
    values: Flags = array.fill_null(False).to_numpy(zero_copy_only=False)
    return values


def is_category(array: pa.DictionaryArray, category: str) -> Flags:
    """Which elements of an array of categories are a certain one."""
    values: Flags = array.indices.to_numpy() == array.dictionary.index(category).as_py()
    return values
