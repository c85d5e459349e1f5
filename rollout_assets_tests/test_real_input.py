"""The whole way on real rollout files: the command of the README, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest

from rollout_assets.core.discovery import discover
from rollout_assets.settings import Settings
from rollout_assets.store import Store
from rollout_assets_tests.shared_material import NEMO_GYM, needs_nemo_gym

pytestmark = needs_nemo_gym

POLICY = """
groups:
  - name: structeval
    runs: "structeval*/rollouts"
    baseline: structeval/rollouts
    key: task_id
"""


@pytest.fixture(scope="module")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """The store after taking in every real run, and what the command printed."""
    home = tmp_path_factory.mktemp("home")
    policy = home / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    before = {run.key: run.fingerprint for run in discover(NEMO_GYM).runs}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from rollout_assets.cli import main; main()",
            *("ingest", "--runs-root", str(NEMO_GYM), "--policy", str(policy), "--home", str(home)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 1, done.stderr  # one producer is malformed
    assert "Traceback" not in done.stdout + done.stderr
    assert {run.key: run.fingerprint for run in discover(NEMO_GYM).runs} == before
    settings = Settings.inside(home)
    return Store(settings.store_root, NEMO_GYM), done.stdout


def test_every_folder_becomes_a_run_and_all_but_one_are_sound(taken_in: tuple[Store, str]) -> None:
    store, _ = taken_in
    folders = {path.name for path in NEMO_GYM.iterdir()}
    states = {run.key: store.verdict(run.key) for run in discover(NEMO_GYM).runs}
    assert {key.removesuffix("/rollouts") for key in states} == folders
    assert {key for key, verdict in states.items() if verdict is None or verdict.state != "sound"} == {
        "jailbreak_detection/rollouts"
    }


def test_the_malformed_producer_is_named_line_by_line(taken_in: tuple[Store, str]) -> None:
    store, printed = taken_in
    faults = pq.read_table(store.table_path("producer_faults", "jailbreak_detection/rollouts")).to_pylist()
    assert [(fault["line"], fault["offset"], fault["kind"]) for fault in faults] == [
        (line, 18 * (line - 1), "invalid_json") for line in range(1, 6)
    ]
    assert "blocked jailbreak_detection/rollouts jsonl_strict" in printed
    assert f"{NEMO_GYM}/jailbreak_detection/rollouts.jsonl:1 (byte 0)" in printed
    assert not store.table_path("record_index", "jailbreak_detection/rollouts").exists()


@pytest.mark.parametrize("run", ["multichallenge/rollouts", "genrm_compare/rollouts"])
def test_rows_without_a_reward_are_masked(taken_in: tuple[Store, str], run: str) -> None:
    rows = taken_in[0].read_table("record_index", run).to_pylist()
    assert [row["mask_reason"] for row in rows] == ["no reward"] * 5


def test_the_comparison_of_two_real_runs(taken_in: tuple[Store, str]) -> None:
    table = taken_in[0].read_table("comparison_report", "structeval_nonrenderable/rollouts").to_pylist()
    assert {row["baseline"] for row in table} == {"structeval/rollouts"}
    assert Counter((row["category"], row["winner"]) for row in table) == {
        ("identical", None): 3,
        ("flipped", "new"): 1,
        ("flipped", "old"): 1,
    }
