"""Folding an index into outcomes: which saved row of each attempt stands, and why the others do not.

This is the fold for a run that is known by its rows alone (records.md §19.1): of the failures of a rollout the last one
in file order stands, and none once the rollout was scored. It reads the stored index, never the files.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from rollout_assets.tables import ATTEMPT_OUTCOMES

_IDENTITY = ["task_index", "rollout_index"]
_COPIED = [
    "file",
    "line",
    "offset",
    "length",
    "rollout_id",
    *_IDENTITY,
    "attempt_index",
    "reward",
    "mask_reason",
    "failure_class",
]


def fold_rows(index: pa.Table) -> pa.Table:
    """The table `attempt_outcomes` of a `record_index` table."""
    rows = index.select([*_COPIED, "evidence", "failure_terminal", "counts_as_zero"]).to_pandas(
        types_mapper=pd.ArrowDtype
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
    reasons[superseded] = "superseded by the failure in line " + _text(line_of_failure[superseded])
    scored = failures & identified & line_of_score.notna()
    reasons[scored] = "the rollout was scored in line " + _text(line_of_score[scored]) + " of the results"

    outcomes = rows[_COPIED].copy()
    outcomes["disposition"] = in_sidecar.map({True: "failure", False: "success"}).where(~evidence)
    outcomes.loc[scored, "disposition"] = "success"
    outcomes["selected"] = reasons.isna()
    outcomes["dropped_because"] = reasons
    outcomes["counted"] = failures & ~rows["failure_terminal"].astype(bool) & ~rows["counts_as_zero"].astype(bool)
    outcomes["final"] = (
        ~in_sidecar | rows["failure_terminal"].astype(bool) | rows["counts_as_zero"].astype(bool)
    ) & reasons.isna()
    return pa.Table.from_pandas(outcomes, schema=ATTEMPT_OUTCOMES.schema, preserve_index=False)


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
