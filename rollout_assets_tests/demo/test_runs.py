"""The demo runs: the same bytes every time, sound where they should be, damaged exactly where they should be."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.compare import compare_rollouts, load_rollouts
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import Fault, FaultKind, Row, scan
from rollout_assets.core.records import open_run
from rollout_assets.demo.runs import REWARD_SPELLINGS, TORN_LINE, write_demo_runs
from rollout_assets.demo.tasks import TASKS

FILES = (
    "rollouts.jsonl",
    "rollouts_failures.jsonl",
    "rollouts_manifest.json",
    "rollouts_materialized_inputs.jsonl",
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The results file of each run by the name of its folder."""
    return {path.parent.name: path for path in write_demo_runs(tmp_path_factory.mktemp("runs"))}


def _contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = []
    for line in scan(path, whole_rows=True):
        assert isinstance(line, Row), line
        rows.append(line.fields)
    return rows


def test_writes_the_files_of_four_runs_and_returns_their_outputs(tmp_path: Path) -> None:
    outputs = write_demo_runs(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in outputs] == [
        f"math/step-{step}/rollouts.jsonl" for step in ("0100", "0200", "0300", "0400")
    ]
    assert sorted(_contents(tmp_path)) == sorted(
        f"math/{path.parent.name}/{name}" for path in outputs for name in FILES
    )
    assert sum(map(len, _contents(tmp_path).values())) < 1_000_000


def test_two_places_get_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_demo_runs(tmp_path / name)
    assert _contents(tmp_path / "one") == _contents(tmp_path / "two")


def test_writing_again_touches_only_what_differs(tmp_path: Path) -> None:
    first, *_ = write_demo_runs(tmp_path)
    before = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
    first.write_text("{}\n")
    write_demo_runs(tmp_path)
    assert first.stat().st_size == before.pop(first).st_size
    for path, stat in before.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns), path


@pytest.mark.parametrize("run", ["step-0100", "step-0200", "step-0300"])
def test_sound_runs_scan_without_a_fault(outputs: dict[str, Path], run: str) -> None:
    for path in outputs[run].parent.glob("*.jsonl"):
        assert not [line for line in scan(path) if isinstance(line, Fault)]


