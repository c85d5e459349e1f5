"""Selection, budget and what is owed, on whole runs (records.md §8 to §10, §14)."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.records import (
    RolloutRecords,
    RunDataError,
    RunManifest,
    exit_status,
    failures_path_for,
    indexer,
    logical_rollout_id,
    open_run,
)
from rollout_assets.core.records.inventory import Inventory
from rollout_assets_tests.core.records.runs import (
    attempts,
    contents,
    failure,
    index,
    inventory_row,
    load,
    manifest,
    record,
    result,
    write_run,
)

TERMINAL = {"_ng_failure_terminal": True}


def test_the_newest_number_decides(tmp_path: Path) -> None:
    records = index(
        tmp_path,
        inventory=5,
        results=[result(0), result(1), result(2, attempt=0), result(4, attempt=1)],
        failures=[failure(2, attempt=1), failure(4, attempt=0)],
        reserved={"0-0": 1, "1-0": 2, "2-0": 2, "4-0": 2},
    )
    found = {rollout_id: str(records.disposition(rollout_id)) for rollout_id in records.expected}
    assert found == {"0-0": "success", "1-0": "unknown", "2-0": "failure", "3-0": "unknown", "4-0": "success"}
    assert records.latest == {"0-0": 0, "1-0": 1, "2-0": 1, "4-0": 1}
    assert list(records.selected_records("success")) == [("0-0", 0), ("4-0", 1)]
    assert [row["_ng_task_index"] for row in records.selected("failure")] == [2]
    assert attempts(records.pending()) == [("1-0", 2), ("2-0", 2), ("3-0", 0)]
    assert records.unresolved_dispatches == ["1-0"]


def test_pending_rows_are_inventory_rows_with_number_and_run(tmp_path: Path) -> None:
    rows = [inventory_row(0, agent_ref={"name": "x"}), inventory_row(1)]
    records = index(tmp_path, inventory=rows, failures=[failure()])
    pending = records.pending()
    assert len(pending) == 2
    assert pending[0] == {**rows[0], "_ng_attempt_index": 1, "_ng_run_id": records.manifest.run_id}
    assert list(pending[1:]) == [{**rows[1], "_ng_attempt_index": 0, "_ng_run_id": records.manifest.run_id}]


def test_explicit_ids_win_over_indices(tmp_path: Path) -> None:
    rows = [inventory_row(_ng_rollout_id="q-17"), inventory_row(_ng_rollout_id="q-18")]
    records = index(tmp_path, inventory=rows, results=[result(_ng_rollout_id="q-18")])
    assert [str(records.disposition(name)) for name in ("q-17", "q-18")] == ["unknown", "success"]


def test_a_rollout_is_exhausted_at_the_cap(tmp_path: Path) -> None:
    rows = [failure(0, attempt=n) for n in range(3)] + [failure(1, attempt=n) for n in range(2)]
    records = index(tmp_path, inventory=2, failures=rows, max_rollout_attempts=2, attempt_extension=1)
    assert (records.attempt_cap, records.attempt_extension) == (3, 1)
    assert attempts(records.pending()) == [("1-0", 2)]
    assert (records.exhausted_count(), records.stopped_count()) == (1, 0)
    assert attempts(records.pending(max_attempts=4)) == [("0-0", 3), ("1-0", 2)]
    assert records.exhausted_count(max_attempts=2) == 2


def test_failures_of_all_attempts_count_and_duplicates_once(tmp_path: Path) -> None:
    rows = [failure(), failure(), failure(attempt=1), failure(attempt=2, label="kill_shaped")]
    records = index(tmp_path, failures=rows, results=[result(attempt=3)])
    assert records.failure_count("0-0") == 2
    assert records.disposition("0-0") == "success"


def test_terminal_timeouts(tmp_path: Path) -> None:
    rows = [failure(attempt=0), failure(attempt=1, label="timeout_exceeded", **TERMINAL)]
    kept = index(tmp_path / "kept", failures=rows)
    assert (kept.failure_count("0-0"), kept.is_final("0-0")) == (1, True)
    assert kept.overridden_terminal_counts["0-0"] == 1
    retried = index(tmp_path / "retried", failures=rows, retry_terminal_timeouts=True)
    assert (retried.failure_count("0-0"), retried.is_final("0-0")) == (2, False)
    assert attempts(retried.pending()) == [("0-0", 2)]
    assert [records.coverage()["counted_failures"] for records in (kept, retried)] == [1, 2]
    not_sent = record(kind="timeout_exceeded", delivery="not_sent", terminal=True)
    rows = [failure(label="timeout_exceeded", **TERMINAL, _ng_failure_record=not_sent)]
    assert index(tmp_path / "not sent", failures=rows, retry_terminal_timeouts=True).failure_count("0-0") == 0


def test_a_newer_number_fences_a_counted_zero(tmp_path: Path) -> None:
    rows = [failure(_ng_failure_counts_as_zero=True)]
    assert index(tmp_path / "a", failures=rows).is_final("0-0")
    fenced = index(tmp_path / "b", failures=rows, reserved={"0-0": 2})
    assert fenced.disposition("0-0") == "unknown"
    assert attempts(fenced.pending()) == [("0-0", 2)]


def test_approved_reruns(tmp_path: Path) -> None:
    run: dict[str, Any] = {
        "inventory": 3,
        "results": [result(0, mask_sample=True), result(1, mask_sample=True), result(2)],
        "rerun_masked": [[0, 0, 0], [1, 0, 1], [2, 0, 0]],  # another attempt; not masked
    }
    records = index(tmp_path / "a", **run)
    assert records.rerun_approved_identities() == ["0-0"]
    assert attempts(records.pending()) == [("0-0", 1)]
    coverage = records.coverage()
    assert coverage["complete"]
    assert exit_status(coverage) == 0
    fenced = index(tmp_path / "b", **run, reserved={"0-0": 2, "1-0": 1, "2-0": 1})
    assert fenced.disposition("0-0") == "unknown"
    assert fenced.rerun_approved_identities() == []


# --- allocation-end charges (§10.3) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "reserved", "charged"),
    [
        ([], 0, []),
        ([], 1, []),
        ([], 3, [1, 2]),
        ([failure(attempt=1)], 4, [2, 3]),
        ([failure(attempt=0)], 3, [2]),
        ([failure(attempt=n, label="rollout_allocation_ended") for n in (1, 2)], 4, [3]),
        ([failure(attempt=n, label="rollout_allocation_ended") for n in (1, 2, 3)], 6, []),  # at the cap
        ([failure(attempt=2, **TERMINAL)], 3, []),  # final: resume would not run it
        ([failure(attempt=2, label="kill_shaped")], 3, [1]),
    ],
)
def test_charges(tmp_path: Path, failures: list[dict[str, Any]], reserved: int, charged: list[int]) -> None:
    records = index(tmp_path, failures=failures, reserved={"0-0": reserved})
    rows = list(records.allocation_end_charges())
    assert attempts(rows) == [("0-0", number) for number in charged]
    for row in rows:  # a writer can append them as they are
        assert records.check_outcome(row)
        assert row["_ng_failure_class"] == "rollout_allocation_ended"
        assert str(row["_ng_attempt_index"]) in row["_ng_failure_message"]
    if charged:
        saved = index(tmp_path / "after", failures=failures + rows, reserved={"0-0": reserved})
        assert saved.failure_count("0-0") == records.failure_count("0-0") + len(charged)
        assert list(saved.allocation_end_charges()) == []


def test_a_huge_reservation_does_not_hang(tmp_path: Path) -> None:
    records = index(tmp_path, reserved={"0-0": 10**18})
    assert attempts(islice(records.allocation_end_charges(), 2)) == [("0-0", 1), ("0-0", 2)]
    assert records.coverage()["attempts"] == 10**18


# --- prefix limits (§6.3) --------------------------------------------------------------------------------------------


def test_only_the_prefix_is_indexed(tmp_path: Path) -> None:
    output = write_run(tmp_path, inventory=2, results=[result(0), result(1)], reserved={"0-0": 1})
    first = output.read_bytes().index(b"\n") + 1
    for limit in (first, first + 20):  # a row that the limit cuts is no record, and no warning
        records = load(output, outcome_limits={output: limit})
        assert [str(records.disposition(name)) for name in records.expected] == ["success", "unknown"]
    with pytest.raises(RunDataError, match=r"no reservation"):
        load(output, outcome_limits={failures_path_for(output): 0})


def test_a_file_that_is_replaced_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = write_run(tmp_path, results=[result()])
    scan = indexer.scan

    def scan_and_replace(path: str, **options: Any) -> Any:
        yield from scan(path, **options)
        copy = tmp_path / "copy"
        copy.write_bytes(Path(path).read_bytes())
        copy.replace(path)

    monkeypatch.setattr(indexer, "scan", scan_and_replace)
    with pytest.raises(RunDataError) as raised:
        load(output)
    assert raised.value.code == "E-FILE-REPLACED"


def test_limits_are_of_resolved_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = write_run(tmp_path / "run", results=[result()])
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path / "link")
    assert load(output, outcome_limits={"rollouts.jsonl": 0}).disposition("0-0") == "unknown"
    assert load(output, outcome_limits={output: 10**9}).disposition("0-0") == "success"


def test_a_torn_row_is_warned_about_when_the_file_cut_it(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result(), b'{"_ng_task'])
    size = output.stat().st_size
    for limits in ({}, {output: size}, {output: size + 1}):
        with pytest.warns(UserWarning, match=r"rollouts.jsonl:2: the last row is incomplete"):
            assert load(output, outcome_limits=limits).disposition("0-0") == "success"
    assert load(output, outcome_limits={output: size - 1}).disposition("0-0") == "success"


# --- what is kept, and what is asked of it ---------------------------------------------------------------------------


def test_rows_in_memory_make_an_index(tmp_path: Path) -> None:
    rows = [inventory_row(0), inventory_row(1)]
    records = RolloutRecords(RunManifest.of(manifest(rows, next_attempt={"1-0": 1})), rows)
    assert attempts(records.pending()) == [("0-0", 0), ("1-0", 1)]
    assert records.expected["1-0"] == rows[1]
    assert (list(records.expected), len(records.expected), "2-0" in records.expected) == (["0-0", "1-0"], 2, False)
    assert records.expected.digest == records.manifest.materialized_digest
    with pytest.raises(RunDataError, match="stands twice"):
        Inventory([rows[0], rows[0]])


def test_checks_before_saving(tmp_path: Path) -> None:
    records = index(tmp_path, results=[result()], reserved={"0-0": 2})
    assert records.check_outcome(result(attempt=1))
    assert records.check_outcome(failure(attempt=1))
    assert not records.check_outcome({**result(), "reward": 1})  # equal as JSON
    records.check_run_identity(result())
    for row, code in [
        (result(reward=0.5), "E-CONFLICT"),
        (failure(), "E-CONFLICT"),
        (result(attempt=2), "E-NOT-RESERVED"),
        (result(task=1), "E-NOT-IN-INVENTORY"),
        (result(_ng_run_id="b" * 32), "E-FOREIGN-RUN"),
        (result(_ng_run_id=None), "E-FOREIGN-RUN"),
    ]:
        with pytest.raises(RunDataError) as raised:
            records.check_outcome(row)
        assert raised.value.code == code
        assert raised.value.line is None
    with pytest.raises(RunDataError, match="has no run id"):
        records.check_run_identity({})


def test_a_failure_and_a_result_of_one_attempt_conflict(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as raised:
        index(tmp_path, failures=[failure()], results=[result()])
    assert raised.value.code == "E-CONFLICT"
    assert "rollouts_failures.jsonl:1" in str(raised.value)


def test_duplicates_may_be_spelled_otherwise(tmp_path: Path) -> None:
    spelled = b'{"reward":1,"_ng_run_id":"%s",  "_ng_attempt_index":0,"_ng_rollout_index":0,"_ng_task_index":0}\r\n'
    output = write_run(tmp_path, results=[result(), spelled % (b"a" * 32)], reserved={"0-0": 1})
    assert load(output).dropped[0].because == "duplicate of line 1"


def test_a_readable_fault_is_kept_and_the_reward_does_not_count(tmp_path: Path) -> None:
    records = index(tmp_path, results=[result(reward=float("nan")), result(reward=float("nan"))])
    assert [(fault.kind, fault.line) for fault in records.faults] == [
        ("non_finite_number", 1),
        ("non_finite_number", 2),
    ]
    assert records.coverage()["unscored"] == 1  # and NaN equals NaN: the second is a duplicate


def test_no_payload_is_kept(tmp_path: Path) -> None:
    secret = "transcript" * 100
    run = {"inventory": [inventory_row(prompt=secret)], "results": [result(response={"text": secret}, x=secret)]}
    records = index(tmp_path, **run)
    seen: set[int] = set()
    waiting: list[Any] = [vars(records), vars(records.expected), *records.payloads.values()]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        assert not (isinstance(value, str) and "transcript" in value)
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif hasattr(value, "__struct_fields__"):
            waiting += [getattr(value, name) for name in value.__struct_fields__]
    assert records.expected["0-0"]["prompt"] == secret


# --- opening (§16.1) -------------------------------------------------------------------------------------------------


def test_open_run_reads_by_the_manifest(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result()])
    before = contents(tmp_path)
    records = open_run(output)
    assert records is not None
    assert records.disposition("0-0") == "success"
    assert not records.without_manifest
    assert contents(tmp_path) == before


def test_neither_manifest_nor_inventory_is_nothing(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result()], with_manifest=False, with_inventory=False)
    assert open_run(output) is None
    assert open_run(tmp_path / "none.jsonl") is None


def test_what_lies_beyond_the_captured_lengths_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer reserves and appends between the capture and the reading of the manifest, or after it."""
    output = write_run(tmp_path, inventory=2, results=[result(0)])
    read = RunManifest.read

    def reading(path: Any) -> RunManifest:
        found = read(path)
        with output.open("ab") as file:
            file.write(
                b'{"_ng_task_index": 1, "_ng_rollout_index": 0, "_ng_run_id": "%s", "reward": 1}\n' % (b"a" * 32)
            )
        return found

    monkeypatch.setattr(RunManifest, "read", reading)
    records = open_run(output)
    assert records is not None
    assert records.disposition("1-0") == "unknown"


def test_a_large_row_is_read_without_its_skipped_values(tmp_path: Path) -> None:
    records = index(tmp_path, results=[result(ng_trajectory=[1])], options={"skip_keys": {"ng_trajectory"}})
    assert records.selected("success")[0]["ng_trajectory"] == [1]  # small rows keep their values


def test_sizes_are_taken_in_bytes(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result(note="é\u2028雪")])
    records = load(output)
    outcome = records.outcome("0-0")
    assert outcome is not None
    assert (outcome.offset, outcome.length) == (0, os.path.getsize(output))
    assert logical_rollout_id(outcome.record.read()) == "0-0"
