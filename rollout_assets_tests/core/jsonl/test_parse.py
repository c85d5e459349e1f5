"""The exact reading of one line: every kind of fault at its byte."""

from __future__ import annotations

import math
import re

import pytest

from rollout_assets.core.jsonl.faults import FaultKind
from rollout_assets.core.jsonl.fields import ROW_FIELDS, project
from rollout_assets.core.jsonl.parse import FAULTS_LISTED, exact_int, parse_line

K = FaultKind


def found(line: bytes) -> list[tuple[FaultKind, int]]:
    return [(fault.kind, fault.column) for fault in parse_line(line).faults]


@pytest.mark.parametrize(
    ("line", "column"),
    [
        (rb'{"a":truth}', 9),
        (rb'{"a":fulse}', 7),
        (rb'{"a":nulL}', 9),
        (rb'{"a":None}', 7),
        (rb'{"a":Infinite}', 13),
        (rb'{"a":-Inf}', 10),
        (rb'{"a" 1}', 6),
        (rb'{"a":1 "b":2}', 8),
        (rb'{"a":[1 2]}', 9),
        (rb'{"a":1,}', 8),
        (rb'{"a":[1,]}', 9),
        (rb'{"a":[,1]}', 7),
        (rb"{,}", 2),
        (rb'{"a":01}', 7),
        (rb'{"a":-01}', 8),
        (rb'{"a":1.}', 8),
        (rb'{"a":1.e5}', 8),
        (rb'{"a":.5}', 6),
        (rb'{"a":+1}', 6),
        (rb'{"a":-}', 7),
        (rb'{"a":-a}', 7),
        (rb'{"a":1e}', 8),
        (rb'{"a":1e+}', 9),
        (rb'{"a":1x}', 7),
        (rb'{"a":0x10}', 7),
        (rb'{"a":[1}', 8),
        (rb'{"a":{"b":1]}', 12),
        (rb"{'a':1}", 2),
        (rb"{1:1}", 2),
        (rb"{null:1}", 2),
        (rb'{"a":"\x"}', 8),
        (rb'{"a":"\u12G4"}', 11),
        (rb'{"a":"\u12"}', 11),
        (rb'{"a":"' + b"\x01" + rb'"}', 7),
        (rb'{"a":"' + b"\t" + rb'"}', 7),
        (rb'{"a":"' + b"\x00" + rb'"}', 7),
        (rb'{"a":"b', 8),
        (rb'{"a":1}}', 8),
        (rb'{"a":1} {"a":2}', 9),
        (rb'{"a":1},', 8),
        (rb'{"a":1}//', 8),
        (rb'{"a":/*x*/1}', 6),
        (b'\xef\xbb\xbf{"a":1}', 1),
        (b'{"a":\xc2\xa01}', 6),
        (b'{"a":1}\xe2\x80\xa8', 8),
        (b'{"a":\x0c1}', 6),
        (b'{"a":1}\x00', 8),
        (b'\x0b{"a":1}', 1),
        (b"hello", 1),
        (b"\xc3\xa9", 1),
    ],
)
def test_invalid_json_at_the_byte_that_cannot_stand_there(line: bytes, column: int) -> None:
    assert found(line) == [(K.INVALID_JSON, column)]


@pytest.mark.parametrize(
    ("line", "column"),
    [
        (b'{"a":"\xff"}', 7),
        (b'{"a":"ok\xc0\x80"}', 9),
        (b'{"a":"\xed\xa0\x80"}', 7),
        (b'{"a":"\xe2\x82"}', 7),
        (b'{"a":"\xf4\x90\x80\x80"}', 7),
        (b'{"\x80":1}', 3),
        (b'{"a":1}\xff', 8),
        (b'{"a":\xff}', 6),
        ('{"é":"'.encode() + b"\xff" + b'"}', 8),
    ],
)
def test_bytes_that_are_not_utf8(line: bytes, column: int) -> None:
    assert found(line) == [(K.NOT_UTF8, column)]


