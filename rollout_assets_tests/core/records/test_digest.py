"""The canonical digest and equality of saved values (records.md §5, decisions 4 and 13; example 43)."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.records import digest
from rollout_assets.core.records.digest import canonical_json, json_equal

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
LAW = settings(derandomize=True, deadline=None, max_examples=150)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"),
        ({"reward": 1.0}, "cf86bbfc2bc9b4a158ba0e1e4a45430026f11104f0811999a59c841b2e7fe8bf"),
        ({"reward": 1}, "1b1f59265254fcd025e74ea45831a7c6e2fafbc4a8b0be7de176f7b7a6772db8"),
        (
            {"t": "雪\n", "a": {"z": 1, "b": [True, None]}},
            "b55130c565f6b080ebcf6915468c349b908c80ca31992089412926d17a691f31",
        ),
        ([{"b": 1, "a": "é"}], "45f2c633499b74ab1aea24a8ff7e8f4787545341da58e1f1fa3476f02419b8a2"),
    ],
)
def test_check_values(value: object, expected: str) -> None:
    assert digest(value) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028"'),
        ([1.0, 0.1, 1e-07, 1e16, -0.0, 1, 2**70], "[1.0,0.1,1e-07,1e+16,-0.0,1,1180591620717411303424]"),
        ({"b": 1, "a": {"d": [], "c": {}}, "Z": None}, '{"Z":null,"a":{"c":{},"d":[]},"b":1}'),
        ({"\U00010000": 1, "\uffff": 2}, '{"\uffff":2,"\U00010000":1}'),  # by code point, not by UTF-16 unit
        (
            {"n": [10**5000, {}, [], True, "x"], "m": -(10**4999)},
            f'{{"m":-1{"0" * 4999},"n":[1{"0" * 5000},{{}},[],true,"x"]}}',
        ),
    ],
)
def test_canonical_text(value: object, text: str) -> None:
    assert canonical_json(value) == text


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}, [10**5000, float("nan")]])
def test_non_finite_numbers_have_no_digest(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest(value)


@LAW
@given(VALUES)
def test_the_digest_is_over_values_not_text(value: object) -> None:
    spaced = json.loads(json.dumps(value, indent=1))
    assert digest(spaced) == digest(value) == sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (0.0, False, False),
        (True, True, True),
        (None, False, False),
        (0.0, -0.0, True),
        (2**53 + 1, float(2**53), False),
        ("1", 1, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": None}, {"b": None}, False),
        ({}, [], False),
        ([], {}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": True}]}, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
    ],
)
def test_equality(one: object, other: object, equal: bool) -> None:
    assert json_equal(one, other) is equal
    assert json_equal(other, one) is equal


def test_deep_values_do_not_exhaust_the_stack() -> None:
    deep: object = 10**5000
    for _ in range(255):
        deep = {"a": [deep]}
    assert json_equal(deep, json_copy(deep))
    assert canonical_json(deep).startswith('{"a":[{"a":[')


def json_copy(value: object) -> object:
    if isinstance(value, dict):
        return {"a": json_copy(value["a"])}
    return [json_copy(value[0])] if isinstance(value, list) else value


@LAW
@given(VALUES, VALUES)
def test_equal_values_are_those_with_equal_text_once_numbers_are_alike(one: object, other: object) -> None:
    assert json_equal(one, one)
    if canonical_json(one) == canonical_json(other):
        assert json_equal(one, other)
    assert json_equal(one, other) == json_equal(other, one)
