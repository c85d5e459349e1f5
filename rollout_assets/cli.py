"""The command line, `rollout-assets`: the same core without Dagster.

Commands import what they need when they run, so that `--help` and small checks start fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rollout_assets.settings import Settings

_HOME = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="The one folder that everything is written to. Without it the ROLLOUT_ variables say, "
    "and without these ./rollout_home.",
)


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where runs, policy and everything written lie."""
    for option in (
        _HOME,
        click.option(
            "--policy", type=click.Path(path_type=Path, dir_okay=False), help="Policy file: groups, baselines, keys."
        ),
        click.option(
            "--runs-root", type=click.Path(path_type=Path), help="Folder that holds the run directories; only read."
        ),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rollout-assets")
def main() -> None:
    """Index, check, fold and compare the rollout files of NeMo Gym runs."""


@main.command()
@_HOME
def demo(home: Path | None) -> None:
    """Write demo runs and take them in: the whole way from raw files to comparison reports.

    Three good runs and a malformed one are written below HOME/runs. Everything else goes below HOME too, whatever the
    environment says; HOME is ./rollout_home unless given.
    """
    from rollout_assets.demo.runs import write_demo_runs
    from rollout_assets.settings import Settings

    settings = Settings.inside(home or Path("rollout_home"))
    write_demo_runs(settings.runs_root)
    _take_in(settings)


@main.command()
@_place_options
def ingest(runs_root: Path | None, policy: Path | None, home: Path | None) -> None:
    """Take in every run below the runs root: index, check, fold, summarise, compare.

    Does what the sensor does in Dagster, now and in this terminal. Exits with 1 when a run could not be used.
    """
    if not _take_in(_settings(runs_root, policy, home)):
        sys.exit(1)


@main.command()
@_place_options
@click.option("--port", type=int, default=3000, show_default=True)
def ui(runs_root: Path | None, policy: Path | None, home: Path | None, port: int) -> None:
    """Open Dagster's UI, with its daemon, on what is stored in HOME."""
    from rollout_assets.home import local_instance, workspace_file

    settings = _settings(runs_root, policy, home)
    with local_instance(settings):
        pass
    arguments = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace_file(settings)), "-p", str(port)]
    os.execve(sys.executable, arguments, {**os.environ, **settings.environment()})  # noqa: S606


def _settings(runs_root: Path | None, policy: Path | None, home: Path | None) -> Settings:
    from dataclasses import replace

    from rollout_assets.settings import Settings

    settings = Settings.of() if home is None else Settings.inside(home)
    if runs_root is not None:
        settings = replace(settings, runs_root=runs_root.absolute())
    if policy is not None:
        if not policy.is_file():
            raise click.UsageError(f"the policy file {policy} does not exist")
        settings = replace(settings, policy=policy.absolute())
    return settings


def _take_in(settings: Settings) -> bool:
    """Take in every run, show what came of it, and say whether all could be used."""
    from rich.console import Console

    from rollout_assets.core.discovery import discover
    from rollout_assets.core.errors import RunDataError
    from rollout_assets.policy import load_policy
    from rollout_assets.terminal import show_failures, show_places, show_reports, take_in

    console = Console()
    try:
        load_policy(settings.policy)
        discovery = discover(settings.runs_root)
    except RunDataError as error:
        raise click.ClickException(str(error)) from None
    if not discovery.runs:
        raise click.ClickException(f"{settings.runs_root}: holds no run (no results file `*.jsonl` in any folder)")
    results = take_in(settings, discovery, console)
    show_reports(settings, results, console)
    show_failures(results, console)
    show_places(settings, console)
    return all(result.succeeded for result in results) and not discovery.rejected
