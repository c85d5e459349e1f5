"""Laws that hold for any two lists of rows."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.compare import (
    CompareInputError,
    CompareResult,
    TaskSide,
    compare_facts,
    compare_rollouts,
    fold,
    render_markdown,
    render_report,
    row_facts,
    summary_dict,
)
from rollout_assets.core.compare.classify import CATEGORIES
from rollout_assets.core.compare.rows import current_failures, failure_as_row, is_evidence
from rollout_assets.core.compare.sides import exact_mean
from rollout_assets.core.compare.table import FactTable

deterministic = settings(derandomize=True, deadline=None, max_examples=150)

# Common values are repeated, so that tasks meet, count, and flip.
REWARDS = st.one_of(
    st.sampled_from([0, 1, 1.0, 0.5, -1, 0, 1, 1e308]),
    st.sampled_from([0, 1]),
    st.sampled_from([None, math.nan, math.inf, 0.25]),
    st.floats(),
)
IDS = st.one_of(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["a", "b", "tb/a", "tb/b", "o/r/a", "unknown#1", "", 0, 1]),
    st.sampled_from(["a"]),
    st.text(max_size=2),
)
TASK_IDS = st.one_of(
    IDS,
    st.fixed_dictionaries({"task_id": IDS, "taskset": st.sampled_from(["A", "A", "B", "", None, "tb"])}),
    st.fixed_dictionaries({"id": IDS}),
)
INPUTS = st.sampled_from(["one", "two", [{"role": "user", "content": "one"}], [], None])
INDICES = st.one_of(st.integers(0, 3), st.sampled_from([None, True, 1.0, "0", math.nan]))
EXTRAS = {
    "mask_sample": st.sampled_from([False, False, False, None, 0, False, True, 1, "false"]),
    "failure_kind": st.sampled_from(["timeout", "", None]),
    "error": st.sampled_from(["boom", "", None, {"a": [1]}]),
    "_ng_task_index": INDICES,
    "_ng_rollout_index": INDICES,
    "response": st.sampled_from([None, [1], {"metadata": {"error_type": "x"}, "usage": {"input_tokens": 3}}]),
    "responses_create_params": st.fixed_dictionaries({"input": INPUTS}),
}
ROWS = st.lists(st.fixed_dictionaries({"_ng_task_id": TASK_IDS, "reward": REWARDS}, optional=EXTRAS), max_size=8)
FAILURES = st.lists(
    st.fixed_dictionaries(
        {"_ng_failure_class": st.sampled_from(["timeout", "judge"])},
        optional={
            "_ng_task_id": TASK_IDS,
            "_ng_task_index": INDICES,
            "_ng_rollout_index": INDICES,
            "_ng_omitted_rollout": st.booleans(),
            "reward": REWARDS,
        },
    ),
    max_size=4,
)


def fold_rows(rows: list[dict[str, Any]], failures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    standing = current_failures([row for row in failures if not is_evidence(row)], rows)
    return rows + [failure_as_row(failure) for failure in standing]


SIDES = st.builds(fold_rows, ROWS, FAILURES)


def compare_or_none(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> CompareResult | None:
    """The comparison, or None for rows that it refuses: without any task, or with two tasks of one label."""
    try:
        return compare_rollouts(old, new)
    except CompareInputError:
        return None


@deterministic
@given(SIDES, SIDES)
def test_the_categories_partition_the_tasks_and_the_counts_add_up(old: list, new: list) -> None:
    result = compare_or_none(old, new)
    if result is None:
        return
    tasks = list(result.tasks)
    counts = result.counts
    assert counts["tasks"] == len(tasks) == sum(counts[category] for category in CATEGORIES)
    assert len({entry.task for entry in tasks}) == len(tasks)
    for category in CATEGORIES:
        assert counts[category] == sum(entry.category == category for entry in tasks)
    assert counts["flipped"] == counts["flipped_old_win"] + counts["flipped_new_win"]
    assert counts["missing"] == counts["missing_old_only"] + counts["missing_new_only"]
    both = sum(
        entry.category == "masked" and all(side is not None and side.masked for side in (entry.old, entry.new))
        for entry in tasks
    )
    assert counts["masked_old"] + counts["masked_new"] == counts["masked"] + both
    sides = [side for entry in tasks for side in (entry.old, entry.new) if side is not None]
    assert sum(side.rows for side in sides) == len(old) + len(new)
    assert sum(side.masked_rows for side in sides) == result.old_masked_rows + result.new_masked_rows


SWAPPED = {"old": "new", "new": "old", None: None}


@deterministic
@given(SIDES, SIDES)
def test_swapping_the_sides_swaps_winners_and_nothing_else(old: list, new: list) -> None:
    there, back = compare_or_none(old, new), compare_or_none(new, old)
    assert (there is None) == (back is None)
    if there is None or back is None:
        return

    def shape(result: CompareResult, swap: bool) -> list[Any]:
        rows = []
        for entry in result.tasks:
            # Numbers of nameless failures go to the old side first.
            name = "?" if entry.task.startswith("unknown#") else entry.task
            sides = (entry.new, entry.old) if swap else (entry.old, entry.new)
            winner = SWAPPED[entry.winner] if swap else entry.winner
            rows.append(repr((name, entry.category, winner, entry.inputs, *sides)))
        return sorted(rows)

    assert shape(there, swap=False) == shape(back, swap=True)
    assert (there.old_key, there.new_key) == (back.new_key, back.old_key)
    assert (there.old_prefix_stripped, there.new_prefix_stripped) == (
        back.new_prefix_stripped,
        back.old_prefix_stripped,
    )


@deterministic
@given(SIDES, SIDES, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_category_count_or_mean(old: list, new: list, random: Any) -> None:
    result = compare_or_none(old, new)
    shuffled = [random.sample(side, len(side)) for side in (old, new)]
    other = compare_or_none(*shuffled)
    assert (result is None) == (other is None)
    if result is None or other is None:
        return

    def side_shape(side: TaskSide | None) -> tuple[Any, ...] | None:
        return None if side is None else (side.reward, side.rows, side.masked_rows)

    def shape(compared: CompareResult) -> list[Any]:
        return [
            (entry.task, entry.category, entry.winner, entry.inputs, side_shape(entry.old), side_shape(entry.new))
            for entry in compared.tasks
            if not entry.task.startswith("unknown#")
        ]

    assert shape(result) == shape(other)
    assert result.counts == other.counts


@deterministic
@given(SIDES)
def test_a_side_compared_with_itself_never_flips(side: list) -> None:
    result = compare_or_none(side, side)
    if result is not None:
        assert result.counts["flipped"] == result.counts["flipped_agent_error"] == result.counts["missing"] == 0
        assert result.input_counts["different"] == 0


@deterministic
@given(SIDES, SIDES)
def test_any_result_can_be_reported(old: list, new: list) -> None:
    result = compare_or_none(old, new)
    if result is not None:
        json.dumps(summary_dict(result), allow_nan=False)
        assert f"## Flips ({result.counts['flipped']})" in render_report(result)
        render_markdown(result).encode("utf-8")


@deterministic
@given(ROWS, FAILURES)
def test_folding_facts_gives_the_facts_of_folded_rows(rows: list, failures: list) -> None:
    facts = [row_facts(row, line=line) for line, row in enumerate(rows, 1)]
    facts += [row_facts(row, file="failures", line=line) for line, row in enumerate(failures, 1)]
    folded = [row._replace(line=0) for row in fold(facts)]
    assert repr(folded) == repr([row_facts(row, line=0) for row in fold_rows(rows, failures)])


@deterministic
@given(ROWS)
def test_a_table_gives_back_the_facts_it_was_given(rows: list) -> None:
    facts = [row_facts(row, line=line, offset=7 * line, length=7) for line, row in enumerate(rows, 1)]
    assert repr(list(FactTable.of(facts))) == repr(facts)


@deterministic
@given(ROWS, ROWS)
def test_facts_in_a_list_and_in_a_table_compare_alike(old: list, new: list) -> None:
    facts = [[row_facts(row, line=line) for line, row in enumerate(side, 1)] for side in (old, new)]
    try:
        result = compare_facts(*facts)
    except CompareInputError:
        with pytest.raises(CompareInputError):
            compare_rollouts(old, new)
        return
    assert summary_dict(result) == {**summary_dict(compare_rollouts(old, new)), "tasks": summary_dict(result)["tasks"]}


@deterministic
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_the_mean_is_the_exact_one_correctly_rounded(values: list[float]) -> None:
    assert exact_mean(values) == float(sum(map(Fraction, values)) / len(values))
