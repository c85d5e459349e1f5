"""The asset `attempt_outcomes`: which saved outcome of each attempt stands."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from rollout_assets.assets.metadata import OWNERS, SHOWN_ROWS, definition_metadata, grain, row_count, shown_table
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.never_reached import AFTER_OUTCOMES, tell_why
from rollout_assets.checks.outcomes import OUTCOME_CHECKS, consistent, inconsistent
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_json
from rollout_assets.outcomes import RunOutcomes, outcomes_of
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.store import Store
from rollout_assets.tables import ATTEMPT_OUTCOMES


@dg.asset(
    partitions_def=ROLLOUT_RUNS,
    group_name="rollouts",
    kinds={"python", "parquet"},
    owners=OWNERS,
    tags=grain("attempt"),
    code_version="1",
    metadata=definition_metadata(ATTEMPT_OUTCOMES),
    description=ATTEMPT_OUTCOMES.meaning,
    check_specs=OUTCOME_CHECKS,
    output_required=False,
)
def attempt_outcomes(
    context: dg.AssetExecutionContext, record_index: pa.Table, workspace: RolloutWorkspace
) -> Iterator[Any]:
    """Fold the index: retries, duplicates and superseded failures drop out, each with its reason."""
    store, key = workspace.store, context.partition_key
    try:
        outcomes = outcomes_of(store.output_path(key), record_index)
    except RunDataError as error:
        yield from inconsistent(error)
        store.block(key, f"outcomes_consistent: {error}")
        verdict = store.verdict(key)
        if error.code == "E-UNREADABLE" and verdict is not None:
            # No change of a file tells when this user may read it: the nightly sweep tries again.
            store.write_verdict(key, replace(verdict, state="indexing"))
        tell_why(context, store, AFTER_OUTCOMES)
        raise permanent_failure(error) from None
    yield dg.Output(outcomes.table, metadata=_metadata(store, key, outcomes))
    yield from consistent(outcomes)


def _metadata(store: Store, key: str, outcomes: RunOutcomes) -> dict[str, Any]:
    table = outcomes.table
    standing = table.filter(table["selected"])
    dropped = table.filter(pc.invert(table["selected"]))
    metadata: dict[str, Any] = {
        **row_count(table.num_rows),
        "read_by": str(outcomes.mode),
        "standing": standing.num_rows,
        "dropped": dropped.num_rows,
        "standing_failures": pc.sum(pc.equal(standing["file"], "failures")).as_py() or 0,
    }
    if dropped.num_rows:
        metadata["dropped_outcomes"] = shown_table([_shown(row) for row in dropped.slice(0, SHOWN_ROWS).to_pylist()])
    if outcomes.coverage is None:
        return metadata | {"coverage": "unknown: the run has neither a manifest nor an inventory"}
    path = store.coverage_path(key)
    write_json(path, outcomes.coverage)
    figures = [{"figure": name, "value": str(value)} for name, value in outcomes.coverage.items()]
    return metadata | {"coverage": shown_table(figures), "coverage_file": dg.MetadataValue.path(str(path))}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """What a person asks for first comes first: the UI lets a wide table run out of the window."""
    return {
        "task": row["task"],
        "rollout": row["rollout_id"],
        "attempt": row["attempt_index"],
        "dropped because": row["dropped_because"],
        "failure class": row["failure_class"],
        "row": f"{row['file']} line {row['line']}",
    }
