"""The command line, `rollout-assets`: the same core without Dagster.

Commands import what they need when they run, so that `--help` and small checks start fast.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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


class _Refused(click.ClickException):
    """What every command ends with when it cannot do its work: `error: ` and what to do, in one line."""

    def show(self, file: Any = None) -> None:
        """Print it to the standard error stream."""
        click.echo(f"error: {self.message}".encode("utf-8", "backslashreplace"), file, err=True)


class _WrongUsage(_Refused):
    """A refusal of the command line itself: first what it should look like."""

    exit_code = click.UsageError.exit_code

    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message())
        self._usage = error.ctx and f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n"

    def show(self, file: Any = None) -> None:
        """Print the usage, then the refusal."""
        click.echo(self._usage, file, err=True)
        super().show(file)


class _Commands(click.Group):
    """Commands whose failures are told in one line: what was refused, where, and what to do."""

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        """Read the command line."""
        with _refusals():
            return super().make_context(*arguments, **settings)

    def invoke(self, context: click.Context) -> Any:
        """Run the command; a refusal of ours or of the operating system ends it with exit code 1."""
        with _refusals():
            return super().invoke(context)


@contextmanager
def _refusals() -> Iterator[None]:
    """Give every refusal, of ours, of click and of the operating system, the one form."""
    from rollout_assets.core.errors import RunDataError

    try:
        yield
    except click.UsageError as error:
        if type(error).show is not click.UsageError.show:  # it shows the help instead
            raise
        raise _WrongUsage(error) from None
    except click.ClickException as error:
        raise _Refused(error.format_message()) from None
    except RunDataError as error:
        raise _Refused(str(error)) from None
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever read the output has gone: click ends quietly
            raise
        place = error.filename or "the output cannot be written"
        raise _Refused(f"{place}: {error.strerror or error}; mend that, or name another place") from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
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
    with _sole_use(settings):
        write_demo_runs(settings.runs_root)
        _take_in(settings)


@main.command()
@_place_options
def ingest(runs_root: Path | None, policy: Path | None, home: Path | None) -> None:
    """Take in every run below the runs root: index, check, fold, summarise, compare.

    Does what the sensor does in Dagster, now and in this terminal. Exits with 1 when a run could not be used,
    or does not pass its gate.
    """
    settings = _settings(runs_root, policy, home)
    with _sole_use(settings):
        all_usable = _take_in(settings)
    if not all_usable:
        sys.exit(1)


@main.command()
@_place_options
@click.option("--port", type=click.IntRange(0, 65535), default=3000, show_default=True)
def ui(runs_root: Path | None, policy: Path | None, home: Path | None, port: int) -> None:
    """Open Dagster's UI, with its daemon, on what is stored in HOME."""
    from rollout_assets.home import local_instance, workspace_file

    settings = _settings(runs_root, policy, home)
    with local_instance(settings):
        pass
    arguments = [sys.executable, "-m", "dagster", "dev", "-w", str(workspace_file(settings)), "-p", str(port)]
    # A shell starts background jobs with SIGINT ignored. Dagster would then ignore SIGTERM as well.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execve(sys.executable, arguments, {**os.environ, **settings.environment()})  # noqa: S606


@main.command()
@click.argument("run_key")
@click.option("--url", default="http://127.0.0.1:3000", show_default=True, help="Address of the Dagster webserver.")
@click.option(
    "--runs-root",
    type=click.Path(path_type=Path),
    envvar="ROLLOUT_RUNS_ROOT",
    help="The runs root as seen from here: a run that is not in it is refused at once. [env: ROLLOUT_RUNS_ROOT]",
)
@click.option("--wait", is_flag=True, help="Wait until the run is taken in; exit with 1 when it is not sound.")
@click.option("--timeout", type=float, help="Seconds to wait at most.")
def trigger(run_key: str, url: str, runs_root: Path | None, wait: bool, timeout: float | None) -> None:
    """Have a running Dagster take in one run: for the end of a training job, from any host.

    RUN_KEY is the path of the results file below the runs root, without .jsonl, as in math/step-0100/rollouts.
    """
    from rollout_assets.trigger import TriggerError, wait_for
    from rollout_assets.trigger import trigger as launch

    try:
        started = launch(run_key, url, runs_root=runs_root)
        click.echo(f"taking in {run_key}: {started.page}")
        if not wait:
            return
        outcome = wait_for(started, timeout=timeout)
    except TriggerError as error:
        raise click.ClickException(str(error)) from None
    for problem in outcome.problems:
        click.echo(problem)
    ended = "was taken in, and does not pass" if outcome.taken_in else "cannot be used"
    click.echo(f"{run_key} {'was taken in' if outcome.succeeded else ended}")
    if not outcome.succeeded:
        sys.exit(1)


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path) -> None:
    """Write the configuration of a shared installation into DIR: PostgreSQL, concurrency limits, retention.

    DIR then is DAGSTER_HOME. It gets dagster.yaml, workspace.yaml and an example policy.yaml, each with comments. Files
    that are there already are never written over.
    """
    from rollout_assets.home import write_profile
    from rollout_assets.settings import absolute

    folder = absolute(folder)
    for path in write_profile(folder):
        click.echo(f"wrote {path}")
    click.echo(_AFTER_INIT.format(home=folder))


