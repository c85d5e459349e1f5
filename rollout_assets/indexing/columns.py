"""Columns of the index for many rows at once.

The engine gives, for each field, the distinct values and which of them each row has. A rule is applied once to each
combination of the fields that it reads, and the results are handed out to the rows. For values of the usual types some
rules are little more than a copy: these columns are made at once (`_AT_ONCE`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.core.compare.digest import digest_of_input
from rollout_assets.core.compare.keys import ALL_KEYS, TASK_INDEX
from rollout_assets.core.jsonl.engine import FIELDS
from rollout_assets.core.records.paths import File
from rollout_assets.distinct import Codes, distinct_rows
from rollout_assets.indexing.records import RESULT_COSTS, RULES, Fields, Rule
from rollout_assets.tables import RECORD_INDEX, key_column

_NUMBER_OF_FIELD: Final = {".".join(path): number for number, path in enumerate(FIELDS)}


class Column:
    """The values of one field in some rows.

    Attributes:
        path: The names that lead to the field.
        codes: For each row the place of its value in `values`; the last place stands for rows without the field.
        values: The distinct values.
    """

    def __init__(self, path: tuple[str, ...], codes: bytes, values: bytes) -> None:
        self.path = path
        self.values: list[Any] = msgspec.json.decode(values)
        found = np.frombuffer(codes, np.int32)
        self.codes: Codes = np.where(found < 0, len(self.values), found).astype(np.int64)

    @cached_property
    def types(self) -> set[type]:
        """The types of the values."""
        return set(map(type, self.values))

    def given(self, values: pa.Array) -> pa.Array:
        """Of an array with one element for each distinct value, the element of each row; null without the field."""
        return pa.concat_arrays([values, pa.nulls(1, values.type)]).take(pa.array(self.codes))

    def put(self, row: Fields, code: int) -> None:
        """Put a value in its place in a row, unless it is the one of rows without the field."""
        if code < len(self.values):
            *above, name = self.path
            for outer in above:
                row = row.setdefault(outer, {})
            row[name] = self.values[code]


def record_table(file: File, places: bytes, fields: list[tuple[bytes, bytes] | None]) -> pa.Table:
    """The table `record_index` of rows of the results file that an engine has taken in (`Engine.take`)."""
    lines = np.frombuffer(places, np.int64).reshape(-1, 3)
    columns = {number: Column(FIELDS[number], *found) for number, found in enumerate(fields) if found is not None}
    count = len(lines)
    spends, final = RESULT_COSTS
    arrays = {
        "file": _repeated(file, count, "file"),
        "line": pa.array(lines[:, 0]),
        "offset": pa.array(lines[:, 1]),
        "length": pa.array(lines[:, 2]),
        "spends_attempt": _repeated(spends, count, "spends_attempt"),
        "final": _repeated(final, count, "final"),
    }
    for rule in RULES:
        read = [columns[number] for name in rule.reads if (number := _NUMBER_OF_FIELD[name]) in columns]
        arrays[rule.column] = _applied(rule, read, count)
    schema = RECORD_INDEX.schema
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _applied(rule: Rule, read: list[Column], count: int) -> pa.Array:
    """The column of a rule."""
    if not read:
        return _repeated(rule.value({}), count, rule.column)
    at_once = _AT_ONCE.get(rule.column)
    if at_once is not None and (array := at_once(*read)) is not None:
        return array
    combinations, codes = _combinations(read)
    values = []
    for combination in combinations:
        row: Fields = {}
        for column, code in zip(read, combination, strict=True):
            column.put(row, code)
        values.append(rule.value(row))
    return _handed_out(values, codes, rule.column)


def _combinations(columns: list[Column]) -> tuple[list[tuple[int, ...]], Codes]:
    """The distinct combinations of codes in some columns, and for each row which one it has."""
    if len(columns) == 1:
        (column,) = columns
        return [(code,) for code in range(len(column.values) + 1)], column.codes
    read = ((column.codes, len(column.values) + 1) for column in columns)
    codes, first = distinct_rows(read, len(columns[0].codes))
    return list(zip(*(column.codes[first].tolist() for column in columns), strict=True)), codes


def _handed_out(values: list[Any], codes: Codes, column: str) -> pa.Array:
    """The value of each row, given the distinct ones."""
    kind = _TYPES[column]
    if pa.types.is_dictionary(kind):
        distinct = pa.array(values, kind.value_type).dictionary_encode()
        indices = distinct.indices.take(pa.array(codes)).cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, distinct.dictionary)
    return pa.array(values, kind).take(pa.array(codes))


def _repeated(value: Any, count: int, column: str) -> pa.Array:
    """A column that has one value in all rows."""
    kind = _TYPES[column]
    if value is None:
        return pa.nulls(count, kind)
    if pa.types.is_dictionary(kind):
        indices = pa.array(np.zeros(count, np.int32), kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array([value], kind.value_type))
    return pa.repeat(pa.scalar(value, kind), count)


_TYPES: Final = {column.name: column.type for column in RECORD_INDEX.columns}


# ---- columns that are made at once ----
# Each gets the fields of its rule that are there, and gives None where their values are not of the type it is for. What
# it gives is what the rule of its column in `records.RULES` gives; a test holds each of them to that.


def _integers(*read: Column) -> pa.Array | None:
    """Integers are themselves; the engine vouches for none that needs more than 64 bits."""
    (column,) = read
    return column.given(pa.array(column.values, pa.int64())) if column.types == {int} else None


def _texts(*read: Column) -> pa.Array | None:
    """Texts are themselves."""
    (column,) = read
    return column.given(pa.array(column.values, pa.string())) if column.types == {str} else None


def _index_labels(*read: Column) -> pa.Array | None:
    """The label of an integer is its digits."""
    integers = _integers(*read)
    return None if integers is None else integers.cast(pa.string())


def _rollout_ids(*read: Column) -> pa.Array | None:
    """`<task index>-<rollout index>`, where no row has an id of its own and all have both."""
    if [column.path for column in read] != [("_ng_task_index",), ("_ng_rollout_index",)]:
        return None
    task, rollout = map(_integers, read)
    if task is None or rollout is None or task.null_count or rollout.null_count or min(read[0].values) < 0:
        return None
    return pc.binary_join_element_wise(task.cast(pa.string()), rollout.cast(pa.string()), "-")


def _tasksets(*read: Column) -> pa.Array | None:
    """Only objects name a taskset."""
    if any(dict in column.types for column in read):
        return None
    return _repeated(None, len(read[0].codes), "tasksets")


def _digests(*read: Column) -> pa.Array | None:
    """Inputs are many and large: they are not put into rows first."""
    (column,) = read
    return column.given(pa.array([digest_of_input(value) for value in column.values], pa.string()))


def _seconds(*read: Column) -> pa.Array | None:
    """Positive times are themselves, where all rows have one."""
    column = read[0]
    if column.path != ("elapsed_seconds",) or column.types != {float} or min(column.values) <= 0:
        return None
    seconds = column.given(pa.array(column.values, pa.float64()))
    return None if seconds.null_count else seconds


_AT_ONCE: Final[dict[str, Callable[..., pa.Array | None]]] = {
    **dict.fromkeys(("task_index", "rollout_index", "attempt_index", "input_tokens", "output_tokens"), _integers),
    **{key_column(key): _texts for key in ALL_KEYS if key != TASK_INDEX},
    key_column(TASK_INDEX): _index_labels,
    "rollout_id": _rollout_ids,
    "tasksets": _tasksets,
    "elapsed_seconds": _seconds,
    "input_digest": _digests,
}
