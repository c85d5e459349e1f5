"""What is shown after taking runs in."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from rollout_assets.ingest import IngestResult
from rollout_assets.settings import Settings
from rollout_assets.terminal import show_reports, ui_command
from rollout_assets_tests.conftest import Project

ROWS = [{"task_id": "a", "reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 0}]


def test_the_line_for_the_ui_names_every_place_that_no_default_gives(tmp_path: Path) -> None:
    usual = Settings.inside(tmp_path / "home")
    assert ui_command(usual).endswith(f" ui --home {tmp_path / 'home'}")
    elsewhere = replace(usual, dagster_home=tmp_path / "my dagster")
    assert ui_command(elsewhere).startswith(f"ROLLOUT_RUNS_ROOT={tmp_path / 'home' / 'runs'} ROLLOUT_STORE_ROOT=")
    assert f" DAGSTER_HOME='{tmp_path / 'my dagster'}' " in ui_command(elsewhere)


def test_reports_are_those_of_the_comparisons_just_made(project: Project) -> None:
    settings = replace(Settings.inside(project.root), runs_root=project.root / "runs")
    for key in ("run/1", "run/2", "run/3"):
        project.write_run(key, ROWS)
        assert project.run(key).success
    # What is left of a baseline of another day.
    project.store.report_path("run/2", "gone", ".txt").write_text("an old report")
    compared = ("record_index", "comparison_report")
    results = [
        IngestResult("run/1", True, compared, (), None),
        IngestResult("run/2", True, compared, (), None),
        IngestResult("run/3", False, ("record_index",), (), "failed this time"),
    ]
    shown = Console(file=io.StringIO(), width=40)
    show_reports(settings, results, shown)
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert "run/2 vs run/1" in text
    assert text.count("Rollout comparison: 1 task") == 1
    assert "an old report" not in text
