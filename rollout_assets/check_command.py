"""The command `check`: every fault of some runs, one a line, in the form that editors and CI understand."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from rollout_assets.core.discovery import discover
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

    Raises:
        RunDataError: A path is unreadable or names no run.
    """
    outputs = [output for path in paths for output in _outputs(path)]
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
        report = {"runs": {str(output): rows[str(output)] for output in outputs}, "kinds": kinds, "faults": faults}
        click.echo(json.dumps(report, indent=2))
    else:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no fault"
        click.echo(f"{counted(len(outputs), 'run')}, {counted(rows.total(), 'readable row')}: {found}", err=True)
    return EXIT_FAULTS if kinds else EXIT_SOUND


def _outputs(path: Path) -> list[Path]:
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise unreadable_file(path, error) from None
    if not is_folder:
        return [path]
    found = discover(path)
    if found.rejected:
        raise RunDataError("E-RUN-KEY", found.rejected[0].reason, path=found.rejected[0].path)
    if not found.runs:
        raise RunDataError("E-RUN-COUNT", "holds no run (no results file `*.jsonl` in any folder)", path=path)
    return [run.output for run in found.runs]


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
