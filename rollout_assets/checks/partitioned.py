"""Checks that are stored per run: how each is declared, and how its result is put together."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from rollout_assets.assets.metadata import shown_table
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.core.errors import RunDataError

#: Metadata of a result that stands for none: what the check looks at could not be read.
NOT_JUDGED = "not_judged"


def partitioned_check(name: str, asset: str, *, blocking: bool, description: str) -> dg.AssetCheckSpec:
    """Declare a check of one asset per run; an unpartitioned one would let a good run hide a bad one.

    This is the one place that touches Dagster's preview argument.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name, asset=asset, blocking=blocking, description=description, partitions_def=ROLLOUT_RUNS
        )


def check_result(
    spec: dg.AssetCheckSpec,
    description: str,
    *,
    passed: bool,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    metadata: Mapping[str, Any] | None = None,
    places: Sequence[dict[str, Any]] = (),
) -> dg.AssetCheckResult:
    """The result of a check.

    Args:
        spec: The check.
        description: The verdict in words: what is wrong and what to do.
        passed: The verdict.
        severity: What a failure is; a check that passed has none that matters.
        metadata: Figures.
        places: Where it is wrong, one record a place; the first of them are shown as a table.
    """
    table = {"places": shown_table(list(places))} if places else {}
    return dg.AssetCheckResult(
        asset_key=spec.asset_key,
        check_name=spec.name,
        passed=passed,
        severity=severity,
        description=description,
        metadata={**(metadata or {}), **table},
    )


def place_in(comparison: Mapping[str, Any], *, several: bool) -> dict[str, Any]:
    """Where a task of a table `comparison_report` stands: the worst row of the new side, or else of the old one.

    One narrow column, which breaks at blanks: the UI lets a wide table push the description out of the window.

    Args:
        comparison: A row of the table.
        several: Whether the table has several baselines, so that the one of this task must be told.
    """
    side = "old" if comparison["new_rows"] is None else "new"
    file, line, offset = (comparison[f"{side}_{name}"] for name in ("file", "line", "offset"))
    place = {"row": f"{side} {file} line {line} (byte {offset})"}
    return place | ({"baseline": comparison["baseline"]} if several else {})


def not_judged(specs: Iterable[dg.AssetCheckSpec], error: RunDataError) -> list[dg.AssetCheckResult]:
    """A failed result for each check of a step that cannot go on, so that no older verdict stays in its place."""
    return [
        check_result(
            spec,
            f"Not judged: {error}",
            passed=False,
            severity=dg.AssetCheckSeverity.ERROR if spec.blocking else dg.AssetCheckSeverity.WARN,
            metadata={NOT_JUDGED: True},
        )
        for spec in specs
    ]
