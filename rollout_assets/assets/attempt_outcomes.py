"""The asset `attempt_outcomes`: which saved outcome of each attempt stands."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.assets.metadata import OWNERS, definition_metadata, row_count, shown_table
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.outcomes import fold_rows
from rollout_assets.tables import ATTEMPT_OUTCOMES


@dg.asset(
    partitions_def=ROLLOUT_RUNS,
    group_name="rollouts",
    kinds={"python", "parquet"},
    owners=OWNERS,
    code_version="1",
    metadata=definition_metadata(ATTEMPT_OUTCOMES),
    description=ATTEMPT_OUTCOMES.meaning,
)
def attempt_outcomes(context: dg.AssetExecutionContext, record_index: pa.Table) -> dg.Output[pa.Table]:
    """Fold the index: retries, duplicates and superseded failures drop out, each with its reason."""
    outcomes = fold_rows(record_index)
    return dg.Output(outcomes, metadata=_metadata(outcomes))


def _metadata(outcomes: pa.Table) -> dict[str, Any]:
    standing = outcomes.filter(outcomes["selected"])
    dropped = outcomes.filter(pc.invert(outcomes["selected"]))
    shown = dropped.select(["file", "line", "rollout_id", "attempt_index", "failure_class", "dropped_because"])
    metadata: dict[str, Any] = {
        **row_count(outcomes.num_rows),
        "standing": standing.num_rows,
        "dropped": dropped.num_rows,
        "standing_failures": pc.sum(pc.equal(standing["file"], "failures")).as_py() or 0,
    }
    if dropped.num_rows:
        metadata["dropped_outcomes"] = shown_table(shown.slice(0, 30).to_pylist())
    return metadata
