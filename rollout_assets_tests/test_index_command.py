"""`rollout-assets index`: the index that Dagster makes, without it; whole or what was appended; safe to kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rollout_assets.cli import main
from rollout_assets.settings import worker_count
from rollout_assets.store import Store
from rollout_assets_tests.conftest import Project
from rollout_assets_tests.indexing.material import FAILURE, GOOD, OTHER, rows

BAD = b"{oops\n"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is set, and nothing is written to the folder that the tests run in."""
    for name in [name for name in os.environ if name.startswith("ROLLOUT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def index(*arguments: str | Path) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(main, ["index", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout.splitlines(), result.stderr


def write(path: Path, text: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def stored(home: Path, key: str) -> list[list[dict[str, object]]]:
    store = Store(home / "store", home)
    return [rows(store.table_path(name, key)) for name in ("record_index", "producer_faults")]


def test_a_sound_run_is_indexed_whole_and_then_only_what_was_appended(tmp_path: Path) -> None:
    output = write(tmp_path / "runs" / "math" / "rollouts.jsonl", GOOD * 2)
    code, [line], _ = index(output.parent, "--home", tmp_path / "home")
    assert code == 0
    assert line.startswith("math/rollouts: sound, 2 rows, 0 faults; scanned as a whole: there is no earlier index")
    assert line.endswith(" s; " + str(tmp_path / "home" / "store" / "record_index" / "math" / "rollouts.parquet"))
    append(output, OTHER)
    write(output.with_name("rollouts_failures.jsonl"), FAILURE)
    code, [line], _ = index(output, "--home", tmp_path / "home")
    assert (code, line.split("; ")[:2]) == (
        0,
        [
            "math/rollouts: sound, 4 rows, 0 faults",
            f"only the last {len(OTHER)} bytes of rollouts.jsonl and the last {len(FAILURE)} bytes of "
            "rollouts_failures.jsonl had to be scanned",
        ],
    )
    assert [row["file"] for row in stored(tmp_path / "home", "math/rollouts")[0]] == ["output"] * 3 + ["failures"]
    _, [line], _ = index(output, "--home", tmp_path / "home", "--whole")
    assert "scanned as a whole: that was asked for" in line


def test_faults_are_lines_that_editors_understand_and_block_the_run(tmp_path: Path) -> None:
    output = write(tmp_path / "a" / "run.jsonl", GOOD + BAD * 40 + b'{"reward": NaN}\n')
    code, lines, _ = index(output, "--home", "home")
    assert code == 1
    assert lines[0].startswith(f"{output}:2:2: invalid_json: a key in double quotes expected")
    assert len(lines) == 30 + 1 + 3
    assert lines[30].startswith(f"{output}:42:12: non_finite_number: ")
    assert lines[31] == "and 10 more invalid_json: producer_faults lists them"
    assert lines[32] == "mend the producer or the file, then index the run again; until then nothing downstream uses it"
    assert lines[33].startswith("a/run: blocked, 2 rows, 41 faults (40 invalid_json, 1 non_finite_number); scanned as")
    assert lines[33].endswith("store/producer_faults/a/run.parquet")
    assert not (tmp_path / "home" / "store" / "record_index").exists()


@pytest.mark.parametrize("content", [b"", b" \r\n\n"])
def test_a_run_without_rows_is_blocked_and_told_why(tmp_path: Path, content: bytes) -> None:
    output = write(tmp_path / "a" / "rollouts.jsonl", content)
    code, lines, _ = index(output, "--home", tmp_path / "home")
    assert code == 1
    assert lines[0].startswith("a/rollouts is blocked: ")
    assert "holds no row yet. Wait until its producer has saved one, or remove it" in lines[0]
    assert lines[1].startswith("a/rollouts: blocked, 0 rows, 0 faults; ")


def test_the_policy_says_what_blocks(tmp_path: Path) -> None:
    output = write(tmp_path / "a" / "run.jsonl", GOOD + BAD)
    policy = write(tmp_path / "policy.yaml", b"severity: {invalid_json: warn}\n")
    code, lines, _ = index(output, "--home", "home", "--policy", policy)
    assert code == 0
    assert lines[-1].startswith("a/run: warning, 1 row, 1 fault (1 invalid_json); ")
    _, lines, _ = index(output, "--home", "home", "--policy", policy, "--json")
    assert json.loads("\n".join(lines))["verdict"] == "warning"
    policy.write_text("severity: {invalid_json: ignore}\n")
    assert index(output, "--home", "home", "--policy", policy)[1][-1].startswith("a/run: sound, 1 row, 1 fault")
    policy.write_text("severity: {invalid_jso: warn}\n")
    code, lines, error = index(output, "--home", "home", "--policy", policy)
    assert (code, lines) == (1, [])
    assert "policy.yaml:1: is no policy" in error


def test_json(tmp_path: Path) -> None:
    output = write(tmp_path / "a" / "run.jsonl", GOOD + BAD)
    code, lines, _ = index(output, "--home", "home", "--json")
    report = json.loads("\n".join(lines))
    assert code == 1
    assert (report["run"], report["output"], report["verdict"]) == ("a/run", str(output), "blocked")
    assert (report["rows"], report["kinds"]) == ({"output": 1}, {"invalid_json": 1})
    [fault] = report["faults"]
    assert (fault["file"], fault["kind"], fault["line"], fault["offset"]) == ("output", "invalid_json", 2, len(GOOD))
    assert report["scanned"]["bytes"] == {"run.jsonl": len(GOOD + BAD)}
    assert report["tables"] == {"producer_faults": str(tmp_path / "home/store/producer_faults/a/run.parquet")}


def test_dagster_goes_on_from_this_index_and_this_from_dagsters(project: Project) -> None:
    output = project.write_run("math/one/rollouts", GOOD)
    places = ["--runs-root", project.root / "runs", "--home", project.root]
    assert index(output, *places)[0] == 0
    append(output, OTHER)
    result = project.run("math/one/rollouts")
    assert result.success
    [materialized] = [
        event.step_materialization_data.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None and event.asset_key.path[-1] == "record_index"
    ]
    scope = f"only the last {len(OTHER)} bytes of rollouts.jsonl had to be scanned"
    assert materialized.metadata["scanned"].value == scope
    assert materialized.metadata["scanned_bytes"].value == len(OTHER)
    append(output, GOOD)
    assert f"only the last {len(GOOD)} bytes" in index(output, *places)[1][0]
    assert project.store.read_table("record_index", "math/one/rollouts").num_rows == 3


def test_a_run_below_the_runs_root_has_the_key_that_dagster_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = write(tmp_path / "real" / "a" / "b" / "run.jsonl", GOOD)
    (tmp_path / "runs").symlink_to("real")
    (tmp_path / "real" / "alias.jsonl").symlink_to(write(tmp_path / "elsewhere" / "run.jsonl", GOOD))
    monkeypatch.setenv("ROLLOUT_RUNS_ROOT", str(tmp_path / "runs"))
    for path, key in (("runs/a/b/run.jsonl", "a/b/run"), ("real/a", "a/b/run"), ("runs/alias.jsonl", "alias")):
        assert index(path)[1][0].startswith(f"{key}: sound")
    code, _, error = index(write(tmp_path / "other" / "run.jsonl", GOOD))
    assert code == 1
    assert "other/run.jsonl: does not lie below the runs root" in error
    assert "--runs-root" in error
    assert index("other/run.jsonl", "--runs-root", ".")[1][0].startswith("other/run: sound")
    assert output.read_bytes() == GOOD


def test_a_name_that_another_run_has_is_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "one" / "a" / "run.jsonl", GOOD)
    second = write(tmp_path / "two" / "a" / "run.jsonl", GOOD + BAD)
    assert index(second, "--home", "home")[0] == 1  # a blocked run has its name too
    code, _, error = index(first, "--home", "home")
    assert code == 1
    assert f"one/a/run.jsonl: would be run 'a/run', which the store has as {second}" in error
    assert index(first, "--home", "home", "--runs-root", tmp_path)[1][0].startswith("one/a/run: sound")
    assert index(second, "--home", "home")[0] == 1


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing.jsonl", "missing.jsonl: no such file"),
        ("folder", "folder: holds 2 runs (a.jsonl, b.jsonl)"),
        ("empty", "empty: holds no run"),
        ("folder/a_failures.jsonl", "a_failures.jsonl: is a sidecar of failures; name its results file"),
        ("folder/notes.txt", "notes.txt: 'folder/notes.txt' cannot be a run key: a results file ends in .jsonl"),
        ("odd name/a.jsonl", "'odd name/a' cannot be a run key"),
    ],
)
def test_what_names_no_run_is_refused(tmp_path: Path, path: str, says: str) -> None:
    for name in ("folder/a.jsonl", "folder/b.jsonl", "folder/a_failures.jsonl", "odd name/a.jsonl", "folder/notes.txt"):
        write(tmp_path / name, GOOD)
    (tmp_path / "empty").mkdir()
    code, lines, error = index(path)
    assert (code, lines) == (1, [])
    assert says in error
    assert not (tmp_path / "rollout_home").exists()


