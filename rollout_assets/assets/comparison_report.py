"""The asset `comparison_report`: what changed from the baseline to this run."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from rollout_assets.assets.metadata import OWNERS, definition_metadata, grain, row_count, shown_table
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.baseline_compared import BASELINE_COMPARED, baseline_compared
from rollout_assets.checks.comparison_gate import COMPARISON_GATE, comparison_gate
from rollout_assets.checks.partitioned import not_judged
from rollout_assets.checks.same_tasks import SAME_TASKS, same_tasks
from rollout_assets.comparison import (
    Comparison,
    Reports,
    compare_run,
    comparison_table,
    comparisons_of,
    write_reports,
)
from rollout_assets.core.compare.classify import TaskComparison
from rollout_assets.core.compare.wording import SHOWN_DECIMALS, noisy_tasks
from rollout_assets.core.errors import RunDataError
from rollout_assets.plots import difference_plot
from rollout_assets.policy import RunGroups
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.tables import COMPARISON_REPORT

#: Longest report that is put into an event; the file always holds all of it.
REPORT_CHARACTERS = 40_000

CHECKS = [BASELINE_COMPARED, SAME_TASKS, COMPARISON_GATE]


class ComparisonConfig(dg.Config):
    """A one-off comparison from the launchpad; left alone, the policy decides."""

    baseline: str | None = Field(default=None, description="Run key of the baseline, instead of the policy's.")
    key: str | None = Field(default=None, description="Task key, instead of the policy's or the one found.")


@dg.asset(
    partitions_def=ROLLOUT_RUNS,
    group_name="comparison",
    kinds={"python", "parquet", "markdown"},
    owners=OWNERS,
    tags=grain("baseline-and-task"),
    code_version="1",
    metadata=definition_metadata(COMPARISON_REPORT),
    description=f"{COMPARISON_REPORT.meaning} The partition is the run to judge; the policy names its baselines "
    "(by default the run before it in its group). The reports are written as Markdown, text and JSON.",
    deps=["task_sides"],
    check_specs=CHECKS,
    output_required=False,
)
def comparison_report(
    context: dg.AssetExecutionContext, config: ComparisonConfig, workspace: RolloutWorkspace
) -> Iterator[Any]:
    """Compare the standing rows of the run with those of its baselines, all read from the store."""
    store, run = workspace.store, context.partition_key
    try:
        policy = workspace.policy
        group = policy.group_of(run)
        if config.baseline is not None:
            baselines = {config.baseline: iter([config.baseline])}
        else:
            arranged = RunGroups(policy, context.instance.get_dynamic_partitions(str(ROLLOUT_RUNS.name)))
            baselines = {wanted: arranged.candidates(run, wanted) for wanted in group.baselines}
        outcomes = compare_run(store, run, baselines, key=config.key or group.key)
        comparisons = comparisons_of(outcomes)
        metadata = _metadata([(comparison, write_reports(store, run, comparison)) for comparison in comparisons])
    except RunDataError as error:
        yield from not_judged(CHECKS, error)
        raise permanent_failure(error) from None
    table = comparison_table(comparisons)
    yield dg.Output(table, metadata={**row_count(table.num_rows), **metadata})
    yield from (baseline_compared(outcomes), same_tasks(table), comparison_gate(table, outcomes, group.gate))


def _metadata(compared: list[tuple[Comparison, Reports]]) -> dict[str, Any]:
    """What is shown of the comparisons: counts and files of the first, and a line on each where there are several."""
    if not compared:
        return {}
    first, reports = compared[0]
    metadata: dict[str, Any] = {
        "baseline": first.baseline,
        "report": dg.MetadataValue.md("\n\n".join(_for_the_ui(reports) for _, reports in compared)),
    }
    metadata["differences"] = dg.MetadataValue.md(difference_plot(_differences(first)))
    flips = [flip for comparison, _ in compared for flip in _flips(comparison, several=len(compared) > 1)]
    if flips:
        metadata["flips"] = shown_table(flips)
    metadata |= {
        **_counts(first),
        "task_key": first.result.new_key,
        "key_source": first.result.key_source,
        "findings": len(first.result.findings),
        "report_markdown_file": dg.MetadataValue.path(str(reports.markdown_path)),
        "report_json_file": dg.MetadataValue.path(str(reports.json_path)),
    }
    if len(compared) > 1:
        lines = [
            {"baseline": comparison.baseline, **_counts(comparison), "report": str(files.markdown_path)}
            for comparison, files in compared
        ]
        metadata["comparisons"] = shown_table(lines)
    return metadata


def _counts(comparison: Comparison) -> dict[str, int]:
    counts = comparison.result.counts
    return {name if name == "tasks" else f"tasks_{name}": number for name, number in counts.items()}


def _differences(comparison: Comparison) -> Iterator[float]:
    """What each task that is measured on both sides gained; nothing where it counts as identical."""
    for task in comparison.result.tasks.of("identical", "flipped", "flipped_agent_error"):
        if task.difference is not None:
            yield 0.0 if task.category == "identical" else task.difference


def _flips(comparison: Comparison, *, several: bool) -> Iterator[dict[str, Any]]:
    noisy = noisy_tasks(comparison.result)
    for task in comparison.result.tasks.of("flipped", "flipped_agent_error"):
        yield {
            "task": task.task,
            "this run": "better" if task.winner == "new" else "worse",
            "within noise": task.task in noisy,
            "category": task.category,
            **_means(task),
            **({"baseline": comparison.baseline} if several else {}),
        }


def _means(task: TaskComparison) -> dict[str, float | None]:
    """Both means, in full only where rounding would make them look alike."""
    exact = {name: side and side.reward for name, side in (("old", task.old), ("new", task.new))}
    rounded = {name: None if mean is None else round(mean, SHOWN_DECIMALS) for name, mean in exact.items()}
    return exact if rounded["old"] == rounded["new"] else rounded


def _for_the_ui(reports: Reports) -> str:
    """The report, cut where it would make an event too heavy for the event log."""
    if len(reports.markdown) <= REPORT_CHARACTERS:
        return reports.markdown
    return f"{reports.markdown[:REPORT_CHARACTERS]}\n\n… the rest is in {reports.markdown_path}"
