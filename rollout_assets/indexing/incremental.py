"""Indexing a run of a store: only what was appended since the last time where that is enough, everything where not.

The order of writes is what makes this safe to kill: the verdict `indexing`, the faults, the index, the state that names
both of these, the verdict.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rollout_assets.core.discovery import DiscoveredRun, find_run
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.run_scan import files_of_run
from rollout_assets.core.text import counted
from rollout_assets.indexing.faults import IndexSummary
from rollout_assets.indexing.pieces import Advance
from rollout_assets.indexing.run import Earlier, index_run
from rollout_assets.indexing.state import INDEX_TABLES, IndexState, load_state, obstacle, save_state, table_version
from rollout_assets.store import Store, Verdict


@dataclass(frozen=True)
class Scope:
    """What of a run was scanned.

    Attributes:
        why_whole: Why everything was; None when only what an earlier index does not hold was.
        scanned: Name of each file and how many of its bytes.
    """

    why_whole: str | None
    scanned: Mapping[str, int]

    def __str__(self) -> str:
        """The scope in words."""
        if self.why_whole is not None:
            return f"scanned as a whole: {self.why_whole}"
        ends = [f"the last {counted(number, 'byte')} of {name}" for name, number in self.scanned.items() if number]
        if not ends:
            return "nothing had to be scanned: nothing was appended"
        return f"only {' and '.join(ends)} had to be scanned"


@dataclass(frozen=True)
class NewIndex:
    """An index that was made and is not in the store yet.

    Attributes:
        run: The run.
        summary: What the index holds.
        scope: What was scanned for it.
        records: Its table `record_index`, in the spool.
        faults: Its table `producer_faults`, in the spool.
        state: What the store will remember of it.
    """

    run: DiscoveredRun
    summary: IndexSummary
    scope: Scope
    records: Path
    faults: Path
    state: IndexState

    @property
    def counts(self) -> dict[str, int]:
        """How many faults of each kind there are."""
        return {str(kind): number for kind, number in self.summary.counts.items()}


def make_index(
    store: Store,
    key: str,
    spool: Path,
    *,
    workers: int = 1,
    whole: bool = False,
    advance: Advance = lambda _: None,
) -> NewIndex:
    """Index a run into the spool of its store. The store is told that the run is being indexed.

    Args:
        store: The store.
        key: The run.
        spool: A local folder, `Store.new_spool`.
        workers: Threads or processes to scan with, at most.
        whole: Scan everything whatever is stored.
        advance: Told how many more bytes are done, by one thread at a time.

    Raises:
        RunDataError: What `find_run` and `index_run` raise; `E-RUN-CHANGED` when files of the run changed meanwhile.
    """
    run = find_run(store.runs_root, key)
    store.write_verdict(key, Verdict("indexing", run.fingerprint, output=str(run.output)))
    earlier, why_whole = _earlier(store, run, spool, whole=whole)
    records, faults = spool / "record_index.parquet", spool / "producer_faults.parquet"
    indexed = index_run(run, records, faults, workers=workers, earlier=earlier, advance=advance)
    if find_run(store.runs_root, key).fingerprint != run.fingerprint:
        reason = "changed while it was being read; it is taken in again once its files rest"
        raise RunDataError("E-RUN-CHANGED", reason, path=run.output)
    versions = {name: table_version(spool / f"{name}.parquet") or "" for name in INDEX_TABLES}
    names = {file: path.name for file, path in files_of_run(run.output)}
    scope = Scope(why_whole, {names[file]: number for file, number in indexed.scanned.items()})
    return NewIndex(run, indexed.summary, scope, records, faults, IndexState(dict(indexed.marks), versions))


def keep(store: Store, index: NewIndex) -> None:
    """Let an index whose tables are in their places be used: by the next one, and downstream."""
    key = index.run.key
    if isinstance(store.root, Path):
        save_state(store, key, index.state)
    store.write_verdict(key, _verdict("sound", index))


def block(store: Store, index: NewIndex, reason: str) -> None:
    """Let nothing use a run; of its index only the faults, which are in their place, are kept."""
    store.block(index.run.key, reason, _verdict("indexing", index))


def _verdict(state: Literal["indexing", "sound"], index: NewIndex) -> Verdict:
    return Verdict(state, index.run.fingerprint, counts=index.counts, output=str(index.run.output))


def _earlier(store: Store, run: DiscoveredRun, spool: Path, *, whole: bool) -> tuple[Earlier | None, str | None]:
    """The stored index to go on from, or None and why there is none."""
    if whole:
        return None, "that was asked for"
    stored = [path for name in INDEX_TABLES if isinstance(path := store.table_path(name, run.key), Path)]
    if not stored:
        return None, "the store is not on a local disk"
    state = load_state(store, run.key)
    problem = obstacle(state, store, run.key, dict(files_of_run(run.output)))
    if state is None or problem is not None:
        return None, problem
    # Another process may replace the stored tables while they are read; links to them stay what they are.
    links = [spool / f"earlier_{name}.parquet" for name in INDEX_TABLES]
    try:
        spool.mkdir(parents=True, exist_ok=True)
        for name, path, link in zip(INDEX_TABLES, stored, links, strict=True):
            os.link(path, link)
            if table_version(link) != state.tables[name]:
                return None, f"another process replaced the stored table {name} just now"
    except OSError as error:
        return None, f"the stored tables cannot be linked to: {error.strerror or error}"
    records, faults = links
    return Earlier(records, faults, state.files), None
