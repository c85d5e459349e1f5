"""When a run is settled: its files have rested long enough, or its coverage says that it is complete."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from rollout_assets.core.discovery import DiscoveredRun
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.records.paths import coverage_path_for
from rollout_assets.policy import Policy

VARIABLE = "ROLLOUT_SETTLE_SECONDS"


def settle_seconds(policy: Policy, environment: Mapping[str, str] = os.environ) -> float:
    """The seconds of the policy, unless the environment says otherwise.

    Raises:
        RunDataError: `E-SETTING` when the variable is no number of seconds.
    """
    text = environment.get(VARIABLE)
    try:
        seconds = float(text) if text else policy.settle_seconds
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise RunDataError(
            "E-SETTING", f"{VARIABLE} must be a number of seconds from 0 on, not {text!r}; change or unset it"
        )
    return seconds


def is_settled(run: DiscoveredRun, seconds: float) -> bool:
    """Whether no file of a run changed within the last `seconds`, or its coverage says that nothing more will come."""
    return time.time() - run.newest_mtime_ns / 1e9 >= seconds or _is_complete(run)


def _is_complete(run: DiscoveredRun) -> bool:
    """Whether the coverage beside the results says complete, and was written after everything else."""
    coverage = coverage_path_for(run.output)
    written = next((file.mtime_ns for file in run.files if file.name == coverage.name), None)
    if written != run.newest_mtime_ns:
        return False
    try:
        figures = json.loads(coverage.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(figures, Mapping) and figures.get("complete") is True
