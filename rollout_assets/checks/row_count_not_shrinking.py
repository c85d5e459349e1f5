"""The check `row_count_not_shrinking`: a run holds at least the rows it held when it was indexed before."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from rollout_assets.checks.partitioned import check_result, partitioned_check
from rollout_assets.core.text import counted

ROW_COUNT_NOT_SHRINKING = partitioned_check(
    "row_count_not_shrinking",
    "record_index",
    blocking=False,
    description="Results and sidecar hold at least as many readable rows as when this run was indexed before. Both are "
    "only ever appended to: fewer rows mean that something cut or replaced them.",
)


def row_count_not_shrinking(before: Mapping[str, int] | None, now: Mapping[str, int]) -> dg.AssetCheckResult:
    """The result for a run.

    Args:
        before: Rows by file (`output`, `failures`) in the index that is being replaced; None when there is none.
        now: Rows by file that were read this time.
    """
    rows = sum(now.values())
    if before is None:
        text = f"{rows} rows; there is no earlier index of this run to compare with."
        return check_result(ROW_COUNT_NOT_SHRINKING, text, passed=True, metadata={"rows": rows})
    figures = {"rows": rows, "rows_before": sum(before.values())}
    lost = {file: count - now.get(file, 0) for file, count in sorted(before.items()) if now.get(file, 0) < count}
    figures["total"] = sum(lost.values())
    if not lost:
        text = f"{rows} rows, {figures['rows_before']} when it was indexed before."
        return check_result(ROW_COUNT_NOT_SHRINKING, text, passed=True, metadata=figures)
    told = ", ".join(f"{file} {counted(now.get(file, 0), 'row')} instead of {before[file]}" for file in lost)
    text = (
        f"{counted(figures['total'], 'row')} fewer than when this run was indexed before: {told}. Find out what cut or "
        "replaced the file (a restart that does not resume, a copy that is not complete, lines that cannot be read any "
        "more) and restore it, or index the run once more to accept it as it is."
    )
    places = [
        {"file": file, "rows before": before[file], "rows now": now.get(file, 0), "missing": missing}
        for file, missing in lost.items()
    ]
    return check_result(ROW_COUNT_NOT_SHRINKING, text, passed=False, metadata=figures, places=places)
