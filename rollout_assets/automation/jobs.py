"""The jobs: taking in one run, and comparing one run again."""

from __future__ import annotations

import dagster as dg

#: Everything for one run, from its files to its comparison.
ingest_run = dg.define_asset_job(
    "ingest_run",
    selection=dg.AssetSelection.assets(
        "record_index", "producer_faults", "attempt_outcomes", "task_sides", "comparison_report"
    ),
    description="Take in one run: index, check, fold, summarise, compare. The partition is the run.",
)

#: Only the comparison, when its baseline changed.
compare_run = dg.define_asset_job(
    "compare_run",
    selection=dg.AssetSelection.assets("comparison_report"),
    description="Compare one run with its baseline again. The partition is the run to compare.",
)

#: Only the standing check, over all runs.
check_runs = dg.define_asset_job(
    "check_runs",
    selection=dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("raw_run"), "no_run_left_behind")),
    description="List the runs that were left behind. It has no partition: it looks at all of them.",
)
