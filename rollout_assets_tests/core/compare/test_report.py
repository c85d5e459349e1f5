"""The text report, the Markdown report, the JSON summary and the verifier output (compare.md §1.13 to §1.15)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.compare import (
    compare_files,
    compare_rollouts,
    render_markdown,
    render_report,
    roots_for,
    summary_dict,
    verifier_output,
)
from rollout_assets.core.compare import verifier as verifier_module
from rollout_assets.core.compare.summary import summary_text
from rollout_assets.core.compare.verifier import EMBEDDED_FIELDS, tail_lines
from rollout_assets_tests.core.compare.helpers import attempt, failure, task, write

REPORT = """\
Rollout comparison: 6 tasks; old 7 rows (incl. 1 masked), new 5 rows (incl. 1 masked)
joined on task_id (detected)
note: 1 task has several rows on a side, compared on their mean: steady
note: failures that name no task: 1 on the old side, 0 on the new; listed as unknown#<n>, masked

identical                    1
flipped                      1   old wins 1, new wins 0
flipped (agent error)        1
masked                       2   old 1, new 1
missing                      1   old only 1, new only 0

inputs of joined tasks: 0 equal, 0 different, 0 not distinguishable, 4 unknown
noise: no flip has repeats on both sides, so how many of the 2 are noise cannot be told

## Flips (1)

