"""Where things lie: settings from the environment, each with a default inside one folder.

| variable | default | meaning |
| --- | --- | --- |
| `ROLLOUT_HOME` | `rollout_home` in the current folder | the one folder that the other defaults lie in |
| `ROLLOUT_RUNS_ROOT` | `<home>/runs` | where run directories lie; only ever read |
| `ROLLOUT_STORE_ROOT` | `<home>/store` | where tables, verdicts and reports go; may be a URL: `s3://…` |
| `ROLLOUT_POLICY` | `<home>/policy.yaml` | the policy file; may be absent |
| `DAGSTER_HOME` | `<home>/dagster` (set by our commands) | Dagster's own state |
| `ROLLOUT_WORKERS` | the usable cores | threads or processes that scan one run side by side; 1 starts none |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upath import UPath

from rollout_assets.core.errors import RunDataError


@dataclass(frozen=True)
class Settings:
    """Absolute paths of everything that is configured by place."""

    runs_root: Path
    store_root: Path | UPath
    policy: Path
    dagster_home: Path

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ, *, home: Path | None = None) -> Settings:
        """The settings of an environment; an explicit `home` moves the defaults, not what is set by name."""
        base = absolute(home or Path(environment.get("ROLLOUT_HOME") or "rollout_home"))

        def place(variable: str, default: str) -> Path:
            return absolute(Path(environment.get(variable) or base / default))

        return cls(
            runs_root=place("ROLLOUT_RUNS_ROOT", "runs"),
            store_root=store_place(environment.get("ROLLOUT_STORE_ROOT") or str(base / "store")),
            policy=place("ROLLOUT_POLICY", "policy.yaml"),
            dagster_home=place("DAGSTER_HOME", "dagster"),
        )

    @classmethod
    def inside(cls, home: Path) -> Settings:
        """The settings of a folder that holds everything, whatever the environment says."""
        return cls.of({}, home=home)

    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings."""
        return {
            "ROLLOUT_RUNS_ROOT": str(self.runs_root),
            "ROLLOUT_STORE_ROOT": str(self.store_root),
            "ROLLOUT_POLICY": str(self.policy),
            "DAGSTER_HOME": str(self.dagster_home),
        }


def absolute(path: Path) -> Path:
    """A path as it is printed and compared: from the root on, without `..`."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute would keep `..`


def store_place(text: str) -> Path | UPath:
    """Where a store lies: an absolute local path, or a place on the file system of fsspec that a URL names."""
    return UPath(text) if "://" in text else absolute(Path(text))


def worker_count(environment: Mapping[str, str] = os.environ) -> int:
    """How many threads or processes may scan one run: `ROLLOUT_WORKERS`, or the cores that this process may use.

    Raises:
        RunDataError: `E-SETTING` when the variable is no whole number above 0.
    """
    text = environment.get("ROLLOUT_WORKERS")
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not (text.isascii() and text.isdigit() and int(text)):
        reason = (
            f"ROLLOUT_WORKERS is {text!r}; set it to the number of threads or processes that may scan a run, 1 or more"
        )
        raise RunDataError("E-SETTING", reason)
    return int(text)
