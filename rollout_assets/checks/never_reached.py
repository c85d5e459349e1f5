"""Verdicts of checks that a blocked run never reaches: without one Dagster says no more than "Execution failed"."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from rollout_assets.checks.baseline_compared import BASELINE_COMPARED
from rollout_assets.checks.comparison_gate import COMPARISON_GATE
from rollout_assets.checks.outcomes import OUTCOME_CHECKS
from rollout_assets.checks.partitioned import not_judged
from rollout_assets.checks.same_tasks import SAME_TASKS
from rollout_assets.checks.task_key_sound import TASK_KEY_SOUND
from rollout_assets.core.errors import RunDataError
from rollout_assets.store import Store

AFTER_OUTCOMES = (TASK_KEY_SOUND, BASELINE_COMPARED, SAME_TASKS, COMPARISON_GATE)
AFTER_INDEX = (*OUTCOME_CHECKS, *AFTER_OUTCOMES)


def tell_why(context: dg.AssetExecutionContext, store: Store, checks: Sequence[dg.AssetCheckSpec]) -> None:
    """Give each of the checks a failed result that says why the run may not be used; nothing if it may.

    A step can yield results of its own checks alone, so these go to the event log of its Dagster run directly.
    """
    run = context.partition_key
    try:
        store.check_usable(run)
    except RunDataError as error:
        for result in not_judged(checks, error):
            evaluation = dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey.from_coercible(result.asset_key or ()),
                check_name=str(result.check_name),
                passed=False,
                severity=result.severity,
                description=result.description,
                metadata=result.metadata,
                partition=run,
            )
            event = dg.DagsterEvent(
                dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
                job_name=context.run.job_name,
                event_specific_data=evaluation,
            )
            context.instance.report_dagster_event(event, run_id=context.run.run_id)
