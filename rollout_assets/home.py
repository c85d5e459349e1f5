"""Homes of Dagster's own state: a local one, made by one process before any other, and the profile of a shared one."""

from __future__ import annotations

import fcntl
import importlib.resources
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_text
from rollout_assets.settings import Settings


@contextmanager
def local_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of these settings, creating it if needed; this process has its environment meanwhile.

    Two first users of an empty SQLite instance corrupt it for good, so the first use happens under a lock.
    """
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    settings.store_root.mkdir(parents=True, exist_ok=True)
    with _environment(settings.environment()):
        with (settings.dagster_home / ".first-use.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _write_configuration(settings)
            instance = dg.DagsterInstance.get()
            instance.get_runs_count()  # the first query makes the tables
            instance.get_dynamic_partitions("rollout_runs")
        with instance:
            yield instance


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


def _write_configuration(settings: Settings) -> None:
    """Write what is missing of the instance's own files; what a person has edited is left alone."""
    for name in ("dagster.yaml", "workspace.yaml"):
        target = settings.dagster_home / name
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