@pytest.mark.parametrize(
    ("line", "column"),
    [
        (rb'{"a":"x\ud800y"}', 8),
        (rb'{"a":"\ud800"}', 7),
        (rb'{"a":"\udc00\ud800"}', 7),
        (rb'{"a":"\ud83d\ud83d\ude00"}', 7),
        (rb'{"a":"\\\ud800"}', 9),
        (rb'{"\udfff":1}', 3),
        (rb'{"x":{"y":["\uDBFF"]}}', 13),
    ],
)
def test_lone_surrogates(line: bytes, column: int) -> None:
    assert found(line) == [(K.LONE_SURROGATE, column)]


@pytest.mark.parametrize("line", [rb'{"a":"\ud83d\ude00"}', rb'{"a":"\\ud800"}', rb'{"\uD83D\uDE00":1}'])
def test_what_only_looks_like_a_lone_surrogate(line: bytes) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        (rb'{"reward":1,"reward":2}', [(K.DUPLICATE_KEY, 13)]),
        (rb'{"re\u0077ard":1,"reward":2}', [(K.DUPLICATE_KEY, 18)]),
        (rb'{"reward":1,"re\u0077ard":2}', [(K.DUPLICATE_KEY, 13)]),
        (rb'{"response":{},"response":null}', [(K.DUPLICATE_KEY, 16)]),
        (rb'{"_ng_failure_record":{"a":1,"a":2}}', [(K.DUPLICATE_KEY, 30)]),
        (rb'{"_ng_failure_record":{"a":[{"b":1,"b":2}]}}', [(K.DUPLICATE_KEY, 36)]),
        (rb'{"id":1,"id":2,"id":3}', [(K.DUPLICATE_COMPARED_KEY, 9)]),
        (rb'{"test_output":"","test_output":""}', [(K.DUPLICATE_COMPARED_KEY, 19)]),
        (rb'{"verifier_stdout":"","verifier_stdout":""}', [(K.DUPLICATE_COMPARED_KEY, 23)]),
        (rb'{"response":{"metadata":1,"metadata":2}}', [(K.DUPLICATE_COMPARED_KEY, 27)]),
        (rb'{"response":{"metadata":{"k":1,"k":2}}}', [(K.DUPLICATE_COMPARED_KEY, 32)]),
        (rb'{"verifier_metadata":{"task_id":1,"task_id":2}}', [(K.DUPLICATE_COMPARED_KEY, 35)]),
        (rb'{"verifier_metadata":{"id":{"id":1,"id":2}}}', [(K.DUPLICATE_COMPARED_KEY, 36)]),
        (rb'{"_ng_task_id":{"task_id":1,"task_id":2}}', [(K.DUPLICATE_COMPARED_KEY, 29)]),
        (rb'{"task_id":{"a":{"b":1,"b":2}}}', [(K.DUPLICATE_COMPARED_KEY, 24)]),
        (rb'{"responses_create_params":{"input":1,"input":2}}', [(K.DUPLICATE_COMPARED_KEY, 39)]),
        (
            rb'{"task_id":1,"task_id":2,"uuid":1,"uuid":2}',
            [(K.DUPLICATE_COMPARED_KEY, 14), (K.DUPLICATE_COMPARED_KEY, 35)],
        ),
        (rb'{"ng_perf":1,"ng_perf":2}', []),
        (rb'{"x":{"reward":1,"reward":2}}', []),
        (rb'{"response":{"id":1,"id":2}}', []),
        (rb'{"response":{"output":[{"id":1,"id":2}]}}', []),
        (rb'{"verifier_metadata":{"tests":1,"tests":2}}', []),
        (rb'[{"reward":1,"reward":2}]', [(K.NOT_AN_OBJECT, 1)]),
    ],
)
@pytest.mark.parametrize("wanted", [None, ROW_FIELDS])
def test_duplicates_of_keys_that_a_rule_reads(line: bytes, faults: list[tuple[FaultKind, int]], wanted: object) -> None:
    parsed = parse_line(line, wanted)  # type: ignore[arg-type]
    assert [(fault.kind, fault.column) for fault in parsed.faults] == faults
    assert (parsed.row is None) == any(kind in (K.DUPLICATE_KEY, K.NOT_AN_OBJECT) for kind, _ in faults)


