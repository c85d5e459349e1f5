"""Names of the files of a run, built from the path of its results file, the *output* (records.md §1, §18)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

StrPath = str | PathLike[str]


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


def _companion(output: StrPath, ending: str) -> Path:
    path = Path(output)
    return path.with_name(path.stem + ending)
