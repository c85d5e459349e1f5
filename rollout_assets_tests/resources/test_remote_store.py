"""A store that is no local folder: the whole pipeline on fsspec's file system in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest
from upath import UPath

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_text, written_beside
from rollout_assets.demo.runs import write_demo_runs
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.settings import Settings
from rollout_assets.store import DOWNSTREAM_TABLES, Verdict
from rollout_assets.tables import TABLES
from rollout_assets_tests.conftest import Project

URL = "memory://bucket/store"
ROWS = [{"task_id": "a", "reward": 1.0}, {"task_id": "b", "reward": 0.5}]


@dataclass
class RemoteProject(Project):
    """A project whose store is in memory."""

    @property
    def workspace(self) -> RolloutWorkspace:
        return RolloutWorkspace(
            runs_root=str(self.root / "runs"), store_root=URL, policy_file=str(self.root / "policy.yaml")
        )


@pytest.fixture
def remote(project: Project) -> Iterator[RemoteProject]:
    memory = fsspec.filesystem("memory")
    yield RemoteProject(project.root, project.instance)
    memory.rm("/", recursive=True)


def files(root: Path | UPath) -> dict[str, int]:
    """Every file below a root, with its size."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path).removeprefix(str(root)).lstrip("/"): path.stat().st_size for path in found}


def test_the_demo_runs_give_the_same_store_as_on_a_local_disk(project: Project, remote: RemoteProject) -> None:
    outputs = write_demo_runs(project.root / "runs")
    keys = [output.relative_to(project.root / "runs").with_suffix("").as_posix() for output in outputs]
    succeeded = {}
    for place in (project, remote):
        succeeded[place.store.root] = [place.run(key).success for key in keys]
    assert list(succeeded.values()) == [[True, True, True, False]] * 2

    stored = files(remote.store.root)
    local = {name for name in files(project.store.root) if not name.startswith("index_state/")}
    assert stored.keys() == local
    for name in stored:
        here, there = project.store.root / name, remote.store.root / name
        if name.endswith(".parquet"):
            with there.open("rb") as file:
                assert pq.read_table(file).equals(pq.read_table(here, partitioning=None)), name
        else:
            assert there.read_bytes() == here.read_bytes(), name


def test_a_run_is_taken_in_once_and_missed_when_it_changed(remote: RemoteProject) -> None:
    output = remote.write_run("math/a/rollouts", ROWS)
    assert remote.run("math/a/rollouts").success
    store = remote.store
    verdict = store.verdict("math/a/rollouts")
    assert verdict is not None
    assert store.is_taken_in("math/a/rollouts", verdict.fingerprint)
    assert store.indexed_rows("math/a/rollouts") == {"output": 2}
    output.write_bytes(output.read_bytes() * 2)
    with pytest.raises(RunDataError, match="has changed since it was indexed"):
        store.read_table("task_sides", "math/a/rollouts")


def test_a_comparison_is_outdated_by_a_later_baseline(remote: RemoteProject) -> None:
    for key in ("a", "b", "a"):
        remote.write_run(key, ROWS)
        assert remote.run(key).success
    assert remote.store.comparison_is_older_than("b", "a")
    assert remote.run("b", job="compare_run").success
    assert not remote.store.comparison_is_older_than("b", "a")


@pytest.mark.parametrize("table", DOWNSTREAM_TABLES)
def test_a_table_that_is_missing_or_damaged_is_named(remote: RemoteProject, table: str) -> None:
    remote.write_run("run", ROWS)
    assert remote.run("run").success
    path = remote.store.table_path(table, "run")
    path.write_bytes(b"no parquet")
    with pytest.raises(RunDataError, match=f"{URL}/{table}/run.parquet: cannot be read .*; materialize {table}"):
        remote.store.read_table(table, "run")
    path.unlink()
    with pytest.raises(RunDataError, match=f"{URL}/{table}/run.parquet: no such table yet"):
        remote.store.read_table(table, "run")


def test_a_verdict_that_is_none_is_named(remote: RemoteProject) -> None:
    remote.store.write_verdict("run", Verdict("sound", "f"))
    assert remote.store.verdict("run") == Verdict("sound", "f")
    assert remote.store.verdict("other") is None
    (remote.store.root / "verdicts" / "run.json").write_text("{")
    with pytest.raises(RunDataError, match=f"{URL}/verdicts/run.json: is no verdict"):
        remote.store.verdict("run")


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(remote: RemoteProject) -> None:
    target = UPath(f"{URL}/reports/run.txt")
    write_text(target, "whole")
    with pytest.raises(ZeroDivisionError), written_beside(target) as temporary:
        temporary.write_text("half")
        _ = 1 / 0
    assert files(remote.store.root) == {"reports/run.txt": 5}
    write_text(target, "whole again")
    assert target.read_text() == "whole again"


def test_nothing_is_left_of_the_local_spool(
    remote: RemoteProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools = tmp_path / "spools"
    spools.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    remote.write_run("good", ROWS)
    remote.write_run("bad", b"{oops\n")
    assert (remote.run("good").success, remote.run("bad").success) == (True, False)
    assert list(spools.iterdir()) == []


def test_a_url_is_a_setting_like_any_other(tmp_path: Path) -> None:
    settings = Settings.of({"ROLLOUT_HOME": str(tmp_path), "ROLLOUT_STORE_ROOT": URL})
    assert settings.store_root == UPath(URL)
    assert Settings.of(settings.environment()) == settings
    assert isinstance(Settings.of({"ROLLOUT_STORE_ROOT": "store"}).store_root, Path)


def test_every_table_has_the_place_that_the_io_manager_gives_it(remote: RemoteProject) -> None:
    remote.write_run("math/a/rollouts", ROWS)
    result = remote.run("math/a/rollouts")
    paths = {
        event.asset_key.path[-1]: str(event.step_materialization_data.materialization.metadata["path"].value)
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }
    assert paths == {name: str(remote.store.table_path(name, "math/a/rollouts")) for name in TABLES}
