"""The fourteen defects of the reference (compare.md §1.17): each mended, or answered by a finding beside the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollout_assets.core.compare import (
    CompareInputError,
    compare_rollouts,
    load_rollouts,
    render_report,
    summarize_side,
    summary_dict,
)
from rollout_assets_tests.core.compare.helpers import attempt, compared, failure, outcomes, task, write


def kinds(result) -> set[str]:
    return {finding.kind for finding in result.findings}


def test_defect_01_integer_reward_too_big_for_a_float_names_its_place(tmp_path: Path) -> None:
    old = write(tmp_path, "old", [task("z", 1), '{"task_id": "a", "reward": 1' + 400 * "0" + "}"])
    with pytest.raises(CompareInputError, match=r"old\.jsonl:2: the reward of task 'a'") as caught:
        load_rollouts(old)
    assert (caught.value.code, caught.value.line, caught.value.kind) == ("E-REWARD", 2, "reward_not_a_number")


def test_defect_02_mean_of_huge_rewards_does_not_overflow() -> None:
    side = summarize_side([task("a", 1e308), task("a", 1e308), task("a", -1e308), task("a", 1.7e308)])
    assert side.reward == 6.75e307
    result = compare_rollouts([task("a", 1e308), task("a", 1e308)], [task("a", -1e308), task("a", -1e308)])
    assert outcomes(result) == {"a": ("flipped", "old")}
    json.dumps(summary_dict(result), allow_nan=False)


@pytest.mark.parametrize("response", [[1], "text", 7, True, {"metadata": [1]}, {"metadata": "x"}])
def test_defect_03_response_of_another_shape_says_nothing(response: object) -> None:
    result = compare_rollouts([task("a", 1, response=response)], [task("a", 0, response=response)])
    assert outcomes(result) == {"a": ("flipped", "old")}


def test_defect_04_deep_nesting_is_an_input_error(tmp_path: Path) -> None:
    deep = '{"task_id": "a", "reward": 1, "x": ' + 1200 * "[" + 1200 * "]" + "}"
    with pytest.raises(CompareInputError, match=r"old\.jsonl:1:\d+: too_deep"):
        load_rollouts(write(tmp_path, "old", [deep]))


def test_defect_04_nesting_up_to_the_limit_is_no_error(tmp_path: Path) -> None:
    nested = 505 * '{"a":' + "1" + 505 * "}"
    row = f'{{"task_id": "a", "reward": 1, "response": {nested}, "_ng_task_id": {nested}, '
    row += f'"responses_create_params": {{"input": [{{"role": "user", "content": {nested}}}]}}}}'
    path = write(tmp_path, "old", [row])
    assert list(outcomes(compared(path, path)).values()) == [("identical", None)]


def test_defect_05_lone_surrogate_is_an_input_error_and_a_report_survives_one(tmp_path: Path) -> None:
    with pytest.raises(CompareInputError, match=r"old\.jsonl:1:\d+: lone_surrogate"):
        load_rollouts(write(tmp_path, "old", ['{"task_id": "\\ud800", "reward": 1}']))
    # Rows that were never in a file may still hold one.
    report = render_report(compare_rollouts([task("\ud800", 1)], [task("\ud800", 0)]))
    assert "### \\ud800: old=1.0 new=0.0 -> old wins" in report.encode("utf-8").decode()


def test_defect_06_ids_that_differ_in_invalid_bytes_are_not_merged(tmp_path: Path) -> None:
    lines = [b'{"task_id": "\xff", "reward": 1}\n', b'{"task_id": "\xfe", "reward": 0}\n']
    with pytest.raises(CompareInputError, match=r"old\.jsonl:1:\d+: not_utf8.*UTF-8"):
        load_rollouts(write(tmp_path, "old", lines))


def test_defect_07_mask_sample_false_as_text_masks_but_is_found() -> None:
    result = compare_rollouts([task("a", 1, mask_sample="false")], [task("a", 1)])
    assert outcomes(result) == {"a": ("masked", None)}
    finding = next(f for f in result.findings if f.kind == "odd_mask_value")
    assert (finding.side, finding.task, finding.lines) == ("old", "a", (1,))


def test_defect_08_coarse_key_is_found_and_the_finer_one_named() -> None:
    def rows(first: int, second: int) -> list[dict[str, object]]:
        return [
            {"task_name": "family", "task_id": "1", "reward": first},
            {"task_name": "family", "task_id": "2", "reward": second},
        ]

    result = compare_rollouts(rows(1, 0), rows(0, 1))
    assert outcomes(result) == {"family": ("identical", None)}
    finding = next(f for f in result.findings if f.kind == "coarse_key")
    assert "try --key task_id" in finding.detail
    assert kinds(compare_rollouts(rows(1, 0), rows(0, 1), "task_id")) == set()


def test_defect_08_coarse_key_is_found_by_the_inputs_alone() -> None:
    rows = [
        {"task_name": "family", "reward": 1, "responses_create_params": {"input": f"prompt {number}"}}
        for number in range(3)
    ]
    result = compare_rollouts(rows, rows)
    assert [f.detail.split(";")[-1].strip() for f in result.findings] == ["try --key input_digest"]
    by_input = compare_rollouts(rows, rows, "input_digest")
    assert by_input.counts["tasks"] == 3
    assert kinds(by_input) == set()


@pytest.mark.parametrize(
    "line",
    [
        '{"task_id": "a", "reward": 0, "reward": 1}',
        '{"task_id": "a", "task_id": "b", "reward": 1}',
        '{"task_name": "a", "task_name": "b", "reward": 1}',
        '{"task_id": "a", "mask_sample": true, "mask_sample": false, "reward": 1}',
        '{"task_id": "a", "error": "x", "error": "", "reward": 1}',
        '{"uuid": "a", "uuid": "b", "reward": 1}',
        '{"verifier_metadata": {"task_id": "a", "task_id": "b"}, "reward": 1}',
        '{"_ng_task_id": {"taskset": "A", "taskset": "B", "task_id": "a"}, "reward": 1}',
        '{"task_id": "a", "reward": 1, "response": {"metadata": {"error_type": "x", "error_type": ""}}}',
    ],
)
def test_defect_09_duplicate_keys_are_input_errors(line: str, tmp_path: Path) -> None:
    with pytest.raises(CompareInputError, match=r"old\.jsonl:1:\d+: duplicate_.*write the key once"):
        load_rollouts(write(tmp_path, "old", [line]))


def test_defect_09_other_duplicate_keys_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, "old", ['{"task_id": "a", "reward": 1, "note": 1, "note": 2}'])
    assert outcomes(compared(path, path)) == {"a": ("identical", None)}


def test_defect_10_the_same_rollout_twice_is_found() -> None:
    twice = [task("a", 1, **attempt(3, 0)), task("a", 0, **attempt(3, 0)), task("a", 0, **attempt(3, 1))]
    result = compare_rollouts(twice, [task("a", 0)])
    finding = next(f for f in result.findings if f.kind == "duplicate_rollout")
    assert (finding.side, finding.task, finding.lines) == ("old", "a", (1, 2))


def test_defect_10_the_same_rollout_index_of_two_tasks_is_no_duplicate() -> None:
    rows = [{"task_name": "f", "reward": 1, **attempt(0, 0)}, {"task_name": "f", "reward": 1, **attempt(1, 0)}]
    assert "duplicate_rollout" not in kinds(compare_rollouts(rows, rows))


def test_defect_11_the_measured_rest_of_a_partly_masked_task_is_shown() -> None:
    rows = [task("a", 1) for _ in range(99)] + [task("a", 0, mask_sample=True)]
    result = compare_rollouts(rows, [task("a", 1)])
    assert outcomes(result) == {"a": ("masked", None)}
    finding = next(f for f in result.findings if f.kind == "partly_masked")
    assert finding.detail == "1 of 100 rows are masked, so the task is; the mean of the other 99 is 1.0"
    assert (result.tasks[0].old.measured_reward, result.tasks[0].old.masked_rows) == (1.0, 1)


def test_defect_12_a_task_called_unknown_1_is_not_mixed_up_with_a_failure(tmp_path: Path) -> None:
    old = write(tmp_path, "old", [task("unknown#1", 1)], [failure("timeout"), failure("timeout")])
    new = write(tmp_path, "new", [task("unknown#1", 1), task("unknown#3", 1)], [failure("timeout")])
    result = compared(old, new)
    assert [(entry.task, entry.category) for entry in result.tasks] == [
        ("unknown#1", "identical"),
        ("unknown#3", "missing"),
        ("unknown#2", "masked"),
        ("unknown#4", "masked"),
        ("unknown#5", "masked"),
    ]
    assert [entry.new is None for entry in result.tasks][2:] == [True, True, False]
    assert (result.counts["masked_old"], result.counts["masked_new"]) == (2, 1)


def test_defect_13_flips_within_the_noise_of_the_repeats_are_found() -> None:
    noisy = [task("a", reward) for reward in (1, 0, 1, 0)], [task("a", reward) for reward in (1, 0, 0, 0)]
    clear = [task("b", 1) for _ in range(4)], [task("b", reward) for reward in (0, 0, 0, 0)]
    result = compare_rollouts(noisy[0] + clear[0], noisy[1] + clear[1])
    assert outcomes(result) == {"a": ("flipped", "old"), "b": ("flipped", "old")}
    assert [f.task for f in result.findings if f.kind == "within_noise"] == ["a"]
    assert "noise: 1 of 2 flips with repeats on both sides lie within it" in render_report(result)


def test_defect_13_without_repeats_the_report_says_that_noise_cannot_be_told() -> None:
    report = render_report(compare_rollouts([task("a", 1)], [task("a", 0)]))
    assert "noise: no flip has repeats on both sides, so how many of the 1 are noise cannot be told" in report


def test_defect_14_a_flip_heading_never_shows_two_equal_rewards() -> None:
    report = render_report(compare_rollouts([task("a", 1.0)], [task("a", 0.99999)]))
    assert "### a: old=1.0 new=0.99999 -> old wins" in report
    report = render_report(compare_rollouts([task("a", 0.123456)], [task("a", 0.5)]))
    assert "### a: old=0.1235 new=0.5 -> new wins" in report
