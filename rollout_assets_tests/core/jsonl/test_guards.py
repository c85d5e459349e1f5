"""What the fast decoder does not see, the guards name; and in ordinary rows they name nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollout_assets.core.jsonl import FaultKind, Row, guards, scan
from rollout_assets.core.jsonl import scan as scan_function
from rollout_assets.core.jsonl.guards import Guard
from rollout_assets.core.jsonl.nesting import Nesting
from rollout_assets.core.jsonl.parse import parse_line
from rollout_assets_tests.benchmarks.bench_scan import rows_of_kind
from rollout_assets_tests.core.jsonl.reference import depth
from rollout_assets_tests.shared_material import NEMO_GYM, needs_nemo_gym


def doubtful(*lines: bytes, padding: bytes = b"") -> set[int]:
    buffer, stops = bytearray(), []
    for line in lines:
        buffer += line + b"\n"
        stops.append(len(buffer))
    return Guard().doubtful_lines(buffer + padding * 64, stops)


OVERFLOWING = [b"1e999", b"-1E+309", b"2e0308", b"1e+0000000400", b"0.5e310", b"123456e304", b"9" * 309 + b".0"]
OVERFLOWING += [b"-" + b"9" * 400 + b".5e-20", b"1" * 215 + b"e99", b"0." + b"0" * 50 + b"1e400"]


@pytest.mark.parametrize("number", OVERFLOWING)
@pytest.mark.parametrize("frame", [b'{"a":%s}', b'{"a":[1,%s,2]}', b'{"a": %s }', b'{"a":[%s]}', b'{"a":\t%s\r}'])
def test_numbers_that_overflow_are_named_wherever_they_stand(number: bytes, frame: bytes) -> None:
    assert parse_line(frame % number).faults[0].kind is FaultKind.NON_FINITE_NUMBER
    for shift in range(67):
        filler = b'{"b":"' + b"x" * shift + b'"}'
        assert doubtful(filler, frame % number, filler) == {1}


@pytest.mark.parametrize("shift", [*range(-25, 5)])
@pytest.mark.parametrize("number", [b"1e+999", b"9" * 309 + b".0"])
def test_numbers_at_the_border_of_a_window_are_named(
    monkeypatch: pytest.MonkeyPatch, number: bytes, shift: int
) -> None:
    monkeypatch.setattr(guards, "_WINDOW", 1024)
    line = b'{"b":"' + b"x" * (2 * 1024 + shift) + b'","a":[0,' + number + b"]}"
    assert doubtful(b"{}", line) == {1}


@pytest.mark.parametrize(
    "text",
    [
        b'"id":"5e123456"',
        b'"id":"fc_0e1234e5678"',
        b'"id":"0a1e-1234-5e123-9e400"',
        b'"a":[1.2e-05,1e-300,3.5E-12,1e5,1e+16,2E10,1e99]',
        b'"a":12345678901234567890123',
        b'"a":"==========================================================================================="',
        b'"a":"1e999"',
        b'"t":"see e+123, the 1st"',
    ],
)
def test_what_only_looks_like_a_huge_number_is_not_named(text: bytes) -> None:
    assert doubtful(b"{" + text * 1 + b"}") == set()


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80", b"\x80"])
@pytest.mark.parametrize("filler", ["", "é", "x" * 20_000, "😀" * 9_000], ids=["none", "two", "window", "wide"])
def test_lines_that_are_not_utf8_are_named(bad: bytes, filler: str) -> None:
    good = json.dumps({"a": filler}, ensure_ascii=False).encode()
    lines = [good, b'{"a":"' + bad + b'"}', good, b'{"' + filler.encode() + bad + b'":1}', good]
    assert doubtful(*lines) == {1, 3}


@pytest.mark.parametrize("padding", [b"", b"\xff", b"9", b"e", b"[", b"\x80"])
def test_bytes_behind_a_block_mean_nothing(padding: bytes) -> None:
    assert doubtful(b'{"a":"1e"}', '{"a":"é"}'.encode(), padding=padding) == set()
    assert doubtful(b'{"a":"1e"}', b'{"a":1e999}', padding=padding) == {1}


@pytest.mark.parametrize(
    "end", [b"e", b"1e", b"1e1", b"1e+", b"1e+12", b"1e+123", b"[", b"{", b'{"', b"9" * 400, b"\xc3"]
)
def test_a_block_may_end_anywhere(end: bytes) -> None:
    for line in (end, b'{"x":' + b"[{" * 300 + end):
        assert Guard().doubtful_lines(memoryview(line), [len(line)]) <= {0}


@pytest.mark.parametrize("levels", [510, 511, 512, 700])
@pytest.mark.parametrize("window", [64, 1024, 1 << 18])
def test_lines_that_are_nested_too_deep_are_named(monkeypatch: pytest.MonkeyPatch, levels: int, window: int) -> None:
    monkeypatch.setattr(guards, "_WINDOW", window)
    text = rb'"\"[[[]]\\",' * 300
    deep = b'{"x":[' + text + b"[" * (levels - 1) + b'"]",1' + b"]" * levels + b"}"
    flat = b'{"x":[' + b'[],{},"[[[[",' * 700 + b"1]}"
    assert doubtful(flat, deep, flat) == ({1} if levels + 1 > 512 else set())


JSON_TEXT = st.recursive(
    st.one_of(st.text('ab"\\[]{}\u00e9', max_size=8), st.integers(0, 9), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text('a"\\]}', max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
).map(json.dumps)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(text=JSON_TEXT, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20))
@example(text=r'["\\\\\\\"[", ["\\"]]', sizes=[1])
@example(text=r'["\\\\\\\"[", ["\\"]]', sizes=[7])
def test_nesting_is_that_of_a_step_for_every_byte(text: str, sizes: list[int]) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    nesting, start, deepest, steps = Nesting(max(sizes)), 0, 0, 0
    while start < len(data):
        window = data[start : start + sizes[steps % len(sizes)]]
        brackets = nesting.feed(window)
        assert len(brackets.places) == len(brackets.depths)
        assert all(chr(window[place]) in "[]{}" for place in brackets.places.tolist())
        deepest = max(deepest, *brackets.depths.tolist(), 0)
        start, steps = start + len(window), steps + 1
    assert deepest == depth(text)
    assert nesting.depth == 0


@settings(max_examples=200, derandomize=True, deadline=None)
@given(text=JSON_TEXT, shift=st.integers(0, 5))
@example(text='["]]]]", [[1]]]', shift=0)
@example(text='{"[":"]","{":["}", [[[]]]]}', shift=2)
@example(text='["[", {"a":[{"":1}]}]', shift=0)
def test_no_text_is_nested_deeper_than_its_bound(text: str, shift: int) -> None:
    line = text.encode()
    data = np.frombuffer(b"[" * shift + line + b"]" * 64, np.uint8)
    assert Guard().depth_bound(data, shift, shift + len(line)) >= depth(text)


def test_the_bound_is_close_for_ordinary_objects() -> None:
    item = {"id": "a", "content": [{"type": "text", "text": "plain", "annotations": []}], "n": {}}
    code = {"id": "b", "text": 'x[1] = {"a": [2]}'}
    line = json.dumps({"output": [item] * 3000 + [code] * 100}, separators=(",", ":")).encode()
    assert Guard().depth_bound(np.frombuffer(line + bytes(64), np.uint8), 0, len(line)) <= 512


def exact_readings(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Rows of a file, and how many of them were read exactly."""
    exact = 0

    def counted(*arguments: object) -> object:
        nonlocal exact
        exact += 1
        return parse_line(*arguments)  # type: ignore[arg-type]

    monkeypatch.setitem(scan_function.__globals__, "parse_line", counted)
    rows = sum(isinstance(line, Row) for line in scan(path))
    return rows, exact


