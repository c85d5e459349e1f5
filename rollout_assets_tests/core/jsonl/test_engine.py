"""What the compiled engine vouches for, the exact reading accepts, and reads the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from rollout_assets.core.jsonl.engine import FIELDS, new_engine
from rollout_assets.core.jsonl.fields import ROW_FIELDS, project
from rollout_assets.core.jsonl.parse import DEPTH_LIMIT, parse_line

pytestmark = pytest.mark.skipif(new_engine() is None, reason="the engine is not compiled: no C compiler was there")


@pytest.fixture(scope="module", autouse=True)
def reader() -> None:
    """The engine is tested by itself: not once for each reader of blocks."""


def engine() -> Any:
    made = new_engine()
    assert made is not None
    return made


def vouched(line: bytes) -> bytes | None:
    """The projected row of a line, or None where the engine does not vouch for it."""
    ((stop, text),) = engine().lines(line, len(line))
    assert stop == len(line)
    return text


def check(line: bytes) -> bool:
    """Whether the engine vouches for a line; if so, it must be right."""
    text = vouched(line)
    if text:
        row, faults, _ = parse_line(line, ROW_FIELDS)
        assert not faults, line
        assert json.loads(text) == row, line
    return bool(text)


def mutated(rng: random.Random, text: bytes, alphabet: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.choice(alphabet)
            case 1:
                del data[at]
            case _:
                data.insert(at, rng.choice(alphabet))
    return bytes(data).replace(b"\n", b"")


def number_arrays(rng: random.Random) -> Iterator[bytes]:
    while True:
        kind = rng.randrange(3)
        separator = rng.choice([",", ", "])
        numbers = [
            str(rng.randrange(-9, 200_000))
            if kind == 0 or (kind == 2 and rng.random() < 0.5)
            else f"{-rng.random():.6}"
            for _ in range(rng.randrange(1, 60))
        ]
        yield f'{{"a":[{separator.join(numbers)}],"reward":1}}'.encode()


def test_arrays_of_numbers_however_they_are_damaged() -> None:
    rng = random.Random(1)
    arrays, sound, damaged = number_arrays(rng), 0, 0
    for _ in range(4000):
        text = next(arrays)
        sound += check(text)
        damaged += check(mutated(rng, text, b"0123456789,,.-- e+]["))
    assert sound == 4000
    assert 1000 < damaged < 3000


ROWS = [
    {
        "reward": 1,
        "_ng_task_index": 3,
        "response": {"metadata": {"a": [1, {"b": None}]}, "output": [{"t": "x\u00e9\ud83d"}]},
    },
    {"responses_create_params": {"input": [{"role": "user", "content": 'a"\\\n\u2028'}], "tools": [[], {}]}, "id": "a"},
    {
        "verifier_metadata": {"task_id": {"taskset": "t", "task_id": 1}, "x": True},
        "error": None,
        "uuid": [1.5e-7, -0.0],
    },
    {
        "test_output": "x" * 70,
        "response": None,
        "mask_sample": False,
        "b": {"reward": {"reward": 2}, "c": "\U0001f600"},
    },
]


def test_rows_however_they_are_damaged() -> None:
    rng = random.Random(2)
    texts = [json.dumps(row, ensure_ascii=plain).encode("utf-8", "replace") for row in ROWS for plain in (True, False)]
    alphabet = b'{}[]",:\\/u0123489abdDefnrtlsE+-. \t\r\x00\x1f\x7f\x80\xbf\xc0\xc3\xe9\xed\xa0\xf0\xf4\xff'
    assert sum(check(mutated(rng, rng.choice(texts), alphabet)) for _ in range(6000)) > 1000


def test_rows_as_they_are_written_are_vouched_for() -> None:
    for row in ROWS[1:]:
        for text in (json.dumps(row), json.dumps(row, ensure_ascii=False), json.dumps(row, separators=(",", ":"))):
            assert json.loads(vouched(text.encode()) or b"null") == project(row)


@pytest.mark.parametrize("nested", ["[" * DEPTH_LIMIT, '{"a":' * DEPTH_LIMIT])
def test_the_depth_limit(nested: str) -> None:
    def line(depth: int) -> bytes:
        opened = nested[: depth * (1 if nested[0] == "[" else 5)]
        closed = ("]" if nested[0] == "[" else "}") * depth
        return f'{{"x":{opened}{"" if nested[0] == "[" else 1}{closed}}}'.encode()

    assert check(line(DEPTH_LIMIT - 1))
    assert not check(line(DEPTH_LIMIT))


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128])
def test_every_byte_at_every_place_of_a_vector(length: int) -> None:
    for byte in range(256):
        if byte != 10:
            check(b'{"error":"' + b"x" * length + bytes([byte]) + b'yz"}')


def test_lines_of_a_block_and_their_ends() -> None:
    block = b'{"id":1}\n\n \r\n{"id":\n{"id":"a"} \r\n[1]\n{"id":2}'
    assert engine().lines(block + b"}}}", len(block)) == [
        (9, b'{"id":1}'),
        (10, b""),
        (13, b""),
        (20, None),
        (33, b'{"id":"a"}'),
        (37, None),
        (len(block), b'{"id":2}'),
    ]


def test_columns_number_the_distinct_values_of_the_rows() -> None:
    lines = [
        b'{"id":1,"reward":0}',
        b"",
        b'{"reward":"1"}',
        b'{"id":"1"}',
        b"{",
        b'{"reward":0.5,"id":1}',
        b'{"response":1}',
    ]
    block = b"\n".join(lines) + b"\n"
    made = engine()
    count, left_out = made.feed(block, len(block), 100, 7)
    assert count == 7
    assert [(index, block[start:stop], text) for index, start, stop, text in left_out] == [
        (2, lines[2] + b"\n", b'{"reward":"1"}'),
        (4, b"{\n", None),
        (6, lines[6] + b"\n", b'{"response":1}'),
    ]
    assert (made.rows, made.held) == (3, len('[1,"1",[0,0.5,'))
    places, fields = made.take()
    assert memoryview(places).cast("q").tolist() == [7, 100, 20, 10, 136, 11, 12, 149, 22]
    found = {FIELDS[n]: (memoryview(f[0]).cast("i").tolist(), f[1]) for n, f in enumerate(fields) if f is not None}
    assert found == {("id",): ([0, 1, 0], b'[1,"1"]'), ("reward",): ([0, -1, 1], b"[0,0.5]")}
    assert (made.rows, made.held) == (0, 0)
    assert made.take() == (b"", [None] * len(FIELDS))


def test_many_distinct_values() -> None:
    made, rng = engine(), random.Random(3)
    values = [rng.randrange(3000) for _ in range(9000)]
    block = b"".join(b'{"id":"%d"}\n' % value for value in values)
    for _ in range(2):
        assert made.feed(block, len(block), 0, 1) == (9000, [])
        _, fields = made.take()
        codes, text = next(field for field in fields if field is not None)
        distinct = json.loads(text)
        assert len(distinct) == len(set(values))
        assert [int(distinct[code]) for code in memoryview(codes).cast("i")] == values


def test_an_engine_is_made_of_members_and_made_once() -> None:
    kind = type(engine())
    for wrong in (None, (1,), ((b'"a"', True),), tuple((b'"%d"' % n, True, False, None) for n in range(65))):
        with pytest.raises((TypeError, ValueError)):
            kind(wrong)
    with pytest.raises(RuntimeError):
        engine().__init__(())


@pytest.mark.parametrize("key", [b"", b'"'])
def test_a_key_has_its_quotes(key: bytes) -> None:
    with pytest.raises(ValueError, match="quotes"):
        type(engine())(((key, True, False, None),))


def test_an_engine_that_was_not_made_reads_nothing() -> None:
    kind = type(engine())
    for use in (lambda made: made.lines(b"{}", 2), lambda made: made.feed(b"{}", 2, 0, 1), lambda made: made.take()):
        with pytest.raises(RuntimeError, match="not made"):
            use(kind.__new__(kind))


@pytest.mark.parametrize("length", [-1, -(2**62), -(2**63), 0])
def test_a_block_without_content(length: int) -> None:
    assert engine().lines(b"{}\n", length) == []
    assert engine().feed(b"{}\n", length, 0, 1) == (0, [])


@pytest.mark.parametrize("length", [3, 4, 2**63 - 1])
def test_nothing_behind_a_buffer_is_read(length: int) -> None:
    assert engine().lines(b"{}\n", length) == [(3, b"{}")]
