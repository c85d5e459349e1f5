"""The assets `record_index` and `producer_faults`: one pass over the files of a run, and the verdict on them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from rollout_assets.assets.metadata import OWNERS, definition_metadata, row_count, shown_table
from rollout_assets.assets.raw_run import RAW_RUN
from rollout_assets.automation.freshness import freshness_policy
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.partitioned import not_judged
from rollout_assets.checks.reward_finite import REWARD_COLUMNS, REWARD_FINITE, reward_finite
from rollout_assets.checks.row_count_not_shrinking import ROW_COUNT_NOT_SHRINKING, row_count_not_shrinking
from rollout_assets.checks.strictness import JSONL_STRICT, REWARD_STRICT, blocking_reason, judge, place
from rollout_assets.core.discovery import DiscoveredRun, find_run
from rollout_assets.core.errors import RunDataError
from rollout_assets.indexing import IndexSummary, index_run
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.store import Store, Verdict
from rollout_assets.tables import PRODUCER_FAULTS, RECORD_INDEX

#: Raised by hand when the meaning of an index changes, so that stored ones show as stale.
CODE_VERSION = "1"
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
            code_version=CODE_VERSION,
            freshness_policy=freshness_policy(),
        ),
        "producer_faults": dg.AssetOut(
            is_required=False,
            description=f"{PRODUCER_FAULTS.meaning} Stored for blocked runs too.",
            metadata=definition_metadata(PRODUCER_FAULTS),
            kinds={"python", "parquet"},
            owners=OWNERS,
            code_version=CODE_VERSION,
        ),
    },
    deps=[RAW_RUN],
    check_specs=CHECKS,
)
def index_run_assets(context: dg.AssetExecutionContext, workspace: RolloutWorkspace) -> Iterator[Any]:
    """Scan the files of a run once; store its faults, judge it, and store its index only if it is sound."""
    store, key = workspace.store, context.partition_key
    spool = store.new_spool()
    try:
        severities = workspace.policy.group_of(key).severities
        run = find_run(store.runs_root, key)
        store.write_verdict(key, Verdict("indexing", run.fingerprint))
        records, faults = spool / "record_index.parquet", spool / "producer_faults.parquet"
        summary = index_run(run, records, faults)
        _check_unchanged(store, run)
        yield dg.Output(faults, "producer_faults", metadata=_fault_metadata(summary))
        results = [
            *judge(summary, key, severities),
            reward_finite(pq.read_table(records, columns=REWARD_COLUMNS)),
            row_count_not_shrinking(store.indexed_rows(key), summary.rows),
        ]
        reason = blocking_reason(results)
        if reason is not None:
            yield from results
            store.block(key, reason, Verdict("indexing", run.fingerprint, counts=_counts(summary)))
            raise dg.Failure(f"Run {key!r} is blocked. {reason}", allow_retries=False)
        context.set_data_version(dg.AssetKey("record_index"), dg.DataVersion(f"{CODE_VERSION}-{run.fingerprint}"))
        yield dg.Output(records, "record_index", metadata=_metadata(run, summary))
        # Only now is the index in its place.
        store.write_verdict(key, Verdict("sound", run.fingerprint, counts=_counts(summary)))
        # After the materialization that they judge: Dagster shows a result that came before it as missing.
        yield from results
    except RunDataError as error:
        yield from not_judged(CHECKS, error)
        raise permanent_failure(error) from None
    finally:
        shutil.rmtree(spool, ignore_errors=True)


def _check_unchanged(store: Store, run: DiscoveredRun) -> None:
    if find_run(store.runs_root, run.key).fingerprint != run.fingerprint:
        reason = "changed while it was being read; it is taken in again once its files rest"
        raise RunDataError("E-RUN-CHANGED", reason, path=run.output)


def _counts(summary: IndexSummary) -> dict[str, int]:
    return {str(kind): number for kind, number in summary.counts.items()}


def _fault_metadata(summary: IndexSummary) -> dict[str, Any]:
    metadata: dict[str, Any] = row_count(summary.counts.total()) | _counts(summary)
    if summary.faults:
        metadata["places"] = shown_table([place(file, fault) for file, fault in summary.faults])
    return metadata


def _metadata(run: DiscoveredRun, summary: IndexSummary) -> dict[str, Any]:
    return {
        **row_count(summary.rows.total()),
        "output_rows": summary.rows["output"],
        "failure_rows": summary.rows["failures"],
        "bytes": sum(file.size for file in run.files if Path(file.name).suffix == ".jsonl"),
        "output": dg.MetadataValue.path(str(run.output)),
        "fingerprint": run.fingerprint,
    }
