"""Row facts from stored tables: comparing reads the index, never the files again."""

from __future__ import annotations

import json
from binascii import unhexlify
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.core.compare.facts import RowFacts
from rollout_assets.core.compare.fold import failure_facts
from rollout_assets.core.compare.keys import ALL_KEYS, TASK_INDEX
from rollout_assets.core.compare.table import FactColumns, FactTable, LabelPool, Signals
from rollout_assets.distinct import distinct_rows
from rollout_assets.standing import Flags, is_category
from rollout_assets.store import Store
from rollout_assets.tables import key_column

Integers = npt.NDArray[np.int64]

_KEY_COLUMNS = [key_column(key) for key in ALL_KEYS]
#: Fields of `RowFacts` that are columns of the same name.
_PLAIN = [name for name in RowFacts._fields if name not in {"labels", "tasksets"}]
#: All columns of the index that facts are made of.
_FACT_COLUMNS = [*_PLAIN, *_KEY_COLUMNS, "tasksets"]
_DIGEST_BYTES = 32


def standing_facts(store: Store, key: str, *, pool: LabelPool | None = None, allow_gone: bool = False) -> FactTable:
    """The facts of the rows of a run that stand: output rows, then failures as masked rows without reward.

    Raises:
        RunDataError: when the guard refuses the run, or a table is missing.
    """
    index = store.read_table("record_index", key, _FACT_COLUMNS, allow_gone=allow_gone)
    outcomes = store.read_table("attempt_outcomes", key, ["file", "line", "selected"], allow_gone=allow_gone)
    standing = np.isin(_places(index), _places(outcomes.filter(outcomes["selected"])))
    return fact_table(index.filter(pa.array(standing)), pool)


def _places(table: pa.Table) -> Integers:
    """File and line of each row in one number."""
    parts = [2 * batch["line"].to_numpy() + is_category(batch["file"], "failures") for batch in table.to_batches()]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def fact_table(index: pa.Table, pool: LabelPool | None = None) -> FactTable:
    """The facts of rows of a table `record_index`, failures as masked rows without reward; all columns at once."""
    pool = LabelPool() if pool is None else pool
    index = index.select(_FACT_COLUMNS).unify_dictionaries()
    numbers, examples = _distinct_signals(index)
    return FactTable.of_columns(
        FactColumns(
            lines=index["line"].to_numpy(),
            offsets=index["offset"].to_numpy(),
            lengths=index["length"].to_numpy(),
            task_indices=_integers(index["task_index"]),
            input_tokens=_integers(index["input_tokens"]),
            output_tokens=_integers(index["output_tokens"]),
            rewards=pc.fill_null(index["reward"], 0.0).to_numpy(),
            elapsed_seconds=pc.fill_null(index["elapsed_seconds"], 0.0).to_numpy(),
            input_digests=b"".join(map(_digests, index["input_digest"].chunks)),
            labels={
                place: _pool_numbers(index[column], pool)
                for place, column in enumerate(_KEY_COLUMNS)
                if ALL_KEYS[place] != TASK_INDEX and index[column].null_count < len(index)
            },
            signals=numbers,
            examples=list(standing_rows(index.take(examples))),
        ),
        pool,
    )


def standing_rows(index: pa.Table) -> Iterator[RowFacts]:
    """The facts of rows of a table `record_index`, failures as masked rows without reward; row by row."""
    return (failure_facts(row) if row.file == "failures" else row for row in facts_of(index))


def facts_of(index: pa.Table) -> Iterator[RowFacts]:
    """The facts of every row of a `record_index` table, in its order."""
    plain = {name: index[name].to_pylist() for name in _PLAIN}
    labels = zip(*(index[name].to_pylist() for name in _KEY_COLUMNS), strict=True)
    tasksets = [None if text is None else json.loads(text) for text in index["tasksets"].to_pylist()]
    for label, taskset, values in zip(labels, tasksets, zip(*plain.values(), strict=True), strict=True):
        yield RowFacts(labels=tuple(label), tasksets=taskset, **dict(zip(plain, values, strict=True)))


def _distinct_signals(index: pa.Table) -> tuple[Integers, Integers]:
    """Rows that agree in all `Signals` get one number; for each number the first row that has it."""
    present = (name for name in Signals._fields if index[name].null_count < len(index))
    return distinct_rows((_codes(index[name]) for name in present), len(index))


def _codes(column: pa.ChunkedArray) -> tuple[Integers, int]:
    """For each row the number of its value, null being one of them, and how many there may be."""
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes: Integers = array.indices.fill_null(-1).to_numpy().astype(np.int64)
    if not array.null_count:
        return codes, len(array.dictionary)
    return codes + 1, len(array.dictionary) + 1


def _integers(column: pa.ChunkedArray) -> tuple[Integers, Flags]:
    """A column of integers, 0 where it is null, and where it is not."""
    return pc.fill_null(column, 0).to_numpy(), column.is_valid().to_numpy()


def _pool_numbers(column: pa.ChunkedArray, pool: LabelPool) -> npt.NDArray[np.uint32]:
    """For each row the number of its label in the pool."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = np.array([0, *map(pool.number, encoded.dictionary.to_pylist())], np.uint32)
    given: npt.NDArray[np.uint32] = numbers[encoded.indices.fill_null(-1).to_numpy() + 1]
    return given


def _digests(texts: pa.Array) -> bytes:
    """Digests as bytes, zeros where there is none."""
    if not len(texts):
        return b""
    texts = texts.fill_null("00" * _DIGEST_BYTES)
    _, offsets, characters = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if (np.diff(places) != 2 * _DIGEST_BYTES).any():
        raise ValueError(f"an input digest has {2 * _DIGEST_BYTES} hexadecimal digits")
    return unhexlify(memoryview(characters)[places[0] : places[-1]])
