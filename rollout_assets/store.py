"""The store: where tables, reports and verdicts of each run lie, and the one guard on reading them.

Layout below the store root, `<key>` being the run key:

```
<table>/<key>.parquet     the tables of `tables.py`
index_state/<key>.json    how far the files of a run are indexed (`indexing.state`)
verdicts/<key>.json       whether the run may be used downstream, and for which state of its files
coverage/<key>.json       what the run covers, where that is known
reports/<key>/…           comparison reports as Markdown, text and JSON
```
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from rollout_assets.core.discovery import find_run
from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_json, written_beside
from rollout_assets.tables import SCHEMA_VERSION, SCHEMA_VERSION_KEY

State = Literal["indexing", "sound", "blocked"]
#: Tables that follow from the index of a run.
DOWNSTREAM_TABLES = ("attempt_outcomes", "task_sides", "comparison_report")


#: After this long a spool is one of a process that was killed.
_SPOOL_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Verdict:
    """Whether a run may be used downstream.

    `indexing` is written before a run is read and replaced afterwards: a killed process leaves it, and the guard then
    refuses the run until it is indexed again. `fingerprint` names the state of the files that was read, `output` the
    results file among them.
    """

    state: State
    fingerprint: str
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    output: str = ""


@dataclass(frozen=True)
class Store:
    """The store below `root`, for the runs below `runs_root`; the root is local, or on any file system of fsspec."""

    root: Path | UPath
    runs_root: Path

    def table_path(self, table: str, key: str) -> Path | UPath:
        """Where a table of a run lies."""
        return self.root / table / f"{key}.parquet"

    def output_path(self, key: str) -> Path:
        """Where the results file of a run lies."""
        return self.runs_root / f"{key}.jsonl"

    def coverage_path(self, key: str) -> Path | UPath:
        """Where the coverage of a run lies."""
        return self.root / "coverage" / f"{key}.json"

    def index_state_path(self, key: str) -> Path | UPath:
        """Where the store remembers how far the files of a run are indexed."""
        return self.root / "index_state" / f"{key}.json"

    def report_path(self, key: str, baseline: str, ending: str) -> Path | UPath:
        """Where the report of a run against a baseline lies: no run key has a `~`, so no two share a file."""
        return self.root / "reports" / key / f"vs-{baseline.replace('/', '~')}{ending}"

    def new_spool(self) -> Path:
        """A local place for tables that are still being written: within a local store, so that a rename is enough.

        What processes that were killed left there is removed after a day.
        """
        if not isinstance(self.root, Path):
            return Path(mkdtemp())
        spool = self.root / ".spool"
        for left in spool.glob("*"):
            with suppress(FileNotFoundError):  # another process was faster
                if time.time() - left.stat().st_mtime > _SPOOL_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
        return spool / uuid4().hex

    def write_table(self, path: Path | UPath, table: pa.Table) -> None:
        """Write a Parquet file, whole or not at all."""
        with written_beside(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    def read_table(
        self, table: str, key: str, columns: list[str] | None = None, *, allow_gone: bool = False
    ) -> pa.Table:
        """Read a table of a run that may be used downstream; see `check_usable` for `allow_gone`.

        Raises:
            RunDataError: what `check_usable` raises; `E-NOT-MATERIALIZED` when the table does not exist; `E-SCHEMA`
                when another version of this project wrote it.
        """
        self.check_usable(key, allow_gone=allow_gone)
        path = self.table_path(table, key)
        rebuild = f"materialize {table} of run {key!r} again"
        try:
            content = _read_parquet(path, columns)
        except FileNotFoundError as error:
            raise RunDataError("E-NOT-MATERIALIZED", f"no such table yet; {rebuild}", path=str(path)) from error
        except (OSError, pa.ArrowInvalid) as error:
            raise RunDataError("E-UNREADABLE", f"cannot be read ({error}); {rebuild}", path=str(path)) from error
        version = (content.schema.metadata or {}).get(SCHEMA_VERSION_KEY, b"none").decode()
        if version != str(SCHEMA_VERSION):
            reason = f"has schema version {version}, this release reads {SCHEMA_VERSION}; {rebuild}"
            raise RunDataError("E-SCHEMA", reason, path=str(path))
        return content

    def indexed_rows(self, key: str) -> dict[str, int] | None:
        """Rows by file in the stored index of a run, whatever its verdict; None when there is no readable one."""
        try:
            index = _read_parquet(self.table_path("record_index", key), ["file"])
            counts = index["file"].value_counts().to_pylist()
        except (OSError, pa.ArrowInvalid, KeyError):
            return None
        return {entry["values"]: entry["counts"] for entry in counts}

    def verdict(self, key: str) -> Verdict | None:
        """The stored verdict on a run, or `None` when it was never indexed."""
        path = self._verdict_path(key)
        try:
            value = json.loads(path.read_bytes())
            return Verdict(
                value["state"], value["fingerprint"], value["reason"], value["counts"], value.get("output", "")
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"is no verdict ({error}); materialize record_index of run {key!r} again"
            raise RunDataError("E-VERDICT", reason, path=str(path)) from error

    def write_verdict(self, key: str, verdict: Verdict) -> None:
        """Store the verdict on a run."""
        value = {
            "state": verdict.state,
            "fingerprint": verdict.fingerprint,
            "reason": verdict.reason,
            "counts": dict(verdict.counts),
            "output": verdict.output,
        }
        write_json(self._verdict_path(key), value)

    def block(self, key: str, reason: str, verdict: Verdict | None = None) -> None:
        """Block a run, and remove what was made of an earlier state of it: tables after the index, coverage, reports.

        The next index of the run is made anew, whatever was appended.

        Args:
            key: The run.
            reason: Why it may not be used.
            verdict: Names the state of its files; the stored one does when None.
        """
        verdict = verdict or self.verdict(key)
        if verdict is None:
            return
        self.index_state_path(key).unlink(missing_ok=True)
        for table in DOWNSTREAM_TABLES:
            self.table_path(table, key).unlink(missing_ok=True)
        self.coverage_path(key).unlink(missing_ok=True)
        for report in (self.root / "reports" / key).glob("vs-*.*"):
            if report.is_file():
                report.unlink()
        self.write_verdict(key, replace(verdict, state="blocked", reason=reason))

    def check_usable(self, key: str, *, allow_gone: bool = False) -> None:
        """The one guard in front of everything downstream of `record_index`.

        Dagster's blocking checks stop a run of the pipeline; this stops every later one too. With `allow_gone` a run
        whose files were removed since may still be used as a baseline.

        Raises:
            RunDataError: `E-NOT-MATERIALIZED` when the run was never indexed, `E-BLOCKED` when it is malformed or its
                indexing did not finish, `E-RUN-CHANGED` when its files are no longer those that were indexed,
                and what `find_run` raises.
        """
        again = f"materialize record_index of run {key!r}"
        verdict = self.verdict(key)
        if verdict is None:
            raise RunDataError("E-NOT-MATERIALIZED", f"run {key!r} was never indexed; {again} first")
        if verdict.state == "blocked":
            # The reason says what to do.
            raise RunDataError("E-BLOCKED", f"run {key!r} is blocked: {verdict.reason}")
        if verdict.state == "indexing":
            raise RunDataError("E-BLOCKED", f"indexing of run {key!r} did not finish; {again} again")
        try:
            run = find_run(self.runs_root, key)
        except RunDataError as error:
            if allow_gone and error.code in {"E-RUN-GONE", "E-RUNS-ROOT"}:
                return
            raise
        if run.fingerprint != verdict.fingerprint:
            raise RunDataError(
                "E-RUN-CHANGED", f"run {key!r} has changed since it was indexed; {again} again", path=run.output
            )

    def is_taken_in(self, key: str, fingerprint: str) -> bool:
        """Whether nothing is left to do for this state of a run: it is blocked, or all its tables follow its index."""
        verdict = self.readable_verdict(key)
        if verdict is None or verdict.fingerprint != fingerprint or verdict.state == "indexing":
            return False
        return verdict.state == "blocked" or all(
            self._is_newer(self.table_path(table, key), self._verdict_path(key)) for table in DOWNSTREAM_TABLES
        )

    def is_sound(self, key: str) -> bool:
        """Whether a run passed the strictness checks when it was last indexed."""
        verdict = self.readable_verdict(key)
        return verdict is not None and verdict.state == "sound"

    def readable_verdict(self, key: str) -> Verdict | None:
        """The verdict, or `None` when it cannot be read: taking the run in anew writes another one."""
        try:
            return self.verdict(key)
        except RunDataError:
            return None

    def outcomes_version(self, key: str) -> str:
        """Names the outcomes of a run as stored now."""
        return str(_modified(self.table_path("attempt_outcomes", key)))

    def comparison_is_older_than(self, key: str, baseline: str) -> bool:
        """Whether the outcomes of `baseline` were folded after `key` was last compared."""
        return self._is_newer(self.table_path("attempt_outcomes", baseline), self.table_path("comparison_report", key))

    @staticmethod
    def _is_newer(path: Path | UPath, than: Path | UPath) -> bool:
        return path.exists() and than.exists() and _modified(path) >= _modified(than)

    def _verdict_path(self, key: str) -> Path | UPath:
        return self.root / "verdicts" / f"{key}.json"


def _read_parquet(path: Path | UPath, columns: list[str] | None) -> pa.Table:
    if isinstance(path, Path):
        return pq.read_table(path, columns=columns, partitioning=None)
    return pq.read_table(path.path, columns=columns, partitioning=None, filesystem=path.fs)


def _modified(path: Path | UPath) -> int:
    """When a file was last written, in ns; object stores know it to the second."""
    return path.stat().st_mtime_ns if isinstance(path, Path) else int(path.fs.modified(path.path).timestamp() * 1e9)
