"""Import without a manifest, evidence rows, and the invalid-judge migration (records.md §12.2, §15; decision 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.records import RolloutRecords, RunDataError, failures_path_for, open_run
from rollout_assets_tests.core.records.runs import (
    OTHER_RUN_ID,
    RUN_ID,
    attempts,
    contents,
    failure,
    index,
    legacy,
    result,
    write_run,
)


def imported(folder: Path, *, failures: Any = (), results: Any = (), inventory: Any = 1) -> RolloutRecords:
    output = write_run(folder, failures=failures, results=results, inventory=inventory, with_manifest=False)
    before = contents(folder)
    records = open_run(output)
    assert records is not None
    assert contents(folder) == before
    return records


def evidence(task: int = 0, label: str = "kill_shaped", **fields: Any) -> dict[str, Any]:
    return {**legacy(failure(task, label=label)), "_ng_omitted_rollout": True, **fields}


def numbers(records: RolloutRecords) -> list[tuple[str, int, str, int]]:
    return [(o.rollout_id, o.attempt, o.source.name, o.line) for o in records.payloads.values()]


def test_an_import_makes_up_an_identity(tmp_path: Path) -> None:
    records = imported(tmp_path, results=[legacy(result())])
    assert records.without_manifest
    assert records.manifest.legacy_import
    assert (records.manifest.source_digest, records.manifest.config_digest) == ("unverified", "unverified")
    assert not records.coverage()["identity_verified"]
    assert records.next_attempts() == {"0-0": 1}


def test_numbering(tmp_path: Path) -> None:
    one = legacy(failure())
    records = imported(
        tmp_path,
        inventory=2,
        failures=[one, one, legacy(failure(1), attempt=4)],  # rows without a number are attempts of their own
        results=[legacy(result()), legacy(result(1)), legacy(result(1, reward=0.5), attempt=4)],
    )
    assert numbers(records) == [
        ("0-0", 0, "failures", 1),
        ("0-0", 1, "failures", 2),
        ("1-0", 4, "failures", 3),
        ("0-0", 2, "output", 1),
        ("1-0", 5, "output", 2),
        ("1-0", 6, "output", 3),  # 4 is held by a different row
    ]
    assert records.outcome("0-0").record.read()["_ng_attempt_index"] == 2
    assert records.next_attempts() == {"0-0": 3, "1-0": 7}


def test_a_number_that_a_tagged_row_holds_is_passed_over(tmp_path: Path) -> None:
    run = {"failures": [failure(attempt=4)], "results": [legacy(result(), attempt=4)], "legacy_import": True}
    assert [outcome.attempt for outcome in index(tmp_path, **run).payloads.values()] == [4, 5]


def test_a_numbered_duplicate_is_one(tmp_path: Path) -> None:
    row = legacy(failure(), attempt=0)
    records = imported(tmp_path, failures=[row, row])
    assert records.failure_count("0-0") == 1
    assert [dropped.because for dropped in records.dropped] == ["duplicate of line 1"]


def test_the_file_and_the_reservation_are_waived(tmp_path: Path) -> None:
    records = imported(tmp_path, inventory=2, failures=[legacy(result(0))], results=[legacy(failure(1))])
    assert [str(records.disposition(name)) for name in records.expected] == ["success", "failure"]


def test_output_and_sidecar_may_be_missing(tmp_path: Path) -> None:
    output = write_run(tmp_path, with_manifest=False)
    output.unlink()
    failures_path_for(output).unlink()
    records = open_run(output)
    assert records is not None
    assert attempts(records.pending()) == [("0-0", 0)]


def test_rows_with_the_run_id_are_checked_strictly(tmp_path: Path) -> None:
    run = {"failures": [legacy(failure()), failure(attempt=1)], "results": [legacy(result())], "legacy_import": True}
    with pytest.raises(RunDataError) as raised:
        index(tmp_path / "a", **run, reserved={"0-0": 1})
    assert raised.value.code == "E-NOT-RESERVED"
    with pytest.raises(RunDataError) as raised:  # the second legacy row meets the tagged one: numbers are given once
        index(tmp_path / "b", failures=[failure(0), failure(attempt=1)], results=[legacy(result())], legacy_import=True)
    assert raised.value.code == "E-CONFLICT"
    records = index(
        tmp_path / "c",
        failures=[legacy(failure()), failure(attempt=2)],
        results=[legacy(result())],
        legacy_import=True,
    )
    assert [outcome.attempt for outcome in records.payloads.values()] == [0, 2, 1]
    assert records.disposition("0-0") == "failure"
    with pytest.raises(RunDataError) as raised:
        index(tmp_path / "d", failures=[failure(_ng_run_id=OTHER_RUN_ID)], legacy_import=True)
    assert raised.value.code == "E-FOREIGN-RUN"


@pytest.mark.parametrize(
    ("failures", "results", "code"),
    [
        ([legacy(failure())], [result()], "E-LOST-MANIFEST"),
        ([failure(_ng_run_id=OTHER_RUN_ID)], [result(attempt=1)], "E-MIXED-RUNS"),
        ([evidence(_ng_run_id=RUN_ID)], [], "E-LOST-MANIFEST"),
    ],
)
def test_rows_with_a_run_id_need_their_manifest(tmp_path: Path, failures: Any, results: Any, code: str) -> None:
    output = write_run(tmp_path, failures=failures, results=results, with_manifest=False)
    before = contents(tmp_path)
    with pytest.raises(RunDataError) as raised:
        open_run(output)
    assert raised.value.code == code
    assert raised.value.line == 1
    assert RUN_ID in str(raised.value)
    assert (OTHER_RUN_ID in str(raised.value)) is (code == "E-MIXED-RUNS")
    assert "different runs" in str(raised.value) if code == "E-MIXED-RUNS" else "backup" in str(raised.value)
    assert contents(tmp_path) == before


# --- evidence rows (§12.2) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "hides"),
    [
        (evidence(), True),
        (evidence(_ng_attempt_index=3), True),
        (evidence(_ng_attempt_index=0), True),  # held by the failure: the next number is taken
        (evidence(_ng_unrouted_run_error=True), False),
        (evidence(_ng_dispatch_drained=True), False),
        (evidence(label="cancelled"), False),
        (evidence(label="cancelled", _ng_attempt_index=1), False),
        (evidence(_ng_attempt_index="x"), False),
        (evidence(task=7), False),
        (evidence(_ng_task_index="x"), False),
    ],
)
def test_only_an_interrupted_attempt_hides_older_failures(tmp_path: Path, row: dict[str, Any], hides: bool) -> None:
    records = imported(tmp_path, failures=[legacy(failure()), row])
    assert records.disposition("0-0") == ("unknown" if hides else "failure")
    assert records.failure_count("0-0") == 1
    assert records.dropped[0].because.startswith("evidence row")
    assert records.unresolved_dispatches == []


def test_a_later_attempt_replaces_an_interrupted_one(tmp_path: Path) -> None:
    records = imported(tmp_path, failures=[legacy(failure()), evidence()], results=[legacy(result())])
    assert (records.latest, str(records.disposition("0-0"))) == ({"0-0": 2}, "success")


def test_with_a_manifest_evidence_rows_have_no_effect(tmp_path: Path) -> None:
    rows = [failure(), {**failure(attempt=9, label="kill_shaped"), "_ng_omitted_rollout": 1}]
    records = index(tmp_path, failures=rows, reserved={"0-0": 1}, results=[{"_ng_omitted_rollout": True}])
    assert (records.latest, str(records.disposition("0-0"))) == ({"0-0": 0}, "failure")
    assert [dropped.because for dropped in records.dropped] == [
        "evidence row: an interrupted attempt",
        "evidence row: a rollout without a result",
    ]


@pytest.mark.parametrize(("run_id", "newest"), [(RUN_ID, 1), (OTHER_RUN_ID, 0)])
def test_tagged_evidence_of_an_imported_run(tmp_path: Path, run_id: str, newest: int) -> None:
    rows = [legacy(failure()), evidence(_ng_run_id=run_id, _ng_attempt_index=1)]
    assert index(tmp_path, failures=rows, legacy_import=True, reserved={}).latest == {"0-0": newest}


# --- the invalid-judge migration (§15.3) -----------------------------------------------------------------------------

FLAGGED = result(reward=0.0, invalid_judge_response=True)


def moved(row: dict[str, Any], **fields: Any) -> dict[str, Any]:
    marks = {"_ng_failure_class": "judge_invalid", "_ng_migrated_invalid_judge_response": True}
    return {**row, **marks, **fields}


@pytest.mark.parametrize("fields", [{}, {"reuse_cached_deliverable": True}])
def test_the_leftover_in_the_output_is_skipped(tmp_path: Path, fields: dict[str, Any]) -> None:
    records = index(tmp_path, failures=[moved(FLAGGED, **fields)], results=[FLAGGED])
    assert records.disposition("0-0") == "failure"
    assert attempts(records.pending()) == [("0-0", 1)]  # a migrated row is retried
    assert [dropped.because for dropped in records.dropped] == [
        "moved to line 1 of the sidecar by the invalid-judge migration"
    ]


@pytest.mark.parametrize(
    "sidecar_row",
    [
        moved(FLAGGED, reward=1.0),
        moved(FLAGGED, _ng_failure_terminal=False),
        moved(FLAGGED, _ng_failure_class="judge_failed"),
        moved(FLAGGED, _ng_migrated_invalid_judge_response=False),
        moved(FLAGGED, more=1),
    ],
)
def test_only_the_exact_image_is(tmp_path: Path, sidecar_row: dict[str, Any]) -> None:
    with pytest.raises(RunDataError) as raised:
        index(tmp_path, failures=[sidecar_row], results=[FLAGGED])
    assert raised.value.code == "E-CONFLICT"


def test_the_run_id_is_checked_first(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as raised:
        index(tmp_path, failures=[moved(FLAGGED)], results=[{**FLAGGED, "_ng_run_id": OTHER_RUN_ID}])
    assert raised.value.code == "E-FOREIGN-RUN"


def test_a_flagged_result_alone_is_a_result(tmp_path: Path) -> None:
    assert index(tmp_path, results=[FLAGGED]).disposition("0-0") == "success"


def test_in_an_import_the_original_takes_the_number_of_its_image(tmp_path: Path) -> None:
    original = legacy(FLAGGED)
    image = {**moved(original), "_ng_attempt_index": 1}  # the migration wrote the number into the row
    records = imported(tmp_path, failures=[legacy(failure()), image], results=[original, legacy(result())])
    assert numbers(records) == [("0-0", 0, "failures", 1), ("0-0", 1, "failures", 2), ("0-0", 2, "output", 2)]
    assert records.dropped[0].line == 1
    explicit = {**original, "_ng_attempt_index": 0}  # not the number of the image
    records = imported(tmp_path / "b", failures=[legacy(failure()), image], results=[explicit])
    assert [outcome.attempt for outcome in records.payloads.values()] == [0, 1, 2]
