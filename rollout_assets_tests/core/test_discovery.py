"""Finding runs, naming them, and noticing that they changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.discovery import discover, find_run, natural_order, run_key_problem
from rollout_assets.core.errors import RunDataError


def write(path: Path, text: str = "{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def keys(root: Path) -> list[str]:
    return [run.key for run in discover(root).runs]


def test_runs_are_named_by_their_path_and_come_in_natural_order(tmp_path: Path) -> None:
    for name in ("math/step-10/rollouts.jsonl", "math/step-9/rollouts.jsonl", "single.jsonl"):
        write(tmp_path / name)
    assert keys(tmp_path) == ["math/step-9/rollouts", "math/step-10/rollouts", "single"]


@pytest.mark.parametrize(
    "name",
    [
        "rollouts_failures.jsonl",
        "rollouts_materialized_inputs.jsonl",
        "rollouts_attempts.jsonl",
        "rollouts_reward_profiling.jsonl",
        "rollout_verdicts.jsonl",
        ".rollouts.jsonl.0123.tmp",
        ".hidden/rollouts.jsonl",
        "rollouts_manifest.json",
    ],
)
def test_files_that_go_with_a_run_are_no_runs(tmp_path: Path, name: str) -> None:
    write(tmp_path / "rollouts.jsonl")
    write(tmp_path / name)
    assert keys(tmp_path) == ["rollouts"]


def test_a_companion_name_with_a_manifest_of_its_own_is_a_run(tmp_path: Path) -> None:
    write(tmp_path / "probe_failures.jsonl")
    write(tmp_path / "probe_failures_manifest.json")
    assert keys(tmp_path) == ["probe_failures"]


@pytest.mark.parametrize(
    "name",
    [
        *("a b.jsonl", "-x.jsonl", "ä.jsonl", "a..b.jsonl", "x" * 121 + ".jsonl"),
        # A run `a` has files of these names in the store.
        *("a.json/x.jsonl", "a.parquet/x.jsonl", "runs/a.md/x.jsonl", "runs/a.txt/b/x.jsonl"),
    ],
)
def test_a_path_outside_the_key_grammar_is_reported(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    found = discover(tmp_path)
    assert found.runs == ()
    assert [item.path for item in found.rejected] == [path]
    assert "cannot be a run key" in found.rejected[0].reason


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.mkdir(), "is a directory, no regular file"),
        (os.mkfifo, "is a pipe or a device, no regular file"),
        (lambda path: path.symlink_to("nowhere.jsonl"), "links to nowhere.jsonl, which does not exist"),
        (lambda path: path.symlink_to(path.name), "cannot be read"),
        (lambda path: write(path.with_name("rollouts_failures.jsonl")), "without its results file"),
    ],
    ids=["folder", "pipe", "dangling link", "link to itself", "sidecar alone"],
)
def test_what_is_in_place_of_a_results_file_is_reported_and_the_other_runs_are_found(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    write(tmp_path / "sound" / "rollouts.jsonl")
    (tmp_path / "run").mkdir()
    make(tmp_path / "run" / "rollouts.jsonl")
    found = discover(tmp_path)
    assert [run.key for run in found.runs] == ["sound/rollouts"]
    assert [item.path.parent for item in found.rejected] == [tmp_path / "run"]
    assert says in found.rejected[0].reason


@pytest.mark.parametrize("place", ["run", "run/rollouts.jsonl"])
def test_what_this_user_may_not_look_at_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write(tmp_path / "sound" / "rollouts.jsonl")
    denied = write(tmp_path / "run" / "rollouts.jsonl") and tmp_path / place
    # Root may look at everything, so the refusal is made here.
    monkeypatch.setattr(Path, "stat", refusing(Path.stat, denied))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, denied))
    found = discover(tmp_path)
    assert [run.key for run in found.runs] == ["sound/rollouts"]
    assert [(item.path, item.reason) for item in found.rejected] == [
        (denied, "cannot be read: permission denied; give this user read access")
    ]


def refusing(function: Callable[..., Any], denied: Path) -> Callable[..., Any]:
    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if Path(path) == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return function(path, *arguments, **options)

    return refuse


@pytest.mark.parametrize("change", ["append", "touch", "replace", "sidecar"])
def test_the_fingerprint_changes_with_any_file_of_the_run(tmp_path: Path, change: str) -> None:
    output = write(tmp_path / "rollouts.jsonl")
    before = discover(tmp_path).runs[0].fingerprint
    assert discover(tmp_path).runs[0].fingerprint == before
    if change == "append":
        output.write_text("{}\n{}\n")
    elif change == "touch":
        os.utime(output, ns=(1, 1))
    elif change == "replace":
        status = output.stat()
        new = write(tmp_path / "new")
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        new.replace(output)
    else:
        write(tmp_path / "rollouts_failures.jsonl")
    assert discover(tmp_path).runs[0].fingerprint != before


@pytest.mark.parametrize(
    ("root", "key", "code", "says"),
    [
        ("missing", "rollouts", "E-RUNS-ROOT", "ROLLOUT_RUNS_ROOT"),
        ("run/rollouts.jsonl", "rollouts", "E-RUNS-ROOT", "is not a folder"),
        (".", "gone/rollouts", "E-RUN-GONE", "delete the partition"),
        (".", "../rollouts", "E-RUN-KEY", "is no run key"),
        (".", "folder", "E-UNREADABLE", "is a directory"),
    ],
)
def test_a_run_that_cannot_be_found_says_why_and_what_to_do(
    tmp_path: Path, root: str, key: str, code: str, says: str
) -> None:
    write(tmp_path / "run" / "rollouts.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(RunDataError, match=says) as caught:
        find_run(tmp_path / root, key)
    assert caught.value.code == code


def test_natural_order_takes_any_text() -> None:
    assert sorted(["²", "a²", "a1", "a"], key=natural_order) == ["a", "a1", "a²", "²"]


def test_natural_order_compares_numbers_as_numbers() -> None:
    assert sorted(["b-10", "b-9", "a", "b-9-2", "10", "9"], key=natural_order) == [
        "a",
        "b-9",
        "b-9-2",
        "b-10",
        "9",
        "10",
    ]


def test_run_keys_of_nested_folders_are_fine() -> None:
    assert run_key_problem("math/step-0100/rollouts") is None
    assert run_key_problem("a=1/b+c/d_e.f") is None
    assert run_key_problem("a.jsonl/b.json") is None
