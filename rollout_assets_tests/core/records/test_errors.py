"""Every error that a reader can meet: its code, its place, what it says; and no file changes (records.md §20)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rollout_assets.core.records import (
    RunDataError,
    failures_path_for,
    journal_path_for,
    materialized_path_for,
    open_run,
)
from rollout_assets.core.records.paths import manifest_path_for
from rollout_assets_tests.core.records.runs import (
    ANSWER,
    OTHER_RUN_ID,
    RUN_ID,
    contents,
    failure,
    inventory_row,
    record,
    result,
    write_run,
)


class Case(NamedTuple):
    code: str
    run: dict[str, Any]
    #: Ending of the file's name and line that are blamed.
    file: str
    line: int | None
    #: What the message must carry.
    named: tuple[str, ...]
    change: Callable[[Path], None] | None = None
    kind: str | None = None


GOOD = b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_run_id": "%s"}\n' % RUN_ID.encode()
TWO = {"inventory": 2}
OUTPUT, SIDECAR, INVENTORY, MANIFEST = (
    "rollouts.jsonl",
    "_failures.jsonl",
    "_materialized_inputs.jsonl",
    "_manifest.json",
)


def bad_line(line: bytes, code: str, kind: str, *named: str) -> Case:
    return Case(code, {"results": [GOOD, b"\n", line, GOOD], "reserved": {"0-0": 1}}, OUTPUT, 3, named, kind=kind)


def bad_record(value: Any, *named: str) -> Case:
    rows = [failure(_ng_failure_record=value)]
    return Case("E-RECORD-INVALID", {"failures": rows}, SIDECAR, 1, ("('0-0', 0)", "upgrade", *named))


def contradiction(named: str, row: dict[str, Any]) -> Case:
    return Case("E-RECORD-ENVELOPE", {"failures": [row]}, SIDECAR, 1, ("('0-0', 0)", named))


def bad_attempt(value: Any) -> Case:
    return Case(
        "E-ATTEMPT",
        {"results": [GOOD, result(1, _ng_attempt_index=value)], "reserved": {"0-0": 1}, **TWO},
        OUTPUT,
        2,
        ("_ng_attempt_index", repr(value)),
    )


CASES = {
    "no JSON": bad_line(b"{bad}\n", "E-JSON", "invalid_json", ":3:2: ", "repair"),
    "two texts on a line": bad_line(b"{} {}\n", "E-JSON", "invalid_json"),
    "NBSP is no blank": bad_line("\u00a0\n".encode(), "E-JSON", "invalid_json"),
    "lone surrogate": bad_line(b'{"a": "\\udc00"}\n', "E-JSON", "lone_surrogate"),
    "not UTF-8": bad_line(b'{"a": "\xff"}\n', "E-JSON", "not_utf8", "0xff"),
    "duplicate key": bad_line(b'{"reward": 1, "reward": 1}\n', "E-JSON", "duplicate_key", "'reward'"),
    "duplicate key in a record": bad_line(
        b'{"_ng_failure_record": {"failure": {"terminal": true, "terminal": true}}}\n', "E-JSON", "duplicate_key"
    ),
    "too deep": bad_line(b'{"a": ' + 513 * b"[" + 513 * b"]" + b"}\n", "E-JSON", "too_deep", "512"),
    "no object": bad_line(b"[1]\n", "E-OBJECT", "not_an_object"),
    "no object in the inventory": Case(
        "E-OBJECT", {"inventory": [inventory_row(), b"1\n"]}, INVENTORY, 2, ("object",), kind="not_an_object"
    ),
    "complete last line that is no object": Case(
        "E-OBJECT", {"results": [b"3"]}, OUTPUT, 1, ("object",), None, "not_an_object"
    ),
    "explicit id": Case(
        "E-ID-FORM", {"results": [result(_ng_rollout_id="x-a1")], "reserved": {}}, OUTPUT, 1, ("'x-a1'", "reserved")
    ),
    "index": Case(
        "E-ID-FORM", {"results": [result(_ng_task_index="0")], "reserved": {}}, OUTPUT, 1, ("'0'", "integer")
    ),
    "id in the inventory": Case("E-ID-FORM", {"inventory": [{"_ng_rollout_id": ""}]}, INVENTORY, 1, ("''",)),
    "no id": Case(
        "E-ID-MISSING", {"failures": [failure(_ng_rollout_index=None)], "reserved": {}}, SIDECAR, 1, ("recovered",)
    ),
    "no id in the inventory": Case("E-ID-MISSING", {"inventory": [{"a": 1}]}, INVENTORY, 1, ("recovered",)),
    "id twice": Case("E-DUP-ID", {"inventory": [inventory_row(), {"_ng_rollout_id": "0-0"}]}, INVENTORY, 2, ("'0-0'",)),
    "equal rows twice": Case("E-DUP-ID", {"inventory": [inventory_row(), inventory_row()]}, INVENTORY, 2, ("'0-0'",)),
    "digest": Case(
        "E-INVENTORY-DIGEST",
        {"materialized_digest": "0" * 64},
        INVENTORY,
        None,
        ("inventory and manifest disagree", "0" * 64),
    ),
    "digest before ids": Case(
        "E-INVENTORY-DIGEST", {"inventory": [{"a": 1}], "materialized_digest": "0" * 64}, INVENTORY, None, ("disagree",)
    ),
    "torn inventory": Case(
        "E-INVENTORY-DIGEST",
        {},
        INVENTORY,
        None,
        ("disagree",),
        lambda output: materialized_path_for(output).write_bytes(b""),
    ),
    "non-finite number in the inventory": Case(
        "E-INVENTORY-DIGEST",
        {},
        INVENTORY,
        1,
        ("disagree", "NaN"),
        lambda output: materialized_path_for(output).write_bytes(b'{"x": NaN}\n'),
        "non_finite_number",
    ),
    "reservations": Case(
        "E-RESERVE-UNKNOWN", {"reserved": {"0-0": 1, "9-0": 1, "7-0": 0}}, MANIFEST, None, ("['7-0', '9-0']",)
    ),
    "not in the inventory": Case("E-NOT-IN-INVENTORY", {"results": [result(9)], "reserved": {}}, OUTPUT, 1, ("'9-0'",)),
    "attempt null": bad_attempt(None),
    "attempt float": bad_attempt(1.0),
    "attempt boolean": bad_attempt(True),
    "attempt negative": bad_attempt(-1),
    "other index": Case(
        "E-INDEX",
        {
            "inventory": [inventory_row(_ng_rollout_id="q")],
            "results": [result(_ng_rollout_id="q", _ng_rollout_index=1, _ng_run_id=OTHER_RUN_ID)],
        },
        OUTPUT,
        1,
        ("'q'", "_ng_rollout_index", "1", "0"),
    ),
    "other rollout index": Case(
        "E-INDEX",
        {
            "inventory": [inventory_row(_ng_rollout_id="q")],
            "results": [result(_ng_rollout_id="q", _ng_rollout_index=1)],
        },
        OUTPUT,
        1,
        ("'q'", "_ng_rollout_index"),
    ),
    "missing index": Case(
        "E-INDEX",
        {
            "inventory": [inventory_row(_ng_rollout_id="q")],
            "results": [result(_ng_rollout_id="q", _ng_task_index=...)],
        },
        OUTPUT,
        1,
        ("'q'", "_ng_task_index", "None"),
    ),
    "foreign run": Case(
        "E-FOREIGN-RUN", {"results": [GOOD, result(_ng_run_id=OTHER_RUN_ID)]}, OUTPUT, 2, (RUN_ID, OTHER_RUN_ID)
    ),
    "no run id": Case("E-FOREIGN-RUN", {"failures": [failure(_ng_run_id=None)]}, SIDECAR, 1, (RUN_ID, "no run id")),
    "record null": bad_record(None, "null"),
    "record of another version": bad_record(record(schema_version=3), "3"),
    "record with another field": bad_record(record(more=1), "more"),
    "record not delivered": bad_record(record(source="environment"), "'delivered'"),
    "record with a bad id": bad_record({**record(), "episode_id": {"rollout_id": "-"}}, "'-'"),
    "class is no string": Case(
        "E-RECORD-INVALID", {"failures": [failure(label=5)]}, SIDECAR, 1, ("('0-0', 0)", "_ng_failure_class", "5")
    ),
    "record of another run": contradiction("run id", failure(_ng_failure_record=record(run_id=OTHER_RUN_ID))),
    "record of another rollout": contradiction("rollout id", failure(_ng_failure_record=record(task=1))),
    "record of another attempt": contradiction("attempt", failure(_ng_failure_record=record(attempt=3))),
    "record of another class": contradiction("failure class", failure(_ng_failure_record=record(kind="judge_failed"))),
    "record terminal": contradiction("terminal", failure(_ng_failure_record=record(terminal=True))),
    "row terminal": contradiction("terminal", failure(_ng_failure_terminal=1, _ng_failure_record=record())),
    "record on a result": Case(
        "E-RECORD-ENVELOPE",
        {"results": [result(_ng_failure_record=record())]},
        OUTPUT,
        1,
        ("('0-0', 0)", "failure class"),
    ),
    "not reserved": Case(
        "E-NOT-RESERVED",
        {"results": [result(attempt=2)], "reserved": {"0-0": 2}},
        OUTPUT,
        1,
        ("('0-0', 2)", "reservation"),
    ),
    "two outcomes in a file": Case(
        "E-CONFLICT", {"results": [result(), result(reward=True)]}, OUTPUT, 2, ("('0-0', 0)", "rollouts.jsonl:1")
    ),
    "two outcomes in both files": Case(
        "E-CONFLICT", {"failures": [failure()], "results": [result()]}, OUTPUT, 1, ("('0-0', 0)", "_failures.jsonl:1")
    ),
    "a changed answer": Case(
        "E-CONFLICT",
        {
            "failures": [failure(label="judge_failed", _ng_failure_id="ev-1", response=ANSWER)],
            "results": [
                result(response={"id": "other"}, _ng_rejudged_failure_id="ev-1", _ng_rejudge_operation_id="op-1")
            ],
        },
        OUTPUT,
        1,
        ("('0-0', 0)",),
    ),
    "failure in the output": Case("E-ARTIFACT", {"results": [failure()]}, OUTPUT, 1, ("sidecar",)),
    "failure without record in the output": Case(
        "E-ARTIFACT", {"results": [result(_ng_failure_class=5)]}, OUTPUT, 1, ()
    ),
    "result in the sidecar": Case("E-ARTIFACT", {"failures": [result()]}, SIDECAR, 1, ("output",)),
    "artifact before identity": Case("E-ARTIFACT", {"failures": [result(9)], "reserved": {}}, SIDECAR, 1, ()),
    "manifest": Case("E-MANIFEST", {"schema_version": 2, "later": 1}, MANIFEST, None, ("'later'",)),
    "no output": Case("E-MISSING", {}, OUTPUT, None, ("lacks its output",), lambda output: output.unlink()),
    "no sidecar and inventory": Case(
        "E-MISSING",
        {},
        OUTPUT,
        None,
        ("inventory", "failures sidecar"),
        lambda output: (failures_path_for(output).unlink(), materialized_path_for(output).unlink()),
    ),
    "journal": Case(
        "E-JOURNAL",
        {},
        "_attempts.jsonl",
        None,
        ("superseded", "new output path"),
        lambda output: journal_path_for(output).touch(),
    ),
    "journal without a manifest": Case(
        "E-JOURNAL",
        {"with_manifest": False, "with_inventory": False},
        "_attempts.jsonl",
        None,
        ("superseded",),
        lambda output: journal_path_for(output).symlink_to("nowhere"),
    ),
    "lost manifest": Case(
        "E-LOST-MANIFEST", {"results": [result()], "with_manifest": False}, OUTPUT, 1, ("backup", "new output path")
    ),
    "mixed runs": Case(
        "E-MIXED-RUNS",
        {"results": [result(), result(1, _ng_run_id=OTHER_RUN_ID)], "with_manifest": False, **TWO},
        OUTPUT,
        1,
        ("different runs",),
    ),
    "alias": Case(
        "E-ALIAS",
        {},
        "rollouts_manifest.json",
        None,
        ("real.jsonl", "Nothing was changed"),
        lambda output: output.rename(output.with_name("real.jsonl")) and output.symlink_to("real.jsonl"),
    ),
    "unreadable": Case(
        "E-UNREADABLE", {}, MANIFEST, None, ("directory",), lambda output: become_folder(manifest_path_for(output))
    ),
}


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_error(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    output = write_run(tmp_path / "run", **case.run)
    if case.change is not None:
        case.change(output)
    before = contents(tmp_path)
    with pytest.raises(RunDataError) as raised:
        open_run(output)
    error = raised.value
    assert error.code == case.code
    assert error.path is not None
    assert error.path.endswith(case.file)
    assert error.line == case.line
    place = ":".join(str(part) for part in (error.path, case.line, error.column) if part is not None)
    assert str(error).startswith(f"{place}: ")
    if case.line is not None:
        assert error.offset == offset_of_line(Path(error.path), case.line)
        assert str(error).endswith(f"(row at byte {error.offset})")
    for text in case.named:
        assert text in str(error)
    assert error.kind == case.kind
    assert (error.column is None) == (case.kind is None or case.line is None)
    assert contents(tmp_path) == before


def offset_of_line(path: Path, line: int) -> int:
    return len(b"".join(path.read_bytes().splitlines(keepends=True)[: line - 1]))


@pytest.mark.parametrize("field", ["results", "failures"])
def test_an_incomplete_last_row_is_a_warning_and_no_row(tmp_path: Path, field: str) -> None:
    output = write_run(tmp_path, **{field: [b"\n", json.dumps(result()).encode()[:-1]]})
    before = contents(tmp_path)
    with pytest.warns(UserWarning, match="incomplete") as caught:
        records = open_run(output)
    warning = caught[0].message
    file = output if field == "results" else failures_path_for(output)
    assert (warning.code, warning.path, warning.line) == ("W-TAIL", str(file), 2)
    assert str(warning).startswith(f"{file}:2: ")
    assert records is not None
    assert records.disposition("0-0") == "unknown"
    assert contents(tmp_path) == before


def test_a_complete_last_row_without_a_newline_is_one(tmp_path: Path) -> None:
    records = open_run(write_run(tmp_path, results=[json.dumps(result()).encode()], reserved={"0-0": 1}))
    assert records is not None
    assert records.disposition("0-0") == "success"