@pytest.mark.parametrize("kind", ["A", "B", "D"])
def test_ordinary_rows_are_read_fast(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = rows_of_kind(kind, 2_000_000)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(next(lines) + b"\n" for _ in range(10)))
    assert exact_readings(path, monkeypatch) == (10, 0)


def test_unusual_but_sound_rows_are_read_fast_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    rows = [
        {"response": None, "_ng_task_index": 0},
        {
            "response": [1, {"a": 1}],
            "verifier_metadata": None,
            "responses_create_params": {"input": [{"role": "user"}]},
        },
        {"verifier_metadata": {"task_id": {"a": [1]}, "id": 3}, "response": {"metadata": {"elapsed_seconds": "3"}}},
        {"_ng_task_id": {"taskset": "t", "task_id": "a"}, "task_id": "a", "uuid": [1, 2]},
        {"_ng_failure_record": {"failure": {"failure_kind": "x", "terminal": False}}, "test_output": "x" * 2000},
        {"_ng_task_index": None, "_ng_rollout_index": "3", "_ng_attempt_index": 1.5, "mask_sample": 1},
        {"response": {"metadata": {"a": "\u001b[0m"}}, "error": "\u0001"},
        {"x": [{"id": f"{rng.getrandbits(128):032x}", "reward": 1, "error": "e"} for _ in range(3000)], "id": "a"},
        {"text": "Gr\u00fc\u00dfe \u2014 \U0001f600" * 500},
    ]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(json.dumps(row, ensure_ascii=n % 2 == 0).encode() + b"\n" for n, row in enumerate(rows)))
    assert exact_readings(path, monkeypatch) == (len(rows), 0)


@needs_nemo_gym
def test_real_rows_are_read_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [exact_readings(path, monkeypatch) for path in sorted(NEMO_GYM.glob("*/rollouts.jsonl"))]
    # The five lines of placeholder text are no rows.
    assert sum(exact for _, exact in found) == 5
    assert sum(rows for rows, _ in found) > 100
