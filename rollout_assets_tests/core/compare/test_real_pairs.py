"""Real rollout files of NeMo Gym against each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_assets.core.compare import CompareInputError, CompareResult, compare_files, load_facts, load_rollouts
from rollout_assets.core.compare.facts import row_facts
from rollout_assets_tests.shared_material import NEMO_GYM, needs_nemo_gym

pytestmark = needs_nemo_gym

FOLDERS = sorted(path.name for path in NEMO_GYM.glob("*") if path.is_dir()) if NEMO_GYM.is_dir() else []
MALFORMED = "jailbreak_detection"


def output(folder: str) -> Path:
    return NEMO_GYM / folder / "rollouts.jsonl"


def pair(old: str, new: str, key: str | None = None) -> CompareResult:
    return compare_files(output(old), output(new), key)


@pytest.mark.parametrize(
    ("old", "new", "key", "joined_on", "counts", "equal_inputs"),
    [
        ("structeval", "structeval_nonrenderable", "task_id", "task_id", (3, 1, 1), 5),
        ("structeval", "structeval_nonrenderable", None, "task_name", (3, 1, 1), 5),
        ("math_claude_code", "math_hermes", None, "_ng_task_index", (5, 0, 0), 5),
        ("math_claude_code", "math_with_judge", None, "input_digest", (1, 3, 1), 5),
        ("math_claude_code", "math_prime_agent", None, "_ng_task_index", (1, 4, 0), 5),
        ("math_claude_code", "math_prime_agent", "input_digest", "input_digest", (1, 4, 0), 5),
    ],
)
def test_pairs_of_the_same_five_tasks(
    old: str, new: str, key: str | None, joined_on: str, counts: tuple[int, int, int], equal_inputs: int
) -> None:
    result = pair(old, new, key)
    assert (result.old_key, result.new_key) == (joined_on, joined_on)
    n = result.counts
    assert (n["identical"], n["flipped_new_win"], n["flipped_old_win"], n["tasks"]) == (*counts, 5)
    assert result.input_counts["equal"] == equal_inputs


def test_one_task_with_repeats() -> None:
    entry = pair("anyswe_claude_code", "anyswe_opencode").tasks[0]
    assert entry.old is not None
    assert entry.new is not None
    assert (entry.category, entry.winner) == ("flipped", "new")
    assert (entry.old.reward, entry.old.rows, entry.new.reward, entry.new.rows) == (0.2, 5, 0.8, 5)


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != MALFORMED])
def test_a_file_against_itself_has_no_flip(folder: str) -> None:
    result = pair(folder, folder)
    assert result.counts["flipped"] == result.counts["flipped_agent_error"] == result.counts["missing"] == 0


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != MALFORMED])
def test_facts_of_whole_rows_and_of_scanned_rows_agree(folder: str) -> None:
    scanned = [row._replace(line=0, offset=0, length=0) for row in load_facts(output(folder))]
    assert scanned == [row_facts(row, line=0) for row in load_rollouts(output(folder))]


def test_a_malformed_producer_is_refused() -> None:
    with pytest.raises(CompareInputError, match=r"rollouts\.jsonl:1:\d+: invalid_json"):
        pair(MALFORMED, MALFORMED)


@pytest.mark.parametrize("folder", ["multichallenge", "genrm_compare"])
def test_rows_without_reward_are_masked(folder: str) -> None:
    result = pair(folder, folder)
    assert result.counts["masked"] == result.counts["tasks"]
    assert {facts.mask_reason for facts in load_facts(output(folder))} == {"no reward"}


def test_a_coarse_key_is_found() -> None:
    result = pair("reasoning_gym", "reasoning_gym")
    assert (result.old_key, result.counts["tasks"]) == ("task_name", 1)
    assert [finding.kind for finding in result.findings] == ["coarse_key"]
    assert pair("reasoning_gym", "reasoning_gym", "input_digest").counts["tasks"] == 5


def test_a_rollout_saved_twice_is_found() -> None:
    findings = pair("graphwalks", "graphwalks").findings
    assert [(f.kind, f.side, f.lines) for f in findings] == [
        ("duplicate_rollout", "old", (4, 5)),
        ("duplicate_rollout", "new", (4, 5)),
    ]


@pytest.mark.parametrize(
    ("folder", "key"), [("inverse_if", "task_id"), ("deepswe", "task_id"), ("evalplus", "verifier_metadata.task_id")]
)
def test_detected_keys(folder: str, key: str) -> None:
    assert pair(folder, folder).old_key == key


def test_two_unrelated_data_sets_of_one_numbering_are_not_silently_compared() -> None:
    result = pair("math_hermes", "openair_congestion")
    assert result.old_key == "_ng_task_index"
    assert result.input_counts["different"] == 5
    assert {finding.kind for finding in result.findings} == {"inputs_differ"}