### worse: old=1.0 new=0.25 -> old wins
scored failure (new): verifier_timeout
old row: OLD:1 (byte 0)
new row: NEW:1 (byte 0)
verifier output of the new side, from the row's test_output, last 2 lines:
  | two\\x1b[31m
  | three

## Flips with agent errors (1)

### crashed: old=0.5 new=1.0 -> new wins
agent error (old): error: boom
old row: OLD:2 (byte 36)
new row: NEW:2 (byte 119)
old: verifier output unavailable: the row has no verifier_logs_dir and no test_output, verifier_stdout, verifier_output

## Masked (2)
- unscored: old counts, reward 1.0; new no reward, reward none
- unknown#1: old mask_sample (failure_kind=timeout), reward none

## Missing (1)
- gone: only on the old side, reward 0.3333

## Possible task keys (1)
- task_id: 5 values old, 4 new, chosen
"""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two outputs that have a task of every category."""
    old = write(
        tmp_path,
        "old",
        [
            task("worse", 1.0),
            task("crashed", 0.5, error="boom"),
            task("unscored", 1.0),
            task("gone", 1 / 3),
            task("steady", 1),
            task("steady", 0),
        ],
        [failure("timeout")],
    )
    new = write(
        tmp_path,
        "new",
        [
            task("worse", 0.25, failure_kind="verifier_timeout", test_output="one\ntwo\x1b[31m\nthree\n"),
            task("crashed", 1.0),
            task("unscored"),
            task("steady", 1),
            task("steady", 0),
        ],
    )
    return old, new


def test_the_text_report(pair: tuple[Path, Path]) -> None:
    report = render_report(compare_files(*pair), tail=2)
    assert report.replace(str(pair[0]), "OLD").replace(str(pair[1]), "NEW") == REPORT


def test_a_flip_within_the_noise_of_its_repeats_is_marked_where_it_stands() -> None:
    old = [task("noisy", reward) for reward in (0, 1)] + [task("clear", 1), task("clear", 1)]
    new = [task("noisy", reward) for reward in (1, 1)] + [task("clear", 0), task("clear", 0)]
    result = compare_rollouts(old, new)
    text = render_report(result).splitlines()
    noisy, clear = (
        next(n for n, line in enumerate(text) if line.startswith(f"### {name}:")) for name in ("noisy", "clear")
    )
    assert text[noisy + 1] == "within the noise of the repeats"
    assert text[clear + 1] != "within the noise of the repeats"
    rows = [line for line in render_markdown(result).splitlines() if " wins" not in line and line.startswith("| ")]
    assert ["within the noise of the repeats" in row for row in rows if row.startswith("| noisy | 0.5")] == [True]
    assert ["within the noise of the repeats" in row for row in rows if row.startswith("| clear | 1.0")] == [False]


def test_sections_are_there_also_when_empty() -> None:
    report = render_report(compare_rollouts([task("a", 1)], [task("a", 1)]))
    for heading in ("## Flips (0)", "## Masked (0)", "## Missing (0)"):
        assert heading in report
    assert "agent errors (" not in report


def test_findings_are_listed_by_kind() -> None:
    rows = [task("a", 1, mask_sample=1, **attempt(0, 0)), task("a", 1, **attempt(0, 0))]
    report = render_report(compare_rollouts(rows, rows))
    assert "findings: 2 odd_mask_value, 2 duplicate_rollout, 2 partly_masked" in report
    assert "- duplicate_rollout [new, a]: rollout index 0 occurs again: both rows enter the mean (rows 1, 2)" in report


def test_a_finding_names_the_file_of_each_line(tmp_path: Path) -> None:
    masked = task("a", 0, mask_sample=True)
    old = write(tmp_path, "old", [masked, task("a", 1), masked], [failure("x", task_id="a")])
    result = compare_files(old, write(tmp_path, "new", [task("a", 1)]))
    (finding,) = (found for found in summary_dict(result)["findings"] if found["kind"] == "partly_masked")
    assert (finding["lines"], finding["files"]) == ((1, 3, 1), ("output", "output", "failures"))
    for report in (render_report(result), render_markdown(result)):
        assert "lines 1, 3; line 1 of the failures file" in report


def test_different_inputs_are_warned_of() -> None:
    old, new = ([task("a", 1, responses_create_params={"input": text})] for text in ("one", "two"))
    assert "WARNING: 1 joined task was given different inputs" in render_report(compare_rollouts(old, new))


@pytest.mark.parametrize(
    ("rewards", "shown"),
    [
        ([1], "1.0"),
        ([None], "none"),
        ([1 / 3], "0.3333"),
        ([1, 0], "0.5 (mean of 2 rows)"),
        ([1, None, 0], "0.5 (mean of 2 of 3 rows)"),
    ],
)
def test_how_a_reward_is_shown(rewards: list[Any], shown: str) -> None:
    report = render_report(compare_rollouts([task("a", reward) for reward in rewards], [task("b", 0)]))
    assert f"- a: only on the old side, reward {shown}\n" in report


def test_markdown_has_the_same_content(pair: tuple[Path, Path]) -> None:
    markdown = render_markdown(compare_files(*pair), tail=2)
    for part in (
        "| flipped (agent error) | 1 |  |",
        "| worse | 1.0 | 0.25 | old | scored failure (new): verifier\\_timeout |",
        "```text\ntwo\\x1b[31m\nthree\n```",
        "| unknown\\#1 | old mask\\_sample (failure\\_kind=timeout), reward none |",
        "| gone | only on the old side, reward 0.3333 |",
        "| task\\_id | 5 | 4 | yes | yes | 0 |",
    ):
        assert part in markdown


def test_data_cannot_act_as_markdown_or_html() -> None:
    name = "<b>|`x`|</b>\n# head [a](b)"
    output = "```\n<script>"
    rows = [task(name, 1)], [task(name, 0, test_output=output)]
    markdown = render_markdown(compare_rollouts(*rows))
    row = next(line for line in markdown.splitlines() if "&lt;b&gt;" in line and line.startswith("|"))
    assert row.startswith("| &lt;b&gt;\\|\\`x\\`\\|&lt;/b&gt;\\\\n\\# head \\[a\\](b) | 1.0 | 0.0 | old |")
    assert "````text\n```\n<script>\n````" in markdown


def test_markdown_says_what_it_leaves_out() -> None:
    markdown = render_markdown(compare_rollouts([task(str(n), 1) for n in range(5)], [task("x", 1)]), limit=2)
    assert "## Missing (6)" in markdown
    assert "4 more are not shown." in markdown
    assert markdown.count("only on the old side") == 2
    rows = [task(f"task {n:04}", 1) for n in range(1000)] * 2
    markdown = render_markdown(compare_rollouts(rows, rows))
    note = next(line for line in markdown.splitlines() if line.startswith("- 1000 tasks have several rows"))
    assert len(note) < 1100
    assert note.endswith("(cut; the JSON has all)")


def test_the_json_summary(pair: tuple[Path, Path]) -> None:
    summary = summary_dict(compare_files(*pair), tail=1)
    assert list(summary)[:6] == ["schema_version", "old", "new", "counts", "join", "rows"]
    assert (summary["schema_version"], summary["old"], summary["new"]) == (1, str(pair[0]), str(pair[1]))
    assert summary["counts"] == {
        "tasks": 6,
        "identical": 1,
        "flipped": 1,
        "flipped_old_win": 1,
        "flipped_new_win": 0,
        "flipped_agent_error": 1,
        "masked": 2,
        "masked_old": 1,
        "masked_new": 1,
        "missing": 1,
        "missing_old_only": 1,
        "missing_new_only": 0,
    }
    worse = next(entry for entry in summary["tasks"] if entry["task"] == "worse")
    new = worse["new"]
    assert (worse["category"], worse["winner"], worse["old"]["masked"]) == ("flipped", "old", None)
    assert {name: new[name] for name in ("reward", "rows", "masked", "agent_error", "failure_kind")} == {
        "reward": 0.25,
        "rows": 1,
        "masked": None,
        "agent_error": None,
        "failure_kind": "verifier_timeout",
    }
    length = pair[1].read_bytes().index(b"\n") + 1
    assert new["places"] == [
        {"file": "output", "line": 1, "offset": 0, "length": length, "reward": 0.25, "mask_reason": None}
    ]
    assert worse["verifier_output"] == {
        "side": "new",
        "line": 1,
        "source": "the row's test_output",
        "lines": ["three"],
    }
    missing = next(entry for entry in summary["tasks"] if entry["task"] == "gone")
    assert (missing["new"], missing["verifier_output"]) == (None, None)


@pytest.mark.parametrize(
    "rows", [[task("a", 1)], [task("é\ud800\n", float("nan"))], [task(str(n), n) for n in range(3)]]
)
def test_the_summary_written_piece_by_piece_is_the_summary(rows: list[dict[str, Any]]) -> None:
    result = compare_rollouts(rows, [task("z", 0)])
    text = "".join(summary_text(result, old_roots=(), new_roots=(), tail=15))
    assert text == json.dumps(summary_dict(result), indent=2, allow_nan=False) + "\n"
    assert text.isascii()


def test_names_given_for_the_sides_win() -> None:
    summary = summary_dict(compare_rollouts([task("a", 1)], [task("a", 1)]), old_path="baseline", new_path="candidate")
    assert (summary["old"], summary["new"]) == ("baseline", "candidate")


# --- verifier output -------------------------------------------------------------------------------------------------


def test_output_from_a_file_and_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "test-stdout.txt"
    log.write_bytes(b"ran \xff\n")
    for named in ("logs", "logs/test-stdout.txt"):
        assert verifier_output({"verifier_logs_dir": named}, [tmp_path / "none", tmp_path]) == (
            "ran \ufffd\n",
            str(log),
        )
    assert verifier_output({"verifier_logs_dir": str(log)}, [])[0] == "ran \ufffd\n"


def test_the_first_root_that_has_the_file_wins(tmp_path: Path) -> None:
    for root in ("a", "b"):
        (tmp_path / root).mkdir()
        (tmp_path / root / "log").write_text(root)
    assert verifier_output({"verifier_logs_dir": "log"}, [tmp_path / "b", tmp_path / "a"])[0] == "b"


def test_a_file_that_cannot_be_read_is_said_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_text("x")

    def refuse(file: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(verifier_module, "_end_of", refuse)
    text, source = verifier_output({"verifier_logs_dir": "log", "test_output": "embedded"}, [tmp_path])
    assert (text, "cannot be read: Permission denied" in source) == (None, True)


def test_embedded_output_in_its_order(tmp_path: Path) -> None:
    row = {"verifier_logs_dir": "absent", "test_output": " \n", "verifier_stdout": "second", "verifier_output": "third"}
    assert verifier_output(row, [tmp_path]) == ("second", "the row's verifier_stdout")
    assert verifier_output({"test_output": ["x"], "verifier_output": "third"}, [])[0] == "third"


@pytest.mark.parametrize("named", ["absent", "/absent/file", "x" * 5000, "nul\0"])
def test_output_that_is_nowhere_names_the_path_and_the_roots(named: str, tmp_path: Path) -> None:
    text, source = verifier_output({"verifier_logs_dir": named}, [tmp_path])
    assert text is None
    assert named in source
    assert (str(tmp_path) in source) != named.startswith("/")


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_module, "LOG_BYTES", 6)
    (tmp_path / "log").write_text("first\nlast\n")
    assert verifier_output({"verifier_logs_dir": "log"}, [tmp_path])[0] == "\nlast\n"


@pytest.mark.parametrize(("count", "lines"), [(0, []), (1, ["d"]), (2, ["c", "d"]), (9, ["a", "b", "c", "d"])])
def test_tail_lines(count: int, lines: list[str]) -> None:
    assert tail_lines("a\nb\u2028c\r\nd\n", count) == lines


def test_roots_are_the_current_folder_that_of_the_file_and_those_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert roots_for("runs/a.jsonl", ["more"]) == [tmp_path, tmp_path / "runs", Path("more")]
    assert roots_for("a.jsonl") == [tmp_path]
    assert roots_for(None) == [tmp_path]


@pytest.mark.parametrize("name", EMBEDDED_FIELDS)
@pytest.mark.parametrize("more", ["", ', "x": NaN', ', "task_name": 1' + 30 * "0"])
def test_embedded_output_is_read_again_from_the_file(name: str, more: str, tmp_path: Path) -> None:
    old = write(tmp_path, "old", [task("a", 1)])
    new = write(tmp_path, "new", [f'{{"task_id": "a", "reward": 0, "{name}": "said this"{more}}}'])
    assert "  | said this" in render_report(compare_files(old, new, "task_id"))


def test_each_side_has_roots_of_its_own(tmp_path: Path) -> None:
    sides = []
    for name, rewards in (("old", (1, 0)), ("new", (0, 1))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_text(f"output of {name}")
        rows = [task(label, reward, verifier_logs_dir="log") for label, reward in zip("ab", rewards, strict=True)]
        sides.append(write(tmp_path / name, "rollouts", rows))
    report = render_report(compare_files(*sides), old_roots=roots_for(sides[0]), new_roots=roots_for(sides[1]))
    assert [line for line in report.splitlines() if line.startswith("  | ")] == [
        "  | output of new",
        "  | output of old",
    ]


def test_the_worst_row_of_the_losing_side_is_shown() -> None:
    rows = [task("a", reward, test_output=f"reward {reward}") for reward in (None, 0.5, 0.25, 0.25, 1)]
    rows = rows[1:]
    report = render_report(compare_rollouts([task("a", 1)], rows))
    assert "new row: output row 2" in report
    assert "  | reward 0.25" in report


def test_a_row_that_changed_after_it_was_read_is_not_shown(tmp_path: Path) -> None:
    old = write(tmp_path, "old", [task("a", 1)])
    new = write(tmp_path, "new", [task("a", 0, test_output="first")])
    result = compare_files(old, new)
    new.write_bytes(new.read_bytes().replace(b'"reward": 0', b'"reward": 1'))
    assert "the row changed after it was read" in render_report(result)
    new.unlink()
    assert "the row changed after it was read" in render_report(result)