def test_the_last_duplicate_wins() -> None:
    assert parse_line(rb'{"ng_perf":1,"x":0,"ng_perf":{"a":1,"a":2}}').row == {"ng_perf": {"a": 2}, "x": 0}


def test_non_finite_numbers_wherever_they_stand() -> None:
    line = rb'{"t":"NaN, 1e999","reward":NaN,"x":[{"y":-Infinity},Infinity,1e999,-1E+400,' + b"9" * 400 + b".0]}"
    row, faults, incomplete = parse_line(line)
    columns = [line.index(token) + 1 for token in (b"NaN,", b"-Inf", b"Infinity,1e", b"1e999,-", b"-1E", b"999" * 9)]
    columns[0] = line.index(b":NaN") + 2
    assert [(fault.kind, fault.column) for fault in faults] == [(K.NON_FINITE_NUMBER, column) for column in columns]
    assert row is not None
    assert not incomplete
    assert math.isnan(row["reward"])
    assert row["x"] == [{"y": -math.inf}, math.inf, math.inf, -math.inf, math.inf]


@pytest.mark.parametrize("number", [b"1e308", b"1e-999", b"0e999", b"0.0e+999", b"1e0000000001", b"9" * 5000])
def test_numbers_that_are_finite(number: bytes) -> None:
    assert found(b'{"a":' + number + b"}") == []


def test_a_line_lists_a_bounded_number_of_non_finite_numbers() -> None:
    faults = parse_line(b'{"a":[' + b"NaN," * 99 + b"1]}").faults
    assert len(faults) == FAULTS_LISTED
    assert f"{99 - FAULTS_LISTED} more" in faults[-1].message


@pytest.mark.parametrize("digits", [1, 639, 640, 641, 4299, 4300, 4301, 5000, 20_001])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_are_exact_at_any_size(digits: int, sign: str) -> None:
    text = sign + ("123456789" * (digits // 9 + 1))[:digits]
    value = 0
    for digit in text.lstrip("-"):
        value = value * 10 + int(digit)
    assert exact_int(text) == (-value if sign else value)
    assert parse_line(f'{{"reward":{text}}}'.encode()).row == {"reward": -value if sign else value}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"9223372036854775807", False),
        (b"-9223372036854775808", False),
        (b"9223372036854775808", True),
        (b"-9223372036854775809", True),
        (b"1" + b"0" * 5000, True),
        (b"1e30", False),
        (b'"9223372036854775808"', False),
    ],
)
@pytest.mark.parametrize("key", [b"_ng_task_index", b"_ng_rollout_index", b"_ng_attempt_index"])
def test_index_fields_beyond_64_bits(key: bytes, value: bytes, fault: bool) -> None:
    line = b'{"a":0,"' + key + b'" : ' + value + b"}"
    parsed = parse_line(line)
    column = line.index(b" : ") + 4
    assert [(f.kind, f.column) for f in parsed.faults] == ([(K.INTEGER_OUT_OF_RANGE, column)] if fault else [])
    assert parsed.row is not None


@pytest.mark.parametrize("opener", [b"[", b'{"":'])
@pytest.mark.parametrize("levels", [511, 512, 5_000, 200_000])
def test_the_depth_limit_is_512(opener: bytes, levels: int) -> None:
    closer = b"]" if opener == b"[" else b"}"
    line = b'{"x":' + opener * levels + b"0" + closer * levels + b"}"
    expected = [] if levels < 512 else [(K.TOO_DEEP, 6 + 511 * len(opener))]
    assert found(line) == expected


