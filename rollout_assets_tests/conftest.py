"""A project of its own for each test: runs, store and a real Dagster instance in a temporary folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rollout_assets.definitions import build_defs
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.store import Store

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Project:
    """Definitions over a folder of runs, and an instance that remembers what happened to them."""

    root: Path
    instance: dg.DagsterInstance

    @property
    def workspace(self) -> RolloutWorkspace:
        return RolloutWorkspace(
            runs_root=str(self.root / "runs"),
            store_root=str(self.root / "store"),
            policy_file=str(self.root / "policy.yaml"),
        )

    @property
    def store(self) -> Store:
        return self.workspace.store

    def write_run(
        self, key: str, rows: list[dict[str, Any]] | bytes, failures: list[dict[str, Any]] | None = None
    ) -> Path:
        """Write a results file, from rows or raw bytes, and a sidecar if there are failures."""
        output = self.root / "runs" / f"{key}.jsonl"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(rows if isinstance(rows, bytes) else as_jsonl(rows))
        if failures is not None:
            output.with_name(f"{output.stem}_failures.jsonl").write_bytes(as_jsonl(failures))
        return output

    def run(self, key: str, job: str = "ingest_run", config: dict[str, Any] | None = None) -> dg.ExecuteInProcessResult:
        """Run a job for one run."""
        self.instance.add_dynamic_partitions("rollout_runs", [key])
        return (
            build_defs(self.workspace)
            .resolve_job_def(job)
            .execute_in_process(
                instance=self.instance, partition_key=key, raise_on_error=False, run_config=QUIET | (config or {})
            )
        )

    def materialized(self, asset: str) -> set[str]:
        """The runs for which an asset is materialized."""
        return set(self.instance.get_materialized_partitions(dg.AssetKey(asset)))


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "runs").mkdir()
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(tmp_path, instance)
