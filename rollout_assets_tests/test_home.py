"""The local instance, and the files that `rollout-assets init` writes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner
from dagster._core.instance.config import dagster_instance_config

from rollout_assets.cli import main
from rollout_assets.core.errors import RunDataError
from rollout_assets.definitions import defs
from rollout_assets.home import PROFILE, local_instance, sole_use, workspace_file, write_profile
from rollout_assets.ingest import ingest
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


#: Opens the instance of a home and ends, as if killed, at the given statement that makes a table.
KILLED_AT = """
import os, sys
from pathlib import Path
from sqlalchemy.engine.default import DefaultDialect
from rollout_assets.home import local_instance
from rollout_assets.settings import Settings

execute, left = DefaultDialect.do_execute, int(sys.argv[2])

def counted(self, cursor, statement, *arguments, **options):
    global left
    left -= "CREATE TABLE" in statement
    if not left:
        os._exit(9)
    return execute(self, cursor, statement, *arguments, **options)

DefaultDialect.do_execute = counted
with local_instance(Settings.inside(Path(sys.argv[1]))):
    pass
"""


@pytest.mark.parametrize("table", [1, 7])
def test_a_first_use_that_was_killed_does_not_harm_the_next(tmp_path: Path, table: int) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED_AT, str(tmp_path), str(table)], check=False)
    assert killed.returncode == 9
    settings = Settings.inside(tmp_path)
    with local_instance(settings) as instance:
        instance.add_dynamic_partitions("rollout_runs", ["a/rollouts"])
    with local_instance(settings) as instance:
        assert instance.get_dynamic_partitions("rollout_runs") == ["a/rollouts"]
    assert {path.name for path in settings.dagster_home.iterdir() if path.is_dir()} >= {"history", "schedules"}
    assert not (settings.dagster_home / ".first-use").exists()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda home: home.parent.write_text(""), "Not a directory"),
        (lambda home: write(home / "dagster.yaml", "{oops"), "dagster.yaml"),
        (lambda home: write(home / "dagster.yaml", "oops: 1"), "dagster.yaml"),
        (lambda home: write(home / "history" / "runs.db", "no database"), "file is not a database"),
        (lambda home: write(home.parent / "store", "no folder"), "File exists"),
    ],
    ids=["file", "no YAML", "no configuration", "no database", "no store"],
)
def test_a_home_that_cannot_be_used_is_named_with_what_to_do(
    tmp_path: Path, spoil: Callable[[Path], object], says: str
) -> None:
    settings = Settings.inside(tmp_path / "home")
    spoil(settings.dagster_home)
    with pytest.raises(RunDataError, match="choose another --home") as caught, local_instance(settings):
        pass
    assert caught.value.code == "E-HOME"
    assert str(tmp_path / "home") in str(caught.value)
    assert says in str(caught.value)


def test_one_terminal_at_a_time_has_the_home_and_the_others_wait(tmp_path: Path) -> None:
    settings, order, asked = Settings.inside(tmp_path), [], threading.Event()

    def second() -> None:
        with sole_use(settings, asked.set):
            order.append("second")

    other = threading.Thread(target=second)
    with sole_use(settings, lambda: order.append("waited for nobody")):
        other.start()
        assert asked.wait(timeout=60)
        order.append("first")
    other.join(timeout=60)
    assert order == ["first", "second"]


def test_runs_of_a_terminal_that_was_killed_are_failed_and_no_others(tmp_path: Path) -> None:
    job = defs.resolve_job_def("ingest_run")
    with local_instance(Settings.inside(tmp_path)) as instance:
        tags = {"rollout_assets/terminal": "true"}
        dead = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
        of_a_daemon = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
        assert ingest([], instance) == []
        assert {run.run_id: run.status for run in instance.get_runs()} == {
            dead.run_id: dg.DagsterRunStatus.FAILURE,
            of_a_daemon.run_id: dg.DagsterRunStatus.STARTED,
        }


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


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


def test_paths_are_printed_without_steps_up(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["init", str(tmp_path / "other" / ".." / "home")])
    assert f"wrote {tmp_path / 'home' / 'dagster.yaml'}\n" in done.output
    assert Settings.inside(tmp_path / "other" / ".." / "home") == Settings.inside(tmp_path / "home")


@pytest.mark.parametrize("name", PROFILE)
def test_nothing_is_written_when_a_file_is_there_already(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    done = CliRunner().invoke(main, ["init", str(tmp_path)])
    assert done.exit_code == 1
    assert f"error: {tmp_path / name}: exists already" in done.output
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
