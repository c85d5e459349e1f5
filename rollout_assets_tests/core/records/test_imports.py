"""What importing the index of a run does not bring along."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rollout_assets.core import records
from rollout_assets_tests.core.records.runs import manifest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("rollout_assets.core.records", ("dagster", "pandas", "pyarrow", "numpy", "pydantic", "click")),
        ("rollout_assets.core.jsonl", ("dagster", "pandas", "pyarrow", "numpy", "pydantic", "click")),
    ],
)
def test_imports_are_light(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*(name for name in {absent!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []


#: The public interface, name by name.
PUBLIC = """
RolloutRecord RolloutRecords RunManifest PendingRejudge FailureClassificationConfig open_run read_records prepare_append
logical_rollout_id digest coverage_path_for journal_path_for materialized_path_for failures_path_for manifest_path_for
resolve_rollout_path resolve_rollout_owner is_interruption_failure is_rejudgment_of is_rejudgment_failure_of
rejudge_predecessor_id rejudgment_admission_closed_by RunDataError RUN_ID_KEY COUNTS_AS_ZERO_ROW_KEY PROJECTED_ROW_BYTES
REJUDGED_FAILURE_ID_KEY REJUDGED_OBSERVATIONS_KEY REJUDGE_OPERATION_ID_KEY RESULT_PREDECESSOR_PREFIX timeline
rows_only_timeline read_run TimelineEntry ReadingMode
"""
MEMBERS = """
expected latest payloads omitted attempt_counts overridden_terminal_counts attempt_cap attempt_extension
retry_terminal_timeouts rerun_masked replay_blocked unresolved_dispatches outcome check_outcome check_run_identity
disposition selected selected_records pending failure_count exhausted_count stopped_count allocation_end_charges
rerun_approved_identities coverage load
"""


def test_the_public_interface_is_there() -> None:
    assert set(PUBLIC.split()) <= set(records.__all__)
    assert all(getattr(records, name) is not None for name in records.__all__)
    empty = records.RolloutRecords(records.RunManifest.of(manifest([])), [])
    assert [name for name in MEMBERS.split() if not hasattr(empty, name)] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RUN_ID_KEY", "_ng_run_id"),
        ("COUNTS_AS_ZERO_ROW_KEY", "_ng_failure_counts_as_zero"),
        ("PROJECTED_ROW_BYTES", 67_108_864),
        ("REJUDGED_FAILURE_ID_KEY", "_ng_rejudged_failure_id"),
        ("REJUDGED_OBSERVATIONS_KEY", "_ng_rejudged_failure_observations"),
        ("REJUDGE_OPERATION_ID_KEY", "_ng_rejudge_operation_id"),
        ("RESULT_PREDECESSOR_PREFIX", "result-sha256:"),
    ],
)
def test_constants(name: str, value: object) -> None:
    assert getattr(records, name) == value