def test_the_number_of_workers_is_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert worker_count({}) == len(os.sched_getaffinity(0))
    assert worker_count({"ROLLOUT_WORKERS": "3"}) == 3
    write(tmp_path / "a" / "run.jsonl", GOOD)
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("ROLLOUT_WORKERS", wrong)
        code, _, error = index("a")
        assert code == 1
        assert f"ROLLOUT_WORKERS is '{wrong}'; set it to the number of threads or processes" in error
        assert index("a", "--workers", "1")[0] == 0


def test_neither_dagster_nor_pandas_is_imported(tmp_path: Path) -> None:
    write(tmp_path / "a" / "run.jsonl", GOOD)
    code = """if True:
        from rollout_assets.cli import main
        main(["index", "a"], standalone_mode=False)
    """
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow.lib" in imported
    assert not imported & {"dagster", "pandas.core", "pandas._libs", "scipy"}


#: Index in a copy of the store, again and again; the n-th process dies at the n-th moment before or after a write.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from rollout_assets.cli import main
import rollout_assets.index_command, rollout_assets.indexing.incremental, rollout_assets.policy, rollout_assets.store

def dying(write):
    def run(*arguments, **options):
        count()
        result = write(*arguments, **options)
        count()
        return result
    return run

def count():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

moment, status = 0, -signal.SIGKILL
while status == -signal.SIGKILL:
    moment += 1
    shutil.copytree("before", f"home-{moment}", copy_function=os.link)  # inodes are part of the state
    process = os.fork()
    if not process:
        left = moment
        for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "fsync")):
            setattr(owner, name, dying(getattr(owner, name)))
        main(["index", "a", "--home", f"home-{moment}"])
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
sys.exit(status)
"""


@pytest.mark.parametrize(("appended", "exit_code"), [(OTHER, 0), (BAD, 1)], ids=["sound", "blocked"])
def test_a_process_that_is_killed_at_any_write_leaves_what_the_next_one_mends(
    tmp_path: Path, appended: bytes, exit_code: int
) -> None:
    output = write(tmp_path / "a" / "run.jsonl", GOOD * 3 + b'{"task_id": "torn')
    index("a", "--home", "before")
    append(output, b'"}\n' + appended)
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stderr
    [*_, last] = done.stdout.splitlines()
    assert "; only the " in last
    homes = sorted(tmp_path.glob("home-*"))
    assert len(homes) > 15
    assert index("a", "--home", "fresh")[0] == exit_code
    killed = {home: state(home) for home in homes}
    assert len(set(map(str, killed.values()))) > 3
    for home in homes:
        assert index("a", "--home", home)[0] == exit_code
        assert state(home) == state(tmp_path / "fresh"), home
    append(output, GOOD)
    index("a", "--home", "fresh", "--whole")
    for home in homes:
        index("a", "--home", home)
        assert state(home) == state(tmp_path / "fresh"), home


def state(home: Path) -> list[object]:
    """What a store says of the run: its verdict, and the tables that count under this verdict."""
    store = Store(home / "store", home)
    verdict = store.verdict("a/run")
    assert verdict is not None
    names = ["producer_faults", *(["record_index"] if verdict.state == "sound" else [])]
    return [verdict, *(rows(store.table_path(name, "a/run")) for name in names)]
