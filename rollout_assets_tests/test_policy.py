"""The policy file: groups, baselines, and errors that name what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rollout_assets.cli import main
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.jsonl import FaultKind
from rollout_assets.policy import DEFAULT_SEVERITY, Policy, RunGroups, load_policy, policy_schema
from rollout_assets_tests.conftest import Project

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


def test_a_link_to_a_missing_file_is_no_absent_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").symlink_to("elsewhere.yaml")
    with pytest.raises(RunDataError, match=r"policy.yaml: cannot be read: No such file .*; put a readable file there"):
        load_policy(tmp_path / "policy.yaml")


def test_several_baselines_follow_each_other(tmp_path: Path) -> None:
    read = policy(tmp_path, "groups: [{name: m, runs: 'math/**', baseline: [code/step-1/rollouts, first, previous]}]")
    run = "math/step-10/rollouts"
    assert read.group_of(run).baselines == ("code/step-1/rollouts", "first", "previous")
    arranged = RunGroups(read, RUNS)
    assert [next(arranged.candidates(run, wanted)) for wanted in read.group_of(run).baselines] == [
        "code/step-1/rollouts",
        "math/step-2/rollouts",
        "math/step-9/rollouts",
    ]
    assert read.candidates_for_baseline(run, RUNS) == [
        "code/step-1/rollouts",
        "math/step-2/rollouts",
        "math/step-9/rollouts",
    ]


def test_a_run_that_is_not_known_yet_has_its_place_in_the_order() -> None:
    found = list(RunGroups(Policy(), RUNS).candidates("math/step-9/zz", "previous"))
    assert found == ["math/step-9/rollouts", "math/step-2/rollouts"]


def test_a_group_and_neighbours_of_the_same_name_stay_apart(tmp_path: Path) -> None:
    read = policy(tmp_path, "groups: [{name: math, runs: 'math/step-1*/rollouts'}]")
    assert read.candidates_for_baseline("math/step-10/rollouts", RUNS) == []
    assert read.candidates_for_baseline("math/step-9/rollouts", RUNS) == ["math/step-2/rollouts"]


LAYERS = """
severity: {truncated_tail: error, integer_out_of_range: warn}
gate: {max_regressions: 0, min_tasks: 10, count: [flipped]}
defaults:
  baseline: first
  key: task_id
  severity: {integer_out_of_range: ignore}
  gate: {min_coverage_fraction: 0.5}
groups:
  - name: math
    runs: "math/**"
    baseline: none
    key: null
    severity: {truncated_tail: warn}
    gate: {max_regressions: 3, min_tasks: null}
