"""How long a new run may fail to appear before `record_index` says so in the UI."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import timedelta

import dagster as dg

from rollout_assets.core.errors import RunDataError

WARN_HOURS, FAIL_HOURS = 24.0, 36.0


def freshness_policy(environment: Mapping[str, str] = os.environ) -> dg.FreshnessPolicy:
    """The policy of `record_index`, whose newest run counts: Dagster judges an asset, not its partitions.

    The variables `ROLLOUT_FRESHNESS_WARN_HOURS` (24) and `ROLLOUT_FRESHNESS_FAIL_HOURS` (36) set it. Dagster reads them
    when it loads the code location.

    Raises:
        RunDataError: `E-SETTING` when one is no number of hours above 0, or the first is not below the second.
    """
    warn = _hours(environment, "ROLLOUT_FRESHNESS_WARN_HOURS", WARN_HOURS)
    fail = _hours(environment, "ROLLOUT_FRESHNESS_FAIL_HOURS", FAIL_HOURS)
    if warn >= fail:
        raise RunDataError(
            "E-SETTING",
            f"ROLLOUT_FRESHNESS_WARN_HOURS ({warn:g}) must be below ROLLOUT_FRESHNESS_FAIL_HOURS ({fail:g}); "
            "change one of them",
        )
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=fail), warn_window=timedelta(hours=warn))


def _hours(environment: Mapping[str, str], variable: str, default: float) -> float:
    text = environment.get(variable)
    if not text:
        return default
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not 0.05 <= hours <= 100_000:
        raise RunDataError(
            "E-SETTING",
            f"{variable} must be a number of hours between 0.05 and 100000, not {text!r}; change or unset it",
        )
    return hours
