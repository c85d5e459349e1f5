"""Names of the files of a run, built from the path of its results file, the *output* (records.md §1, §18)."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Final, Literal

from rollout_assets.core.errors import RunDataError

StrPath = str | PathLike[str]
#: Which of the two files of outcomes a row stands in.
File = Literal["output", "failures"]
#: Both, in the order in which a run is read.
FILES: Final[tuple[File, File]] = ("output", "failures")


def failures_path_for(output: StrPath) -> Path:
    """The sidecar of failed attempts."""
    return _companion(output, "_failures.jsonl")


def materialized_path_for(output: StrPath) -> Path:
    """The inventory: one row per expected rollout."""
    return _companion(output, "_materialized_inputs.jsonl")


def manifest_path_for(output: StrPath) -> Path:
    """The manifest: run identity and reserved attempt numbers."""
    return _companion(output, "_manifest.json")


def coverage_path_for(output: StrPath) -> Path:
    """The coverage snapshot that the producer writes."""
    return _companion(output, "_coverage.json")


def journal_path_for(output: StrPath) -> Path:
    """The retired dispatch journal; its mere existence makes a run unreadable (records.md §15.1)."""
    return _companion(output, "_attempts.jsonl")


def resolve_rollout_path(output: StrPath, *, read_only: bool = True) -> Path:
    """The results file that an alias of it stands for (records.md §18.1).

    Args:
        output: A results file, or a symbolic link to one. It need not exist.
        read_only: Whether the caller only reads. A reader may use the files beside an alias when that is unambiguous:
            an old layout whose companions all lie beside the link.

    Returns:
        An absolute path.

    Raises:
        RunDataError: `E-ALIAS` when companions beside the alias would be left behind; nothing is changed.
    """
    given = Path(os.path.abspath(output))  # noqa: PTH100 - Path.absolute would keep `..`
    resolved = Path(os.path.realpath(given))
    owned = (manifest_path_for, journal_path_for, materialized_path_for, failures_path_for)
    misplaced = [
        path(given)
        for path in owned
        if os.path.realpath(path(given)) != os.path.realpath(path(resolved)) and os.path.lexists(path(given))
    ]
    if not misplaced:
        return resolved
    has_history = any(os.path.lexists(path(name)) for path in owned[:2] for name in (given, resolved))
    if read_only and not has_history and not any(os.path.lexists(path(resolved)) for path in owned):
        return given
    raise RunDataError(
        "E-ALIAS",
        f"lies beside an alias of {resolved}, where its run does not look for it; move it beside that file or name "
        "that file itself. Nothing was changed",
        path=misplaced[0],
    )


def resolve_rollout_owner(path: StrPath) -> Path:
    """The results file that a sidecar or an inventory belongs to (records.md §18.2).

    A file with a manifest or journal of its own is its own owner whatever its name, and so is one whose shortened name
    leads to no run.

    Returns:
        An absolute path.

    Raises:
        RunDataError: `E-ALIAS`, as `resolve_rollout_path`.
    """
    resolved = resolve_rollout_path(path, read_only=True)
    if _has_history(resolved):
        return resolved
    for ending in ("_failures", "_materialized_inputs"):
        owner = resolved.with_name(resolved.stem.removesuffix(ending) + resolved.suffix)
        if resolved.stem.endswith(ending) and resolved.stem != ending and _has_history(owner):
            return owner
    return resolved


def _has_history(output: Path) -> bool:
    return os.path.lexists(manifest_path_for(output)) or os.path.lexists(journal_path_for(output))


def _companion(output: StrPath, ending: str) -> Path:
    path = Path(output)
    return path.with_name(path.stem + ending)
