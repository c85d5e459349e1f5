"""Keys, tasksets, ambiguous ids, prefixes (compare.md §1.5 to §1.7, decisions 5 to 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.compare import (
    CompareInputError,
    compare_facts,
    compare_files,
    compare_rollouts,
    detect_task_key,
    group_by_task,
    load_rollouts,
    row_facts,
)
from rollout_assets.core.compare.keys import KEY_CANDIDATES, identity_of
from rollout_assets_tests.core.compare.helpers import attempt, compared, failure, native, outcomes, task, write

SAME, MISSING = ("identical", None), ("missing", None)


def nested(key: str, value: Any) -> dict[str, Any]:
    """A row with a value under a dotted key."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


@pytest.mark.parametrize("key", KEY_CANDIDATES)
def test_every_candidate_is_detected_alone(key: str) -> None:
    assert detect_task_key([nested(key, "a"), nested(key, 0)]) == key


def test_the_first_candidate_on_every_voting_row_wins() -> None:
    rows = [{"task_name": "n", "task_id": 1}, {"task_id": 2}]
    assert detect_task_key(rows) == "task_id"


def test_null_does_not_vote_for_a_candidate() -> None:
    assert detect_task_key([{"task_name": None, "task_id": ""}]) == "task_id"


def test_sidecar_rows_that_name_no_task_do_not_vote(tmp_path: Path) -> None:
    rows = load_rollouts(write(tmp_path, "a", [task("a", 1)], [failure("x"), failure("x", task_id="b")]))
    assert detect_task_key(rows) == "task_id"
    groups, anonymous = group_by_task(rows, "task_id")
    assert {label: len(found) for label, found in groups.items()} == {"a": 1, "b": 1}
    assert [row["_ng_failure_class"] for row in anonymous] == ["x"]


