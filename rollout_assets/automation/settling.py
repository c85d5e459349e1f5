"""How long the files of a run must rest before it is taken in."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from rollout_assets.core.discovery import DiscoveredRun
from rollout_assets.core.errors import RunDataError
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
    """Whether no file of a run changed within the last `seconds`."""
    return time.time() - run.newest_mtime_ns / 1e9 >= seconds
