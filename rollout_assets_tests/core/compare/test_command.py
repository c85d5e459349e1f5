"""The command `rollout-assets compare` (compare.md §1.16)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rollout_assets.cli import main
from rollout_assets_tests.core.compare.helpers import Line, failure, task, write


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path, "old", [task("a", 1)]), write(tmp_path, "new", [task("a", 0, test_output="1\n2\n3\n")])


def test_a_report_exits_with_0_whatever_it_found(sides: tuple[Path, Path]) -> None:
    result = run(*sides)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "### a: old=1.0 new=0.0 -> old wins" in result.stdout
    assert "  | 3" in result.stdout


@pytest.mark.parametrize(("tail", "shown"), [("0", []), ("2", ["  | 2", "  | 3"])])
def test_tail(tail: str, shown: list[str], sides: tuple[Path, Path]) -> None:
    result = run(*sides, "--tail", tail)
    assert [line for line in result.stdout.splitlines() if line.startswith("  | ")] == shown


@pytest.mark.parametrize(
    "arguments",
    [[], ["one"], ["a", "b", "c"], ["a", "b", "--tail", "-1"], ["a", "b", "--tail", "x"], ["a", "b", "--no"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{oops"], "bad.jsonl:1:2: invalid_json: "),
        ([task("a", True)], "bad.jsonl:1: the reward of task 'a' is no usable number"),
        ([task("a", 1), b'{"task_id'], "bad.jsonl:2:10: truncated_tail: "),
        ([{"reward": 1}], "no task key is on every row of the new side"),
    ],
)
def test_unusable_input_is_one_line_on_stderr_and_exits_with_1(
    lines: list[Line], message: str, sides: tuple[Path, Path], tmp_path: Path
) -> None:
    result = run(sides[0], write(tmp_path, "bad", lines), "--json", tmp_path / "out.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_a_missing_file_and_a_directory(sides: tuple[Path, Path], tmp_path: Path) -> None:
    assert "no such file" in run(sides[0], tmp_path / "absent.jsonl").stderr
    assert "is a directory" in run(tmp_path, sides[0]).stderr


def test_the_json_file_is_written_and_named(sides: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("older")
    result = run(*sides, "--json", target)
    assert result.exit_code == 0
    assert result.stdout.startswith("Rollout comparison")
    assert result.stdout.endswith(f"\nwrote {target}\n")
    assert json.loads(target.read_text())["counts"]["flipped"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.jsonl", "old.jsonl", "out.json"]


def test_json_on_stdout_is_nothing_but_json(sides: tuple[Path, Path]) -> None:
    result = run(*sides, "--json", "-")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["tasks"][0]["verifier_output"]["lines"] == ["1", "2", "3"]


def test_a_json_file_that_cannot_be_written_prints_no_report(sides: tuple[Path, Path], tmp_path: Path) -> None:
    for target in (tmp_path / "absent" / "out.json", tmp_path):
        result = run(*sides, "--json", target)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {target}: cannot be written: ")
    assert not (tmp_path / "absent").exists()


def test_an_explicit_key_and_a_fallback(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [{"meta": {"name": "n"}, "_ng_task_index": 4, "reward": 1}])
    assert "joined on meta.name (asked for)" in run(path, path, "--key", "meta.name").stdout
    fallback = run(path, path).stdout
    assert "joined on _ng_task_index (fallback)" in fallback
    assert "a fallback, no id" in fallback


def test_logs_roots_are_tried_in_their_order(tmp_path: Path) -> None:
    for root in ("one", "two"):
        (tmp_path / root).mkdir()
        (tmp_path / root / "log").write_text(root)
    old = write(tmp_path, "old", [task("a", 1)])
    new = write(tmp_path, "new", [task("a", 0, verifier_logs_dir="log")])
    result = run(old, new, "--logs-root", tmp_path / "two", "--logs-root", tmp_path / "one")
    assert "  | two" in result.stdout


@pytest.mark.parametrize(
    "name", ["with space", "é日本", "back\\slash", "quo'te\"s", "${HOME}", "%PATH%", "*", "~", "-dash"]
)
def test_paths_are_taken_as_they_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, name, [task("a", 1)], [failure("x", task_id="b")])
    result = run("--", f"{name}.jsonl", f"{name}.jsonl")
    assert result.exit_code == 0
    assert "2 tasks" in result.stdout


def test_the_output_survives_any_character_on_any_stdout(tmp_path: Path) -> None:
    text = "\x00\x07\x1b[2J\u2028\u202e日本\U0001f600\x85\xa0"
    old = write(tmp_path, "old", [task(text, 1)])
    new = write(tmp_path, "new", [task(text, 0, test_output=text, error=text)])
    name = os.fsencode(tmp_path) + b"/\xff.json"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from rollout_assets.cli import main; main()",
            "compare",
            str(old),
            str(new),
            "--json",
            name,
        ],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    report = done.stdout.decode("utf-8")
    assert "### \\x00\\x07\\x1b[2J\\u2028\\u202e日本\U0001f600\\x85\xa0: old=1.0" in report
    assert Path(os.fsdecode(name)).is_file()
