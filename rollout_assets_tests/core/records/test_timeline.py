"""The attempt timeline, by manifest and by rows alone (records.md §9, §19.1; example 40)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.records import (
    ReadingMode,
    RunDataError,
    TimelineEntry,
    journal_path_for,
    read_run,
    rows_only_timeline,
    timeline,
)
from rollout_assets_tests.core.records.runs import ANSWER, failure, index, inventory_row, legacy, result, write_run


def told(entries: list[TimelineEntry]) -> list[tuple[Any, ...]]:
    return [(e.rollout_id, e.attempt_index, e.file, e.line, e.dropped_because) for e in entries]


def test_every_saved_row_is_there_with_its_reason(tmp_path: Path) -> None:
    judged = failure(3, label="judge_failed", response=ANSWER, _ng_failure_id="ev-1")
    rejudged = result(3, response=ANSWER, _ng_rejudged_failure_id="ev-1", _ng_rejudge_operation_id="op-1")
    records = index(
        tmp_path,
        inventory=4,
        failures=[
            failure(0),
            failure(0),
            failure(1),
            judged,
            {
                "_ng_omitted_rollout": True,
                "_ng_dispatch_drained": True,
                **inventory_row(2),
                "_ng_failure_class": "cancelled",
            },
            {"_ng_omitted_rollout": True},
        ],
        results=[result(0, attempt=1), rejudged, result(1, attempt=1)],
        reserved={"0-0": 2, "1-0": 3, "3-0": 1},
    )
    entries = timeline(records)
    assert told(entries) == [
        ("0-0", 0, "failures", 1, "superseded by attempt 1"),
        ("0-0", 0, "failures", 2, "duplicate of line 1"),
        ("0-0", 1, "output", 1, None),
        ("1-0", 0, "failures", 3, "fenced by reservation 2"),
        ("1-0", 1, "output", 3, "fenced by reservation 2"),
        ("2-0", None, "failures", 5, "evidence row: a rollout that was never started"),
        ("3-0", 0, "failures", 4, "re-judged by line 2 of the output"),
        ("3-0", 0, "output", 2, None),
        (None, None, "failures", 6, "evidence row: a rollout without a result"),
    ]
    assert [entry.line for entry in entries if entry.counted] == [1, 3, 4]
    assert [entry.line for entry in entries if entry.final] == [1, 2]
    assert [entry.line for entry in entries if entry.selected] == [1, 2]
    assert [str(entry.disposition) for entry in entries] == [
        *3 * ["success"],
        *2 * ["unknown"],
        "unknown",
        *2 * ["success"],
        "None",
    ]
    assert [entry.task_index for entry in entries] == [0, 0, 0, 1, 1, 2, 3, 3, None]


def test_each_entry_names_its_bytes(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result(note="é"), b"\n", result(1)], inventory=2)
    entry = read_run(output).timeline[1]
    assert output.read_bytes()[entry.offset :][: entry.length].decode().startswith('{"_ng_task_index": 1')
    assert entry.line == 3


def test_links_of_one_file_are_named_by_line(tmp_path: Path) -> None:
    keys = {"_ng_rejudged_failure_id": "ev-1", "_ng_rejudge_operation_id": "op-1"}
    judged = failure(label="judge_failed", response=ANSWER, _ng_failure_id="ev-1")
    records = index(tmp_path, failures=[judged, {**judged, **keys, "_ng_failure_id": "ev-2"}])
    assert told(timeline(records)) == [
        ("0-0", 0, "failures", 1, "re-judged by line 2"),
        ("0-0", 0, "failures", 2, None),
    ]
    assert [entry.counted for entry in timeline(records)] == [True, False]


def test_an_interrupted_attempt_of_an_import_hides(tmp_path: Path) -> None:
    rows = [legacy(failure()), {**legacy(failure(label="kill_shaped")), "_ng_omitted_rollout": True}]
    reading = read_run(write_run(tmp_path, failures=rows, with_manifest=False))
    assert reading.mode is ReadingMode.LEGACY_IMPORT
    assert [e.dropped_because for e in reading.timeline if e.attempt_index == 0] == [
        "hidden by the interrupted attempt 1, evidence row in line 2"
    ]


def test_overridden_failures_count_when_they_are_retried(tmp_path: Path) -> None:
    rows = [failure(label="timeout_exceeded", _ng_failure_terminal=True)]
    assert [e.counted for e in timeline(index(tmp_path / "a", failures=rows))] == [False]
    assert [e.counted for e in timeline(index(tmp_path / "b", failures=rows, retry_terminal_timeouts=True))] == [True]


def test_modes(tmp_path: Path) -> None:
    rows = {"results": [result()]}
    assert read_run(write_run(tmp_path / "a", **rows)).mode is ReadingMode.MANIFEST
    assert read_run(write_run(tmp_path / "b", **rows, legacy_import=True)).mode is ReadingMode.MANIFEST
    output = write_run(tmp_path / "c", results=[legacy(result())], with_manifest=False)
    assert read_run(output).mode is ReadingMode.LEGACY_IMPORT
    reading = read_run(write_run(tmp_path / "d", **rows, with_manifest=False, with_inventory=False))
    assert (reading.mode, reading.records) == (ReadingMode.ROWS_ONLY, None)
    assert told(reading.timeline) == [("0-0", 0, "output", 1, None)]


# --- rows only -------------------------------------------------------------------------------------------------------


def rows_only(folder: Path, **rows: Any) -> list[TimelineEntry]:
    return rows_only_timeline(write_run(folder, with_manifest=False, with_inventory=False, **rows))


def test_the_fold_by_rows_alone(tmp_path: Path) -> None:
    entries = rows_only(
        tmp_path,
        failures=[
            legacy(failure(0)),
            legacy(failure(1)),
            legacy(failure(1, label="judge_failed", reward=0.0)),
            {"_ng_failure_class": "agent_run_error"},
            {**legacy(failure(1, label="kill_shaped")), "_ng_omitted_rollout": True},
        ],
        results=[legacy(result(0)), legacy(result(2, reward=0.0, failure_kind="verifier_error", mask_sample=False))],
    )
    assert [(e.file, e.line, e.dropped_because) for e in entries] == [
        ("failures", 1, "scored by line 1 of the output"),
        ("failures", 2, "superseded by line 3"),
        ("failures", 3, None),
        ("failures", 4, None),
        ("failures", 5, "evidence row: an interrupted attempt"),
        ("output", 1, None),
        ("output", 2, None),
    ]
    assert [e.selected for e in entries] == [False, False, True, True, False, True, True]
    assert [str(e.disposition) for e in entries] == ["success", *3 * ["failure"], "None", "success", "success"]
    assert [e.counted for e in entries] == [True, True, True, True, False, False, False]
    assert [e.final for e in entries] == [False, False, False, False, False, True, True]


@pytest.mark.parametrize(
    ("indices", "kept"),
    [
        ({}, True),
        ({"_ng_task_index": 0}, True),
        ({"_ng_task_index": 0, "_ng_rollout_index": None}, True),
        ({"_ng_task_index": "0", "_ng_rollout_index": 0}, True),
        ({"_ng_task_index": False, "_ng_rollout_index": 0}, True),
        ({"_ng_task_index": float("nan"), "_ng_rollout_index": 0}, True),
        ({"_ng_task_index": 0, "_ng_rollout_index": 0}, False),
        ({"_ng_task_index": 0.0, "_ng_rollout_index": 0}, False),  # equal numbers are equal
    ],
)
def test_rows_without_both_indices_are_all_kept(tmp_path: Path, indices: dict[str, Any], kept: bool) -> None:
    row = {**indices, "_ng_failure_class": "agent_run_error"}
    entries = rows_only(tmp_path, failures=[row, row], results=[legacy(result())])
    assert [entry.selected for entry in entries] == [kept, kept, True]


def test_attempt_numbers_are_not_consulted(tmp_path: Path) -> None:
    entries = rows_only(tmp_path, failures=[failure(attempt=5), failure(attempt=1, label=None)])
    assert [(e.attempt_index, e.failure_class, e.dropped_because) for e in entries] == [
        (5, "agent_run_error", "superseded by line 2"),
        (1, "", None),
    ]


def test_terminal_failures_are_final(tmp_path: Path) -> None:
    rows = [failure(0, _ng_failure_terminal=True), failure(1, label="agent_timeout", response=ANSWER), failure(2)]
    rows += [failure(3, _ng_failure_record=None), failure(4, _ng_attempt_index="x")]
    assert [e.final for e in rows_only(tmp_path, failures=rows)] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("rows", "code", "line"),
    [
        ({"results": [b"{bad}\n"]}, "E-JSON", 1),
        ({"failures": [b"\n", b"[]\n"]}, "E-OBJECT", 2),
        ({"failures": [b'{"a']}, "E-JSON", 1),
    ],
)
def test_rows_alone_tolerate_nothing(tmp_path: Path, rows: dict[str, Any], code: str, line: int) -> None:
    with pytest.raises(RunDataError) as raised:
        rows_only(tmp_path, **rows)
    assert (raised.value.code, raised.value.line) == (code, line)


def test_there_must_be_an_output_and_no_journal(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as raised:
        rows_only_timeline(tmp_path / "none.jsonl")
    assert raised.value.code == "E-UNREADABLE"
    output = write_run(tmp_path, with_manifest=False, with_inventory=False)
    journal_path_for(output).touch()
    with pytest.raises(RunDataError) as raised:
        rows_only_timeline(output)
    assert raised.value.code == "E-JOURNAL"
