"""What a person sees in a terminal while runs are taken in."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rollout_assets.checks.comparison_gate import COMPARISON_GATE
from rollout_assets.core.discovery import Discovery
from rollout_assets.core.text import counted
from rollout_assets.home import local_instance
from rollout_assets.ingest import FailedCheck, IngestResult, ingest
from rollout_assets.settings import Settings
from rollout_assets.store import Store

#: Places that are listed of a warning.
SHOWN_OF_WARNING = 5
#: Comparisons whose reports are shown in full; of more there is a line each.
FULL_REPORTS = 3
_OF_WINNER = {"old": "worse", "new": "better"}
_CHANGES = ("better", "worse", "identical", "masked", "missing")


def take_in(settings: Settings, discovery: Discovery, console: Console) -> list[IngestResult]:
    """Take in all discovered runs with a progress bar; then say what each gave."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with local_instance(settings) as instance, bar:
        task = bar.add_task("taking in", total=len(discovery.runs))

        def show(result: IngestResult) -> None:
            bar.console.print(_line(result), soft_wrap=True, highlight=False)
            bar.advance(task)

        results = ingest(discovery.runs, instance, on_result=show)
    for item in discovery.rejected:
        told = f"{escape(str(item.path))}: {escape(item.reason)}"
        console.print(f"[yellow]cannot be taken in[/] {told}", soft_wrap=True, highlight=False)
    return results


def show_failures(results: list[IngestResult], console: Console) -> None:
    """Every check that failed and every run that stopped; of warnings the first places."""
    for result in results:
        for check in result.failed_checks:
            colour, word = _heading(check)
            console.print(f"[{colour}]{word}[/] [bold]{result.key}[/] {check.name}")
            console.print(f"  {escape(check.description)}", soft_wrap=True, highlight=False)
            shown = check.places[:SHOWN_OF_WARNING] if check.warning else check.places
            for place in shown:
                console.print(f"    {escape(_place(place))}", soft_wrap=True, highlight=False)
            if len(shown) < len(check.places):
                console.print("    … more in Dagster's UI", soft_wrap=True, highlight=False)
        if result.failure is not None and not any(check.blocking for check in result.failed_checks):
            console.print(f"[red]failed[/] [bold]{result.key}[/]")
            console.print(f"  {escape(result.failure)}", soft_wrap=True)


def _heading(check: FailedCheck) -> tuple[str, str]:
    """The colour and the word for a check that did not pass."""
    if check.blocking:
        return "red", "blocked"
    return ("yellow", "warning") if check.warning else ("red", "failed")


def _place(place: Mapping[str, Any]) -> str:
    """One place on one line: a fault with its byte, or whatever else a check lists."""
    if "kind" not in place:
        return ", ".join(f"{name} {value}" for name, value in place.items() if value is not None)
    where = f"{place['file']} line {place['line']}, byte {place['byte offset']}"
    return f"{where}: {place['kind']}: {place['message']}"


def show_reports(settings: Settings, results: list[IngestResult], console: Console) -> None:
    """What the comparisons gave that were just made: few reports in full, of many a line each and where they lie."""
    store = Store(settings.store_root, settings.runs_root)
    compared = [
        (result, baseline, counts)
        for result in results
        if "comparison_report" in result.materialized
        for baseline, counts in _counts_by_baseline(store, result.key).items()
    ]
    if len(compared) <= FULL_REPORTS:
        for result, baseline, _ in compared:
            console.rule(f"{result.key} vs {baseline}")
            report = store.report_path(result.key, baseline, ".txt").read_text(encoding="utf-8")
            console.print(escape(report), soft_wrap=True, highlight=False)
        return
    console.rule(counted(len(compared), "comparison"))
    for result, baseline, counts in compared:
        gate = next((check for check in result.failed_checks if check.name == COMPARISON_GATE.name), None)
        told = ", ".join(f"{counts[word]} {word}" for word in _CHANGES)
        told += f"; gate: {_heading(gate)[1]}" if gate else ""
        console.print(f"[bold]{result.key}[/] vs {baseline}: {told}", soft_wrap=True, highlight=False)
        report_path = store.report_path(result.key, baseline, ".txt")
        console.print(f"  {escape(str(report_path))}", soft_wrap=True, highlight=False)


def _counts_by_baseline(store: Store, run: str) -> dict[str, Counter[str]]:
    """How many tasks changed in which way, against each baseline of a run."""
    found: dict[str, Counter[str]] = {}
    for row in store.read_table("comparison_report", run, columns=["baseline", "category", "winner"]).to_pylist():
        change = _OF_WINNER.get(row["winner"], row["category"])
        found.setdefault(row["baseline"], Counter())[change] += 1
    return found


def show_places(settings: Settings, console: Console) -> None:
    """Where everything lies, and how to look at it."""
    console.rule("where things are")
    for name, path in (
        ("runs", settings.runs_root),
        ("tables", settings.store_root),
        ("reports", settings.store_root / "reports"),
        ("Dagster", settings.dagster_home),
    ):
        console.print(f"{name:8} {escape(str(path))}", soft_wrap=True, highlight=False)
    console.print(
        "\nTo browse all this in Dagster's UI, run this and open http://127.0.0.1:3000/assets\n", soft_wrap=True
    )
    console.print(f"    {escape(ui_command(settings))}\n", soft_wrap=True, highlight=False)


def ui_command(settings: Settings) -> str:
    """The line that opens the UI on exactly this state, as short as it can be."""
    home = settings.dagster_home.parent
    usual = Settings.inside(home)
    if (settings.dagster_home, settings.store_root) != (usual.dagster_home, usual.store_root):
        return " ".join(
            [*(f"{name}={shlex.quote(value)}" for name, value in settings.environment().items()), _program(), "ui"]
        )
    words = [_program(), "ui", "--home", _from_here(home)]
    if settings.runs_root != usual.runs_root:
        words += ["--runs-root", _from_here(settings.runs_root)]
    if settings.policy != usual.policy:
        words += ["--policy", _from_here(settings.policy)]
    return " ".join(words)


def _program() -> str:
    """How this program was called, for a line to copy."""
    called = Path(sys.argv[0])
    return shlex.quote(_from_here(called)) if called.name == "rollout-assets" else "rollout-assets"


def _from_here(path: Path) -> str:
    """A path as short as it can be from the current folder, quoted for a shell."""
    path = path.absolute()
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here)) if path.is_relative_to(here) else str(path))


def _line(result: IngestResult) -> str:
    if any(check.blocking for check in result.failed_checks):
        mark = "[red]blocked[/]"
    elif not result.succeeded:
        mark = "[red]failed [/]"
    elif result.failed_checks:
        mark = "[yellow]warning[/]"
    else:
        mark = "[green]sound  [/]"
    return f"{mark} [bold]{result.key}[/]  {counted(len(result.materialized), 'asset')} materialized"
