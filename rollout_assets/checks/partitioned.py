"""Declaring a check per partition: the one place that touches Dagster's preview argument."""

from __future__ import annotations

import warnings

import dagster as dg

from rollout_assets.automation.partitions import ROLLOUT_RUNS


def partitioned_check(name: str, asset: str, *, blocking: bool, description: str) -> dg.AssetCheckSpec:
    """A check of one asset that is stored per run; an unpartitioned one would let a good run hide a bad one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name, asset=asset, blocking=blocking, description=description, partitions_def=ROLLOUT_RUNS
        )
