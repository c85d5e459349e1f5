"""The stored tables: their names, columns, types and meaning. A column is declared here and nowhere else.

Every table is a set of Parquet files, one per run, at `<store>/<table>/<run key>.parquet`. The schema version is
written into each file; reading a file of another version is refused with a message that says how to rebuild it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rollout_assets.core.compare.keys import ALL_KEYS

#: Raised by hand whenever a column changes its name, type or meaning.
SCHEMA_VERSION = 1
SCHEMA_VERSION_KEY = b"rollout_assets.schema_version"

_CATEGORY = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Column:
    """One column: its name, Arrow type, meaning for a reader, and whether it may hold nulls."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = True


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


def _key_columns() -> tuple[Column, ...]:
    return tuple(
        Column(key_column(key), pa.string(), f"task label under the key `{key}`; null where the row lacks it")
        for key in ALL_KEYS
    )


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
        Column("rollout_id", pa.string(), "logical rollout id; null where the row names none"),
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
        Column("elapsed_seconds", pa.float64(), "time the rollout took"),
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
        _FILE,
        _LINE,
        _OFFSET,
        _LENGTH,
        Column("rollout_id", pa.string(), "logical rollout id; null where the row names none"),
        Column("task", pa.string(), "task label under the first task key that the row carries"),
        Column("task_index", pa.int64(), "`_ng_task_index`"),
        Column("rollout_index", pa.int64(), "`_ng_rollout_index`"),
        Column("attempt_index", pa.int64(), "attempt number"),
        Column("disposition", _CATEGORY, "of the rollout: `success`, `failure`, `omitted` or `unknown`"),
        Column("selected", pa.bool_(), "whether this outcome stands", nullable=False),
        Column("dropped_because", pa.string(), "why it does not stand; null when it does"),
        Column("counted", pa.bool_(), "whether it spends the failure budget", nullable=False),
        Column("final", pa.bool_(), "whether no resume would change it by itself", nullable=False),
        Column("reward", pa.float64(), "the reward of the row"),
        Column("mask_reason", pa.string(), "why the row does not count in a comparison"),
        Column("failure_class", _CATEGORY, "`_ng_failure_class`"),
    ),
)

_SIDE_COLUMNS = (
    Column("rows", pa.int64(), "rows of the task", nullable=False),
    Column("reward_rows", pa.int64(), "rows that contribute to the mean", nullable=False),
    Column("reward_mean", pa.float64(), "mean of the finite rewards, masked rows included"),
)

TASK_SIDES = Table(
    "task_sides",
    "One row per task of one run: what its standing rows say together.",
    (
        Column("task", pa.string(), "task label", nullable=False),
        Column("task_key", _CATEGORY, "the key that names tasks in this run"),
        Column("key_source", _CATEGORY, "how the key was found: `detected`, `asked for` or `fallback`"),
        Column("taskset", _CATEGORY, "taskset, where the id names one"),
        Column("input_digest", pa.string(), "digest of the input, null when rows of the task differ in it"),
        *_SIDE_COLUMNS,
        Column("reward_min", pa.float64(), "least finite reward"),
        Column("reward_max", pa.float64(), "greatest finite reward"),
        Column("reward_variance", pa.float64(), "sample variance of the finite rewards; null below two"),
        Column("masked", pa.string(), "why the task is masked; null when it is measured"),
        Column("masked_rows", pa.int64(), "rows of the task that are masked", nullable=False),
        Column("agent_error", pa.string(), "first agent error"),
        Column("failure_kind", pa.string(), "failure kind of a scored row"),
        Column("input_tokens", pa.int64(), "sum over rows that report it"),
        Column("output_tokens", pa.int64(), "sum over rows that report it"),
        Column("elapsed_seconds", pa.float64(), "sum over rows that report it"),
        Column("worst_file", _CATEGORY, "file of the row with the least reward"),
        Column("worst_line", pa.int64(), "its line"),
        Column("worst_offset", pa.int64(), "its byte offset"),
        Column("worst_length", pa.int64(), "its bytes"),
    ),
)


def _both_sides() -> tuple[Column, ...]:
    columns: list[Column] = []
    for side in ("old", "new"):
        columns += [
            Column(f"{side}_rows", pa.int64(), f"rows of the task in the {side} run; null when missing there"),
            Column(f"{side}_reward", pa.float64(), f"mean reward in the {side} run"),
            Column(f"{side}_masked", pa.string(), f"why the task is masked in the {side} run"),
            Column(f"{side}_agent_error", pa.string(), f"first agent error in the {side} run"),
            Column(f"{side}_failure_kind", pa.string(), f"failure kind of a scored row in the {side} run"),
            Column(f"{side}_file", _CATEGORY, f"file of the worst row in the {side} run"),
            Column(f"{side}_line", pa.int64(), "its line"),
            Column(f"{side}_offset", pa.int64(), "its byte offset"),
        ]
    return tuple(columns)


COMPARISON_REPORT = Table(
    "comparison_report",
    "One row per baseline and task: what changed from the baseline (old) to this run (new).",
    (
        Column("baseline", _CATEGORY, "run key of the baseline", nullable=False),
        Column("task", pa.string(), "task label", nullable=False),
        Column(
            "category",
            _CATEGORY,
            "`identical`, `flipped`, `flipped_agent_error`, `masked` or `missing`",
            nullable=False,
        ),
        Column("winner", _CATEGORY, "`old` or `new` for a flip"),
        Column("difference", pa.float64(), "new mean reward minus old"),
        Column(
            "inputs",
            _CATEGORY,
            "whether both sides were given the same input: `equal`, `different`, `not_distinguishable` (several tasks "
            "share it) or `unknown`; null when the task is missing on a side",
        ),
        *_both_sides(),
    ),
)

TABLES: Mapping[str, Table] = {
    table.name: table for table in (RECORD_INDEX, PRODUCER_FAULTS, ATTEMPT_OUTCOMES, TASK_SIDES, COMPARISON_REPORT)
}
