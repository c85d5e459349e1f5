"""The discovery sensor and the nightly schedules: nothing else launches runs by itself."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

import dagster as dg

from rollout_assets.assets.raw_run import observation_of
from rollout_assets.automation.jobs import check_runs, compare_run, ingest_run
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.automation.settling import is_settled, settle_seconds
from rollout_assets.comparison import MOST_TRIED
from rollout_assets.core.discovery import DiscoveredRun, Discovery, discover, natural_order
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.text import counted
from rollout_assets.policy import Policy, RunGroups
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.store import Store

#: New or changed runs taken in per tick, and comparisons made again; the rest waits for the next one.
RUNS_PER_TICK = 20
#: Things of one kind that a tick names; the check no_run_left_behind lists more.
NAMED = 10


@dg.sensor(
    name="discover_runs",
    jobs=[ingest_run, compare_run],
    minimum_interval_seconds=60,
    description="Finds new and changed run directories below the runs root and takes them in, one Dagster run each; "
    "compares a run again when a baseline of it changed. A run is left alone until its files have rested for the "
    "settle_seconds of the policy (60), or its coverage says complete; the variable ROLLOUT_SETTLE_SECONDS overrides "
    "the policy.",
)
def discover_runs(context: dg.SensorEvaluationContext, workspace: RolloutWorkspace) -> dg.SensorResult:
    """Request `ingest_run` for each settled run that is not taken in, and `compare_run` for outdated comparisons."""
    discovery, policy, seconds = _look(workspace)
    store, seen = workspace.store, _read_cursor(context.cursor)
    pending = [run for run in discovery.runs if not store.is_taken_in(run.key, run.fingerprint)]
    outdated = _outdated_comparisons(store, policy, discovery, {run.key for run in pending})
    wanted = {run.key: run.fingerprint for run in pending}
    wanted |= {_compared(key): states for key, states in outdated.items()}
    # What is done says so itself; the cursor only holds what was requested and is still on its way.
    on_its_way = {name: state for name, state in wanted.items() if seen.get(name) == state}
    due = [run for run in pending if run.key not in on_its_way]
    settled = [run for run in due if is_settled(run, seconds)]
    unseen = [key for key in outdated if _compared(key) not in on_its_way]
    chosen, again = settled[:RUNS_PER_TICK], unseen[:RUNS_PER_TICK]
    requests = [*map(_ingest_request, chosen), *(_comparison_request(key, outdated[key]) for key in again)]
    vanished = {*context.instance.get_dynamic_partitions(str(ROLLOUT_RUNS.name))} - {run.key for run in discovery.runs}
    summary = _summary(
        discovery,
        waiting=len(due) - len(settled),
        later=len(settled) + len(unseen) - len(requests),
        vanished=sorted(vanished, key=natural_order),
    )
    if discovery.rejected or vanished:
        context.log.warning(summary)
    requested = [*(run.key for run in chosen), *map(_compared, again)]
    return dg.SensorResult(
        skip_reason=None if requests else f"Nothing to do: {summary}",
        dynamic_partitions_requests=[ROLLOUT_RUNS.build_add_request([run.key for run in chosen])] if chosen else [],
        run_requests=requests,
        asset_events=[observation_of(run) for run in chosen],
        cursor=json.dumps(on_its_way | {name: wanted[name] for name in requested}),
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


def _comparison_request(key: str, states: str) -> dg.RunRequest:
    """The same for a comparison: the states are those of its baselines."""
    return dg.RunRequest(job_name=compare_run.name, run_key=f"{_compared(key)}:{states}", partition_key=key)


def _compared(key: str) -> str:
    """What the comparison of a run is called in the cursor; no run key has a colon."""
    return f"{key}:vs"


def _outdated_comparisons(
    store: Store, policy: Policy, discovery: Discovery, pending: Collection[str]
) -> dict[str, str]:
    """Runs that are not pending, but one of whose baselines was taken in after the comparison; with its state."""
    arranged = RunGroups(policy, (run.key for run in discovery.runs))
    found = {}
    for key in (run.key for run in discovery.runs if run.key not in pending):
        states = [
            f"{baseline}:{store.outcomes_version(baseline)}"
            for wanted in policy.group_of(key).baselines
            for baseline in islice(filter(store.is_sound, islice(arranged.candidates(key, wanted), MOST_TRIED)), 1)
            if store.comparison_is_older_than(key, baseline)
        ]
        if states:
            found[key] = ":".join(dict.fromkeys(states))
    return found


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


def _summary(discovery: Discovery, *, waiting: int = 0, later: int = 0, vanished: Sequence[str] = ()) -> str:
    text = f"{counted(len(discovery.runs), 'run')} found, {waiting} still being written, {later} left for the next tick"
    if discovery.rejected:
        listed = "; ".join(f"{item.path}: {item.reason}" for item in discovery.rejected[:NAMED])
        text += f"; {len(discovery.rejected)} cannot be taken in: {listed}"
    if vanished:
        text += (
            f"; {len(vanished)} vanished, restore their files or delete the partitions: {', '.join(vanished[:NAMED])}"
        )
    return text
