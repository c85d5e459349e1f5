"""Which runs lie under a root, what each is called, and the state its files are in (architecture.md §4).

A run is named by its *run key*: the path of its results file relative to the runs root, without `.jsonl`. The key is
also the partition key in Dagster and a path in the store, so it follows a grammar of its own; whatever does not fit is
reported, never dropped.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.core.records.paths import (
    coverage_path_for,
    failures_path_for,
    manifest_path_for,
    materialized_path_for,
)

RUN_KEY_CHARACTERS = 120
_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._=+-]*"
#: No folder is called like a file of the store: the run `a` and a run in the folder `a.json` would share one there.
_FOLDER = rf"{_SEGMENT}(?<!\.json)(?<!\.parquet)(?<!\.md)(?<!\.txt)/"
_RUN_KEY = re.compile(rf"(?:{_FOLDER})*{_SEGMENT}")
_RUN_KEY_RULE = (
    "a run key is made of letters, digits and . _ = + - (each folder or file name beginning with a letter or digit, "
    "no '..', no folder name ending in .json, .parquet, .md or .txt) and has at most "
    f"{RUN_KEY_CHARACTERS} characters; rename the folder or file"
)

#: JSONL files that a run writes beside its results (records.md §1); they are runs only with a manifest of their own.
_COMPANION_ENDINGS = (
    "_failures",
    "_materialized_inputs",
    "_attempts",
    "_reward_profiling",
    "_multistage_state",
)
_SIDECAR_ENDING = "_failures.jsonl"
_COMPANION_NAMES = frozenset({"rollout_verdicts.jsonl"})


@dataclass(frozen=True)
class FileState:
    """One file of a run as it stood when looked at: bytes, modification time in ns, inode."""

    name: str
    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class DiscoveredRun:
    """A run on disk. `fingerprint` names the state of its files: 16 hex digits, equal as long as none changed."""

    key: str
    output: Path
    files: tuple[FileState, ...]

    @property
    def fingerprint(self) -> str:
        """A digest of names, sizes, modification times and inodes; no content is read."""
        text = "\n".join(f"{f.name}\t{f.size}\t{f.mtime_ns}\t{f.inode}" for f in self.files)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def newest_mtime_ns(self) -> int:
        """When a file of the run last changed."""
        return max(file.mtime_ns for file in self.files)


@dataclass(frozen=True)
class RejectedRun:
    """Something that looks like a run and cannot be taken in, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Discovery:
    """All runs under a root in natural order of their keys, and what cannot be a run."""

    runs: tuple[DiscoveredRun, ...]
    rejected: tuple[RejectedRun, ...]


def discover(root: Path) -> Discovery:
    """Find every run under `root`. Hidden folders are not entered, links to folders are not followed.

    Raises:
        RunDataError: `E-RUNS-ROOT` when the root does not exist or is no folder.
    """
    check_runs_root(root)
    runs: list[DiscoveredRun] = []
    rejected: list[RejectedRun] = []
    for path in _results_files(root, rejected):
        key = path.relative_to(root).as_posix().removesuffix(".jsonl")
        problem = run_key_problem(key)
        if problem is not None:
            rejected.append(RejectedRun(path, f"{key!r} cannot be a run key: {problem}"))
        else:
            try:
                runs.append(_describe(key, path))
            except RunDataError as error:
                if error.code != "E-RUN-GONE" or path.is_symlink():  # else it was removed while we looked
                    rejected.append(RejectedRun(path, error.reason))
    return Discovery(tuple(sorted(runs, key=lambda run: natural_order(run.key))), tuple(rejected))


def find_run(root: Path, key: str) -> DiscoveredRun:
    """The run of a key.

    Raises:
        RunDataError: `E-RUNS-ROOT`, `E-RUN-KEY` for a key outside the grammar, `E-RUN-GONE` when its results file does
            not exist (any more), `E-UNREADABLE` when it is no regular file.
    """
    check_runs_root(root)
    problem = run_key_problem(key)
    if problem is not None:
        raise RunDataError("E-RUN-KEY", f"{key!r} is no run key: {problem}")
    return _describe(key, root / f"{key}.jsonl")


def check_runs_root(root: Path) -> None:
    """Raise `E-RUNS-ROOT` unless `root` is a folder."""
    if not root.is_dir():
        problem = "is not a folder" if root.exists() else "does not exist"
        raise RunDataError(
            "E-RUNS-ROOT",
            f"the runs root {problem}; "
            "set ROLLOUT_RUNS_ROOT (or --runs-root) to the folder that holds the run directories",
            path=root,
        )


def run_key_problem(key: str) -> str | None:
    """Why `key` is outside the grammar of run keys, or `None` when it is fine."""
    fits = _RUN_KEY.fullmatch(key) and len(key) <= RUN_KEY_CHARACTERS and ".." not in key
    return None if fits else _RUN_KEY_RULE


def natural_order(key: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which `step-9` comes before `step-10`."""
    pieces = re.split(r"([0-9]+)", key)
    return tuple(
        (1, int(piece), piece) if number % 2 else (0, 0, piece) for number, piece in enumerate(pieces) if piece
    )


def _results_files(folder: Path, rejected: list[RejectedRun]) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        rejected.append(RejectedRun(folder, unreadable_file(folder, error).reason))
        return
    names = {entry.name for entry in entries}
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        if entry.name.endswith(".jsonl") and not _is_companion(path):
            yield path
        elif entry.name.endswith(_SIDECAR_ENDING) and entry.name.removesuffix(_SIDECAR_ENDING) + ".jsonl" not in names:
            reason = "is a sidecar of failures without its results file; restore that file, if only as an empty one"
            rejected.append(RejectedRun(path, reason))
        elif entry.is_dir(follow_symlinks=False):
            yield from _results_files(path, rejected)


def _is_companion(path: Path) -> bool:
    if path.name in _COMPANION_NAMES:
        return True
    return path.stem.endswith(_COMPANION_ENDINGS) and _state_if_there(manifest_path_for(path)) is None


def _describe(key: str, output: Path) -> DiscoveredRun:
    """The run of an output as it stands now; raises what `find_run` raises for the file."""
    try:
        status = output.stat()
    except FileNotFoundError:
        reason = f"the results file of run {key!r} does not exist; restore it, or delete the partition of that name"
        if output.is_symlink():
            reason = f"links to {output.readlink()}, which does not exist; restore that file, or remove the link"
        raise RunDataError("E-RUN-GONE", reason, path=output) from None
    except OSError as error:
        raise unreadable_file(output, error) from None
    if not stat.S_ISREG(status.st_mode):
        kind = "is a directory" if stat.S_ISDIR(status.st_mode) else "is a pipe or a device"
        reason = f"{kind}, no regular file; remove it or put the results file in its place"
        raise RunDataError("E-UNREADABLE", reason, path=output)
    companions = (failures_path_for, materialized_path_for, manifest_path_for, coverage_path_for)
    states = (_state_if_there(companion(output)) for companion in companions)
    return DiscoveredRun(key, output, (_state(output, status), *(state for state in states if state is not None)))


def _state_if_there(path: Path) -> FileState | None:
    try:
        return _state(path, path.stat())
    except OSError:
        return None


def _state(path: Path, status: os.stat_result) -> FileState:
    return FileState(path.name, status.st_size, status.st_mtime_ns, status.st_ino)