_AFTER_INIT = """
Next, on every host that runs a Dagster process:

    pip install '.[postgres]'     # in a clone of this project
    export DAGSTER_HOME={home}
    export ROLLOUT_RUNS_ROOT=... ROLLOUT_STORE_ROOT=... ROLLOUT_POLICY=$DAGSTER_HOME/policy.yaml
    export ROLLOUT_COMPUTE_LOGS=...
    export ROLLOUT_WORKERS=1      # cores per Dagster run; more where fewer runs than cores share a host
    export ROLLOUT_PG_HOST=... ROLLOUT_PG_PORT=5432 ROLLOUT_PG_DATABASE=... ROLLOUT_PG_USER=... ROLLOUT_PG_PASSWORD=...

Once, before anything else uses the database:

    dagster instance migrate

Then, one process each (the webserver asks nobody for a password: keep it inside a private network):

    dagster-webserver -w $DAGSTER_HOME/workspace.yaml -h 0.0.0.0 -p 3000
    dagster-daemon run -w $DAGSTER_HOME/workspace.yaml

and switch on the sensor `discover_runs`, in the UI or with

    dagster sensor start discover_runs -w $DAGSTER_HOME/workspace.yaml"""


def _settings(runs_root: Path | None, policy: Path | None, home: Path | None) -> Settings:
    from dataclasses import replace

    from rollout_assets.settings import Settings, absolute

    settings = Settings.of() if home is None else Settings.inside(home)
    if runs_root is not None:
        settings = replace(settings, runs_root=absolute(runs_root))
    if policy is not None:
        if not policy.exists():
            raise click.ClickException(f"the policy file {policy} does not exist; check the path")
        settings = replace(settings, policy=absolute(policy))
    return settings


def _sole_use(settings: Settings) -> AbstractContextManager[None]:
    """Be the only terminal that writes to this home, waiting for another one to end."""
    from rollout_assets.home import sole_use

    place = settings.dagster_home
    return sole_use(settings, lambda: click.echo(f"waiting for another process that works in {place}", err=True))


def _take_in(settings: Settings) -> bool:
    """Take in every run, show what came of it, and say whether all could be used."""
    from rich.console import Console

    from rollout_assets.core.discovery import discover
    from rollout_assets.core.errors import RunDataError
    from rollout_assets.policy import load_policy
    from rollout_assets.terminal import show_failures, show_places, show_reports, take_in

    console = Console()
    load_policy(settings.policy)
    discovery = discover(settings.runs_root)
    if not discovery.runs and not discovery.rejected:
        reason = "holds no run: no results file `*.jsonl` in any folder (links to folders and hidden ones are left out)"
        raise RunDataError("E-RUN-COUNT", reason, path=settings.runs_root)
    results = take_in(settings, discovery, console)
    show_reports(settings, results, console)
    show_failures(results, console)
    show_places(settings, console)
    return all(result.succeeded for result in results) and not discovery.rejected


@main.command()
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("--key", help="Field that names the task of a row, dotted; found when not given.")
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    help="Lines of verifier output to show for a flip.",
)
@click.option(
    "--logs-root",
    "logs_roots",
    type=click.Path(),
    multiple=True,
    help="Folder to look for relative verifier log paths in, after the current one and that of the file.",
)
@click.option("--json", "json_file", type=click.Path(), help="Write the summary as JSON to this file; - for stdout.")
def compare(old: str, new: str, key: str | None, tail: int, logs_roots: tuple[str, ...], json_file: str | None) -> None:
    """Compare two results files task by task: OLD is the reference, NEW the candidate.

    Each file's sidecar of failures (<name>_failures.jsonl) counts where there is one. This is a report, no gate: it
    exits with 0 whatever changed, with 1 when an input cannot be read or the JSON cannot be written, with 2 for wrong
    usage.
    """
    from rollout_assets.core.compare.command import run

    sys.exit(run(old, new, key=key, tail=tail, logs_roots=logs_roots, json_file=json_file))


