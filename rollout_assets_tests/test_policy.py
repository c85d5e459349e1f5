"""The policy file: groups, baselines, and errors that name what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_assets.core.errors import RunDataError
from rollout_assets.policy import Policy, load_policy

RUNS = ["code/step-1/rollouts", "math/step-2/rollouts", "math/step-10/rollouts", "math/step-9/rollouts"]


def policy(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path)


@pytest.mark.parametrize(
    ("baseline", "run", "expected"),
    [
        ("previous", "math/step-10/rollouts", ["math/step-9/rollouts", "math/step-2/rollouts"]),
        ("previous", "math/step-2/rollouts", []),
        ("first", "math/step-10/rollouts", ["math/step-2/rollouts", "math/step-9/rollouts"]),
        ("first", "math/step-2/rollouts", []),
        ("none", "math/step-10/rollouts", []),
        ("code/step-1/rollouts", "math/step-10/rollouts", ["code/step-1/rollouts"]),
    ],
)
def test_baselines(tmp_path: Path, baseline: str, run: str, expected: list[str]) -> None:
    read = policy(tmp_path, f"groups: [{{name: math, runs: 'math/*/rollouts', baseline: {baseline}}}]")
    assert read.candidates_for_baseline(run, RUNS) == expected


def test_without_a_policy_runs_in_neighbouring_folders_form_a_group() -> None:
    assert load_policy(None).candidates_for_baseline("math/step-10/rollouts", RUNS) == [
        "math/step-9/rollouts",
        "math/step-2/rollouts",
    ]
    assert Policy().candidates_for_baseline("code/step-1/rollouts", RUNS) == []


def test_a_run_is_never_its_own_baseline(tmp_path: Path) -> None:
    pinned = policy(tmp_path, "groups: [{name: math, runs: '**', baseline: math/step-2/rollouts}]")
    assert pinned.candidates_for_baseline("math/step-2/rollouts", RUNS) == []


@pytest.mark.parametrize(
    ("glob", "matches"),
    [("math/*", False), ("math/*/rollouts", True), ("math/**", True), ("**", True), ("math/step-?/rollouts", False)],
)
def test_globs(tmp_path: Path, glob: str, matches: bool) -> None:
    group = policy(tmp_path, f"groups: [{{name: g, runs: '{glob}'}}]").groups[0]
    assert group.matches("math/step-10/rollouts") is matches


def test_an_empty_or_missing_file_is_the_default(tmp_path: Path) -> None:
    assert policy(tmp_path, "") == Policy() == load_policy(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("groups:\n  - name: [", r"policy.yaml:\d+: is no YAML"),
        ("groups: [{name: x}]", "groups.0.runs: Field required"),
        ("groups: [{name: x, runs: '**', basline: first}]", "groups.0.basline: Extra inputs"),
        ("groups: [{name: x, runs: '**', baseline: '../x'}]", "previous, first, none or a run key"),
        ("just text", "is no policy"),
    ],
)
def test_a_wrong_policy_names_file_and_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RunDataError, match=says) as caught:
        policy(tmp_path, text)
    assert caught.value.code == "E-POLICY"
    assert "policy.yaml" in str(caught.value)
