"""The discovery sensor and the nightly schedules: nothing else launches runs by itself."""

import json
from collections.abc import Mapping
from itertools import islice

import dagster as dg

from rollout_assets.assets.raw_run import observation_of
from rollout_assets.automation.jobs import check_runs, compare_run, ingest_run
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.automation.settling import is_settled, settle_seconds
from rollout_assets.comparison import MOST_TRIED
from rollout_assets.core.discovery import DiscoveredRun, Discovery, discover
from rollout_assets.core.errors import RunDataError
from rollout_assets.policy import Policy, RunGroups
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.store import Store

#: New or changed runs taken in per tick; the rest waits for the next one.
RUNS_PER_TICK = 20


@dg.sensor(
    name="discover_runs",
    jobs=[ingest_run, compare_run],
    minimum_interval_seconds=60,
    description="Finds new and changed run directories below the runs root and takes them in, one Dagster run each; "
    "compares a run again when a baseline of it changed. A run is left alone until its files have rested for the "
    "settle_seconds of the policy (60); the variable ROLLOUT_SETTLE_SECONDS overrides it.",
)
def discover_runs(context: dg.SensorEvaluationContext, workspace: RolloutWorkspace) -> dg.SensorResult:
    """Request `ingest_run` for each settled run that is not taken in, and `compare_run` for outdated comparisons."""
    discovery, policy, seconds = _look(workspace)
    store = workspace.store
    seen = _read_cursor(context.cursor)
    due = [
        run
        for run in discovery.runs
        if run.fingerprint != seen.get(run.key) and not store.is_taken_in(run.key, run.fingerprint)
    ]
    settled = [run for run in due if is_settled(run, seconds)]
    chosen = settled[:RUNS_PER_TICK]
    summary = _summary(discovery, waiting=len(due) - len(settled), later=len(settled) - len(chosen))
    requests = [_ingest_request(run) for run in chosen] + _comparison_requests(store, policy, discovery, due)
    if discovery.rejected:
        context.log.warning(summary)
    # What is taken in says so itself; the cursor only holds what was requested and is still on its way.
    on_its_way = {
        run.key: run.fingerprint
        for run in discovery.runs
        if run.fingerprint == seen.get(run.key) and not store.is_taken_in(run.key, run.fingerprint)
    }
    return dg.SensorResult(
        skip_reason=None if requests else f"Nothing to do: {summary}",
        dynamic_partitions_requests=[ROLLOUT_RUNS.build_add_request([run.key for run in chosen])] if chosen else [],
        run_requests=requests,
        asset_events=[observation_of(run) for run in chosen],
        cursor=json.dumps(on_its_way | {run.key: run.fingerprint for run in chosen}),
    )


@dg.schedule(
    cron_schedule="0 3 * * *",
    job=ingest_run,
    name="nightly_sweep",
    description="Every night, takes in each run that is not taken in: what the sensor missed while it was off, and "
    "runs whose last attempt did not finish.",
)
def nightly_sweep(
    context: dg.ScheduleEvaluationContext, workspace: RolloutWorkspace
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request `ingest_run` for everything that is due, whatever the sensor has seen."""
    discovery, _, seconds = _look(workspace)
    store = workspace.store
    due = [
        run for run in discovery.runs if is_settled(run, seconds) and not store.is_taken_in(run.key, run.fingerprint)
    ]
    if not due:
        return dg.SkipReason(f"Nothing to do: {_summary(discovery)}")
    context.instance.add_dynamic_partitions(str(ROLLOUT_RUNS.name), [run.key for run in due])
    return [_ingest_request(run, suffix=f":{context.scheduled_execution_time:%Y-%m-%d}") for run in due]


nightly_check = dg.ScheduleDefinition(
    name="nightly_check",
    cron_schedule="0 5 * * *",
    job=check_runs,
    description="Every night, after the sweep, lists the runs that were left behind (the check no_run_left_behind).",
)


def _ingest_request(run: DiscoveredRun, suffix: str = "") -> dg.RunRequest:
    """The run key names the run and the state of its files: Dagster never launches the same key twice."""
    return dg.RunRequest(
        job_name=ingest_run.name, run_key=f"{run.key}:{run.fingerprint}{suffix}", partition_key=run.key
    )


def _comparison_requests(
    store: Store, policy: Policy, discovery: Discovery, due: list[DiscoveredRun]
) -> list[dg.RunRequest]:
    """Requests for runs that are taken in themselves but one of whose baselines was taken in after the comparison."""
    arranged = RunGroups(policy, (run.key for run in discovery.runs))
    waiting = {run.key for run in due}
    requests = []
    for key in (run.key for run in discovery.runs if run.key not in waiting):
        states = [
            f"{baseline}:{store.outcomes_version(baseline)}"
            for wanted in policy.group_of(key).baselines
            for baseline in islice(filter(store.is_sound, islice(arranged.candidates(key, wanted), MOST_TRIED)), 1)
            if store.comparison_is_older_than(key, baseline)
        ]
        if states:
            run_key = f"{key}:vs:{':'.join(dict.fromkeys(states))}"
            requests.append(dg.RunRequest(job_name=compare_run.name, run_key=run_key, partition_key=key))
    return requests


def _look(workspace: RolloutWorkspace) -> tuple[Discovery, Policy, float]:
    """What lies on disk, the policy, and the seconds that files must rest; the tick fails when one cannot be read."""
    try:
        policy = workspace.policy
        return discover(workspace.settings.runs_root), policy, settle_seconds(policy)
    except RunDataError as error:
        raise permanent_failure(error) from None


def _read_cursor(cursor: str | None) -> dict[str, str]:
    """The fingerprints already requested; a cursor that is no such thing starts over instead of stopping the sensor."""
    try:
        value = json.loads(cursor or "{}")
    except ValueError:
        return {}
    if not isinstance(value, Mapping):
        return {}
    return {str(key): str(fingerprint) for key, fingerprint in value.items()}


def _summary(discovery: Discovery, *, waiting: int = 0, later: int = 0) -> str:
    text = f"{len(discovery.runs)} runs found, {waiting} still being written, {later} left for the next tick"
    if discovery.rejected:
        listed = "; ".join(f"{item.path}: {item.reason}" for item in discovery.rejected[:10])
        text += f"; {len(discovery.rejected)} cannot be taken in: {listed}"
    return text
