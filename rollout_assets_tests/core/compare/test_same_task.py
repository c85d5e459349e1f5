"""The input digest, and what it proves (compare.md, decision 11)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.compare import compare_files, compare_rollouts, row_facts
from rollout_assets.core.compare.digest import input_digest, inventory_digest
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.records.digest import digest
from rollout_assets_tests.core.compare.helpers import attempt, task, write

USER = {"role": "user", "content": "question"}


def asked(value: Any, **more: Any) -> dict[str, Any]:
    """A row with an input."""
    return {"responses_create_params": {"input": value}, **more}


@pytest.mark.parametrize(
    "value",
    [
        [USER],
        "question",
        [{**USER, "type": "message"}],
        [{**USER, "status": None}],
        [{"content": "question", "role": "user"}],
        [USER, {"role": "assistant", "content": "answer"}],
        [USER, {"type": "function_call", "name": "f"}, {"role": "user", "content": "more"}],
        [USER, "no message"],
    ],
)
def test_saved_forms_of_one_input_have_one_digest(value: Any) -> None:
    assert input_digest(asked(value)) == input_digest(asked([USER]))


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "Question"}],
        [{"role": "system", "content": "question"}],
        [USER, USER],
        [{**USER, "type": "other"}],
        [{"role": "user", "content": ["question"]}],
    ],
)
def test_other_inputs_have_another(value: Any) -> None:
    assert input_digest(asked(value)) != input_digest(asked([USER]))


def test_what_saving_adds_is_dropped_at_any_depth() -> None:
    plain = [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]
    saved = [{"role": "user", "content": [{"type": "input_image", "image_url": "u", "detail": "auto", "file": None}]}]
    assert input_digest(asked(plain)) == input_digest(asked(saved))
    saved[0]["content"][0]["detail"] = "high"
    assert input_digest(asked(plain)) != input_digest(asked(saved))


@pytest.mark.parametrize("more", [{}, {"type": "message"}, {"type": "message", "name": None}])
@pytest.mark.parametrize("content", ["", 'é\u2028\x7f\x00\x1f\b\f\n\r\t"\\/', "\U0001f600", "\ud800"])
def test_plain_messages_take_the_quick_way_to_the_same_digest(content: str, more: dict[str, Any]) -> None:
    try:
        expected = digest([{"role": "user", "content": content}])
    except UnicodeEncodeError:
        expected = None
    assert input_digest(asked([{"role": "user", "content": content, **more}])) == expected


@pytest.mark.parametrize("text", ["ab", "z" * 64, "a" * 66])
def test_a_table_takes_no_digest_of_another_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"hexadecimal|fromhex"):
        FactTable.of([row_facts({})._replace(input_digest=text)])


@pytest.mark.parametrize(
    "row",
    [
        {},
        asked(None),
        asked([]),
        asked(""),
        asked(7),
        asked({"role": "user"}),
        asked([{"role": "assistant", "content": "x"}]),
        asked([{"role": ["user"], "content": "x"}]),
        asked([{**USER, "temperature": math.nan}]),
        {"responses_create_params": [1]},
    ],
)
def test_rows_without_an_input_have_no_digest(row: dict[str, Any]) -> None:
    assert input_digest(row) is None


def test_the_digest_is_sha_256_of_canonical_json() -> None:
    from hashlib import sha256

    text = '[{"content":"é","role":"user"}]'
    assert input_digest(asked([{"role": "user", "content": "é", "type": "message"}])) == (
        sha256(text.encode()).hexdigest()
    )


def test_an_inventory_row_counts_whole_or_by_its_task_input() -> None:
    turns = [USER, {"role": "assistant", "content": "given"}]
    assert inventory_digest(asked(turns)) != inventory_digest(asked([USER]))
    assert inventory_digest({"task_input": {"a": 1}}) == inventory_digest({"task_input": {"a": 1, "b": None}})
    assert inventory_digest({}) is None


def verdicts(old: list[dict[str, Any]], new: list[dict[str, Any]], key: str | None = None) -> dict[str, str | None]:
    return {entry.task: entry.inputs for entry in compare_rollouts(old, new, key).tasks}


def test_verdicts_on_joined_tasks() -> None:
    old = [
        asked("1", **task("equal", 1)),
        asked("2", **task("different", 1)),
        asked("3", **task("twin", 1)),
        asked("3", **task("other twin", 1)),
        task("unknown", 1),
        task("missing", 1),
    ]
    new = [
        asked("1", **task("equal", 1)),
        asked("2.", **task("different", 1)),
        asked("3", **task("twin", 1)),
        asked("3", **task("other twin", 1)),
        asked("4", **task("unknown", 1)),
    ]
    assert verdicts(old, new) == {
        "equal": "equal",
        "different": "different",
        "twin": "not_distinguishable",
        "other twin": "not_distinguishable",
        "unknown": "unknown",
        "missing": None,
    }
    result = compare_rollouts(old, new)
    assert result.input_counts == {"equal": 1, "different": 1, "not_distinguishable": 2, "unknown": 1}
    assert [f.task for f in result.findings if f.kind == "inputs_differ"] == ["different"]
    # The category stays what the reference says.
    assert {entry.task: entry.category for entry in result.tasks}["different"] == "identical"


def test_repeats_of_a_task_share_its_input() -> None:
    rows = [asked("1", **task("a", reward, **attempt(0, rollout))) for rollout, reward in enumerate((1, 0))]
    assert verdicts(rows, rows) == {"a": "equal"}


def test_one_digest_under_several_task_indices_proves_nothing() -> None:
    rows = [asked("1", reward=1, **attempt(index, 0)) for index in (0, 1)]
    assert list(verdicts(rows, rows, "input_digest").values()) == ["not_distinguishable"]
    other = [asked("1", reward=1, **attempt(7, 0))]
    assert list(verdicts(rows[:1], other, "input_digest").values()) == ["not_distinguishable"]
    assert list(verdicts(rows[:1], [asked("1", reward=1)], "input_digest").values()) == ["equal"]


def files(tmp_path: Path, name: str, turn: str, inventory: list[Any] | None) -> Path:
    grown = [USER, {"role": "user", "content": turn}]
    path = write(tmp_path, name, [asked(grown, **task("a", 1, **attempt(0, 0)))])
    if inventory is not None:
        write(tmp_path, f"{name}_materialized_inputs", inventory)
    return path


def test_inventories_on_both_sides_replace_the_inputs_of_rows(tmp_path: Path) -> None:
    inventory = [b"\n", asked([USER], **attempt(0, 0))]
    result = compare_files(files(tmp_path, "old", "hit", inventory), files(tmp_path, "new", "stand", inventory))
    assert result.input_counts["equal"] == 1
    assert "inputs are those of the inventories" in result.notes


def test_an_inventory_on_one_side_is_not_used(tmp_path: Path) -> None:
    old = files(tmp_path, "old", "hit", [asked([USER], **attempt(0, 0))])
    result = compare_files(old, files(tmp_path, "new", "stand", None))
    assert (result.input_counts["different"], result.notes) == (1, [])


def test_a_row_that_the_inventory_lacks_has_no_input(tmp_path: Path) -> None:
    old = files(tmp_path, "old", "hit", [asked([USER], **attempt(0, 0))])
    result = compare_files(old, files(tmp_path, "new", "hit", [asked([USER], **attempt(5, 0))]))
    assert result.input_counts["unknown"] == 1


def test_an_unreadable_inventory_is_noted_and_not_used(tmp_path: Path) -> None:
    old = files(tmp_path, "old", "hit", [asked([USER], **attempt(0, 0))])
    result = compare_files(old, files(tmp_path, "new", "hit", ["{oops"]))
    assert result.input_counts["equal"] == 1
    assert any("new_materialized_inputs.jsonl:1" in note for note in result.notes)
