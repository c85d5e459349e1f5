"""Two runs: what changed between them, task by task (the rules of compare.md).

This is the newest generation of the reference's comparison, without its defects: input that it crashes on or misreads
is an error with its place, and what its categories hide is a finding beside them.
"""

from rollout_assets.core.compare.classify import TaskComparison
from rollout_assets.core.compare.compare import CompareResult, compare_facts, compare_rollouts
from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.compare.files import compare_files
from rollout_assets.core.compare.fold import fold, load_facts
from rollout_assets.core.compare.groups import group_by_task
from rollout_assets.core.compare.markdown import render_markdown
from rollout_assets.core.compare.report import render_report
from rollout_assets.core.compare.reread import row_reader
from rollout_assets.core.compare.rows import (
    agent_error,
    current_failures,
    load_rollouts,
    mask_reason,
    measured_failure_kind,
)
from rollout_assets.core.compare.sides import TaskSide, summarize_side
from rollout_assets.core.compare.summary import summary_dict
from rollout_assets.core.compare.task_key import detect_task_key
from rollout_assets.core.compare.verifier import roots_for, verifier_output

__all__ = [
    "CompareInputError",
    "CompareResult",
    "RowFacts",
    "TaskComparison",
    "TaskSide",
    "agent_error",
    "compare_facts",
    "compare_files",
    "compare_rollouts",
    "current_failures",
    "detect_task_key",
    "fold",
    "group_by_task",
    "load_facts",
    "load_rollouts",
    "mask_reason",
    "measured_failure_kind",
    "render_markdown",
    "render_report",
    "roots_for",
    "row_facts",
    "row_reader",
    "summarize_side",
    "summary_dict",
    "verifier_output",
]
