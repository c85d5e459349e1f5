"""The strictness checks under the severities of a policy."""

from __future__ import annotations

import dagster as dg
import pyarrow.parquet as pq
import pytest

from rollout_assets.checks.strictness import strictness_result
from rollout_assets.core.jsonl import Fault, FaultKind
from rollout_assets.indexing import IndexSummary
from rollout_assets.indexing.strictness import REWARD_FAULTS, blocking_reason, judge
from rollout_assets.policy import DEFAULT_SEVERITY, Severity
from rollout_assets_tests.conftest import Project

GOOD = b'{"task_id": "a", "reward": 1}\n'
LINES = {
    FaultKind.INVALID_JSON: b"{oops\n",
    FaultKind.NON_FINITE_NUMBER: b'{"task_id": "b", "reward": NaN}\n',
    FaultKind.REWARD_NOT_A_NUMBER: b'{"task_id": "b", "reward": "1"}\n',
}


def summary(*kinds: FaultKind, rows: int = 5) -> IndexSummary:
    found = IndexSummary()
    found.rows["output"] = rows
    for line, kind in enumerate(kinds, 1):
        found.add_fault("output", Fault(kind, "run.jsonl", line, 10 * line, 10, "is wrong", "x"))
    return found


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("severity", ["error", "warn", "ignore"])
def test_a_fault_does_what_the_policy_says(kind: FaultKind, severity: Severity) -> None:
    judgments = judge(summary(kind), "run", {**DEFAULT_SEVERITY, kind: severity})
    results = list(map(strictness_result, judgments))
    judging, other = results[::-1] if kind in REWARD_FAULTS else results
    assert other.passed
    assert judging.passed is (severity == "ignore")
    if severity != "ignore":
        wanted = dg.AssetCheckSeverity.ERROR if severity == "error" else dg.AssetCheckSeverity.WARN
        assert judging.severity is wanted
    assert (blocking_reason(judgments) is not None) is (severity == "error")
    assert judging.metadata[f"faults_{kind}"].value == 1
    assert ("places" in judging.metadata) is (severity != "ignore")
    assert ("ignores 1 fault that" in (judging.description or "")) is (severity == "ignore")


def test_what_blocks_is_listed_before_what_warns() -> None:
    many = [FaultKind.NON_FINITE_NUMBER] * 40 + [FaultKind.INVALID_JSON]
    strict = strictness_result(judge(summary(*many), "run", DEFAULT_SEVERITY)[0])
    places = [record.data for record in strict.metadata["places"].value.records]
    assert len(places) == 30
    assert places[0]["kind"] == "invalid_json"
    assert strict.metadata["faults"].value == 41
    assert "run.jsonl:41" in (strict.description or "")


def test_a_run_without_a_row_blocks_whatever_is_ignored() -> None:
    severities = dict.fromkeys(FaultKind, "ignore")
    assert blocking_reason(judge(summary(rows=0), "run", severities)) is not None


@pytest.mark.parametrize(
    ("kind", "severity", "goes_on", "passes"),
    [
        (FaultKind.INVALID_JSON, "error", False, False),
        (FaultKind.INVALID_JSON, "warn", True, False),
        (FaultKind.INVALID_JSON, "ignore", True, True),
        (FaultKind.NON_FINITE_NUMBER, "error", False, False),
        (FaultKind.NON_FINITE_NUMBER, "ignore", True, True),
        (FaultKind.REWARD_NOT_A_NUMBER, "warn", True, False),
    ],
)
def test_the_group_of_a_run_decides(
    project: Project, kind: FaultKind, severity: Severity, goes_on: bool, passes: bool
) -> None:
    policy = f"groups: [{{name: g, runs: 'bad*', severity: {{{kind}: {severity}}}}}]"
    (project.root / "policy.yaml").write_text(policy)
    project.write_run("bad", GOOD + LINES[kind])
    result = project.run("bad")
    assert ("bad" in project.materialized("record_index")) is goes_on
    name = "reward_strict" if kind in REWARD_FAULTS else "jsonl_strict"
    [check] = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    assert check.passed is passes
    faults = pq.read_table(project.store.table_path("producer_faults", "bad")).to_pylist()
    assert [fault["kind"] for fault in faults] == [kind]


def test_a_policy_that_cannot_be_read_stops_the_run_and_is_named(project: Project) -> None:
    (project.root / "policy.yaml").write_text("severity:\n  truncated: warn\n")
    project.write_run("run", GOOD)
    result = project.run("run")
    assert not result.success
    [event] = result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    assert "policy.yaml:2: is no policy: severity.truncated" in (
        event.step_failure_data.user_failure_data.description or ""
    )
    assert project.store.verdict("run") is None
