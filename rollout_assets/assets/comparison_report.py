"""The asset `comparison_report`: what changed from the baseline to this run."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from rollout_assets.assets.metadata import OWNERS, definition_metadata, row_count, shown_table
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.partitioned import partitioned_check
from rollout_assets.comparison import (
    Comparison,
    PassedOver,
    Reports,
    compare_run,
    comparison_table,
    write_reports,
)
from rollout_assets.core.errors import RunDataError
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.tables import COMPARISON_REPORT

#: Longest report that is put into an event; the file always holds all of it.
REPORT_CHARACTERS = 40_000

BASELINE_COMPARED = partitioned_check(
    "baseline_compared",
    "comparison_report",
    blocking=False,
    description="The run was compared with the baseline that the policy names first. It was not, if that one is "
    "malformed, not taken in yet, or not comparable. The first run of a group has no baseline and passes.",
)


class ComparisonConfig(dg.Config):
    """A one-off comparison from the launchpad; left alone, the policy decides."""

    baseline: str | None = Field(default=None, description="Run key of the baseline, instead of the policy's.")
    key: str | None = Field(default=None, description="Task key, instead of the policy's or the one found.")


@dg.asset(
    partitions_def=ROLLOUT_RUNS,
    group_name="comparison",
    kinds={"python", "parquet", "markdown"},
    owners=OWNERS,
    code_version="1",
    metadata=definition_metadata(COMPARISON_REPORT),
    description=f"{COMPARISON_REPORT.meaning} The partition is the run to judge; the policy names the baseline "
    "(by default the run before it in its group). The report itself is written as Markdown, text and JSON.",
    deps=["task_sides"],
    check_specs=[BASELINE_COMPARED],
)
def comparison_report(
    context: dg.AssetExecutionContext, config: ComparisonConfig, workspace: RolloutWorkspace
) -> Iterator[Any]:
    """Compare the standing rows of the run with those of its baseline, both read from the store."""
    store, run = workspace.store, context.partition_key
    try:
        policy = workspace.policy
        if config.baseline is not None:
            candidates = [config.baseline]
        else:
            candidates = policy.candidates_for_baseline(run, context.instance.get_dynamic_partitions(ROLLOUT_RUNS.name))
        key = config.key or policy.group_of(run).key
        comparison, passed_over = compare_run(store, run, candidates, key=key)
        metadata = {} if comparison is None else _metadata(comparison, write_reports(store, run, comparison))
    except RunDataError as error:
        raise permanent_failure(error) from None
    table = comparison_table(comparison)
    yield dg.Output(table, metadata={**row_count(table.num_rows), **metadata})
    yield _verdict(comparison, passed_over)


def _verdict(comparison: Comparison | None, passed_over: list[PassedOver]) -> dg.AssetCheckResult:
    if comparison is not None and not passed_over:
        text = f"Compared with {comparison.baseline!r}."
    elif comparison is not None:
        text = f"Compared with {comparison.baseline!r}, because {_reasons(passed_over)}"
    elif passed_over:
        text = f"Not compared: {_reasons(passed_over)}"
    else:
        text = "Nothing to compare with: this is the first run of its group."
    return dg.AssetCheckResult(
        check_name=BASELINE_COMPARED.name,
        passed=not passed_over,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
    )


def _reasons(passed_over: list[PassedOver]) -> str:
    return "; ".join(f"{item.baseline!r} cannot serve: {item.reason}" for item in passed_over)


def _metadata(comparison: Comparison, reports: Reports) -> dict[str, Any]:
    result = comparison.result
    flips = [
        {
            "task": task.task,
            "category": task.category,
            "winner": task.winner,
            "old": task.old and task.old.reward,
            "new": task.new and task.new.reward,
        }
        for task in result.tasks.of("flipped", "flipped_agent_error")
    ]
    metadata: dict[str, Any] = {
        "baseline": comparison.baseline,
        **{f"tasks_{name}" if name != "tasks" else name: number for name, number in result.counts.items()},
        "task_key": result.new_key,
        "key_source": result.key_source,
        "findings": len(result.findings),
        "report": dg.MetadataValue.md(_for_the_ui(reports)),
        "report_markdown_file": dg.MetadataValue.path(str(reports.markdown_path)),
        "report_json_file": dg.MetadataValue.path(str(reports.json_path)),
    }
    if flips:
        metadata["flips"] = shown_table(flips)
    return metadata


def _for_the_ui(reports: Reports) -> str:
    """The report, cut where it would make an event too heavy for the event log."""
    if len(reports.markdown) <= REPORT_CHARACTERS:
        return reports.markdown
    return f"{reports.markdown[:REPORT_CHARACTERS]}\n\n… the rest is in {reports.markdown_path}"
