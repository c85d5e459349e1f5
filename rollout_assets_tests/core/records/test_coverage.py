"""The coverage report, its exit codes, and the command that prints it (records.md §16.4, §17; example 45)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rollout_assets.cli import main
from rollout_assets.core.records import exit_status
from rollout_assets_tests.core.records.runs import (
    RUN_ID,
    contents,
    failure,
    index,
    legacy,
    result,
    write_run,
)

TERMINAL = {"_ng_failure_terminal": True}


def test_a_report(tmp_path: Path) -> None:
    records = index(
        tmp_path,
        inventory=10,
        results=[result(0), result(1, mask_sample=True), result(2, reward=..., mask_sample=True), result(3, attempt=1)],
        failures=[
            failure(3),
            failure(4, **TERMINAL),
            failure(5),
            *(failure(6, attempt=n) for n in range(3)),
            failure(7, label="judge_failed"),
            failure(8, label="skipped", **TERMINAL),
        ],
        reserved={**{f"{task}-0": 1 for task in (0, 1, 2, 4, 5, 7, 8)}, "3-0": 2, "6-0": 3, "9-0": 0},
        identity_overridden=True,
    )
    assert records.coverage() == {
        "schema_version": 2,
        "selection_policy": "latest_allocated",
        "run_id": RUN_ID,
        "expected": 10,
        "successful": 4,
        "measured": 2,
        "masked": 1,
        "unscored": 1,
        "failed": 4,
        "failed_final": 1,
        "failed_not_final": 3,
        "failed_by_class": {"agent_run_error": 3, "judge_failed": 1},
        "intentionally_omitted": 1,
        "unknown": 1,
        "never_dispatched": 1,
        "attempts": 12,
        "counted_failures": 6,
        "attempts_exhausted": 1,
        "stopped": 1,
        "retryable": 2,
        "max_rollout_attempts": 3,
        "retry_terminal_timeouts": False,
        "completion_fraction": 0.4,
        "complete": False,
        "reconciled": False,
        "identity_verified": False,
    }


def test_an_empty_run_is_complete(tmp_path: Path) -> None:
    coverage = index(tmp_path, inventory=0).coverage()
    assert (coverage["completion_fraction"], coverage["complete"], exit_status(coverage)) == (1.0, True, 0)


# Of two rollouts the first is a success; what the second is decides the exit code.
EXITS = {
    "failed once": ({"failures": [failure(1)]}, 75),
    "reserved without outcome": ({"reserved": {"0-0": 1, "1-0": 1}}, 75),
    "never started": ({}, 75),
    "terminal failure": ({"failures": [failure(1, **TERMINAL)]}, 76),
    "terminal skip": ({"failures": [failure(1, label="skipped", **TERMINAL)]}, 76),
    "three counted failures": ({"failures": [failure(1, attempt=n) for n in range(3)]}, 76),
    "judge failure": ({"failures": [failure(1, label="judge_failed")]}, 76),
    "masked": ({"results": [result(0), result(1, mask_sample=True)]}, 0),
    "approved rerun": ({"results": [result(0), result(1, mask_sample=True)], "rerun_masked": [[1, 0, 0]]}, 0),
    "journal": ({"journal": True}, 1),
    "lost manifest": ({"with_manifest": False}, 1),
    "rows only": ({"with_manifest": False, "with_inventory": False}, 1),
}


@pytest.mark.parametrize("name", EXITS)
def test_exit_codes(tmp_path: Path, name: str) -> None:
    run, code = EXITS[name]
    run = {"results": [result(0)], "inventory": 2, **run}
    journal = run.pop("journal", False)
    output = write_run(tmp_path, **run)
    if journal:
        (tmp_path / "rollouts_attempts.jsonl").touch()
    before = contents(tmp_path)
    for arguments in ([], ["--json"], ["--json", "--timeline", "0-0"], ["--timeline", "0-0"]):
        assert call(output, *arguments).exit_code == code
    assert contents(tmp_path) == before


def call(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["coverage", str(path), *arguments])


def report(path: Path, *arguments: str) -> dict[str, Any]:
    value = json.loads(call(path, "--json", *arguments).stdout)
    assert isinstance(value, dict)
    return value


def test_json(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result(attempt=1)], failures=[failure()])
    found = report(output, "--timeline", "0-0")
    entries = found.pop("timeline")
    assert (found.pop("mode"), found.pop("path"), found.pop("coverage_known")) == ("manifest", str(output), True)
    assert found == index(tmp_path / "same", results=[result(attempt=1)], failures=[failure()]).coverage()
    assert [(entry["file"], entry["line"], entry["dropped_because"]) for entry in entries] == [
        ("failures", 1, "superseded by attempt 1"),
        ("output", 1, None),
    ]


def test_json_by_rows_alone(tmp_path: Path) -> None:
    rows = {"results": [legacy(result())], "failures": [legacy(failure(1))]}
    output = write_run(tmp_path, **rows, with_manifest=False, with_inventory=False)
    assert report(output) == {
        "path": str(output),
        "mode": "rows_only",
        "coverage_known": False,
        "expected": None,
        "standing": {"failure": 1, "success": 1},
    }


def test_text(tmp_path: Path) -> None:
    run = {"failures": [failure(), failure(label="", attempt=1)], "reserved": {"0-0": 100}}
    output = write_run(tmp_path, **run)
    second = len(output.with_name("rollouts_failures.jsonl").read_bytes().splitlines(keepends=True)[0])
    text = call(output, "--timeline", "0-0").output
    squeezed = "\n".join(" ".join(line.split()) for line in text.splitlines())
    assert "rollouts.jsonl (read by its manifest)" in squeezed
    assert "expected 1\nsuccessful 0" in squeezed
    assert "complete: no, reconciled: no, identity_verified: yes" in squeezed
    assert "attempt 0: failures line 1 (byte 0): agent_run_error, fenced by reservation 99, counted" in squeezed
    assert f"attempt 1: failures line 2 (byte {second}): failure, fenced by reservation 99, counted" in squeezed
    assert (
        "reserved, nothing saved: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, …" in squeezed
    )
    assert squeezed.endswith("the rollout is unknown")


def test_text_lists_the_classes_of_failures(tmp_path: Path) -> None:
    text = call(write_run(tmp_path, inventory=2, failures=[failure(0), failure(1, label="")])).output
    lines = [line.split() for line in text.splitlines()]
    assert ["agent_run_error", "1"] in lines
    assert ["(empty", "class)", "1"] in lines


def test_text_by_rows_alone(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[legacy(result())], with_manifest=False, with_inventory=False)
    text = call(output, "--timeline", "0-0").output
    assert "coverage is unknown" in text
    assert "success: 1 row stands" in text
    assert "attempt 0: output line 1 (byte 0): result, stands, final" in text


def test_errors_and_warnings_go_to_standard_error(tmp_path: Path) -> None:
    output = write_run(tmp_path, results=[result(), b'{"a'])
    found = call(output)
    assert found.exit_code == 0
    assert "rollouts.jsonl:2: the last row is incomplete" in found.stderr
    assert "incomplete" not in found.stdout
    found = call(write_run(tmp_path, results=[b"7\n"]))
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith(f"error: {output}:1:1: ")


def test_an_unknown_rollout(tmp_path: Path) -> None:
    found = call(write_run(tmp_path, inventory=2, results=[result()]), "--timeline", "9-9")
    assert found.exit_code == 1
    assert "no rollout '9-9'; ids look like 0-0" in found.stderr
    assert call(tmp_path / "rollouts.jsonl", "--timeline", "1-0").exit_code == 75  # expected, nothing saved


def test_what_may_be_named(tmp_path: Path) -> None:
    output = write_run(tmp_path / "run", results=[result()])
    for path in (output, output.parent, output.with_name("rollouts_failures.jsonl")):
        assert report(path)["path"] == str(output)
    write_run(tmp_path / "second", results=[result()])
    for path, named in [
        (tmp_path, "holds 2 runs (run/rollouts.jsonl, second/rollouts.jsonl)"),
        (tmp_path / "none.jsonl", "no such file"),
        (folder(tmp_path / "empty"), "holds no run: no results file `*.jsonl` in any folder; name the results file"),
    ]:
        found = call(path)
        assert found.exit_code == 1
        assert named in found.stderr
    odd = output.rename(folder(tmp_path / "odd") / "a name with blanks.jsonl")
    assert call(odd.parent).exit_code == 1  # rows with a run id, and no manifest beside them: rows only
    assert report(odd.parent)["mode"] == "rows_only"


def folder(path: Path) -> Path:
    path.mkdir()
    return path
