"""The command `index`: the index of one run, in the store that Dagster uses, without Dagster."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rollout_assets.core.discovery import find_run, run_key_problem
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import written_beside
from rollout_assets.core.records.paths import manifest_path_for
from rollout_assets.core.records.report import results_file_of
from rollout_assets.core.run_scan import files_of_run
from rollout_assets.core.text import counted
from rollout_assets.progress import progress
from rollout_assets.settings import Settings

if TYPE_CHECKING:
    from rollout_assets.indexing.incremental import NewIndex
    from rollout_assets.store import Store

EXIT_SOUND, EXIT_FAULTS = 0, 1


def index(
    path: Path, settings: Settings, *, name_it: bool, workers: int, whole: bool = False, as_json: bool = False
) -> int:
    """Index a run, print its faults and what came of it, and give the exit code.

    Args:
        path: A results file, or a folder that holds exactly one run.
        settings: Where runs lie and where the index goes.
        name_it: Whether a run that is not below the runs root is named by its folder and file; else it is refused.
        workers: Threads or processes to scan with, at most.
        whole: Scan everything, whatever is stored.
        as_json: Print one JSON object instead of lines.

    Raises:
        RunDataError: The path names no run, or several; the run cannot be named, read or stored.
    """
    started = time.monotonic()
    settings, key = _place_and_key(path, settings, name_it=name_it)
    # What follows needs pyarrow and pydantic: a path that is wrong is told without them.
    from rollout_assets.indexing.incremental import make_index
    from rollout_assets.policy import load_policy
    from rollout_assets.store import Store

    severities = load_policy(settings.policy).group_of(key).severities
    store = Store(settings.store_root, settings.runs_root)
    output = find_run(settings.runs_root, key).output
    if name_it:
        _check_not_taken(store, key, output)
    spool = store.new_spool()
    try:
        with progress(lambda: sum(file.stat().st_size for _, file in files_of_run(output)), "indexing") as advance:
            made = make_index(store, key, spool, workers=workers, whole=whole, advance=advance)
        verdict, reason = _store(store, made, severities)
    finally:
        shutil.rmtree(spool, ignore_errors=True)
    seconds = time.monotonic() - started
    if as_json:
        click.echo(json.dumps(_as_json(store, made, verdict, reason, seconds), indent=2))
    else:
        _show(store, made, verdict, reason, seconds)
    return EXIT_SOUND if reason is None else EXIT_FAULTS


def _place_and_key(path: Path, settings: Settings, *, name_it: bool) -> tuple[Settings, str]:
    """The run key of a path, and the settings with the runs root that it is relative to."""
    output, given = _absolute(results_file_of(path)), _absolute(path)
    root = settings.runs_root
    if not output.is_relative_to(root) and given.is_relative_to(root) and given.is_file():
        output = given  # a link below the runs root to a file elsewhere
    if not output.is_relative_to(root) and output.is_relative_to(root.resolve()):
        root = root.resolve()
    if not output.is_relative_to(root):
        if not name_it:
            reason = f"does not lie below the runs root {settings.runs_root}; name another one with --runs-root"
            raise RunDataError("E-RUN-KEY", reason, path=output)
        root = output.parent.parent
    key = output.relative_to(root).as_posix().removesuffix(".jsonl")
    problem = run_key_problem(key)
    if problem is not None or output.suffix != ".jsonl":
        reason = f"{key!r} cannot be a run key: {problem or 'a results file ends in .jsonl; rename it'}"
        raise RunDataError("E-RUN-KEY", reason, path=output)
    if output.name.endswith("_failures.jsonl") and not manifest_path_for(output).exists():
        raise RunDataError("E-RUN-KEY", "is a sidecar of failures; name its results file", path=output)
    return replace(settings, runs_root=root), key


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute would keep `..`


def _check_not_taken(store: Store, key: str, output: Path) -> None:
    """Refuse to replace the index of another run that happens to have the same folder and file name."""
    verdict = store.readable_verdict(key)
    if verdict is not None and verdict.output and verdict.output != str(output):
        reason = (
            f"would be run {key!r}, which the store has as {verdict.output}; tell them apart with --runs-root, a "
            "folder above both, or give another --home"
        )
        raise RunDataError("E-RUN-KEY", reason, path=output)


def _store(store: Store, made: NewIndex, severities: Mapping[Any, Any]) -> tuple[str, str | None]:
    """Put an index into its place, or only its faults if they block the run.

    Returns:
        `sound`, `warning` or `blocked`, as `ingest` says it, and why the run is blocked.
    """
    from rollout_assets.indexing.incremental import block, keep
    from rollout_assets.indexing.strictness import blocking_reason, judge

    _move(made.faults, store, "producer_faults", made)
    judgments = judge(made.summary, made.run.key, severities)
    reason = blocking_reason(judgments)
    if reason is not None:
        block(store, made, reason)
        return "blocked", reason
    _move(made.records, store, "record_index", made)
    keep(store, made)
    return "sound" if all(judgment.passed for judgment in judgments) else "warning", None


def _move(finished: Path, store: Store, table: str, made: NewIndex) -> None:
    with written_beside(store.table_path(table, made.run.key)) as temporary:
        finished.replace(temporary)


def _as_json(store: Store, made: NewIndex, verdict: str, reason: str | None, seconds: float) -> dict[str, Any]:
    return {
        "run": made.run.key,
        "output": str(made.run.output),
        "verdict": verdict,
        "reason": reason,
        "rows": made.summary.rows,
        "kinds": made.counts,
        "faults": [{"file": file, **asdict(fault)} for file, fault in made.summary.faults],
        "scanned": {"whole": made.scope.why_whole, "bytes": made.scope.scanned},
        "seconds": round(seconds, 3),
        "tables": {name: str(store.table_path(name, made.run.key)) for name in _stored(reason)},
    }


def _show(store: Store, made: NewIndex, verdict: str, reason: str | None, seconds: float) -> None:
    """Print the first faults of each kind, how many more there are, and one line that says what came of the run."""
    shown = Counter(fault.kind for _, fault in made.summary.faults)
    for _, fault in made.summary.faults:
        _print(str(fault))
    for kind, number in sorted(made.summary.counts.items()):
        if number > shown[kind]:
            _print(f"and {number - shown[kind]} more {kind}: producer_faults lists them")
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(made.counts.items()))
    rows, faults = made.summary.rows.total(), made.summary.counts.total()
    if reason is not None and not faults:
        _print(f"{made.run.key} is blocked: {reason}")
    elif reason is not None:
        _print("mend the producer or the file, then index the run again; until then nothing downstream uses it")
    _print(
        f"{made.run.key}: {verdict}, {counted(rows, 'row')}, "
        f"{counted(faults, 'fault')}{f' ({kinds})' if kinds else ''}; {made.scope}; {seconds:.1f} s; "
        f"{store.table_path(_stored(reason)[0], made.run.key)}"
    )


def _stored(reason: str | None) -> tuple[str, ...]:
    """The tables of an index that are stored."""
    return ("record_index", "producer_faults") if reason is None else ("producer_faults",)


def _print(line: str) -> None:
    click.echo(line.encode("utf-8", "backslashreplace"))
