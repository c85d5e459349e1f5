"""The standing check `no_run_left_behind`: over all runs at once, so that nothing is skipped in silence."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from textwrap import shorten
from typing import Any, TypeVar

import dagster as dg

from rollout_assets.assets.metadata import shown_table
from rollout_assets.assets.raw_run import RAW_RUN
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.automation.settling import settle_seconds
from rollout_assets.core.discovery import discover
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.text import counted
from rollout_assets.left_behind import ADVICE, LeftBehind, Silence, left_behind, silences
from rollout_assets.policy import Policy
from rollout_assets.resources.workspace import RolloutWorkspace

T = TypeVar("T")

PARTITION_TAG = "dagster/partition"
#: Dagster shows a run as going on for ever when its process was killed; taking in a run takes less than this.
LONGEST_INGEST = timedelta(hours=6)
#: Characters of a reason in the table; the verdict on the run has all of it.
SHOWN_REASON = 250
_GOING_ON = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.asset_check(
    asset=RAW_RUN,
    name="no_run_left_behind",
    description="Every run on disk is taken in and sound, everything that looks like a run can be one, and every "
    "partition still has its files. It looks at all runs; the job check_runs and the schedule nightly_check run it. "
    "The table `groups` shows for how long each group of runs has been silent.",
)
def no_run_left_behind(context: dg.AssetCheckExecutionContext, workspace: RolloutWorkspace) -> dg.AssetCheckResult:
    """List what was left behind; one item that cannot be read is listed, and hides no other."""
    trouble: list[LeftBehind] = []

    def unless_unreadable(name: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except RunDataError as error:
            trouble.append(LeftBehind("unreadable", name, str(error)))
            return otherwise

    policy = unless_unreadable("policy", lambda: workspace.policy, Policy())
    seconds = unless_unreadable("settings", lambda: settle_seconds(policy), policy.settle_seconds)
    discovery = unless_unreadable("runs root", lambda: discover(workspace.settings.runs_root), None)
    if discovery is None:
        return result_of(0, trouble, [])
    root = f"{workspace.settings.runs_root}/"
    found = left_behind(
        discovery,
        workspace.store,
        partitions=context.instance.get_dynamic_partitions(str(ROLLOUT_RUNS.name)),
        on_their_way=_on_their_way(context.instance),
        settle_seconds=seconds,
    )
    # Paths are told from the runs root on: the UI lets a wide table push the description out of the window.
    told = [LeftBehind(item.kind, item.name.replace(root, ""), item.reason.replace(root, "")) for item in found]
    return result_of(len(discovery.runs), [*trouble, *told], silences(discovery, policy))


def result_of(runs: int, found: Sequence[LeftBehind], groups: Sequence[Silence]) -> dg.AssetCheckResult:
    """The result of the check: a partition whose run vanished is a warning, everything else an error."""
    counts = Counter(item.kind for item in found)
    told = [f"{counts[kind]} {kind.replace('_', ' ')}: {advice}." for kind, advice in ADVICE.items() if counts[kind]]
    text = f"{counted(runs, 'run')} on disk, {len(found) or 'nothing'} left behind."
    metadata: dict[str, Any] = {"runs": runs, "total": len(found)} | dict(counts)
    if groups:
        metadata["groups"] = shown_table([_shown(silence) for silence in groups])
    if found:
        metadata["left_behind"] = shown_table(
            [
                {"kind": item.kind, "run": item.name, "reason": shorten(item.reason, SHOWN_REASON, placeholder=" …")}
                for item in found
            ]
        )
    return dg.AssetCheckResult(
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN if counts.keys() == {"vanished"} else dg.AssetCheckSeverity.ERROR,
        description=" ".join([text, *told]),
        metadata=metadata,
    )


def _shown(silence: Silence) -> dict[str, Any]:
    return {
        "group": silence.group,
        "runs": silence.runs,
        "newest": silence.newest,
        "hours silent": round(silence.hours, 1),
    }


def _on_their_way(instance: dg.DagsterInstance) -> set[str]:
    """The runs that a Dagster run is at work on, or waits to be."""
    going_on = instance.get_runs(dg.RunsFilter(statuses=_GOING_ON, created_after=datetime.now(UTC) - LONGEST_INGEST))
    return {run.tags[PARTITION_TAG] for run in going_on if PARTITION_TAG in run.tags}