@pytest.mark.parametrize("rows", [[], [{"reward": 1}], [{"_ng_task_index": 0}]])
def test_no_candidate_is_an_input_error(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(CompareInputError):
        detect_task_key(rows)


@pytest.mark.parametrize(
    ("value", "identity"),
    [
        ("a", ("a", None)),
        ("", ("", None)),
        (1, ("1", None)),
        (1.0, ("1.0", None)),
        (True, ("True", None)),
        ([1, "a"], ("[1, 'a']", None)),
        ({"taskset": "A", "task_id": 0, "id": 7}, ("0", "A")),
        ({"taskset": "A", "task_id": "", "id": 7}, ("", "A")),
        ({"taskset": "A", "task_id": None, "id": 7}, ("7", "A")),
        ({"taskset": None, "task_id": "a"}, ("a", None)),
        ({"taskset": "", "task_id": "a"}, ("a", None)),
        ({"taskset": 5, "task_id": "a"}, ("a", "5")),
        ({"b": 1, "a": [2]}, ('{"a": [2], "b": 1}', None)),
        (None, (None, None)),
    ],
)
def test_the_identity_that_a_value_names(value: Any, identity: tuple[str | None, str | None]) -> None:
    assert identity_of({"task_id": value}, "task_id") == identity


def test_an_integer_id_is_exact_at_any_length() -> None:
    assert identity_of({"task_id": -(10**5000)}, "task_id") == ("-1" + 5000 * "0", None)


def test_huge_integers_inside_an_object_without_id_stay_distinct() -> None:
    labels = {identity_of({"task_id": {"n": [10**5000 + more]}}, "task_id")[0] for more in range(3)}
    assert len(labels) == 3


def test_dotted_keys_descend_into_objects_only() -> None:
    assert identity_of({"verifier_metadata": [{"id": 1}]}, "verifier_metadata.id") == (None, None)
    assert identity_of({"a": {"b": {"c": 3}}}, "a.b.c") == ("3", None)


@pytest.mark.parametrize(("index", "label"), [(1, "1"), (1.0, "1"), (0.5, "0.5"), (True, None), ("1", None)])
def test_a_task_index_is_a_number(index: Any, label: str | None) -> None:
    assert identity_of({"_ng_task_index": index}, "_ng_task_index") == (label, None)


def test_sides_may_have_different_keys() -> None:
    result = compare_rollouts([{"task_name": "a", "reward": 1}], [task("a", 1)])
    assert (result.old_key, result.new_key, outcomes(result)) == ("task_name", "task_id", {"a": SAME})


def test_an_explicit_key_may_be_any_dotted_field() -> None:
    rows = [{"meta": {"name": "a"}, "reward": 1}, {"meta": {"name": "b"}, "reward": 1}]
    result = compare_rollouts(rows, rows, "meta.name")
    assert (result.key_source, outcomes(result)) == ("asked for", {"a": SAME, "b": SAME})


def test_an_explicit_key_of_files(tmp_path: Path) -> None:
    path = write(tmp_path, "a", [{"meta": {"name": "a"}, "reward": 1}])
    assert outcomes(compared(path, path, "meta.name")) == {"a": SAME}


def test_facts_read_without_the_key_are_refused() -> None:
    facts = [row_facts({"meta": "a", "reward": 1})]
    with pytest.raises(ValueError, match="meta"):
        compare_facts(facts, facts, "meta")


def test_a_row_without_the_explicit_key_is_refused_with_its_first_keys() -> None:
    row = {f"k{number:02}": 0 for number in range(20)}
    with pytest.raises(CompareInputError, match=r"row 2: no value under the key `name`.*k00, k01.*k11;"):
        compare_rollouts([{"name": "a", "reward": 1}, row], [], "name")


@pytest.mark.parametrize("key", ["name", "task_id"])
def test_a_row_of_a_file_without_the_explicit_key_is_refused_with_its_first_keys(key: str, tmp_path: Path) -> None:
    old = write(tmp_path, "old", [{key: "a", "reward": 1}, {"b": [1], "reward": 1, "a": {}}])
    with pytest.raises(CompareInputError, match=r"old\.jsonl:2: no value .* first keys are a, b, reward;"):
        compare_files(old, old, key)


def test_with_an_explicit_key_a_failure_without_any_key_is_anonymous() -> None:
    sidecar = {"_rollout_assets_from_sidecar": True, "mask_sample": True}
    result = compare_rollouts([{"name": "a", "reward": 1}, sidecar], [{"name": "a", "reward": 1}], "name")
    assert outcomes(result) == {"a": SAME, "unknown#1": ("masked", None)}


def test_a_failure_that_names_its_task_by_another_candidate_is_refused() -> None:
    sidecar = {"_rollout_assets_from_sidecar": True, "mask_sample": True, "task_name": "a"}
    with pytest.raises(CompareInputError, match="names its task under `task_name`, not under the key `task_id`"):
        compare_rollouts([task("a", 1), sidecar], [], "task_id")


def test_no_row_that_names_a_task_is_an_input_error(tmp_path: Path) -> None:
    old = write(tmp_path, "old", [], [failure("x")])
    new = write(tmp_path, "new", [])
    for fallback in ("off", "auto"):
        with pytest.raises(CompareInputError, match="names a task"):
            compared(old, new, fallback=fallback)
    with pytest.raises(CompareInputError, match="names a task"):
        compared(old, new, "task_id")


def test_a_single_taskset_does_not_matter_but_different_ones_are_noted() -> None:
    result = compare_rollouts([native("A", "x", 1)], [native("B", "x", 1)])
    assert outcomes(result) == {"x": SAME}
    assert "joined although the tasksets differ: x (old A, new B)" in result.notes


def test_an_id_in_several_tasksets_is_matched_by_the_taskset_that_the_plain_side_names() -> None:
    wide = [native("A", "x", 1), native("B", "x", 0)]
    result = compare_rollouts([native("B", "x", 0)], wide)
    assert outcomes(result) == {"x": SAME, "A/x": MISSING}


def test_an_id_in_several_tasksets_without_such_a_name_is_ambiguous() -> None:
    wide = [native("A", "x", 1), native("B", "x", 0), native("A", "y", 1)]
    result = compare_rollouts(wide, [task("x", 1), task("y", 1)])
    assert outcomes(result) == {"A/x": MISSING, "B/x": MISSING, "x": MISSING, "y": SAME}
    assert any("x (A/x, B/x)" in note for note in result.notes)


def test_an_id_in_several_tasksets_that_the_plain_side_lacks_is_not_ambiguous() -> None:
    wide = [native("A", "x", 1), native("B", "x", 0), native("A", "y", 1)]
    result = compare_rollouts(wide, [task("y", 1)])
    assert outcomes(result) == {"A/x": MISSING, "B/x": MISSING, "y": SAME}
    assert not any("x (" in note for note in result.notes)


def test_a_plain_id_meets_the_row_of_a_wide_side_that_names_no_taskset() -> None:
    wide = [native("A", "x", 0), native("B", "y", 0), native(None, "x", 1)]
    result = compare_rollouts(wide, [task("x", 1)])
    assert outcomes(result) == {"A/x": MISSING, "x": SAME, "y": MISSING}


def test_two_tasks_of_one_label_are_refused() -> None:
    wide = [native("A", "b/c", 1), native("A/b", "c", 1)]
    with pytest.raises(CompareInputError, match=r"both be called 'A/b/c': id .* of taskset 'A.* and id"):
        compare_rollouts(wide, wide)
    wide = [native("A", "x", 1), native("B", "y", 1), native(None, "A/x", 1)]
    with pytest.raises(CompareInputError, match="both be called 'A/x'"):
        compare_rollouts(wide, wide)


def test_a_prefix_is_stripped_from_the_ids_of_a_wide_side() -> None:
    wide = [native("A", "tb/x", 1), native("B", "tb/y", 1)]
    result = compare_rollouts(wide, [task("x", 1), task("y", 1)])
    assert (outcomes(result), result.old_prefix_stripped) == ({"x": SAME, "y": SAME}, "tb/")


def test_one_shared_label_disables_stripping() -> None:
    result = compare_rollouts([task("tb/a", 1), task("tb/b", 1)], [task("a", 1), task("tb/b", 1)])
    assert outcomes(result) == {"a": MISSING, "tb/a": MISSING, "tb/b": SAME}


def test_labels_are_sorted_by_code_point() -> None:
    rows = [task(name, 1) for name in ("b", "é", "a", "B", "10", "9")]
    assert [entry.task for entry in compare_rollouts(rows, rows).tasks] == ["10", "9", "B", "a", "b", "é"]


def fallback_result(old: list[dict[str, Any]], new: list[dict[str, Any]], **options: Any) -> Any:
    facts = [[row_facts(row, line=line) for line, row in enumerate(side, 1)] for side in (old, new)]
    return compare_facts(*facts, **{"fallback": "auto", **options})


def test_without_asking_there_is_no_fallback() -> None:
    rows = [{"reward": 1, **attempt(0, 0)}]
    with pytest.raises(CompareInputError, match="--key _ng_task_index"):
        compare_rollouts(rows, rows)
    assert outcomes(compare_rollouts(rows, rows, "_ng_task_index")) == {"0": SAME}


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ({"_ng_task_index": 0, "uuid": "u"}, {"_ng_task_index": 0.0, "uuid": "u"}, "_ng_task_index"),
        ({"_ng_task_index": 0, "uuid": "u", "id": 7}, {"uuid": "u", "id": 7}, "uuid"),
        ({"instance_id": "u", "problem_id": 1}, {"instance_id": "u", "problem_id": 1}, "instance_id"),
        ({"uuid": "u", "problem_id": 1}, {"uuid": "u", "problem_id": 1}, "problem_id"),
        ({"id": 1}, {"id": 1}, "id"),
    ],
)
def test_fallback_keys_in_their_order_the_same_on_both_sides(old: dict, new: dict, key: str) -> None:
    result = fallback_result([old | {"reward": 1}], [new | {"reward": 1}])
    assert (result.old_key, result.new_key, result.key_source) == (key, key, "fallback")
    assert any(f"`{key}`: a fallback" in note for note in result.notes)
    assert list(outcomes(result).values()) == [SAME]


