"""The one entry point for Dagster: what there is, and nothing about how."""

from __future__ import annotations

import dagster as dg

from rollout_assets.assets.attempt_outcomes import attempt_outcomes
from rollout_assets.assets.comparison_report import comparison_report
from rollout_assets.assets.raw_run import raw_run
from rollout_assets.assets.record_index import index_run_assets
from rollout_assets.assets.task_sides import task_sides
from rollout_assets.automation.discovery_sensor import discover_runs, nightly_check, nightly_sweep
from rollout_assets.automation.jobs import check_runs, compare_run, ingest_run
from rollout_assets.checks.no_run_left_behind import no_run_left_behind
from rollout_assets.resources.parquet import ParquetStorage
from rollout_assets.resources.workspace import RolloutWorkspace


def build_defs(workspace: RolloutWorkspace | None = None) -> dg.Definitions:
    """Fresh definitions; tests and embedders give a workspace of their own."""
    workspace = workspace or RolloutWorkspace()
    return dg.Definitions(
        assets=[raw_run, index_run_assets, attempt_outcomes, task_sides, comparison_report],
        asset_checks=[no_run_left_behind],
        jobs=[ingest_run, compare_run, check_runs],
        sensors=[discover_runs],
        schedules=[nightly_sweep, nightly_check],
        resources={"workspace": workspace, "io_manager": ParquetStorage(workspace=workspace)},
        executor=dg.in_process_executor,
    )


defs = build_defs()
