"""The command line as a whole: whatever goes wrong is told in one line, with the place, and never as a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rollout_assets.cli import main

ROW = '{"task_id": "a", "reward": 1}\n'


def rollout_assets(*arguments: str | Path, folder: Path, stdout: str | None = None, given: str = "") -> tuple[int, str]:
    """The exit code and what is printed to the standard error stream; `stdout` is the file that the output goes to."""
    command = [sys.executable, "-c", "from rollout_assets.cli import main; main()", *map(str, arguments)]
    with Path(stdout or folder / "printed").open("w") as output:
        done = subprocess.run(
            command, cwd=folder, stdout=output, stderr=subprocess.PIPE, input=given, text=True, check=False
        )
    return done.returncode, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two results files and a file that is none."""
    for name in ("old.jsonl", "new.jsonl", "runs/run.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(ROW)
    (tmp_path / "torn.jsonl").write_text("{oops\n")
    return tmp_path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the device that is always full")
@pytest.mark.parametrize(
    "command", [["compare", "old.jsonl", "new.jsonl"], ["check", "torn.jsonl"], ["policy", "schema"]]
)
def test_a_full_disk_under_the_output_is_an_error_of_one_line(folder: Path, command: list[str]) -> None:
    code, errors = rollout_assets(*command, folder=folder, stdout="/dev/full")
    assert code == 1
    assert "No space left on device" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["ingest", "--runs-root", "runs", "--home", "old.jsonl/home"], "old.jsonl/home/dagster: cannot be written to"),
        (["demo", "--home", "old.jsonl/home"], "old.jsonl/home/dagster: cannot be written to"),
        (["init", "old.jsonl/home"], "old.jsonl/home/dagster.yaml: cannot be written: Not a directory"),
        (["check", "x" * 300], "File name too long"),
        (["check", "missing.jsonl"], "missing.jsonl: no such file"),
        (["check", "old.jsonl/run.jsonl"], "old.jsonl/run.jsonl: cannot be read: Not a directory"),
        (["coverage", "x" * 300], "File name too long"),
        (["ingest", "--home", "empty", "--runs-root", "home"], "home: the runs root does not exist"),
        (["ui", "--port", "99999"], "99999 is not in the range"),
    ],
)
def test_a_place_that_cannot_be_used_is_an_error_of_one_line(folder: Path, command: list[str], says: str) -> None:
    code, errors = rollout_assets(*command, folder=folder)
    assert code in (1, 2)
    assert says in errors
    assert "Traceback" not in errors


def test_a_pipe_is_refused_with_what_to_do(folder: Path) -> None:
    code, errors = rollout_assets("compare", "old.jsonl", "/dev/stdin", folder=folder, given=ROW)
    says = "/dev/stdin: is a pipe, and a file is read more than once; save what it gives to a file, and name that"
    assert (code, errors) == (1, f"error: {says}\n")


def test_a_runs_root_that_holds_no_run_says_what_was_looked_for(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "link").symlink_to(folder / "runs")
    code, errors = rollout_assets("ingest", "--runs-root", "empty", "--home", "home", folder=folder)
    assert code == 1
    assert "empty: holds no run: no results file `*.jsonl` in any folder (links to folders" in errors


def test_ui_can_be_stopped_by_signals_when_a_shell_started_it_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(os, "execve", lambda *_: seen.append(signal.getsignal(signal.SIGINT)))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        CliRunner().invoke(main, ["ui", "--home", str(tmp_path)], catch_exceptions=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_DFL]
