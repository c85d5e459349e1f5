"""The command `check`: every fault of some runs, one a line, in the form that editors and CI understand."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from rollout_assets.core.discovery import RejectedRun, discover
from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.core.jsonl import Fault
from rollout_assets.core.run_scan import files_of_run, scan_run
from rollout_assets.core.text import counted
from rollout_assets.progress import progress

EXIT_SOUND, EXIT_FAULTS = 0, 1


def check(paths: Iterable[Path], *, as_json: bool) -> int:
    """Print every fault of every run that is named, and give the exit code.

    Args:
        paths: Results files, or folders of which every run is meant.
        as_json: Print one JSON object for all instead of a line per fault.

    What looks like a run in a folder and cannot be one is reported, and stops no other.

    Raises:
        RunDataError: A path is unreadable or names no run.
    """
    outputs: list[Path] = []
    rejected: list[RejectedRun] = []
    for path in paths:
        of_path, not_of_path = _outputs(path)
        outputs += of_path
        rejected += not_of_path
    rows: Counter[str] = Counter()
    faults: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    with progress(lambda: _bytes(outputs), "checking") as advance:
        for output in outputs:
            for _, line in scan_run(output):
                advance(line.length)
                if not isinstance(line, Fault):
                    rows[str(output)] += 1
                    continue
                kinds[str(line.kind)] += 1
                if as_json:
                    faults.append(_as_dict(line))
                else:
                    click.echo(str(line).encode("utf-8", "backslashreplace"))
    if as_json:
        report: dict[str, Any] = {
            "runs": {str(output): rows[str(output)] for output in outputs},
            "kinds": kinds,
            "faults": faults,
        }
        report["cannot_be_taken_in"] = [{"path": str(item.path), "reason": item.reason} for item in rejected]
        click.echo(json.dumps(report, indent=2))
    else:
        for item in rejected:
            click.echo(f"{item.path}: cannot be taken in: {item.reason}".encode("utf-8", "backslashreplace"))
        told = [f"{count} {kind}" for kind, count in sorted(kinds.items())]
        told += [f"{len(rejected)} cannot be taken in"] if rejected else []
        summary = f"{counted(len(outputs), 'run')}, {counted(rows.total(), 'readable row')}"
        click.echo(f"{summary}: {', '.join(told) or 'no fault'}", err=True)
    return EXIT_FAULTS if kinds or rejected else EXIT_SOUND


def _outputs(path: Path) -> tuple[list[Path], Sequence[RejectedRun]]:
    """The results file that is named, or all of a folder; and what looks like one there and cannot be a run."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise unreadable_file(path, error) from None
    if stat.S_ISREG(mode):
        return [path], ()
    if not stat.S_ISDIR(mode):
        reason = "is a pipe or a device, no regular file; save what it gives to a file first"
        raise RunDataError("E-UNREADABLE", reason, path=path)
    found = discover(path)
    if not found.runs and not found.rejected:
        raise RunDataError("E-RUN-COUNT", "holds no run (no results file `*.jsonl` in any folder)", path=path)
    return [run.output for run in found.runs], found.rejected


def _as_dict(fault: Fault) -> dict[str, Any]:
    return {
        "path": fault.path,
        "line": fault.line,
        "offset": fault.offset,
        "length": fault.length,
        "column": fault.column,
        "kind": str(fault.kind),
        "message": fault.message,
        "excerpt": fault.excerpt,
    }


def _bytes(outputs: list[Path]) -> int:
    return sum(path.stat().st_size for output in outputs for _, path in files_of_run(output))
