"""`rollout-assets check`: every fault on a line that editors understand, and an exit code for CI."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from rollout_assets.cli import main

SOUND = b'{"task_id": "a", "reward": 1}\n'


def check(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["check", *map(str, arguments)])
    assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_sound_run_exits_with_0_and_counts_rows_of_both_files(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_bytes(SOUND * 2)
    (tmp_path / "run_failures.jsonl").write_bytes(b'{"_ng_failure_class": "x"}\n')
    assert check(tmp_path / "run.jsonl") == (0, "", "1 run, 3 readable rows: no fault\n")


def test_each_fault_is_a_line_with_path_line_and_column(tmp_path: Path) -> None:
    output, sidecar = tmp_path / "run.jsonl", tmp_path / "run_failures.jsonl"
    output.write_bytes(SOUND + b'{"reward": true}\n' + b'{"a": 1,}\n')
    sidecar.write_bytes(b'{"_ng_failure_class": "x", "n": NaN}\n{"_ng')
    code, printed, summary = check(output)
    assert code == 1
    assert [line.split(": ")[:2] for line in printed.splitlines()] == [
        [f"{output}:2:1", "reward_not_a_number"],
        [f"{output}:3:9", "invalid_json"],
        [f"{sidecar}:1:33", "non_finite_number"],
        [f"{sidecar}:2:6", "truncated_tail"],
    ]
    assert "1 run, 3 readable rows: 1 invalid_json, 1 non_finite_number" in summary


@pytest.mark.parametrize("reward", [b"%s", b"[%s]", b'{"a": %s}'])
def test_a_reward_with_more_digits_than_python_writes_is_a_fault(tmp_path: Path, reward: bytes) -> None:
    output = tmp_path / "run.jsonl"
    output.write_bytes(b'{"reward": ' + reward % (b"9" * 5000) + b"}\n")
    code, printed, _ = check(output)
    assert code == 1
    assert printed.startswith(f"{output}:1:1: reward_not_a_number: the reward ")


def test_a_folder_stands_for_all_its_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rollouts.jsonl").write_bytes(SOUND)
    assert check(tmp_path)[2] == "2 runs, 2 readable rows: no fault\n"


def test_what_cannot_be_a_run_is_reported_and_all_others_are_checked(tmp_path: Path) -> None:
    (tmp_path / "an odd name.jsonl").write_bytes(SOUND)
    (tmp_path / "run.jsonl").write_bytes(SOUND + b"[]\n")
    code, printed, summary = check(tmp_path)
    assert code == 1
    fault, odd = printed.splitlines()
    assert fault.startswith(f"{tmp_path / 'run.jsonl'}:2:1: not_an_object")
    assert odd.startswith(f"{tmp_path / 'an odd name.jsonl'}: cannot be taken in: 'an odd name' cannot be a run key")
    assert summary == "1 run, 1 readable row: 1 not_an_object, 1 cannot be taken in\n"
    [item] = json.loads(check(tmp_path, "--json")[1])["cannot_be_taken_in"]
    assert item["path"] == str(tmp_path / "an odd name.jsonl")
    (tmp_path / "run.jsonl").write_bytes(SOUND)
    assert check(tmp_path)[0] == 1


def test_json_gives_places_kinds_and_rows(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    output.write_bytes(SOUND + b"[]\n")
    code, printed, summary = check(output, "--json")
    assert (code, summary) == (1, "")
    report = json.loads(printed)
    assert report["runs"] == {str(output): 1}
    assert report["kinds"] == {"not_an_object": 1}
    [fault] = report["faults"]
    assert (fault["line"], fault["offset"], fault["length"], fault["column"]) == (2, len(SOUND), 3, 1)


@pytest.mark.parametrize(("name", "says"), [("missing.jsonl", "no such file"), (".", "holds no run")])
def test_what_is_no_run_is_an_error_with_its_path(tmp_path: Path, name: str, says: str) -> None:
    code, printed, error = check(tmp_path / name)
    assert (code, printed) == (1, "")
    assert error.startswith("error: ")
    assert says in error


def test_a_name_that_is_not_utf8_can_be_printed(tmp_path: Path) -> None:
    output = Path(str(tmp_path / "run") + "\udcff.jsonl")
    output.write_bytes(b"[]\n")
    code, printed, _ = check(output)
    assert code == 1
    assert "not_an_object" in printed


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "rollouts.jsonl"
    os.mkfifo(pipe)
    code, _, errors = check(pipe)
    assert code == 1
    assert "is a pipe or a device, no regular file" in errors