@pytest.mark.parametrize(
    ("line", "kind", "column"),
    [
        (b"[1]", K.NOT_AN_OBJECT, 1),
        (b'  "x"', K.NOT_AN_OBJECT, 3),
        (b"12", K.NOT_AN_OBJECT, 1),
        (b"null", K.NOT_AN_OBJECT, 1),
        (b"NaN", K.NOT_AN_OBJECT, 1),
        # The first fault that makes a row unreadable is reported.
        (b'{"a":"\xff",}', K.NOT_UTF8, 7),
        (b'{"a":1,,"\xff"}', K.INVALID_JSON, 8),
        (rb'{"a":"\ud800",}', K.LONE_SURROGATE, 7),
        (rb'{"a":NaN,"b":"\ud800"}', K.LONE_SURROGATE, 15),
        (rb'{"reward":1,"reward":2,}', K.DUPLICATE_KEY, 13),
        (rb'{"reward":1,,"reward":2}', K.INVALID_JSON, 13),
        (b'{"reward":1,"reward":"\xff"}', K.DUPLICATE_KEY, 13),
        (rb'["\ud800"]', K.LONE_SURROGATE, 3),
    ],
)
def test_the_first_unreadable_fault_is_the_one_reported(line: bytes, kind: FaultKind, column: int) -> None:
    assert found(line) == [(kind, column)]


WHOLE = (
    '{"a":[1,-2.5e-3,true,false,null,NaN,-Infinity],"é":"\\"\\\\\\u00e9\\ud83d\\ude00\U0001f600","o":{"k":{}, "l":[]} }'
).encode()


def test_every_beginning_of_a_row_is_incomplete() -> None:
    for length in range(len(WHOLE)):
        parsed = parse_line(WHOLE[:length])
        assert parsed.incomplete, WHOLE[:length]
        assert parsed.row is None
    assert not parse_line(WHOLE).incomplete
    assert parse_line(WHOLE).row is not None


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1,,',
        b'{"a":01',
        b'{"a":trx',
        b'{"a":"\xff',
        b'{"a":"\xe2\x28',
        b'{"a":\xe2\x82',
        b"{}x",
        b"{} {",
        b"{a",
        b"]",
        b'{"a":"\\x',
        b'{"a":1.e',
        rb'{"a":"\ud800x"}',
        b'{"reward":1,"reward":2}',
    ],
)
def test_other_faults_are_not_incomplete(line: bytes) -> None:
    assert not parse_line(line).incomplete


@pytest.mark.parametrize(
    "line",
    [rb'{"a":"\ud800x', rb'{"reward":1,"reward":2,', b'{"a":' + b"[" * 600, rb'{"a":"\ud83d\ude0', rb'{"a":"\ud83d'],
)
def test_a_beginning_is_incomplete_whatever_stood_before(line: bytes) -> None:
    assert parse_line(line).incomplete


def test_wanted_fields_are_those_of_the_projection() -> None:
    line = (
        rb'{"responses_create_params":{"input":[{"a":[1,2,{"b":null}]}],"tools":[{"x":[1e2,[2],"s"]},"\u00e9",[]]},'
        rb'"response":{"output":[1,2,[3,"x\n"]],"usage":{"input_tokens":3,"z":{"a":1}},"metadata":{"m":[1]},"id":"r"},'
        rb'"verifier_metadata":["a",{"b":2}],"ng_perf":{"a":1,"b":[true,false],"c":{"d":"e"}},"reward":1}'
    )
    whole = parse_line(line).row
    assert whole is not None
    assert parse_line(line, ROW_FIELDS).row == project(whole)
    assert set(project(whole)) == {"responses_create_params", "response", "verifier_metadata", "reward"}
    assert set(project(whole)["response"]) == {"usage", "metadata"}
    assert project(whole)["response"]["usage"] == {"input_tokens": 3}


def test_messages_name_the_character_and_say_what_was_expected() -> None:
    message = parse_line(b'{"a":1 \xc2\xa0}').faults[0].message
    assert re.search(r"',' or '}' expected, not U\+00A0", message)
