"""The assets `record_index` and `producer_faults`: one pass over the files of a run, and the verdict on them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from rollout_assets.assets.metadata import OWNERS, definition_metadata, grain, row_count, shown_table
from rollout_assets.assets.raw_run import RAW_RUN
from rollout_assets.automation.freshness import freshness_policy
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.never_reached import AFTER_INDEX, tell_why
from rollout_assets.checks.partitioned import not_judged
from rollout_assets.checks.reward_finite import REWARD_COLUMNS, REWARD_FINITE, reward_finite
from rollout_assets.checks.row_count_not_shrinking import ROW_COUNT_NOT_SHRINKING, row_count_not_shrinking
from rollout_assets.checks.strictness import JSONL_STRICT, REWARD_STRICT, place, strictness_result
from rollout_assets.core.errors import RunDataError
from rollout_assets.indexing.incremental import NewIndex, block, keep, make_index
from rollout_assets.indexing.state import CODE_VERSION
from rollout_assets.indexing.strictness import blocking_reason, judge
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX

CHECKS = [JSONL_STRICT, REWARD_STRICT, REWARD_FINITE, ROW_COUNT_NOT_SHRINKING]


@dg.multi_asset(
    name="index_run",
    partitions_def=ROLLOUT_RUNS,
    group_name="runs",
    outs={
        "record_index": dg.AssetOut(
            is_required=False,
            description=f"{RECORD_INDEX.meaning} Not materialized while a strictness check blocks the run.",
            metadata=definition_metadata(RECORD_INDEX),
            kinds={"python", "parquet"},
            owners=OWNERS,
            tags=grain("line"),
            code_version=CODE_VERSION,
            freshness_policy=freshness_policy(),
        ),
        "producer_faults": dg.AssetOut(
            is_required=False,
            description=f"{PRODUCER_FAULTS.meaning} Stored for blocked runs too.",
            metadata=definition_metadata(PRODUCER_FAULTS),
            kinds={"python", "parquet"},
            owners=OWNERS,
            tags=grain("fault"),
            code_version=CODE_VERSION,
        ),
    },
    deps=[RAW_RUN],
    check_specs=CHECKS,
)
def index_run_assets(context: dg.AssetExecutionContext, workspace: RolloutWorkspace) -> Iterator[Any]:
    """Scan what is new of a run once; store its faults, judge it, and store its index only if it is sound."""
    store, key = workspace.store, context.partition_key
    spool = store.new_spool()
    try:
        severities = workspace.policy.group_of(key).severities
        index = make_index(store, key, spool, workers=workspace.worker_count)
        summary = index.summary
        yield dg.Output(index.faults, "producer_faults", metadata=_fault_metadata(index))
        judgments = judge(summary, key, severities)
        results = [
            *map(strictness_result, judgments),
            reward_finite(pq.read_table(index.records, columns=REWARD_COLUMNS)),
            row_count_not_shrinking(store.indexed_rows(key), summary.rows),
        ]
        reason = blocking_reason(judgments)
        if reason is not None:
            yield from results
            block(store, index, reason)
            tell_why(context, store, AFTER_INDEX)
            raise dg.Failure(f"Run {key!r} is blocked. {reason}", allow_retries=False)
        fingerprint = index.run.fingerprint
        context.set_data_version(dg.AssetKey("record_index"), dg.DataVersion(f"{CODE_VERSION}-{fingerprint}"))
        yield dg.Output(index.records, "record_index", metadata=_metadata(index))
        # Only now is the index in its place.
        keep(store, index)
        # After the materialization that they judge: Dagster shows a result that came before it as missing.
        yield from results
    except RunDataError as error:
        yield from not_judged(CHECKS, error)
        raise permanent_failure(error) from None
    finally:
        shutil.rmtree(spool, ignore_errors=True)


def _fault_metadata(index: NewIndex) -> dict[str, Any]:
    metadata: dict[str, Any] = row_count(index.summary.counts.total()) | index.counts
    if index.summary.faults:
        metadata["places"] = shown_table([place(file, fault) for file, fault in index.summary.faults])
    return metadata


def _metadata(index: NewIndex) -> dict[str, Any]:
    run, rows = index.run, index.summary.rows
    return {
        **row_count(rows.total()),
        "output_rows": rows["output"],
        "failure_rows": rows["failures"],
        "bytes": sum(file.size for file in run.files if Path(file.name).suffix == ".jsonl"),
        "scanned": str(index.scope),
        "scanned_bytes": sum(index.scope.scanned.values()),
        "output": dg.MetadataValue.path(str(run.output)),
        "fingerprint": run.fingerprint,
    }
