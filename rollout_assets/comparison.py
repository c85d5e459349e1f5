"""Comparing a run with its baseline from the store: choosing the baseline, the result, and its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

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
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_json, write_text
from rollout_assets.facts_table import standing_facts
from rollout_assets.store import Store
from rollout_assets.tables import COMPARISON_REPORT


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


def compare_run(
    store: Store, run: str, candidates: Iterable[str], *, key: str | None, fallback: bool = True
) -> tuple[Comparison | None, list[PassedOver]]:
    """Compare a run with the first of these baselines that can be used.

    Args:
        store: Where the tables of all runs lie.
        run: Run key of the candidate (the new side).
        candidates: Run keys that may serve as the old side, best first.
        key: The task key to use; found when None.
        fallback: Whether tasks may be known by a fallback key (compare.md, decision 10).

    Returns:
        The comparison, or None when no baseline can be used, and every baseline that was passed over, with its reason.

    Raises:
        RunDataError: The run itself cannot be used.
    """
    new = standing_facts(store, run)
    passed_over: list[PassedOver] = []
    for baseline in candidates:
        try:
            old = standing_facts(store, baseline, pool=new.pool, allow_gone=True)
            result = compare_facts(
                old,
                new,
                key,
                fallback="auto" if fallback else "off",
                old_whole_row=_row_reader(store, baseline),
                new_whole_row=_row_reader(store, run),
            )
            return Comparison(baseline, result), passed_over
        except RunDataError as error:
            passed_over.append(PassedOver(baseline, str(error)))
    return None, passed_over


def comparison_table(comparison: Comparison | None) -> pa.Table:
    """The table `comparison_report`; without a comparison it is empty."""
    tasks = [] if comparison is None else comparison.result.tasks
    baseline = "" if comparison is None else comparison.baseline
    return COMPARISON_REPORT.build([_record(baseline, task) for task in tasks])


@dataclass(frozen=True)
class Reports:
    """The report of a comparison: its Markdown, and the files it was written to."""

    markdown: str
    markdown_path: Path
    json_path: Path


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
