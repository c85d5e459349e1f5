"""The tasks of the demo are what they say: solutions pass their checks, flawed ones fail as told."""

from __future__ import annotations

import pytest

from rollout_assets.demo.tasks import CODE_TASKS, MATH_TASKS, TASKS, Check, CodeTask


def _run(code: str, check: Check) -> object:
    names: dict[str, object] = {}
    exec(code, names)
    return eval(check.call, names)


@pytest.mark.parametrize("task", CODE_TASKS, ids=lambda task: task.task_id)
def test_code_tasks_grade_as_their_code_behaves(task: CodeTask) -> None:
    for check in task.checks:
        expected = eval(check.expected)
        assert _run(task.solution, check) == expected
        got = _run(task.flawed, check)
        assert got == (expected if check.got is None else eval(check.got))
        assert (got == expected) is (check.got is None)
    assert any(check.got is not None for check in task.checks)


def test_task_ids_are_unique_and_mistakes_differ_from_answers() -> None:
    assert len({task.task_id for task in TASKS}) == len({task.prompt for task in TASKS}) == len(TASKS)
    assert all(task.answer != task.mistake for task in MATH_TASKS)
