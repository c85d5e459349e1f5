"""Homes of Dagster's own state: a local one, made by one process before any other, and the profile of a shared one."""

from __future__ import annotations

import fcntl
import importlib.resources
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import yaml
from sqlalchemy.exc import SQLAlchemyError

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_text
from rollout_assets.settings import Settings


@contextmanager
def local_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of these settings, creating it if needed; this process has its environment meanwhile.

    Raises:
        RunDataError: `E-HOME` when a folder cannot be written to, or its databases cannot be opened.
    """
    home = settings.dagster_home
    try:
        for folder in (home, settings.store_root):
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(home / ".first-use.lock"):
            _write_configuration(home)
            _make_databases(home)
        with _environment(settings.environment()):
            instance = dg.DagsterInstance.get()
            instance.get_runs_count()  # the first query opens the databases
    except (OSError, SQLAlchemyError, dg.DagsterError, yaml.YAMLError) as error:
        reason = f"cannot be used by Dagster ({_short(error)}); make room and give this user write access, or mend "
        reason += "dagster.yaml if it is to blame, or choose another --home"
        raise RunDataError("E-HOME", reason, path=getattr(error, "filename", None) or home) from error
    with _environment(settings.environment()), instance:
        yield instance


@contextmanager
def sole_use(settings: Settings, waiting: Callable[[], None]) -> Iterator[None]:
    """Let one process at a time write and take in runs from a terminal; the others wait.

    Two that take in one run at once would find each other's half-finished index.

    Args:
        settings: Where the home is.
        waiting: Called once when another process is at work.

    Raises:
        RunDataError: `E-HOME` when the home cannot be written to.
    """
    home = settings.dagster_home
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / ".taking-in.lock").open("w")
    except OSError as error:
        reason = f"cannot be written to ({_short(error)}); give this user write access, or choose another --home"
        raise RunDataError("E-HOME", reason, path=home) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


#: The folders of the databases of Dagster's SQLite storage. The last one is moved last: without it, it is a first use.
_DATABASES = ("schedules", "history")


def _make_databases(home: Path) -> None:
    """Make the databases of a new instance elsewhere and move them into place when they are complete.

    Dagster makes them table by table: two first users at once, or one that is killed, leave an instance that never
    works again.
    """
    if (home / _DATABASES[-1]).exists():
        return
    nursery = home / ".first-use"
    shutil.rmtree(nursery, ignore_errors=True)  # of a process that was killed here
    nursery.mkdir()
    shutil.copy(home / "dagster.yaml", nursery)
    with _environment({"DAGSTER_HOME": str(nursery)}), dg.DagsterInstance.get() as instance:
        instance.get_runs_count()
        instance.get_dynamic_partitions("rollout_runs")
        instance.all_instigator_state()
    for name in _DATABASES:
        if (nursery / name).exists():
            shutil.rmtree(home / name, ignore_errors=True)
            (nursery / name).rename(home / name)
    shutil.rmtree(nursery)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however that ends."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _short(error: Exception) -> str:
    """What went wrong, in one line."""
    return getattr(error, "strerror", None) or str(getattr(error, "orig", error))


def workspace_file(settings: Settings) -> Path:
    """The workspace file of the instance: it gives the code location the same name wherever it is opened from."""
    return settings.dagster_home / "workspace.yaml"


#: The files that `rollout-assets init` writes, with their places in the package.
PROFILE = {
    "dagster.yaml": "production/dagster.yaml",
    "workspace.yaml": "workspace.yaml",
    "policy.yaml": "production/policy.yaml",
}


def write_profile(folder: Path) -> list[Path]:
    """Write the profile of a shared installation into a folder that then serves as DAGSTER_HOME.

    Returns:
        The files written: `dagster.yaml` (PostgreSQL storage), `workspace.yaml` and an example `policy.yaml`.

    Raises:
        RunDataError: `E-EXISTS` when one of them is there already; nothing is written then.
    """
    targets = {folder / name: packaged for name, packaged in PROFILE.items()}
    for target in targets:
        if target.exists() or target.is_symlink():
            raise RunDataError(
                "E-EXISTS", "exists already; move it away, or give a folder without such a file", path=target
            )
    for target, packaged in targets.items():
        write_text(target, _packaged(packaged))
    return list(targets)


def _write_configuration(home: Path) -> None:
    """Write what is missing of the instance's own files; what a person has edited is left alone."""
    for name in ("dagster.yaml", "workspace.yaml"):
        target = home / name
        if not target.exists():
            write_text(target, _packaged(name))


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Give this process these variables until the block ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _packaged(name: str) -> str:
    """The text of a file in `rollout_assets/resources`."""
    return importlib.resources.files("rollout_assets.resources").joinpath(name).read_text(encoding="utf-8")
