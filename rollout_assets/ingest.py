"""Taking runs in from a terminal: the same job as in Dagster's UI, run by run, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from rollout_assets.assets.raw_run import observation_of
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.partitioned import NOT_JUDGED
from rollout_assets.core.discovery import DiscoveredRun

#: Marks Dagster runs of a terminal: no daemon watches over these.
_IN_TERMINAL = {"rollout_assets/terminal": "true"}
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class FailedCheck:
    """A check that did not pass; `places` are the rows of its table, if it has one.

    `blocking`: nothing downstream was done because of it. `warning`: it is worth a look, and no error.
    """

    name: str
    blocking: bool
    warning: bool
    description: str
    places: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class IngestResult:
    """What came of one run: the assets materialized, the checks that failed, and why the run stopped, if it did.

    `succeeded`: it was taken in to the end, and no check failed as an error.
    """

    key: str
    succeeded: bool
    materialized: tuple[str, ...]
    failed_checks: tuple[FailedCheck, ...]
    failure: str | None


def ingest(
    runs: Iterable[DiscoveredRun],
    instance: dg.DagsterInstance,
    *,
    on_result: Callable[[IngestResult], None] = lambda _: None,
) -> list[IngestResult]:
    """Materialize every asset for every run, in the order given, so that baselines come before their candidates.

    At the end the check over all runs looks at what was left behind, for the UI. A run that fails does not stop the
    others. No other process may do this on the same instance meanwhile: `sole_use`.
    """
    from rollout_assets.definitions import defs

    _end_dead_runs(instance)
    job = defs.resolve_job_def("ingest_run")
    runs = list(runs)
    instance.add_dynamic_partitions(str(ROLLOUT_RUNS.name), [run.key for run in runs])
    results = []
    for run in runs:
        instance.report_runless_asset_event(observation_of(run))
        outcome = job.execute_in_process(
            instance=instance, partition_key=run.key, raise_on_error=False, run_config=_QUIET, tags=_IN_TERMINAL
        )
        result = _result(run.key, outcome)
        results.append(result)
        on_result(result)
    if runs:
        check = defs.resolve_job_def("check_runs")
        check.execute_in_process(instance=instance, raise_on_error=False, run_config=_QUIET, tags=_IN_TERMINAL)
    return results


def _end_dead_runs(instance: dg.DagsterInstance) -> None:
    """Fail the runs of terminals that were killed: unfinished, they would take up the daemon's places for ever."""
    for run in instance.get_runs(dg.RunsFilter(tags=_IN_TERMINAL, statuses=_UNFINISHED)):
        instance.report_run_failed(run, "The process of this run was killed; the run directory is taken in again.")


def _result(key: str, outcome: dg.ExecuteInProcessResult) -> IngestResult:
    evaluations = outcome.get_asset_check_evaluations()
    failed = [check for check in evaluations if not check.passed and NOT_JUDGED not in check.metadata]
    return IngestResult(
        key=key,
        succeeded=outcome.success and all(check.severity is dg.AssetCheckSeverity.WARN for check in failed),
        materialized=tuple(
            event.asset_key.to_user_string() for event in outcome.get_asset_materialization_events() if event.asset_key
        ),
        failed_checks=tuple(
            FailedCheck(
                check.check_name,
                bool(check.blocking) and check.severity is dg.AssetCheckSeverity.ERROR,
                check.severity is dg.AssetCheckSeverity.WARN,
                check.description or "",
                _places(check),
            )
            for check in failed
        ),
        failure=_why_it_stopped(outcome),
    )


def _places(check: dg.AssetCheckEvaluation) -> tuple[Mapping[str, Any], ...]:
    table = check.metadata.get("places")
    return tuple(record.data for record in table.records) if isinstance(table, dg.TableMetadataValue) else ()


def _why_it_stopped(outcome: dg.ExecuteInProcessResult) -> str | None:
    for event in outcome.get_step_failure_events():
        data = event.step_failure_data
        if data.user_failure_data is not None and data.user_failure_data.description:
            return data.user_failure_data.description
        if data.error is not None:
            cause = data.error.cause or data.error
            return f"{event.step_key}: {cause.message.strip()}"
    return None if outcome.success else "the run failed before any step ran"
