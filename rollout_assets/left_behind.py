"""Runs that were not taken in, or only half: what a sensor that looks at the next run would pass over in silence."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rollout_assets.automation.settling import is_settled
from rollout_assets.core.discovery import DiscoveredRun, Discovery
from rollout_assets.core.errors import RunDataError
from rollout_assets.policy import Policy, RunGroups
from rollout_assets.store import DOWNSTREAM_TABLES, Store

Kind = Literal["blocked", "unfinished", "not_taken_in", "rejected", "unreadable", "vanished"]

#: What to do about each kind, in the order in which they are shown.
ADVICE: dict[Kind, str] = {
    "blocked": "mend the producer or the files, then materialize record_index again",
    "unfinished": "look at the last Dagster run of that partition, then materialize what is missing",
    "not_taken_in": "switch on the sensor discover_runs, or launch the job ingest_run for that partition",
    "rejected": "rename or remove what is there",
    "unreadable": "do what the message says",
    "vanished": "restore the files, or delete the partition",
}


@dataclass(frozen=True)
class LeftBehind:
    """One thing that was left behind: a run key or a path, and why."""

    kind: Kind
    name: str
    reason: str


@dataclass(frozen=True)
class Silence:
    """A group of runs and how long ago the files of its newest run last changed."""

    group: str
    runs: int
    newest: str
    hours: float


def left_behind(
    discovery: Discovery,
    store: Store,
    *,
    partitions: Iterable[str],
    on_their_way: Collection[str],
    settle_seconds: float,
) -> list[LeftBehind]:
    """Everything that was left behind, kind by kind in the order of `ADVICE`.

    Args:
        discovery: What lies on disk.
        store: Where verdicts and tables lie.
        partitions: The runs that Dagster knows.
        on_their_way: Runs that are being taken in at this moment; nothing is said of them.
        settle_seconds: How long the files of a run must have rested before it should have been taken in.
    """
    found = [LeftBehind("rejected", str(item.path), item.reason) for item in discovery.rejected]
    for run in discovery.runs:
        if run.key not in on_their_way:
            settled = is_settled(run, settle_seconds)
            found += (item for item in _of_run(store, run) if settled or item.kind != "not_taken_in")
    on_disk = {run.key for run in discovery.runs}
    found += [
        LeftBehind("vanished", key, "its results file does not exist any more")
        for key in partitions
        if key not in on_disk and key not in on_their_way
    ]
    kinds = list(ADVICE)
    return sorted(found, key=lambda item: kinds.index(item.kind))


def silences(discovery: Discovery, policy: Policy) -> list[Silence]:
    """How long each group has been silent, the longest first."""
    now = time.time()
    runs = {run.key: run for run in discovery.runs}
    groups = RunGroups(policy, runs)
    found = []
    for group in groups.groups():
        members = groups.members(group)
        if members:
            newest = max((runs[key] for key in members), key=lambda run: run.newest_mtime_ns)
            hours = (now - newest.newest_mtime_ns / 1e9) / 3600
            found.append(Silence(group.name, len(members), newest.key, hours))
    return sorted(found, key=lambda silence: -silence.hours)


def _of_run(store: Store, run: DiscoveredRun) -> Iterator[LeftBehind]:
    """What is missing of a run that lies on disk; nothing when it is sound and has all its tables."""
    try:
        verdict = store.verdict(run.key)
        taken_in = store.is_taken_in(run.key, run.fingerprint)
    except (RunDataError, OSError) as error:
        yield LeftBehind("unreadable", run.key, str(error))
        return
    if verdict is None:
        yield LeftBehind("not_taken_in", run.key, "was never indexed")
    elif verdict.fingerprint != run.fingerprint:
        yield LeftBehind("not_taken_in", run.key, "has changed since it was indexed")
    elif verdict.state == "blocked":
        yield LeftBehind("blocked", run.key, verdict.reason)
    elif verdict.state == "indexing":
        yield LeftBehind("unfinished", run.key, "its indexing was begun and did not finish")
    elif not taken_in:
        yield LeftBehind("unfinished", run.key, f"is indexed, but one of {', '.join(DOWNSTREAM_TABLES)} is missing")