@main.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--timeline", metavar="ID", help="Also list every saved attempt of one rollout, and why it stands.")
def coverage(run: Path, as_json: bool, timeline: str | None) -> None:
    """Say how much of a run is there: what was expected, what became of it, what a resume would still do.

    RUN is a results file, or a folder that holds exactly one run. Only reads. Exits with 0 when the run is complete, 75
    when a resume would run something, 76 when it is partial and nothing is left to do, 1 when that cannot be told.
    """
    import json
    import warnings

    from rollout_assets.core.records import exit_status, read_run, report

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: click.echo(f"warning: {message}", err=True)
        output = report.results_file_of(run)
        reading = read_run(output)
        figures = None if reading.records is None else reading.records.coverage()
        if as_json:
            click.echo(json.dumps(report.as_json(output, reading, figures, timeline), indent=2))
        else:
            click.echo(report.as_text(output, reading, figures, timeline))
    sys.exit(1 if figures is None else exit_status(figures))


@main.group()
def policy() -> None:
    """Look at the policy file: groups of runs, baselines, severities, thresholds."""


@policy.command("check")
@_place_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_policy(runs_root: Path | None, policy: Path | None, home: Path | None, as_json: bool) -> None:
    """Say which runs fall in which group, and which comparisons would exist if every run were sound.

    Exits with 1 when the policy file or the runs root cannot be read. Nothing is written.
    """
    import json

    from rollout_assets import policy_report
    from rollout_assets.core.discovery import discover
    from rollout_assets.core.text import counted
    from rollout_assets.policy import load_policy

    settings = _settings(runs_root, policy, home)
    read = load_policy(settings.policy)
    discovery = discover(settings.runs_root)
    report = policy_report.report_on(read, discovery)
    found = settings.policy if settings.policy.exists() else None
    if as_json:
        click.echo(
            json.dumps(
                policy_report.as_json(report, discovery, policy_file=found, runs_root=settings.runs_root), indent=2
            )
        )
        return
    click.echo(f"policy: {found or f'there is no file {settings.policy}, so everything is at its default'}")
    click.echo(f"runs:   {settings.runs_root} ({counted(len(discovery.runs), 'run')})\n")
    click.echo(policy_report.as_text(report))


@policy.command("schema")
def show_policy_schema() -> None:
    """Print the JSON Schema of the policy file, for editors that check and complete as one types."""
    import json

    from rollout_assets.policy import policy_schema

    click.echo(json.dumps(policy_schema(), indent=2))


@main.command("index")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@_place_options
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Threads or processes that scan side by side.  [default: ROLLOUT_WORKERS, or the usable cores]",
)
@click.option("--whole", is_flag=True, help="Scan everything, even if files only grew since the last time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def index_run(
    run: Path,
    runs_root: Path | None,
    policy: Path | None,
    home: Path | None,
    workers: int | None,
    whole: bool,
    as_json: bool,
) -> None:
    """Index one run into the store, or what was appended to it since the last time; print its faults.

    RUN is a results file, or a folder that holds exactly one run. It is named by its path below the runs root; where
    none is set, by the names of its folder and its file. Exits with 0 when the run is sound, with 1 when its faults
    block it or it cannot be read.
    """
    from rollout_assets.index_command import index
    from rollout_assets.indexing.startup import spare_pandas
    from rollout_assets.settings import worker_count

    spare_pandas()
    settings = _settings(runs_root, policy, home)
    name_it = runs_root is None and (home is not None or not os.environ.get("ROLLOUT_RUNS_ROOT"))
    count = workers or worker_count()
    sys.exit(index(run, settings, name_it=name_it, workers=count, whole=whole, as_json=as_json))


@main.command("check")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_runs(runs: tuple[Path, ...], as_json: bool) -> None:
    """Check every line of runs strictly; print each fault as path:line:column: kind: message.

    RUNS are results files, or folders of which every run is checked, sidecars included. Only reads. Exits with 0 when
    all is sound, with 1 when there is a fault or a file cannot be read.
    """
    from rollout_assets.check_command import check

    sys.exit(check(runs, as_json=as_json))
