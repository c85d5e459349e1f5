"""The run directories as their producer left them: observed, never written."""

import warnings

import dagster as dg

from rollout_assets.assets.metadata import grain
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.core.discovery import DiscoveredRun, find_run
from rollout_assets.core.errors import RunDataError
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace

RAW_RUN = dg.AssetKey("raw_run")
DATA_VERSION_TAG = "dagster/data_version"


def observation_of(run: DiscoveredRun) -> dg.AssetObservation:
    """What Dagster is told of the state of a run's files: a new data version makes what is downstream stale."""
    return dg.AssetObservation(RAW_RUN, partition=run.key, tags={DATA_VERSION_TAG: run.fingerprint})


with warnings.catch_warnings():
    # Observable source assets are marked beta, and building one warns about an argument inside Dagster itself.
    warnings.simplefilter("ignore", dg.BetaWarning)
    warnings.simplefilter("ignore", DeprecationWarning)

    @dg.observable_source_asset(
        key=RAW_RUN,
        partitions_def=ROLLOUT_RUNS,
        group_name="runs",
        tags={"dagster/kind/jsonl": "", **grain("run")},
        description="A run directory as NeMo Gym wrote it: results (`<key>.jsonl`), failures sidecar, manifest and "
        "inventory. Its data version names sizes, times and inodes of these files, so a change makes what is "
        "downstream stale. Observed by the sensor `discover_runs`; nothing here writes to it.",
    )
    def raw_run(context: dg.AssetExecutionContext, workspace: RolloutWorkspace) -> dg.DataVersion:
        """The fingerprint of the run's files."""
        try:
            return dg.DataVersion(find_run(workspace.settings.runs_root, context.partition_key).fingerprint)
        except RunDataError as error:
            raise permanent_failure(error) from None
