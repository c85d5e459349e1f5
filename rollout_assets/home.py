"""The local instance: one folder with runs, store and Dagster's own state, made by one process before any other."""

from __future__ import annotations

import fcntl
import importlib.resources
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from rollout_assets.core.files import write_text
from rollout_assets.settings import Settings


@contextmanager
def local_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of these settings, creating it if needed, and give this process its environment.

    Two first users of an empty SQLite instance corrupt it for good, so the first use happens under a lock.
    """
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    settings.store_root.mkdir(parents=True, exist_ok=True)
    os.environ.update(settings.environment())
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


def _write_configuration(settings: Settings) -> None:
    """Write what is missing of the instance's own files; what a person has edited is left alone."""
    for name in ("dagster.yaml", "workspace.yaml"):
        target = settings.dagster_home / name
        if not target.exists():
            packaged = importlib.resources.files("rollout_assets.resources") / name
            write_text(target, packaged.read_text(encoding="utf-8"))