def test_the_input_digest_is_the_last_fallback() -> None:
    old = [{"reward": 1, "_ng_task_index": 0, "responses_create_params": {"input": "question"}}]
    new = [{"reward": 0, "responses_create_params": {"input": [{"role": "user", "content": "question"}]}}]
    result = fallback_result(old, new)
    assert (result.old_key, list(outcomes(result).values())) == ("input_digest", [("flipped", "old")])
    assert result.input_counts["equal"] == 1


def test_a_side_that_names_its_tasks_follows_one_that_does_not() -> None:
    old = [task("a", 1, **attempt(0, 0))]
    assert fallback_result(old, [{"reward": 1, **attempt(0, 0)}]).old_key == "_ng_task_index"


def test_a_candidate_on_some_rows_allows_no_fallback() -> None:
    rows = [task("a", 1, **attempt(0, 0)), {"reward": 1, **attempt(1, 0)}]
    with pytest.raises(CompareInputError, match=r"no task key is on every row.*--key _ng_task_index"):
        fallback_result(rows, rows)


def test_a_candidate_on_every_row_is_never_replaced_by_a_fallback() -> None:
    rows = [task("a", 1, **attempt(0, 0))]
    assert fallback_result(rows, rows).key_source == "detected"


def test_failures_join_by_the_fallback_key_too(tmp_path: Path) -> None:
    old = write(tmp_path, "old", [{"reward": 1, **attempt(0, 0)}], [failure("x", **attempt(1, 0)), failure("y")])
    new = write(tmp_path, "new", [{"reward": 1, **attempt(0, 0)}, {"reward": 1, **attempt(1, 0)}])
    assert outcomes(compared(old, new, fallback="auto")) == {
        "0": SAME,
        "1": ("masked", None),
        "unknown#1": ("masked", None),
    }


def test_the_key_advisor_lists_every_key_with_its_distinct_values() -> None:
    def row(name: str, number: int) -> dict[str, Any]:
        return {"task_name": name, "task_id": number, "reward": 1, "uuid": f"u{number}", **attempt(number, 0)}

    old = [row("f", 0), row("f", 1), row("g", 2)]
    new = [row("f", 0), row("g", 2)]
    new[0].pop("uuid")
    advice = {entry.key: entry for entry in compare_rollouts(old, new).key_advice}
    assert [(a.old_values, a.new_values, a.on_every_row, a.chosen, a.split_tasks) for a in advice.values()] == [
        (2, 2, True, True, 0),
        (3, 2, True, False, 1),
        (3, 2, True, False, 1),
        (3, 1, False, False, 1),
    ]
    assert list(advice) == ["task_name", "task_id", "_ng_task_index", "uuid"]


def test_a_unique_id_of_each_rollout_does_not_make_the_key_coarse() -> None:
    rows = [task("a", 1, uuid="1"), task("a", 1, uuid="2")]
    assert not any(f.kind == "coarse_key" for f in compare_rollouts(rows, rows).findings)
