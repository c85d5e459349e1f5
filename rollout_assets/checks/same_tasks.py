"""The check `same_tasks`: a run and its baselines were given the same tasks."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.assets.metadata import SHOWN_ROWS
from rollout_assets.checks.partitioned import check_result, partitioned_check, place_in

SAME_TASKS = partitioned_check(
    "same_tasks",
    "comparison_report",
    blocking=False,
    description="Run and baseline hold the same tasks, and no task of one name was given different inputs. Otherwise "
    "the means of the two are means over different things.",
)


def same_tasks(report: pa.Table) -> dg.AssetCheckResult:
    """The result for a run, from its table `comparison_report`: about all of its baselines."""
    if not report.num_rows:
        return check_result(SAME_TASKS, "Nothing was compared.", passed=True)
    apart = report.filter(pc.equal(report["category"], "missing"))
    common = report.filter(pc.and_(pc.is_valid(report["old_rows"]), pc.is_valid(report["new_rows"])))
    different = common.filter(pc.equal(common["inputs"], "different"))
    bad = pa.concat_tables([different, apart])
    told = [
        _told(
            baseline,
            *(pc.sum(pc.equal(table["baseline"], baseline)).as_py() or 0 for table in (common, apart, different)),
        )
        for baseline in report["baseline"].unique().to_pylist()
    ]
    figures = {
        "total": bad.num_rows,
        "tasks_in_common": common.num_rows,
        "tasks_missing_on_a_side": apart.num_rows,
        "tasks_with_different_inputs": different.num_rows,
    }
    if not bad.num_rows:
        return check_result(SAME_TASKS, " ".join(told), passed=True, metadata=figures)
    advice = "Compare runs of one data set, or see whether the runs are complete and the task key is the right one."
    places = [_place(row, several=len(told) > 1) for row in bad.slice(0, SHOWN_ROWS).to_pylist()]
    return check_result(SAME_TASKS, " ".join([*told, advice]), passed=False, metadata=figures, places=places)


def _told(baseline: str, common: int, apart: int, different: int) -> str:
    share = common / (common + apart) if common + apart else 0.0
    return (
        f"Against {baseline!r}: {common} of {common + apart} tasks are in common ({share:.1%}), {different} of these "
        "with different inputs."
    )


def _place(row: dict[str, Any], *, several: bool) -> dict[str, Any]:
    if row["inputs"] == "different":
        problem = "different inputs"
    else:
        problem = "only in the baseline" if row["new_rows"] is None else "only in the run"
    return {"task": row["task"], "problem": problem, **place_in(row, several=several)}
