"""Logical rollout ids and attempt numbers (records.md §3, §8.2, decision 15)."""

from __future__ import annotations

import pytest

from rollout_assets.core.records import RunDataError, logical_rollout_id
from rollout_assets.core.records.identity import attempt_index, capture_key

PAIR = {"_ng_task_index": 3, "_ng_rollout_index": 1}


@pytest.mark.parametrize(
    ("row", "rollout_id"),
    [
        (PAIR, "3-1"),
        ({**PAIR, "_ng_attempt_index": 7}, "3-1"),
        ({**PAIR, "_ng_rollout_id": None}, "3-1"),
        ({**PAIR, "_ng_rollout_id": "q.17_b"}, "q.17_b"),
        ({"_ng_rollout_id": "x-a0"}, "x-a0"),
        ({"_ng_rollout_id": "x-a01"}, "x-a01"),
        ({"_ng_rollout_id": "a1"}, "a1"),
        ({"_ng_task_index": 0, "_ng_rollout_index": -1}, "0--1"),
        ({"_ng_task_index": 10**5000, "_ng_rollout_index": 0}, "1" + 5000 * "0" + "-0"),
    ],
)
def test_ids(row: dict, rollout_id: str) -> None:
    assert logical_rollout_id(row) == rollout_id


@pytest.mark.parametrize(
    ("row", "code", "named"),
    [
        ({}, "E-ID-MISSING", "_ng_task_index and _ng_rollout_index"),
        ({"_ng_task_index": 1}, "E-ID-MISSING", "recovered"),
        ({"_ng_task_index": 1, "_ng_rollout_index": None}, "E-ID-MISSING", "lacks _ng_rollout_index"),
        ({"_ng_rollout_id": "x-a1"}, "E-ID-FORM", "'x-a1'"),
        ({"_ng_rollout_id": "x-a120"}, "E-ID-FORM", "reserved"),
        ({"_ng_rollout_id": ""}, "E-ID-FORM", "''"),
        ({"_ng_rollout_id": [10**5000]}, "E-ID-FORM", "not a list with a huge integer"),
        ({"_ng_task_index": {"id": 10**5000}}, "E-ID-FORM", "not a dict with a huge integer"),
        ({"_ng_rollout_id": "-x"}, "E-ID-FORM", "'-x'"),
        ({"_ng_rollout_id": "a b"}, "E-ID-FORM", "'a b'"),
        ({"_ng_rollout_id": "a\n"}, "E-ID-FORM", "letters"),
        ({"_ng_rollout_id": "é"}, "E-ID-FORM", "'é'"),
        ({"_ng_rollout_id": 5}, "E-ID-FORM", "string, not 5"),
        ({"_ng_task_index": -1, "_ng_rollout_index": 0}, "E-ID-FORM", "'-1-0'"),
        ({"_ng_task_index": "1", "_ng_rollout_index": 0}, "E-ID-FORM", "_ng_task_index must be an integer, not '1'"),
        ({"_ng_task_index": 1.0, "_ng_rollout_index": 0}, "E-ID-FORM", "not 1.0"),
        ({"_ng_task_index": 1, "_ng_rollout_index": True}, "E-ID-FORM", "not True"),
        ({"_ng_rollout_id": "q", "_ng_task_index": "1"}, "E-ID-FORM", "_ng_task_index"),
    ],
)
def test_bad_ids(row: dict, code: str, named: str) -> None:
    with pytest.raises(RunDataError) as raised:
        logical_rollout_id(row)
    assert raised.value.code == code
    assert named in str(raised.value)


def test_attempt_numbers() -> None:
    assert attempt_index({}) == 0
    assert attempt_index({"_ng_attempt_index": 3}) == 3
    for value in (None, -1, 1.0, True, "1", []):
        with pytest.raises(RunDataError) as raised:
            attempt_index({"_ng_attempt_index": value})
        assert raised.value.code == "E-ATTEMPT"
        assert repr(value) in str(raised.value)


def test_capture_keys() -> None:
    assert [capture_key("3-1", n) for n in (0, 1, 12)] == ["3-1", "3-1-a1", "3-1-a12"]
