"""Names of the files of a run, aliases and owners (records.md §1, §18; examples 41 and 42)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_assets.core.records import (
    RunDataError,
    coverage_path_for,
    failures_path_for,
    journal_path_for,
    manifest_path_for,
    materialized_path_for,
    open_run,
    resolve_rollout_owner,
    resolve_rollout_path,
)
from rollout_assets_tests.core.records.runs import contents, result, write_run


@pytest.mark.parametrize(
    ("path_for", "name"),
    [
        (failures_path_for, "a.b_failures.jsonl"),
        (materialized_path_for, "a.b_materialized_inputs.jsonl"),
        (manifest_path_for, "a.b_manifest.json"),
        (coverage_path_for, "a.b_coverage.json"),
        (journal_path_for, "a.b_attempts.jsonl"),
    ],
)
def test_companions_keep_only_the_stem(path_for, name: str) -> None:
    assert path_for("run/a.b.txt") == Path("run") / name


def test_a_link_leads_to_the_run(tmp_path: Path) -> None:
    output = write_run(tmp_path / "run", results=[result()])
    latest = output.with_name("latest.jsonl")
    latest.symlink_to(output.name)
    assert resolve_rollout_path(latest, read_only=True) == output
    assert resolve_rollout_path(latest, read_only=False) == output
    records = open_run(latest)
    assert records is not None
    assert records.disposition("0-0") == "success"


@pytest.mark.parametrize("read_only", [True, False])
def test_a_companion_beside_the_link_is_refused(tmp_path: Path, read_only: bool) -> None:
    output = write_run(tmp_path / "run", results=[result()])
    latest, misplaced = output.with_name("latest.jsonl"), output.with_name("latest_failures.jsonl")
    latest.symlink_to(output.name)
    misplaced.write_text("")
    before = contents(tmp_path)
    with pytest.raises(RunDataError) as raised:
        resolve_rollout_path(latest, read_only=read_only)
    assert raised.value.code == "E-ALIAS"
    assert raised.value.path == str(misplaced)
    assert str(output) in str(raised.value)
    assert "Nothing was changed" in str(raised.value)
    assert contents(tmp_path) == before


def test_a_reader_may_use_an_old_layout_beside_the_link(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_text("")
    latest = tmp_path / "latest.jsonl"
    latest.symlink_to(output.name)
    (tmp_path / "latest_failures.jsonl").write_text("")
    assert resolve_rollout_path(latest, read_only=True) == latest
    with pytest.raises(RunDataError, match="lies beside an alias"):
        resolve_rollout_path(latest, read_only=False)
    (tmp_path / "rollouts_failures.jsonl").write_text("")  # now both spellings have companions
    with pytest.raises(RunDataError, match="lies beside an alias"):
        resolve_rollout_path(latest, read_only=True)


@pytest.mark.parametrize("history", ["latest_manifest.json", "rollouts_attempts.jsonl"])
def test_an_old_layout_must_not_have_a_history(tmp_path: Path, history: str) -> None:
    (tmp_path / "rollouts.jsonl").write_text("")
    latest = tmp_path / "latest.jsonl"
    latest.symlink_to("rollouts.jsonl")
    (tmp_path / "latest_failures.jsonl").write_text("")
    (tmp_path / history).symlink_to("nowhere")  # a dangling link is something, too
    with pytest.raises(RunDataError) as raised:
        resolve_rollout_path(latest, read_only=True)
    assert raised.value.code == "E-ALIAS"


def test_a_linked_folder_is_no_alias(tmp_path: Path) -> None:
    output = write_run(tmp_path / "run", results=[result()])
    (tmp_path / "link").symlink_to("run")
    assert resolve_rollout_path(tmp_path / "link" / output.name, read_only=False) == output


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_rollout_path("sub/../rollouts.jsonl") == tmp_path / "rollouts.jsonl"


@pytest.mark.parametrize(
    ("companion", "owner"),
    [
        ("rollouts_failures.jsonl", "rollouts.jsonl"),
        ("rollouts_materialized_inputs.jsonl", "rollouts.jsonl"),
        ("probe_failures.jsonl", "probe_failures.jsonl"),
        ("stray_failures.jsonl", "stray_failures.jsonl"),
        ("rollouts.jsonl", "rollouts.jsonl"),
        ("_failures.jsonl", "_failures.jsonl"),
    ],
)
def test_owners(tmp_path: Path, companion: str, owner: str) -> None:
    for name in (
        "rollouts.jsonl",
        "rollouts_manifest.json",
        "rollouts_failures.jsonl",
        "probe_failures.jsonl",
        "probe_failures_manifest.json",
        "stray_failures.jsonl",
    ):
        (tmp_path / name).write_text("")
    assert resolve_rollout_owner(tmp_path / companion) == tmp_path / owner


def test_a_dangling_manifest_makes_an_owner(tmp_path: Path) -> None:
    (tmp_path / "run_manifest.json").symlink_to("nowhere")
    assert resolve_rollout_owner(tmp_path / "run_failures.jsonl") == tmp_path / "run.jsonl"


def test_a_journal_makes_an_owner(tmp_path: Path) -> None:
    (tmp_path / "old_attempts.jsonl").write_text("")
    assert resolve_rollout_owner(tmp_path / "old_failures.jsonl") == tmp_path / "old.jsonl"
