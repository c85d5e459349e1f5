"""Every way to open the project loads the same code location under the same name, without a warning of ours."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from rollout_assets.definitions import defs
from rollout_assets_tests.integration.processes import dagster_environment

CHECKOUT = Path(__file__).resolve().parents[2]
MODULE, NAME = "rollout_assets.definitions", "rollout_assets"


def test_the_three_entry_points_name_the_same_location() -> None:
    """Cursors and the on/off state of sensors are stored under the name."""
    tool = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]
    assert (tool["dagster"]["module_name"], tool["dagster"]["code_location_name"]) == (MODULE, NAME)
    project = tool["dg"]["project"]
    assert (project["code_location_target_module"], project["code_location_name"]) == (MODULE, NAME)
    for workspace in (CHECKOUT / "workspace.yaml", CHECKOUT / "rollout_assets" / "resources" / "workspace.yaml"):
        [entry] = yaml.safe_load(workspace.read_text())["load_from"]
        assert entry == {"python_module": {"module_name": MODULE, "location_name": NAME}}


def test_importing_the_definitions_warns_of_nothing(tmp_path: Path) -> None:
    """Libraries are imported before; Dagster reads a deprecated attribute of its own when it binds `raw_run`."""
    code = (
        "import dagster, numpy, pandas, pyarrow, warnings\n"
        "warnings.simplefilter('error')\n"
        "warnings.filterwarnings('ignore', category=DeprecationWarning, module='dagster')\n"
        "from rollout_assets.definitions import defs\n"
        "dagster.Definitions.validate_loadable(defs)\n"
    )
    run(["-c", code], tmp_path)


def test_dagster_finds_the_location_from_the_checkout(tmp_path: Path) -> None:
    done = run(["-m", "dagster", "definitions", "validate"], tmp_path)
    assert f"Validation successful for code location {NAME}." in done.stdout
    assert [
        line for line in done.stderr.splitlines() if "Warning: " in line and "SupersessionWarning" not in line
    ] == []


def test_dg_lists_what_the_definitions_hold(tmp_path: Path) -> None:
    listed = json.loads(run(["-m", "dagster_dg_cli.cli", "list", "defs", "--json"], tmp_path).stdout)
    graph = defs.resolve_asset_graph()
    assert {asset["asset_key"] for asset in listed["assets"]} == {
        key.to_user_string() for key in graph.get_all_asset_keys()
    }
    assert {check["key"] for check in listed["asset_checks"]} == {
        f"{key.asset_key.to_user_string()}:{key.name}" for key in graph.asset_check_keys
    }
    assert {job["name"] for job in listed["jobs"]} == {job.name for job in defs.jobs or []}
    assert [sensor["name"] for sensor in listed["sensors"]] == [sensor.name for sensor in defs.sensors or []]


def run(arguments: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python process in the checkout, with an instance of its own."""
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=dagster_environment(home),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done
