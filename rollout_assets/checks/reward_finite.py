"""The check `reward_finite`: no reward is NaN or infinite."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.assets.metadata import SHOWN_ROWS
from rollout_assets.checks.partitioned import check_result, partitioned_check

#: Columns of `record_index` that the check reads.
REWARD_COLUMNS = ["file", "line", "offset", "reward", "reward_state"]

REWARD_FINITE = partitioned_check(
    "reward_finite",
    "record_index",
    blocking=False,
    description="No `reward` is NaN or infinite. Such a row is masked: it counts in no mean and no comparison.",
)


def reward_finite(index: pa.Table) -> dg.AssetCheckResult:
    """The result for a run, from its table `record_index` (or the `REWARD_COLUMNS` of it)."""
    bad = index.filter(pc.equal(index["reward_state"], "non_finite"))
    absent = pc.sum(pc.equal(index["reward_state"], "absent")).as_py() or 0
    figures = {"rows": index.num_rows, "total": bad.num_rows, "rows_without_reward": absent}
    if not bad.num_rows:
        text = f"None of the {index.num_rows} rows has a reward that is NaN or infinite."
        return check_result(REWARD_FINITE, text, passed=True, metadata=figures)
    places = [
        {"file": row["file"], "line": row["line"], "byte offset": row["offset"], "reward": str(row["reward"])}
        for row in bad.slice(0, SHOWN_ROWS).to_pylist()
    ]
    first = places[0]
    text = (
        f"The reward of {bad.num_rows} of {index.num_rows} rows is NaN or infinite; such a row is masked. First: "
        f"{first['file']} line {first['line']} (row at byte {first['byte offset']}): {first['reward']}. Mend the "
        "scorer that wrote them (a division by zero, an overflow), then have these rollouts scored again."
    )
    return check_result(REWARD_FINITE, text, passed=False, metadata=figures, places=places)
