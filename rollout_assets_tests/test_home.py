"""The local instance, and the files that `rollout-assets init` writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from dagster._core.instance.config import dagster_instance_config

from rollout_assets.cli import main
from rollout_assets.home import PROFILE, local_instance, workspace_file, write_profile
from rollout_assets.policy import load_policy
from rollout_assets.settings import Settings


def test_a_local_instance_keeps_what_a_person_edited_and_leaves_the_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/somewhere/else")
    monkeypatch.delenv("ROLLOUT_POLICY", raising=False)
    settings = Settings.inside(tmp_path)
    with local_instance(settings) as instance:
        assert os.environ["DAGSTER_HOME"] == instance.root_directory == str(settings.dagster_home)
        assert os.environ["ROLLOUT_POLICY"] == str(settings.policy)
    assert os.environ["DAGSTER_HOME"] == "/somewhere/else"
    assert "ROLLOUT_POLICY" not in os.environ
    workspace_file(settings).write_text("load_from: []\n")
    with local_instance(settings):
        assert workspace_file(settings).read_text() == "load_from: []\n"


def test_the_profile_is_what_dagster_and_the_policy_accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_profile(tmp_path / "new" / "home")
    assert [path.name for path in written] == list(PROFILE)
    home = written[0].parent
    assert {path.name for path in home.iterdir()} == set(PROFILE)
    configuration, _ = dagster_instance_config(str(home))
    assert configuration["storage"]["postgres"]["postgres_db"]["scheme"] == "postgresql+psycopg2"
    assert configuration["run_retries"]["retry_on_asset_or_op_failure"] is False
    policy = load_policy(home / "policy.yaml")
    keys = ["math/step-9/rollouts", "math/step-10/rollouts"]
    assert policy.group_of(keys[0]) is policy.group_of(keys[1])
    assert policy.candidates_for_baseline(keys[1], keys) == [keys[0]]


def test_every_variable_that_the_profile_reads_is_named_after_init(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["init", str(tmp_path / "home")])
    assert done.exit_code == 0, done.output
    names = variables(yaml.safe_load((tmp_path / "home" / "dagster.yaml").read_text()))
    assert "ROLLOUT_PG_HOST" in names
    for name in names:
        assert f"{name}=" in done.output
    assert f"export DAGSTER_HOME={tmp_path / 'home'}\n" in done.output


@pytest.mark.parametrize("name", PROFILE)
def test_nothing_is_written_when_a_file_is_there_already(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    done = CliRunner().invoke(main, ["init", str(tmp_path)])
    assert done.exit_code == 1
    assert f"Error: {tmp_path / name}: exists already" in done.output
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["init", str(tmp_path / "file" / "home")])
    assert done.exit_code == 1
    assert str(tmp_path / "file" / "home") in done.output


def variables(value: object) -> list[str]:
    """Every environment variable that a configuration reads."""
    if isinstance(value, dict):
        own = [value["env"]] if isinstance(value.get("env"), str) else []
        return own + [name for item in value.values() for name in variables(item)]
    return []
