"""The check `task_key_sound`, through a run of the pipeline: what names the tasks, and what it fails to tell apart."""

from __future__ import annotations

from typing import Any

import pytest

from rollout_assets_tests.conftest import Project

INPUT = {"responses_create_params": {"input": "2 + 2"}}
OTHER = {"responses_create_params": {"input": "3 + 3"}}


@pytest.mark.parametrize(
    ("rows", "policy", "says"),
    [
        ([{"task_id": "a", **INPUT}, {"task_id": "b", **OTHER}], "", None),
        ([{"task_id": "a", **INPUT}, {"task_id": "a", **INPUT}], "", None),
        ([{"_ng_task_index": 0, **INPUT}, {"_ng_task_index": 1, **OTHER}], "", "known by `_ng_task_index`"),
        ([INPUT, OTHER], "", "known by the digest of its input"),
        ([{"task_id": "a", **INPUT}, {"task_id": "a", **OTHER}], "", "1 task with several values of `input_digest`"),
        (
            [{"task_name": "a", "task_id": "a1"}, {"task_name": "a", "task_id": "a2"}],
            "",
            "several values of `task_id`. If these are different tasks, name a finer key in the policy, such as "
            "`key: task_id`",
        ),
        ([{"task_name": "a", "task_id": "a1"}, {"task_name": "a", "task_id": "a2"}], "defaults: {key: task_id}", None),
    ],
)
def test_the_key_is_judged(project: Project, rows: list[dict[str, Any]], policy: str, says: str | None) -> None:
    (project.root / "policy.yaml").write_text(policy)
    project.write_run("run", [{"reward": 1.0, **row} for row in rows])
    result = project.run("run")
    assert result.success
    [check] = [e for e in result.get_asset_check_evaluations() if e.check_name == "task_key_sound"]
    assert check.passed is (says is None)
    if says is not None:
        assert says in (check.description or "")
        [used] = [record.data for record in check.metadata["places"].value.records if record.data["used"]]
        assert used["key"] == check.metadata["task_key"].value
