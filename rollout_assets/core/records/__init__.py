"""One run: its files, its identity, and which outcome of each rollout stands (records.md)."""

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl.projector import PROJECTED_ROW_BYTES
from rollout_assets.core.jsonl.tail import prepare_append
from rollout_assets.core.records.classification import (
    FailureClass,
    FailureClassificationConfig,
    StageClassificationConfig,
)
from rollout_assets.core.records.coverage import exit_status
from rollout_assets.core.records.digest import digest
from rollout_assets.core.records.failures import is_interruption_failure
from rollout_assets.core.records.identity import logical_rollout_id
from rollout_assets.core.records.index import RolloutRecords
from rollout_assets.core.records.keys import (
    COUNTS_AS_ZERO_ROW_KEY,
    REJUDGE_OPERATION_ID_KEY,
    REJUDGED_FAILURE_ID_KEY,
    REJUDGED_OBSERVATIONS_KEY,
    RESULT_PREDECESSOR_PREFIX,
    RUN_ID_KEY,
)
from rollout_assets.core.records.manifest import RunManifest
from rollout_assets.core.records.opening import open_run
from rollout_assets.core.records.outcomes import Disposition, Measurement, Outcome, OutcomeFacts
from rollout_assets.core.records.paths import (
    coverage_path_for,
    failures_path_for,
    journal_path_for,
    manifest_path_for,
    materialized_path_for,
    resolve_rollout_owner,
    resolve_rollout_path,
)
from rollout_assets.core.records.reading import RolloutRecord, read_records
from rollout_assets.core.records.rejudgment import (
    PendingRejudge,
    is_rejudgment_failure_of,
    is_rejudgment_of,
    rejudge_predecessor_id,
    rejudgment_admission_closed_by,
)
from rollout_assets.core.records.timeline import (
    ReadingMode,
    RunReading,
    TimelineEntry,
    read_run,
    rows_only_timeline,
    timeline,
)

__all__ = [
    "COUNTS_AS_ZERO_ROW_KEY",
    "PROJECTED_ROW_BYTES",
    "REJUDGED_FAILURE_ID_KEY",
    "REJUDGED_OBSERVATIONS_KEY",
    "REJUDGE_OPERATION_ID_KEY",
    "RESULT_PREDECESSOR_PREFIX",
    "RUN_ID_KEY",
    "Disposition",
    "FailureClass",
    "FailureClassificationConfig",
    "Measurement",
    "Outcome",
    "OutcomeFacts",
    "PendingRejudge",
    "ReadingMode",
    "RolloutRecord",
    "RolloutRecords",
    "RunDataError",
    "RunManifest",
    "RunReading",
    "StageClassificationConfig",
    "TimelineEntry",
    "coverage_path_for",
    "digest",
    "exit_status",
    "failures_path_for",
    "is_interruption_failure",
    "is_rejudgment_failure_of",
    "is_rejudgment_of",
    "journal_path_for",
    "logical_rollout_id",
    "manifest_path_for",
    "materialized_path_for",
    "open_run",
    "prepare_append",
    "read_records",
    "read_run",
    "rejudge_predecessor_id",
    "rejudgment_admission_closed_by",
    "resolve_rollout_owner",
    "resolve_rollout_path",
    "rows_only_timeline",
    "timeline",
]
