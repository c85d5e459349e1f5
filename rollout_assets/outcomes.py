"""Which saved row of each attempt of a run stands, and why the others do not: the table `attempt_outcomes`.

A run with a manifest, or with an inventory that can be imported, is read by the rules of records.md. A run that is
known by its rows alone is folded from its stored index, without reading the files again (records.md §19.1).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.core.compare.keys import ALL_KEYS
from rollout_assets.core.errors import RunDataWarning
from rollout_assets.core.records import ReadingMode, TimelineEntry, open_run, timeline
from rollout_assets.core.records.timeline import mode_of
from rollout_assets.tables import ATTEMPT_OUTCOMES, key_column

_IDENTITY = ["task_index", "rollout_index"]
#: What the timeline does not know of a row, and the index does.
_FROM_INDEX = ["task", "reward", "mask_reason"]
_COPIED = [
    "file",
    "line",
    "offset",
    "length",
    "rollout_id",
    "task",
    *_IDENTITY,
    "attempt_index",
    "reward",
    "mask_reason",
    "failure_class",
]


@dataclass(frozen=True)
class RunOutcomes:
    """The outcomes of a run: how it was read, the table `attempt_outcomes`, and its coverage where that is known."""

    mode: ReadingMode
    table: pa.Table
    coverage: dict[str, Any] | None


def outcomes_of(output: Path, index: pa.Table) -> RunOutcomes:
    """Read the outcomes of a run in whatever state it was left.

    Args:
        output: The results file; only read.
        index: Its table `record_index`.

    Raises:
        RunDataError: The files of the run contradict each other, with a code of records.md §20.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunDataWarning)  # a torn last line is reported by `jsonl_strict`
        records = open_run(output)
    if records is None:
        return RunOutcomes(ReadingMode.ROWS_ONLY, fold_rows(index), None)
    return RunOutcomes(mode_of(records), _table(timeline(records), index), records.coverage())


def _table(entries: Sequence[TimelineEntry], index: pa.Table) -> pa.Table:
    """The timeline as a table, with what the index knows of each row."""
    wanted = _with_task(index).select(["file", "line", *_FROM_INDEX]).to_pylist()
    known = {(row["file"], row["line"]): row for row in wanted}
    nothing = dict.fromkeys(_FROM_INDEX)
    rows = []
    for entry in entries:
        indexed = known.get((entry.file, entry.line), nothing)
        rows.append(entry._asdict() | {name: indexed[name] for name in nothing})
    return ATTEMPT_OUTCOMES.build(rows)


def fold_rows(index: pa.Table) -> pa.Table:
    """The table `attempt_outcomes` of a run that is known by its rows alone, from its table `record_index`.

    The vectorised twin of `core.records.rows_only_timeline`: of the failures of a (task index, rollout index) the last
    one in file order stands, and none when the output has that pair.
    """
    rows = (
        _with_task(index)
        .select([*_COPIED, "evidence", "spends_attempt", "final"])
        .to_pandas(types_mapper=pd.ArrowDtype)
    )
    in_sidecar = (rows["file"] == "failures").astype(bool)
    evidence = in_sidecar & rows["evidence"].astype(bool)
    failures = in_sidecar & ~evidence
    identified = rows[_IDENTITY].notna().all(axis=1)

    scored_line = _last_line(rows[~in_sidecar & identified])
    failed_line = _last_line(rows[failures & identified])
    line_of_score = _looked_up(rows, scored_line)
    line_of_failure = _looked_up(rows, failed_line)

    reasons = pd.Series(None, index=rows.index, dtype=object)
    reasons[evidence] = "evidence row: no result, not an attempt"
    superseded = failures & identified & line_of_failure.notna() & (line_of_failure != rows["line"].astype("float64"))
    reasons[superseded] = "superseded by line " + _text(line_of_failure[superseded])
    scored = failures & identified & line_of_score.notna()
    reasons[scored] = "scored by line " + _text(line_of_score[scored]) + " of the output"

    outcomes = rows[_COPIED].copy()
    outcomes["disposition"] = in_sidecar.map({True: "failure", False: "success"}).where(~evidence)
    outcomes.loc[scored, "disposition"] = "success"
    outcomes["selected"] = reasons.isna()
    outcomes["dropped_because"] = reasons
    outcomes["counted"] = failures & rows["spends_attempt"].astype(bool)
    outcomes["final"] = rows["final"].astype(bool) & reasons.isna()
    return pa.Table.from_pandas(outcomes, schema=ATTEMPT_OUTCOMES.schema, preserve_index=False)


def _with_task(index: pa.Table) -> pa.Table:
    """The index with the label of each row under the first task key that the row carries."""
    return index.append_column("task", pc.coalesce(*(index[key_column(key)] for key in ALL_KEYS)))


def _last_line(rows: pd.DataFrame) -> pd.Series:
    """(task index, rollout index) -> the last line in file order that names it."""
    return rows.drop_duplicates(_IDENTITY, keep="last").set_index(_IDENTITY)["line"].astype("float64")


def _looked_up(rows: pd.DataFrame, lines: pd.Series) -> pd.Series:
    """For each row the line of its identity, NaN where there is none."""
    if lines.empty:
        return pd.Series(float("nan"), index=rows.index)
    return rows[_IDENTITY].join(lines.rename("found"), on=_IDENTITY)["found"].astype("float64")


def _text(lines: pd.Series) -> pd.Series:
    return lines.astype("int64").astype(str)
