"""Every folder of the conformance cases: a run, and what a reader must make of it."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rollout_assets.cli import main
from rollout_assets.core.errors import RunDataWarning
from rollout_assets.core.records import (
    RolloutRecords,
    RunDataError,
    RunManifest,
    exit_status,
    journal_path_for,
    logical_rollout_id,
    manifest_path_for,
    open_run,
    prepare_append,
)
from rollout_assets_tests.shared_material import RECORD_CASES, needs_record_cases

CASES = sorted(path for path in RECORD_CASES.iterdir() if path.is_dir()) if RECORD_CASES.is_dir() else []


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def load(folder: Path, expected: dict[str, Any]) -> RolloutRecords | None:
    output = folder / "rollouts.jsonl"
    manifest = manifest_path_for(output)
    if not manifest.exists() or journal_path_for(output).exists():
        return open_run(output)
    limits = {folder / name: limit for name, limit in expected.get("outcome_limits", {}).items()}
    return RolloutRecords.load(output, RunManifest.read(manifest), outcome_limits=limits)


def place(text: str) -> str:
    """`rollouts.jsonl line 2` as messages write it."""
    return re.sub(r" line (\d+)$", r":\1", text)


def attempts(rows: Any) -> list[list[Any]]:
    return [[logical_rollout_id(row), row["_ng_attempt_index"]] for row in rows]


def selection(records: RolloutRecords) -> dict[str, Any]:
    found = {}
    for rollout_id in records.expected:
        outcome = records.outcome(rollout_id)
        found[rollout_id] = {
            "disposition": records.disposition(rollout_id),
            "attempt": records.latest.get(rollout_id),
            "file": None if outcome is None else Path(outcome.source.path).name,
        }
    return found


@needs_record_cases
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_case(case: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(case, folder)
    expected = json.loads((folder / "expected.json").read_text())
    before = contents(folder)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if "error" in expected:
            with pytest.raises(RunDataError) as raised:
                load(folder, expected)
            assert raised.value.code == expected["error"]
            names = expected.get("error_names", [])
            for name in [names] if isinstance(names, str) else names:
                assert place(name) in str(raised.value)
            records = None
        else:
            records = load(folder, expected)

    seen = [f"{w.message.code} {Path(w.message.path).name} line {w.message.line}" for w in caught]
    assert seen == expected.get("warnings", [])
    assert all(isinstance(w.message, RunDataWarning) for w in caught)
    if records is not None:
        check(records, expected)
    elif "error" not in expected:
        assert expected["selection"] is None
    assert contents(folder) == before
    check_repair(folder, expected)


def check(records: RolloutRecords, expected: dict[str, Any]) -> None:
    assert selection(records) == expected["selection"]
    assert attempts(records.pending()) == expected["pending"]
    coverage = records.coverage()
    assert {key: coverage[key] for key in expected["coverage"]} == expected["coverage"]
    charges = expected.get("allocation_end_charges")
    if charges is not None:
        assert attempts(islice(records.allocation_end_charges(), len(charges) + 1)) == charges
    for rollout_id, count in expected.get("failure_count", {}).items():
        assert records.failure_count(rollout_id) == count
    if "next_attempt_after_import" in expected:
        assert records.next_attempts() == expected["next_attempt_after_import"]
    faults = [[fault.kind, Path(fault.path).name, fault.line] for fault in records.faults]
    assert faults == expected.get("faults", [])
    if "exit_status" in expected:
        assert exit_status(coverage) == expected["exit_status"]
    for disposition in ("success", "failure", "omitted"):
        assert len(records.selected(disposition)) == len(list(records.selected(disposition)))


def check_repair(folder: Path, expected: dict[str, Any]) -> None:
    for name, repair in expected.get("repair", {}).items():
        before = (folder / name).stat().st_size
        with pytest.warns(RunDataWarning, match=str(repair["bytes_removed"])):
            prepare_append(folder / name)
        assert (folder / name).stat().st_size == repair["size_after"] == before - repair["bytes_removed"]


@needs_record_cases
@pytest.mark.parametrize("case", [case for case in CASES if "exit_status" in (case / "expected.json").read_text()])
def test_exit_status_of_the_command(case: Path, tmp_path: Path) -> None:
    shutil.copytree(case, tmp_path / "run")
    expected = json.loads((case / "expected.json").read_text())
    result = CliRunner().invoke(main, ["coverage", str(tmp_path / "run" / "rollouts.jsonl")])
    assert result.exit_code == expected["exit_status"], result.output
