"""Which saved row of each attempt of a run stands, and why the others do not: the table `attempt_outcomes`.

A run with a manifest, or with an inventory that can be imported, is read by the rules of records.md. A run that is
known by its rows alone is folded from its stored index, without reading the files again (records.md §19.1).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.core.compare.keys import ALL_KEYS
from rollout_assets.core.errors import RunDataWarning
from rollout_assets.core.records import ReadingMode, RolloutRecords, TimelineEntry, open_run, timeline
from rollout_assets.core.records.outcomes import Disposition, disposition_of
from rollout_assets.core.records.resume import Resume
from rollout_assets.core.records.timeline import mode_of
from rollout_assets.standing import fold_index
from rollout_assets.tables import ATTEMPT_OUTCOMES, key_column

#: What the timeline does not know of a row, and the index does.
_FROM_INDEX = ["task", "reward", "mask_reason"]


@dataclass(frozen=True)
class RunOutcomes:
    """The outcomes of a run: how it was read, the table `attempt_outcomes`, and its coverage where that is known.

    `records` are what the coverage counts, None without coverage.
    """

    mode: ReadingMode
    table: pa.Table
    coverage: dict[str, Any] | None
    records: RolloutRecords | None = None

    def lacking(self, *dispositions: Disposition) -> Iterator[dict[str, Any]]:
        """The expected rollouts that ended in one of these ways, in inventory order, with what a resume would do."""
        if self.records is None:
            return
        for rollout_id in self.records.expected:
            facts = self.records.newest_facts(rollout_id)
            disposition = disposition_of(facts)
            if disposition in dispositions:
                spent = self.records.failure_count(rollout_id) >= self.records.attempt_cap
                action = self.records.resume_action(rollout_id)
                yield {
                    "rollout": rollout_id,
                    "outcome": "none" if facts is None else str(disposition),
                    "failure class": facts and facts.failure_class,
                    "attempts": self.records.next_number(rollout_id),
                    "a resume would": "keep it, attempts spent" if spent and action is Resume.RUN else f"{action} it",
                }


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
    return RunOutcomes(mode_of(records), _table(timeline(records), index), records.coverage(), records)


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

    The twin of `core.records.rows_only_timeline`; the rule is in `standing.fold_index`.
    """
    fold = fold_index(index)
    stands, line = fold.stands(), index["line"].to_numpy()
    scored = fold.last_result >= 0
    evidence, superseded = np.flatnonzero(fold.evidence), ~scored & (fold.last_failure != fold.failures)
    reasons = _reasons(
        len(index),
        (evidence, pa.repeat("evidence row: no result, not an attempt", len(evidence))),
        (fold.failures[superseded], _joined("superseded by line ", line[fold.last_failure[superseded]], "")),
        (fold.failures[scored], _joined("scored by line ", line[fold.last_result[scored]], " of the output")),
    )
    dispositions = fold.in_sidecar.astype(np.int32)
    dispositions[fold.failures[scored]] = 0
    columns = {
        "disposition": pa.DictionaryArray.from_arrays(
            pa.array(dispositions, mask=fold.evidence), [Disposition.SUCCESS, Disposition.FAILURE]
        ),
        "selected": stands,
        "dropped_because": reasons,
        "counted": fold.in_sidecar & ~fold.evidence & index["spends_attempt"].to_numpy(),
        "final": stands & index["final"].to_numpy(),
    }
    rows = _with_task(index)
    schema = ATTEMPT_OUTCOMES.schema
    return pa.Table.from_arrays([columns[n] if n in columns else rows[n] for n in schema.names], schema=schema)


Rows = npt.NDArray[np.integer]


def _reasons(count: int, *given: tuple[Rows, pa.Array]) -> pa.Array:
    """A column of so many texts, null but for the given rows, which have the given texts."""
    rows = np.concatenate([rows for rows, _ in given])
    places = np.full(count, -1)
    places[rows] = np.arange(rows.size)
    return pa.concat_arrays([texts for _, texts in given]).take(pa.array(places, mask=places < 0))


def _joined(before: str, lines: Rows, behind: str) -> pa.Array:
    return pc.binary_join_element_wise(before, pa.array(lines).cast(pa.string()), behind, "")


def _with_task(index: pa.Table) -> pa.Table:
    """The index with the label of each row under the first task key that the row carries."""
    return index.append_column("task", pc.coalesce(*(index[key_column(key)] for key in ALL_KEYS)))
