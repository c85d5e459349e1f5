"""Names of the row keys that the rules of a run read, and the constants of the public interface (records.md §2)."""

from __future__ import annotations

from typing import Final

TASK_INDEX_KEY: Final = "_ng_task_index"
ROLLOUT_INDEX_KEY: Final = "_ng_rollout_index"
ROLLOUT_ID_KEY: Final = "_ng_rollout_id"
ATTEMPT_KEY: Final = "_ng_attempt_index"
RUN_ID_KEY: Final = "_ng_run_id"

FAILURE_CLASS_KEY: Final = "_ng_failure_class"
TERMINAL_KEY: Final = "_ng_failure_terminal"
FAILURE_RECORD_KEY: Final = "_ng_failure_record"
FAILURE_STAGE_KEY: Final = "_ng_failure_stage"
HTTP_STATUS_KEY: Final = "_ng_failure_http_status"
FAILURE_MESSAGE_KEY: Final = "_ng_failure_message"
FAILURE_ID_KEY: Final = "_ng_failure_id"
FAILURE_EVENTS_KEY: Final = "_ng_failure_events"
#: The failure is the fault of the model under evaluation and stands as a score of 0.
COUNTS_AS_ZERO_ROW_KEY: Final = "_ng_failure_counts_as_zero"

DRAINED_KEY: Final = "_ng_dispatch_drained"
OMITTED_KEY: Final = "_ng_omitted"
EVIDENCE_KEY: Final = "_ng_omitted_rollout"
UNROUTED_KEY: Final = "_ng_unrouted_run_error"
MIGRATED_KEY: Final = "_ng_migrated_invalid_judge_response"
INVALID_JUDGE_KEY: Final = "invalid_judge_response"
REUSE_DELIVERABLE_KEY: Final = "reuse_cached_deliverable"

#: On a re-judgment: the id of what it judges again (`predecessor id`).
REJUDGED_FAILURE_ID_KEY: Final = "_ng_rejudged_failure_id"
REJUDGED_OBSERVATIONS_KEY: Final = "_ng_rejudged_failure_observations"
REJUDGE_OPERATION_ID_KEY: Final = "_ng_rejudge_operation_id"
#: The key is a proposal (records.md §13.4): when the re-judgment was admitted.
REJUDGE_ADMITTED_AT_KEY: Final = "_ng_rejudge_admitted_at"
#: A predecessor id of a saved result is this prefix and the digest of the row.
RESULT_PREDECESSOR_PREFIX: Final = "result-sha256:"

REWARD_KEY: Final = "reward"
MASK_KEY: Final = "mask_sample"
RESPONSE_KEY: Final = "response"
FAILURE_KIND_KEY: Final = "failure_kind"
ELAPSED_KEY: Final = "elapsed_seconds"
