"""Comparing a run with its baseline from the store: choosing the baseline, the result, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from upath import UPath

from rollout_assets.core.compare import (
    CompareResult,
    compare_facts,
    render_markdown,
    render_report,
    roots_for,
    row_reader,
    summary_dict,
)
from rollout_assets.core.compare.classify import TaskComparison
from rollout_assets.core.compare.compare import WholeRow
from rollout_assets.core.compare.sides import TaskSide
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_json, write_text
from rollout_assets.facts_table import standing_facts
from rollout_assets.policy import task_key_problem
from rollout_assets.store import Store
from rollout_assets.tables import COMPARISON_REPORT

#: Runs that are tried as one baseline before it counts as unusable: the cost must not grow with the number of runs.
MOST_TRIED = 10


@dataclass(frozen=True)
class Comparison:
    """A run against one baseline."""

    baseline: str
    result: CompareResult


@dataclass(frozen=True)
class PassedOver:
    """A run that could have been the baseline, and why it is not."""

    baseline: str
    reason: str


@dataclass(frozen=True)
class Against:
    """What came of one baseline of a run.

    Attributes:
        wanted: The baseline as the policy has it: `previous`, `first` or a run key.
        comparison: The comparison with the first run that could serve; None when there was none.
        passed_over: The runs before it that could not, and why.
    """

    wanted: str
    comparison: Comparison | None
    passed_over: tuple[PassedOver, ...] = ()


def compare_run(store: Store, run: str, baselines: Mapping[str, Iterable[str]], *, key: str | None) -> list[Against]:
    """Compare a run with each of its baselines, and for each of them with the first run that can serve.

    Args:
        store: Where the tables of all runs lie.
        run: Run key of the candidate (the new side).
        baselines: For each baseline, the run keys that may serve as the old side, best first; of these, `MOST_TRIED`
            are tried.
        key: The task key to use; found when None, a fallback key where no row names its task (compare.md, decision 10).

    Returns:
        What came of each baseline, in order. Two that stand for the same run share one comparison.

    Raises:
        RunDataError: The run itself cannot be used, or the key is none of the index.
    """
    problem = None if key is None else task_key_problem(key)
    if problem is not None:
        raise RunDataError("E-NO-KEY", problem)
    new = standing_facts(store, run)
    tried: dict[str, Comparison | PassedOver] = {}
    outcomes = []
    for wanted, candidates in baselines.items():
        passed_over: list[PassedOver] = []
        for baseline in islice(candidates, MOST_TRIED):
            if baseline not in tried:
                tried[baseline] = _compare(store, baseline, run, new, key)
            outcome = tried[baseline]
            if isinstance(outcome, Comparison):
                outcomes.append(Against(wanted, outcome, tuple(passed_over)))
                break
            passed_over.append(outcome)
        else:
            outcomes.append(Against(wanted, None, tuple(passed_over)))
    return outcomes


def comparisons_of(outcomes: Iterable[Against]) -> list[Comparison]:
    """The comparisons that were made, each once."""
    made = (outcome.comparison for outcome in outcomes if outcome.comparison is not None)
    return list({comparison.baseline: comparison for comparison in made}.values())


def comparison_table(comparisons: Iterable[Comparison]) -> pa.Table:
    """The table `comparison_report`; without a comparison it is empty."""
    return COMPARISON_REPORT.build(
        [_record(comparison.baseline, task) for comparison in comparisons for task in comparison.result.tasks]
    )


def _compare(store: Store, baseline: str, run: str, new: FactTable, key: str | None) -> Comparison | PassedOver:
    try:
        old = standing_facts(store, baseline, pool=new.pool, allow_gone=True)
        result = compare_facts(
            old,
            new,
            key,
            fallback="auto",
            old_whole_row=_row_reader(store, baseline),
            new_whole_row=_row_reader(store, run),
        )
    except RunDataError as error:
        return PassedOver(baseline, str(error))
    return Comparison(baseline, result)


@dataclass(frozen=True)
class Reports:
    """The report of a comparison: its Markdown, and the files it was written to."""

    markdown: str
    markdown_path: Path | UPath
    json_path: Path | UPath


def write_reports(store: Store, run: str, comparison: Comparison) -> Reports:
    """Write the report as text, Markdown and JSON."""
    result, baseline = comparison.result, comparison.baseline
    old_roots, new_roots = roots_for(store.output_path(baseline)), roots_for(store.output_path(run))
    markdown = render_markdown(result, old_roots=old_roots, new_roots=new_roots)
    text = render_report(result, old_roots=old_roots, new_roots=new_roots)
    reports = Reports(markdown, store.report_path(run, baseline, ".md"), store.report_path(run, baseline, ".json"))
    write_text(reports.markdown_path, markdown)
    write_text(store.report_path(run, baseline, ".txt"), text)
    write_json(reports.json_path, summary_dict(result, old_path=baseline, new_path=run))
    return reports


def _row_reader(store: Store, key: str) -> WholeRow | None:
    """Reads rows of a run again, for verifier output; None when the run is gone and only its tables are left."""
    output = store.output_path(key)
    return row_reader(output) if output.is_file() else None


def _record(baseline: str, task: TaskComparison) -> dict[str, Any]:
    return {
        "baseline": baseline,
        "task": task.task,
        "category": task.category,
        "winner": task.winner,
        "difference": task.difference,
        "inputs": task.inputs,
        **_side_columns("old", task.old),
        **_side_columns("new", task.new),
    }


def _side_columns(name: str, side: TaskSide | None) -> dict[str, Any]:
    if side is None:
        return {}
    return {
        f"{name}_rows": side.rows,
        f"{name}_reward": side.reward,
        f"{name}_masked": side.masked,
        f"{name}_agent_error": side.agent_error,
        f"{name}_failure_kind": side.failure_kind,
        f"{name}_file": side.worst.file,
        f"{name}_line": side.worst.line,
        f"{name}_offset": side.worst.offset,
    }
