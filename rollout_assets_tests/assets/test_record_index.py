"""Indexing in Dagster: sound runs go through, malformed ones are stopped and stay stopped."""

from __future__ import annotations

import os
import time
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from rollout_assets.core.errors import RunDataError
from rollout_assets_tests.conftest import Project

DOWNSTREAM = ("attempt_outcomes", "task_sides", "comparison_report")
GOOD = [
    {"task_id": "a", "reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 0},
    {"task_id": "b", "reward": 0.0, "_ng_task_index": 1, "_ng_rollout_index": 0},
]


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    [event] = result.get_step_failure_events()
    data = event.step_failure_data.user_failure_data
    assert data is not None, event.step_failure_data.error
    return data.description or ""


def check(result: dg.ExecuteInProcessResult, name: str) -> Any:
    [found] = [e for e in result.get_asset_check_evaluations() if e.check_name == name]
    return found


def test_a_sound_run_is_indexed_with_coordinates(project: Project) -> None:
    output = project.write_run("math/one/rollouts", GOOD, failures=[{"task_id": "c", "_ng_failure_class": "x"}])
    result = project.run("math/one/rollouts")
    assert result.success
    for name in ("jsonl_strict", "reward_strict"):
        assert check(result, name).passed
        assert check(result, name).partition == "math/one/rollouts"
        assert check(result, name).metadata["rows"].value == 3
    table = project.store.read_table("record_index", "math/one/rollouts").to_pylist()
    content = output.read_bytes()
    assert [(row["file"], row["line"]) for row in table] == [("output", 1), ("output", 2), ("failures", 1)]
    for row in table[:2]:
        assert content[row["offset"] : row["offset"] + row["length"]].endswith(b"}\n")
    assert [row["reward"] for row in table] == [1.0, 0.0, None]
    assert all(project.materialized(asset) == {"math/one/rollouts"} for asset in DOWNSTREAM)


@pytest.mark.parametrize(
    ("line", "name", "kind", "offset", "column"),
    [
        (b'{"task_id": "a", "reward": 1', "jsonl_strict", "invalid_json", 30, 29),
        (b'{"task_id": "\xff"}', "jsonl_strict", "not_utf8", 30, 14),
        (b"[1]", "jsonl_strict", "not_an_object", 30, 1),
        (b'{"reward": 1, "reward": 0}', "jsonl_strict", "duplicate_key", 30, 15),
        (b'{"task_id": "a", "reward": "1.0"}', "reward_strict", "reward_not_a_number", 30, 1),
        (b'{"task_id": "a", "reward": true}', "reward_strict", "reward_not_a_number", 30, 1),
        (b'{"task_id": "a", "reward": [1]}', "reward_strict", "reward_not_a_number", 30, 1),
    ],
)
def test_a_malformed_run_is_stopped_here_and_in_every_later_run(
    project: Project, line: bytes, name: str, kind: str, offset: int, column: int
) -> None:
    first = b'{"task_id": "z", "reward": 1}\n'
    assert len(first) == 30
    output = project.write_run("bad", first + line + b"\n")
    project.write_run("good", GOOD)
    before = output.read_bytes()

    result = project.run("bad")
    assert not result.success
    found = check(result, name)
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.ERROR
    assert f"bad.jsonl:2 (byte {offset + column - 1})" in found.description
    [place] = found.metadata["places"].value.records
    assert place.data["line"] == 2
    assert place.data["kind"] == kind
    assert place.data["byte offset"] == offset + column - 1
    assert place.data["column"] == column
    other = "reward_strict" if name == "jsonl_strict" else "jsonl_strict"
    assert check(result, other).passed
    assert "is blocked" in failure_of(result)
    assert project.materialized("producer_faults") == {"bad"}
    assert project.materialized("record_index") == set()
    faults = pq.read_table(project.store.table_path("producer_faults", "bad")).to_pylist()
    assert [(row["line"], row["kind"]) for row in faults] == [(2, kind)]

    for asset in DOWNSTREAM:
        job = dg.define_asset_job(f"only_{asset}", selection=[asset])
        later = dg.materialize(
            _assets(project),
            instance=project.instance,
            selection=[asset],
            partition_key="bad",
            resources=_resources(project),
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
        assert not later.success, job
        assert "is blocked" in failure_of(later)
        assert project.materialized(asset) == set()

    assert project.run("good").success
    assert all(project.materialized(asset) == {"good"} for asset in DOWNSTREAM)
    assert output.read_bytes() == before


def test_a_run_that_turns_malformed_is_not_read_from_its_old_tables(project: Project) -> None:
    project.write_run("run", GOOD)
    assert project.run("run").success
    project.write_run("run", b"{oops\n")
    assert not project.run("run").success
    with pytest.raises(RunDataError) as caught:
        project.store.read_table("record_index", "run")
    assert caught.value.code == "E-BLOCKED"
    project.write_run("run", GOOD)
    assert project.run("run").success
    assert project.store.read_table("record_index", "run").num_rows == 2


def test_nothing_of_an_earlier_state_stays_in_the_store_of_a_blocked_run(project: Project) -> None:
    for key in ("run/1", "run/1/deeper", "run/2"):
        project.write_run(key, GOOD)
        assert project.run(key).success
    before = stored(project, "run/1")
    assert {place.partition("/")[0] for place in stored(project, "run/2")} == {
        "record_index", "producer_faults", "index_state", "verdicts", "reports", *DOWNSTREAM,
    }  # fmt: skip
    project.write_run("run/2", b"{oops\n")
    assert not project.run("run/2").success
    assert {place.partition("/")[0] for place in stored(project, "run/2")} == {
        "record_index",  # of the sound state, for row_count_not_shrinking
        "producer_faults",
        "verdicts",
    }
    assert stored(project, "run/1") == before


def stored(project: Project, key: str) -> set[str]:
    """The files of a run in the store, relative to it."""
    root = project.root / "store"
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {str(path) for path in found if key in str(path)}


def test_a_run_that_changed_since_it_was_indexed_is_refused_downstream(project: Project) -> None:
    project.write_run("run", GOOD)
    assert project.run("run").success
    project.write_run("run", [*GOOD, GOOD[0]])
    result = project.run("run", job="compare_run")
    assert not result.success
    assert "has changed since it was indexed; materialize record_index of run 'run' again" in failure_of(result)


@pytest.mark.parametrize(
    ("tail", "kind"),
    [(b'{"task_id": "b", "rew', "truncated_tail"), (b'{"task_id": "b", "reward": NaN}\n', "non_finite_number")],
)
def test_a_torn_tail_and_a_non_finite_number_warn_and_go_on(project: Project, tail: bytes, kind: str) -> None:
    project.write_run("run", b'{"task_id": "a", "reward": 1}\n' + tail)
    result = project.run("run")
    assert result.success
    found = check(result, "jsonl_strict")
    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.WARN
    assert found.metadata[f"faults_{kind}"].value == 1
    assert project.materialized("comparison_report") == {"run"}


def test_an_empty_results_file_is_blocked_and_says_so(project: Project) -> None:
    project.write_run("run", b"")
    result = project.run("run")
    assert not result.success
    assert "holds no row yet" in check(result, "jsonl_strict").description
    assert project.materialized("record_index") == set()


def test_a_partition_without_a_run_says_which_path_is_missing(project: Project) -> None:
    result = project.run("gone/rollouts")
    assert not result.success
    message = failure_of(result)
    assert str(project.root / "runs" / "gone" / "rollouts.jsonl") in message
    assert "restore it, or delete the partition" in message


def test_a_folder_in_place_of_the_results_file_is_named(project: Project) -> None:
    (project.root / "runs" / "run.jsonl").mkdir()
    assert "is a directory, no regular file" in failure_of(project.run("run"))


def test_a_missing_runs_root_is_named(project: Project) -> None:
    (project.root / "runs").rmdir()
    message = failure_of(project.run("run"))
    assert str(project.root / "runs") in message
    assert "ROLLOUT_RUNS_ROOT" in message


def test_a_run_that_is_appended_to_while_it_is_read_is_not_taken_in(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rollout_assets.indexing import incremental

    output = project.write_run("run", GOOD)
    index_run = incremental.index_run

    def index_while_appending(*args: Any, **options: Any) -> Any:
        summary = index_run(*args, **options)
        with output.open("ab") as file:
            file.write(b'{"task_id": "c", "reward": 1}\n')
        return summary

    monkeypatch.setattr(incremental, "index_run", index_while_appending)
    assert "changed while it was being read" in failure_of(project.run("run"))
    verdict = project.store.verdict("run")
    assert verdict is not None
    assert verdict.state == "indexing"
    monkeypatch.undo()
    assert project.run("run").success
    assert project.store.read_table("record_index", "run").num_rows == 3


def test_what_a_killed_process_left_in_the_spool_is_removed_after_a_day(project: Project) -> None:
    spool = project.root / "store" / ".spool"
    for name, hours in (("killed", 25), ("at work", 23)):
        (spool / name).mkdir(parents=True)
        (spool / name / "record_index.parquet").write_text("half")
        os.utime(spool / name, (time.time() - hours * 3600,) * 2)
    project.write_run("run", GOOD)
    assert project.run("run").success
    assert [path.name for path in spool.iterdir()] == ["at work"]


def test_nothing_is_left_beside_the_tables(project: Project) -> None:
    project.write_run("good", GOOD)
    project.write_run("bad", b"{oops\n")
    project.run("good")
    project.run("bad")
    files = [path for path in project.store.root.rglob("*") if path.is_file()]
    assert files
    assert not [
        path for path in files if path.name.startswith(".") or path.suffix not in {".parquet", ".json", ".md", ".txt"}
    ]


def _assets(project: Project) -> list[Any]:
    from rollout_assets.definitions import build_defs

    return list(build_defs(project.workspace).assets or [])


def _resources(project: Project) -> dict[str, Any]:
    from rollout_assets.definitions import build_defs

    return dict(build_defs(project.workspace).resources or {})