"""


def test_a_group_overrides_the_defaults_and_these_what_holds_for_all(tmp_path: Path) -> None:
    read = policy(tmp_path, LAYERS)
    math, code = read.group_of("math/step-1/rollouts"), read.group_of("code/step-1/rollouts")
    assert (math.baselines, math.key) == ((), None)
    assert (code.baselines, code.key) == (("first",), "task_id")
    assert math.gate.thresholds == {"max_regressions": 3, "min_coverage_fraction": 0.5}
    assert code.gate.thresholds == {"max_regressions": 0, "min_coverage_fraction": 0.5, "min_tasks": 10}
    assert math.gate.count == code.gate.count == ("flipped",)
    changed = {"truncated_tail": "warn", "integer_out_of_range": "ignore"}
    assert math.severities == {**DEFAULT_SEVERITY, **changed}
    assert code.severities == {**DEFAULT_SEVERITY, **changed, "truncated_tail": "error"}


def test_by_default_two_kinds_of_faults_warn_and_nothing_is_held_against_a_run() -> None:
    group = Policy().group_of("run")
    warning = {kind for kind, severity in group.severities.items() if severity == "warn"}
    assert warning == {FaultKind.NON_FINITE_NUMBER, FaultKind.TRUNCATED_TAIL}
    assert set(group.severities) == set(FaultKind)
    assert group.gate.thresholds == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("groups:\n  - name: [", r"policy.yaml:\d+: is no YAML"),
        ("groups: [{name: x}]", "groups.0.runs: Field required"),
        ("groups: [{name: x, runs: '**', basline: first}]", "groups.0.basline: Extra inputs"),
        ("groups: [{name: x, runs: '**', baseline: '../x'}]", "previous, first, none or a run key"),
        ("just text", "is no policy: the file: must be a mapping"),
        ("- 1", "is no policy: the file: must be a mapping .*; keys: groups, defaults, severity, gate, settle_seconds"),
        ("groups: {a: 1}", "groups: must be a list"),
        ("groups: [5]", "groups.0: must be a mapping .* not 5; keys: .*name, runs"),
        ("groups:\n- name: x\n  runs: '**'\n  gate: 5", "yaml:4: .*groups.0.gate: must be a mapping"),
        ("groups:\n- name: x\n  runs: '**'\n- name: y\n  rums: '*'", "yaml:4: .*runs: Field required; line 5: .*rums"),
        ("groups:\n- {name: x, runs: a}\n- {name: x, runs: b}", "two groups are called 'x'"),
        ("groups:\n- {name: x, runs: /a}", "yaml:2: .*'/a' matches no run key"),
        ("groups:\n- {name: x, runs: a.jsonl}", "without .jsonl"),
        ("defaults:\n  baseline:\n  - previous\n  - ../x", "yaml:4: .*defaults.baseline.1: must be one of previous"),
        (
            "defaults: {baseline: off}",
            "defaults.baseline: must be one of previous, first, none or a run key, not False",
        ),
        ("defaults: {baseline: []}", "a list of different ones"),
        ("defaults: {baseline: [none, first]}", "without none"),
        ("defaults: {baseline: [first, first]}", "a list of different ones"),
        (
            "defaults:\n  key: nope",
            "yaml:2: .*'nope' is no task key of the index; allowed: _ng_task_id, .*input_digest",
        ),
        ("\nseverity: {truncated: warn}", "yaml:2: .*severity.truncated: .*'invalid_json'.*'truncated_tail'"),
        ("severity:\n  truncated_tail: off", "yaml:2: .*severity.truncated_tail: .*'error', 'warn' or 'ignore'"),
        ("gate:\n  max_regression: 0", "yaml:2: .*gate.max_regression: .*allowed here: max_regressions, min_coverage"),
        ("gate: {max_regressions: -1}", "gate.max_regressions: .*greater than or equal to 0"),
        ("gate: {max_regressions: true}", "gate.max_regressions: .*valid integer"),
        ("gate: {min_coverage_fraction: 90}", "gate.min_coverage_fraction: .*less than or equal to 1"),
        ("gate: {count: [flips]}", "gate.count.0: .*'flipped', 'flipped_agent_error', 'masked' or 'missing'"),
        ("gate: {count: []}", "gate.count: .*at least 1"),
        ("settle_seconds: .inf", "settle_seconds: .*finite"),
        ("gate:\n  min_tasks: 1\n  min_tasks: 2", "yaml:3: .*'min_tasks' is in line 2 already"),
        ("a: \n\x01", "yaml:2: is no YAML"),
        ("gate: {min_tasks: 2026-99-99}", "is no YAML"),
        ("groups: &a [*a]", "groups.0: must be a mapping"),
        ("[" * 5000, "is no YAML"),
        ("1: 2", "is no policy: 1: Keys should be strings"),
        ("a: !!python/name:os.system", "is no YAML"),
    ],
)
def test_a_wrong_policy_names_file_and_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RunDataError, match=says) as caught:
        policy(tmp_path, text)
    assert caught.value.code == "E-POLICY"
    assert "policy.yaml" in str(caught.value)


def test_a_policy_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDataError, match="cannot be read"):
        load_policy(tmp_path)


def test_the_schema_describes_every_field() -> None:
    schema = policy_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    objects = [schema, *(part for part in schema["$defs"].values() if part["type"] == "object")]
    assert {part["title"] for part in objects} == {"Policy", "Group", "Rules", "Gate"}
    for part in objects:
        assert part["additionalProperties"] is False
        for name, field in part["properties"].items():
            assert field.get("description", "").endswith("."), name


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({}, True),
        (
            {"groups": [{"name": "a", "runs": "**", "baseline": ["previous", "a/b"], "gate": {"max_regressions": 0}}]},
            True,
        ),
        ({"defaults": {"baseline": "first", "key": "task_id"}, "severity": {"truncated_tail": "ignore"}}, True),
        ({"groups": [{"name": "a"}]}, False),
        ({"severity": {"truncated": "warn"}}, False),
        ({"severity": {"truncated_tail": "off"}}, False),
        ({"defaults": {"key": "nope"}}, False),
        ({"defaults": {"baseline": []}}, False),
        ({"gate": {"min_coverage_fraction": 90}}, False),
        ({"settle_second": 5}, False),
    ],
)
def test_the_schema_accepts_what_the_policy_accepts(value: dict[str, Any], fits: bool, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert jsonschema.Draft202012Validator(policy_schema()).is_valid(value) is fits
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(value), encoding="utf-8")
    if fits:
        load_policy(path)
    else:
        with pytest.raises(RunDataError):
            load_policy(path)


def check(project: Project, *options: str) -> Result:
    return CliRunner().invoke(
        main, ["policy", "check", "--runs-root", str(project.root / "runs"), "--home", str(project.root), *options]
    )


def test_policy_check_lays_out_groups_and_comparisons(project: Project) -> None:
    for key in [*RUNS, "code/bad name/rollouts"]:
        project.write_run(key, [])
    (project.root / "policy.yaml").write_text(
        "groups:\n"
        "- {name: math, runs: 'math/**', baseline: [previous, first, gone/rollouts], gate: {max_regressions: 2}}\n"
        "- {name: empty, runs: 'nothing/*', gate: {min_tasks: 1, severity: warn}}\n"
    )
    done = check(project)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert "group math (math/**): 3 runs, each compared with previous, first, gone/rollouts" in lines
    assert "  gate: max_regressions 2" in lines
    assert "  gate: min_tasks 1 (a warning)" in lines
    assert (
        "  math/step-10/rollouts: against math/step-9/rollouts (previous); against math/step-2/rollouts (first); "
        "no gone/rollouts (there is no run 'gone/rollouts')"
    ) in lines
    assert any(line.startswith("  math/step-9/rollouts: ") and "is compared with already" in line for line in lines)
    assert "runs of no group (code/**): 1 run, each compared with previous" in lines
    assert "note: no run falls in group 'empty' (runs: nothing/*)" in lines
    assert any(line.startswith("note: ") and "bad name" in line for line in lines)

    told = json.loads(check(project, "--json").output)
    assert told["groups"][0]["members"] == ["math/step-2/rollouts", "math/step-9/rollouts", "math/step-10/rollouts"]
    assert told["groups"][0]["baselines"] == ["previous", "first", "gone/rollouts"]
    made = [(c["run"], c["baseline"]) for c in told["comparisons"] if c["baseline"] is not None]
    assert made == [
        ("math/step-9/rollouts", "math/step-2/rollouts"),
        ("math/step-10/rollouts", "math/step-9/rollouts"),
        ("math/step-10/rollouts", "math/step-2/rollouts"),
    ]
    assert len(told["cannot_be_taken_in"]) == 1


def test_policy_check_without_a_file_says_so(project: Project) -> None:
    project.write_run("run", [])
    done = check(project)
    assert done.exit_code == 0
    assert "so everything is at its default" in done.output
    assert "no previous (it is the first run of its group)" in done.output


@pytest.mark.parametrize("what", ["policy", "named policy", "runs"])
def test_policy_check_exits_with_1_when_it_cannot_read(project: Project, what: str) -> None:
    options = []
    if what == "policy":
        (project.root / "policy.yaml").write_text("groups:\n- 5\n")
        says = "policy.yaml:2: is no policy: groups.0: must be a mapping"
    elif what == "named policy":
        options = ["--policy", str(project.root / "nope.yaml")]
        says = "nope.yaml does not exist"
    else:
        (project.root / "runs").rmdir()
        says = "the runs root does not exist"
    done = check(project, *options)
    assert done.exit_code == 1
    assert says in done.output


def test_policy_schema_is_json_on_stdout() -> None:
    done = CliRunner().invoke(main, ["policy", "schema"])
    assert done.exit_code == 0
    assert json.loads(done.output) == policy_schema()
