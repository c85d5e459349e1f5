"""`rollout-assets ingest` as a whole: what it says of each run, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rollout_assets.cli import main
from rollout_assets.terminal import FULL_REPORTS
from rollout_assets_tests.conftest import as_jsonl

BETTER, WORSE = "math/step-1/rollouts", "math/step-2/rollouts"


def ingest(home: Path, rewards: dict[str, float], policy: str = "") -> Result:
    """Take in runs of one task each."""
    for key, reward in rewards.items():
        output = home / "runs" / f"{key}.jsonl"
        output.parent.mkdir(parents=True)
        output.write_bytes(as_jsonl([{"task_id": "a", "reward": reward}]))
    (home / "policy.yaml").write_text(policy)
    return CliRunner().invoke(main, ["ingest", "--home", str(home)])


@pytest.mark.parametrize(
    ("severity", "word", "exit_code"), [("error", "failed", 1), ("warn", "warning", 0)], ids=["error", "warn"]
)
def test_a_gate_that_does_not_pass_is_what_the_policy_says(
    tmp_path: Path, severity: str, word: str, exit_code: int
) -> None:
    policy = f"gate: {{max_regressions: 0, severity: {severity}}}"
    done = ingest(tmp_path, {BETTER: 1.0, WORSE: 0.0}, policy)
    assert done.exit_code == exit_code, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert ["sound", BETTER, "5", "assets", "materialized"] in lines
    assert [word, WORSE, "5", "assets", "materialized"] in lines
    assert [word, WORSE, "comparison_gate"] in lines
    assert "1 regression, 1 more than max_regressions = 0" in done.output


def test_of_few_comparisons_the_reports_are_shown_and_of_many_a_line_each(tmp_path: Path) -> None:
    keys = [f"math/step-{number}/rollouts" for number in range(FULL_REPORTS + 2)]
    policy = "defaults: {baseline: first}\ngate: {max_regressions: 0}"
    done = ingest(tmp_path, {key: 1.0 - number for number, key in enumerate(keys)}, policy)
    assert "Rollout comparison" not in done.output
    lines = done.output.splitlines()
    for key in keys[1:]:
        told = f"{key} vs {keys[0]}: 0 better, 1 worse, 0 identical, 0 masked, 0 missing; gate: failed"
        report = Path(lines[lines.index(told) + 1].strip())
        assert report.read_text().startswith("Rollout comparison: 1 task")
    few = ingest(tmp_path / "few", dict.fromkeys(keys[: FULL_REPORTS + 1], 1.0))
    assert few.output.count("Rollout comparison: 1 task") == FULL_REPORTS
