"""The stored tables: their names, columns, types and meaning. A column is declared here and nowhere else.

Every table is a set of Parquet files, one per run, at `<store>/<table>/<run key>.parquet`. The schema version is
written into each file; reading a file of another version is refused with a message that says how to rebuild it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rollout_assets.core.compare.keys import ALL_KEYS

#: Raised by hand whenever a column changes its name, type or meaning.
SCHEMA_VERSION = 1
SCHEMA_VERSION_KEY = b"rollout_assets.schema_version"

_CATEGORY = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Column:
    """One column: its name, Arrow type, meaning for a reader, and whether it may hold nulls.

    `made_of` names the columns of other tables that its values are made of, each as (table, column). `repeats` says
    whether rows share values, as a rule: then they are written as a dictionary.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = True
    made_of: tuple[tuple[str, str], ...] = ()
    repeats: bool = True


@dataclass(frozen=True)
class Table:
    """One stored table."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the schema version in its metadata."""
        fields = [pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns]
        return pa.schema(fields, metadata={SCHEMA_VERSION_KEY: str(SCHEMA_VERSION)})

    @property
    def parquet_options(self) -> dict[str, Any]:
        """How `pyarrow.parquet` writes it: small, and fast to write."""
        integers = {c.name: "DELTA_BINARY_PACKED" for c in self.columns if pa.types.is_integer(c.type)}
        repeated = [c.name for c in self.columns if c.repeats and c.name not in integers]
        return {"compression": "zstd", "use_dictionary": repeated, "column_encoding": integers}

    def build(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """An Arrow table of these rows; a key that is no column is an error, a missing nullable one is null."""
        names = {column.name for column in self.columns}
        for row in rows:
            if not row.keys() <= names:
                raise KeyError(f"no column of {self.name}: {sorted(row.keys() - names)}")
        return pa.Table.from_pydict(
            {column.name: [row.get(column.name) for row in rows] for column in self.columns}, schema=self.schema
        )


def key_column(key: str) -> str:
    """The column that holds the label of a task key: `verifier_metadata.task_id` -> `key_verifier_metadata_task_id`."""
    return "key_" + key.strip("_").replace(".", "_")


#: The columns that hold task labels, and those that name an attempt.
_KEYS = tuple(map(key_column, ALL_KEYS))
_ATTEMPT = ("task_index", "rollout_index", "attempt_index")


def _key_columns() -> tuple[Column, ...]:
    return tuple(
        Column(key_column(key), pa.string(), f"task label under the key `{key}`; null where the row lacks it")
        for key in ALL_KEYS
    )


def _indexed(*columns: str) -> tuple[tuple[str, str], ...]:
    """Columns of the index."""
    return tuple(("record_index", column) for column in columns)


def _standing(*columns: str) -> tuple[tuple[str, str], ...]:
    """Columns of the index, over the rows that stand."""
    return (*_indexed(*columns), ("attempt_outcomes", "selected"))


_FILE = Column("file", _CATEGORY, "`output` (results) or `failures` (sidecar)", nullable=False)
_LINE = Column("line", pa.int64(), "line number from 1, blank lines counted", nullable=False)
_OFFSET = Column("offset", pa.int64(), "byte offset of the line in its file", nullable=False)
_LENGTH = Column("length", pa.int64(), "bytes of the line, with its line feed", nullable=False)

RECORD_INDEX = Table(
    "record_index",
    "One row per readable line of the results file and its failures sidecar: where it is and what rules read in it.",
    (
        _FILE,
        _LINE,
        _OFFSET,
        _LENGTH,
        Column("rollout_id", pa.string(), "logical rollout id; null where the row names none", repeats=False),
        Column("task_index", pa.int64(), "`_ng_task_index`"),
        Column("rollout_index", pa.int64(), "`_ng_rollout_index`, the repeat of the task"),
        Column("attempt_index", pa.int64(), "`_ng_attempt_index`"),
        Column("run_id", _CATEGORY, "`_ng_run_id` of the run that wrote the row"),
        *_key_columns(),
        Column("tasksets", _CATEGORY, "JSON object: task key -> taskset, for ids that name one"),
        Column("input_digest", pa.string(), "SHA-256 of the row's own input, normalised"),
        Column("reward", pa.float64(), "the reward; may be non-finite, see reward_state"),
        Column("reward_state", _CATEGORY, "`number`, `absent`, `non_finite` or `not_a_number`", nullable=False),
        Column("mask_sample", pa.bool_(), "whether `mask_sample` is truthy", nullable=False),
        Column("odd_mask_value", pa.bool_(), "`mask_sample` is truthy but not `true`", nullable=False),
        Column("mask_reason", pa.string(), "why the row does not count in a comparison; null when it counts"),
        Column("failure_class", _CATEGORY, "`_ng_failure_class`"),
        Column("failure_kind", _CATEGORY, "`failure_kind`"),
        Column("failure_terminal", pa.bool_(), "`_ng_failure_terminal`: must not be attempted again", nullable=False),
        Column("counts_as_zero", pa.bool_(), "the failure stands as a score of 0", nullable=False),
        Column("spends_attempt", pa.bool_(), "a failure that spends the failure budget of its rollout", nullable=False),
        Column("final", pa.bool_(), "no resume would change the outcome by itself, if it stands", nullable=False),
        Column("evidence", pa.bool_(), "an evidence row (`_ng_omitted_rollout`), never counted", nullable=False),
        Column("agent_error", pa.string(), "agent error, at most 120 characters"),
        Column("elapsed_seconds", pa.float64(), "time the rollout took", repeats=False),
        Column("input_tokens", pa.int64(), "`response.usage.input_tokens`"),
        Column("output_tokens", pa.int64(), "`response.usage.output_tokens`"),
        Column("model", _CATEGORY, "`response.model`"),
    ),
)

PRODUCER_FAULTS = Table(
    "producer_faults",
    "One row per fault of a line that its producer should not have written.",
    (
        _FILE,
        _LINE,
        _OFFSET,
        _LENGTH,
        Column("column", pa.int64(), "byte of the line at which the fault was seen, from 1", nullable=False),
        Column("kind", _CATEGORY, "kind of the fault", nullable=False),
        Column("message", pa.string(), "what is wrong", nullable=False),
        Column("excerpt", pa.string(), "at most 200 printable characters around the place", nullable=False),
    ),
)

ATTEMPT_OUTCOMES = Table(
    "attempt_outcomes",
    "One row per saved outcome of each attempt: whether it stands, and if not, why. This is the attempt timeline.",
    (
        *(replace(column, made_of=_indexed(column.name)) for column in (_FILE, _LINE, _OFFSET, _LENGTH)),
        Column(
            "rollout_id",
            pa.string(),
            "logical rollout id; null where the row names none",
            made_of=_indexed("rollout_id"),
        ),
        Column(
            "task", pa.string(), "task label under the first task key that the row carries", made_of=_indexed(*_KEYS)
        ),
        Column("task_index", pa.int64(), "`_ng_task_index`", made_of=_indexed("task_index")),
        Column("rollout_index", pa.int64(), "`_ng_rollout_index`", made_of=_indexed("rollout_index")),
        Column("attempt_index", pa.int64(), "attempt number", made_of=_indexed("attempt_index")),
        Column(
            "disposition",
            _CATEGORY,
            "of the rollout: `success`, `failure`, `omitted` or `unknown`",
            made_of=_indexed("file", *_ATTEMPT, "evidence"),
        ),
        Column(
            "selected",
            pa.bool_(),
            "whether this outcome stands",
            nullable=False,
            made_of=_indexed("file", "line", *_ATTEMPT, "evidence"),
        ),
        Column(
            "dropped_because",
            pa.string(),
            "why it does not stand; null when it does",
            made_of=_indexed("file", "line", *_ATTEMPT, "evidence"),
        ),
        Column(
            "counted",
            pa.bool_(),
            "whether it spends the failure budget",
            nullable=False,
            made_of=_indexed("file", "evidence", "spends_attempt"),
        ),
        Column(
            "final",
            pa.bool_(),
            "whether no resume would change it by itself",
            nullable=False,
            made_of=_indexed("final", "file", "line", *_ATTEMPT, "evidence"),
        ),
        Column("reward", pa.float64(), "the reward of the row", made_of=_indexed("reward")),
        Column(
            "mask_reason", pa.string(), "why the row does not count in a comparison", made_of=_indexed("mask_reason")
        ),
        Column("failure_class", _CATEGORY, "`_ng_failure_class`", made_of=_indexed("failure_class")),
    ),
)

#: What the task of a row, and the figures of its standing rows, are made of.
_LABEL = _standing(*_KEYS, "input_digest")
_ROWS = _standing("file", "line")
_REWARD = _standing("reward", "reward_state")
_MASK = _standing("mask_reason", "failure_kind", "failure_class")
_AGENT_ERROR = _standing("agent_error")
_FAILURE_KIND = _standing("failure_kind", "mask_reason")


def _worst(column: str) -> tuple[tuple[str, str], ...]:
    """What the place of the row with the least reward is made of."""
    return _standing(column, "reward", "reward_state")


TASK_SIDES = Table(
    "task_sides",
    "One row per task of one run: mean reward, masks, errors and tokens of its rows that stand (see attempt_outcomes).",
    (
        Column("task", pa.string(), "task label", nullable=False, made_of=_LABEL),
        Column("task_key", _CATEGORY, "the key that names tasks in this run", made_of=_LABEL),
        Column("key_source", _CATEGORY, "how the key was found: `detected`, `asked for` or `fallback`", made_of=_LABEL),
        Column("taskset", _CATEGORY, "taskset, where the id names one", made_of=_standing("tasksets")),
        Column(
            "input_digest",
            pa.string(),
            "digest of the input, null when rows of the task differ in it",
            made_of=_standing("input_digest"),
        ),
        Column("rows", pa.int64(), "rows of the task", nullable=False, made_of=_ROWS),
        Column("reward_rows", pa.int64(), "rows that contribute to the mean", nullable=False, made_of=_REWARD),
        Column("reward_mean", pa.float64(), "mean of the finite rewards, masked rows included", made_of=_REWARD),
        Column("reward_min", pa.float64(), "least finite reward", made_of=_REWARD),
        Column("reward_max", pa.float64(), "greatest finite reward", made_of=_REWARD),
        Column(
            "reward_variance",
            pa.float64(),
            "sample variance of the finite rewards; null below two",
            made_of=_REWARD,
        ),
        Column("masked", pa.string(), "why the task is masked; null when it is measured", made_of=_MASK),
        Column("masked_rows", pa.int64(), "rows of the task that are masked", nullable=False, made_of=_MASK),
        Column("agent_error", pa.string(), "first agent error", made_of=_AGENT_ERROR),
        Column("failure_kind", pa.string(), "failure kind of a scored row", made_of=_FAILURE_KIND),
        Column("input_tokens", pa.int64(), "sum over rows that report it", made_of=_standing("input_tokens")),
        Column("output_tokens", pa.int64(), "sum over rows that report it", made_of=_standing("output_tokens")),
        Column("elapsed_seconds", pa.float64(), "sum over rows that report it", made_of=_standing("elapsed_seconds")),
        Column("worst_file", _CATEGORY, "file of the row with the least reward", made_of=_worst("file")),
        Column("worst_line", pa.int64(), "its line", made_of=_worst("line")),
        Column("worst_offset", pa.int64(), "its byte offset", made_of=_worst("offset")),
        Column("worst_length", pa.int64(), "its bytes", made_of=_worst("length")),
    ),
)


def _both_sides() -> tuple[Column, ...]:
    columns: list[Column] = []
    for side in ("old", "new"):
        columns += [
            Column(
                f"{side}_rows",
                pa.int64(),
                f"rows of the task in the {side} run; null when missing there",
                made_of=_ROWS,
            ),
            Column(f"{side}_reward", pa.float64(), f"mean reward in the {side} run", made_of=_REWARD),
            Column(f"{side}_masked", pa.string(), f"why the task is masked in the {side} run", made_of=_MASK),
            Column(f"{side}_agent_error", pa.string(), f"first agent error in the {side} run", made_of=_AGENT_ERROR),
            Column(
                f"{side}_failure_kind",
                pa.string(),
                f"failure kind of a scored row in the {side} run",
                made_of=_FAILURE_KIND,
            ),
            Column(f"{side}_file", _CATEGORY, f"file of the worst row in the {side} run", made_of=_worst("file")),
            Column(f"{side}_line", pa.int64(), "its line", made_of=_worst("line")),
            Column(f"{side}_offset", pa.int64(), "its byte offset", made_of=_worst("offset")),
        ]
    return tuple(columns)


COMPARISON_REPORT = Table(
    "comparison_report",
    "One row per baseline and task: what changed from the baseline (old) to this run (new).",
    (
        Column("baseline", _CATEGORY, "run key of the baseline", nullable=False),
        Column("task", pa.string(), "task label", nullable=False, made_of=_LABEL),
        Column(
            "category",
            _CATEGORY,
            "`identical`, `flipped`, `flipped_agent_error`, `masked` or `missing`",
            nullable=False,
            made_of=(*_indexed("reward", "reward_state", "agent_error"), *_MASK),
        ),
        Column("winner", _CATEGORY, "`old` or `new` for a flip", made_of=_REWARD),
        Column("difference", pa.float64(), "new mean reward minus old", made_of=_REWARD),
        Column(
            "inputs",
            _CATEGORY,
            "whether both sides were given the same input: `equal`, `different`, `not_distinguishable` (several tasks "
            "share it) or `unknown`; null when the task is missing on a side",
            made_of=_standing("input_digest"),
        ),
        *_both_sides(),
    ),
)

TABLES: Mapping[str, Table] = {
    table.name: table for table in (RECORD_INDEX, PRODUCER_FAULTS, ATTEMPT_OUTCOMES, TASK_SIDES, COMPARISON_REPORT)
}