@pytest.mark.parametrize("run", ["step-0100", "step-0200", "step-0300", "step-0400"])
def test_companions_agree_with_the_manifest(outputs: dict[str, Path], run: str) -> None:
    folder = outputs[run].parent
    manifest = json.loads((folder / "rollouts_manifest.json").read_bytes())
    inventory = _rows(folder / "rollouts_materialized_inputs.jsonl")
    canonical = json.dumps(inventory, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert manifest["materialized_digest"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert manifest["schema_version"] == 2
    expected = {(row["_ng_task_index"], row["_ng_rollout_index"]) for row in inventory}
    assert expected == {(task, rollout) for task in range(len(TASKS)) for rollout in range(2)}

    attempts = set()
    rows = [*_rows(folder / "rollouts_failures.jsonl")]
    if run != "step-0400":
        rows += _rows(folder / "rollouts.jsonl")
    for row in rows:
        assert row["_ng_run_id"] == manifest["run_id"]
        if row.get("_ng_omitted_rollout"):
            continue
        rollout = f"{row['_ng_task_index']}-{row['_ng_rollout_index']}"
        attempt = row["_ng_attempt_index"]
        assert (rollout, attempt) not in attempts
        assert attempt < manifest["next_attempt"][rollout]
        attempts.add((rollout, attempt))
        record = row.get("_ng_failure_record")
        assert (record is None) == ("reward" in row)
        if record is not None:
            assert record["episode_id"] == {"rollout_id": rollout, "attempt": attempt}
            assert record["failure"]["failure_kind"] == row["_ng_failure_class"]
            assert record["failure"]["terminal"] == row["_ng_failure_terminal"]


def test_rewards_below_one_come_with_the_output_of_the_verifier(outputs: dict[str, Path]) -> None:
    for run in ("step-0100", "step-0200", "step-0300"):
        for row in _rows(outputs[run]):
            assert (row["reward"] < 1.0) == (len(row.get("test_output", "").splitlines()) >= 3)


def test_the_damage_is_where_it_should_be(outputs: dict[str, Path]) -> None:
    path = outputs["step-0400"]
    lines = path.read_bytes().split(b"\n")
    assert len(lines) == 47
    for number, spelling in REWARD_SPELLINGS.items():
        assert spelling.encode() in lines[number - 1]
    assert lines[TORN_LINE - 1].count(b'"_ng_run_id"') == 2

    found = list(scan(path))
    assert [(line.line, line.kind) for line in found if isinstance(line, Fault)] == [
        (24, FaultKind.INVALID_JSON),
        (32, FaultKind.NON_FINITE_NUMBER),
        (40, FaultKind.DUPLICATE_KEY),
        (47, FaultKind.TRUNCATED_TAIL),
    ]
    rewards = {line.line: line.fields["reward"] for line in found if isinstance(line, Row)}
    assert len(rewards) == 44
    odd = {line: reward for line, reward in rewards.items() if not isinstance(reward, float) or math.isnan(reward)}
    assert {line: repr(reward) for line, reward in odd.items()} == {8: "'1.0'", 15: "True", 32: "nan"}


def test_the_companions_of_the_damaged_file_are_sound(outputs: dict[str, Path]) -> None:
    folder = outputs["step-0400"].parent
    assert len(_rows(folder / "rollouts_materialized_inputs.jsonl")) == 48
    assert _rows(folder / "rollouts_failures.jsonl") == []


def test_the_damaged_file_is_refused_by_the_comparison(outputs: dict[str, Path]) -> None:
    with pytest.raises(RunDataError) as caught:
        load_rollouts(outputs["step-0400"])
    assert (caught.value.line, caught.value.kind) == (8, FaultKind.REWARD_NOT_A_NUMBER)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (
            "step-0100",
            "step-0200",
            {
                ("flipped", "new"): ["arithmetic-sum", "clock-angle", "rotate-list"],
                ("flipped", "old"): ["roman-numerals", "rope-gap"],
                ("flipped_agent_error", "old"): ["inscribed-square"],
                ("masked", None): ["merge-intervals", "two-heads"],
                ("missing", None): ["word-count"],
            },
        ),
        (
            "step-0200",
            "step-0300",
            {
                ("flipped", "new"): ["banana", "inverse-mod-26", "log-equation", "rotate-list"],
                ("flipped", "old"): ["divisors-360", "sum-of-squares"],
                ("flipped_agent_error", "new"): ["inscribed-square"],
                ("flipped_agent_error", "old"): ["geometric-tail"],
                ("masked", None): ["handshakes", "merge-intervals", "word-count"],
                ("missing", None): ["spiral-order"],
            },
        ),
    ],
)
def test_consecutive_runs_show_every_category(
    outputs: dict[str, Path], old: str, new: str, wanted: dict[tuple[str, str | None], list[str]]
) -> None:
    result = compare_rollouts(load_rollouts(outputs[old]), load_rollouts(outputs[new]))
    assert result.old_key == result.new_key == "_ng_task_id"
    assert len(result.tasks) == len(TASKS)
    found: dict[tuple[str, str | None], list[str]] = {}
    for task in result.tasks:
        if task.category != "identical":
            found.setdefault((task.category, task.winner), []).append(task.task)
    assert found == wanted
    assert not {finding.kind for finding in result.findings} & {"inputs_differ", "not_distinguishable", "late_attempt"}


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (
            "step-0100",
            {
                "expected": 48,
                "successful": 45,
                "measured": 45,
                "masked": 0,
                "failed": 1,
                "failed_final": 0,
                "unknown": 2,
                "never_dispatched": 0,
                "attempts": 51,
                "counted_failures": 4,
                "attempts_exhausted": 1,
                "retryable": 2,
                "complete": False,
            },
        ),
        (
            "step-0200",
            {
                "expected": 48,
                "successful": 48,
                "measured": 47,
                "masked": 1,
                "failed": 0,
                "unknown": 0,
                "attempts": 49,
                "counted_failures": 0,
                "retryable": 0,
                "complete": True,
            },
        ),
        (
            "step-0300",
            {
                "expected": 48,
                "successful": 44,
                "measured": 44,
                "masked": 0,
                "failed": 2,
                "failed_final": 1,
                "unknown": 2,
                "never_dispatched": 2,
                "attempts": 47,
                "counted_failures": 2,
                "attempts_exhausted": 0,
                "retryable": 3,
                "complete": False,
            },
        ),
    ],
)
def test_sound_runs_have_the_coverage_of_the_story(outputs: dict[str, Path], run: str, wanted: dict[str, Any]) -> None:
    records = open_run(outputs[run])
    assert records is not None
    coverage = records.coverage()
    assert {name: coverage[name] for name in wanted} == wanted


def test_the_index_refuses_the_damaged_run_at_its_first_unreadable_line(outputs: dict[str, Path]) -> None:
    with pytest.raises(RunDataError) as caught:
        open_run(outputs["step-0400"])
    assert (caught.value.code, caught.value.line, caught.value.kind) == ("E-JSON", 24, FaultKind.INVALID_JSON)
