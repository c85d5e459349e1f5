"""Mending the end of a file before a writer appends to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollout_assets.core.errors import RunDataError, RunDataWarning
from rollout_assets.core.jsonl import tail
from rollout_assets.core.jsonl.tail import prepare_append

ROW = b'{"a":1}\n'


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(content)
    return path


def test_a_missing_file_stays_missing(tmp_path: Path) -> None:
    prepare_append(tmp_path / "none.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\n", ROW, ROW + b"  \n", b'{"a":\n', b"\xff\n"])
def test_a_file_that_ends_in_a_newline_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    os.chmod(path, 0o444)
    prepare_append(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "last",
    [
        b'{"b":2}',
        b'{"b":2}\r',
        b" ",
        b" \t\r",
        b"[1]",
        b"3",
        b'{"reward":NaN}',
        b'{"id":1,"id":2}',
        '{"b":"é"}'.encode(),
    ],
)
@pytest.mark.parametrize("before", [b"", ROW, b"\n\n"])
def test_a_complete_or_blank_last_line_gets_its_newline(tmp_path: Path, before: bytes, last: bytes) -> None:
    path = written(tmp_path, before + last)
    prepare_append(path)
    assert path.read_bytes() == before + last + b"\n"


@pytest.mark.parametrize(
    "last",
    [
        b"{",
        b'{"b":tr',
        b'{"b":-',
        b'{"b":"\\u00',
        '{"b":"é'.encode()[:-1],
        b'{"b":NaN,"c',
        b" {",
        b'{"reward":1,"reward":2,',
    ],
)
@pytest.mark.parametrize("before", [b"", ROW, ROW + b"bad\n\n"])
def test_an_incomplete_last_line_is_cut_off(tmp_path: Path, before: bytes, last: bytes) -> None:
    path = written(tmp_path, before + last)
    with pytest.warns(RunDataWarning) as caught:
        prepare_append(path)
    assert path.read_bytes() == before
    (warning,) = (item.message for item in caught)
    assert isinstance(warning, RunDataWarning)
    assert (warning.code, warning.path) == ("W-REPAIR", str(path))
    assert f"{len(last)} bytes" in str(warning)
    assert str(path) in str(warning)


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (b'{"b":1}}', "invalid_json"),
        (b'{"b":01', "invalid_json"),
        (b"\xc2\xa0", "invalid_json"),
        (b'{"b":"\xff"}', "not_utf8"),
        (rb'{"b":"\ud800"}', "lone_surrogate"),
        (b'{"reward":1,"reward":2}', "duplicate_key"),
        (b'{"b":' + b"[" * 600 + b"]" * 600 + b"}", "too_deep"),
    ],
)
def test_any_other_fault_is_an_error_and_nothing_is_cut(tmp_path: Path, last: bytes, kind: str) -> None:
    path = written(tmp_path, ROW + b"\n" + last)
    with pytest.raises(RunDataError) as caught:
        prepare_append(path)
    error = caught.value
    assert (error.code, error.kind, error.path, error.line, error.offset) == ("E-JSON", kind, str(path), 3, 9)
    assert path.read_bytes() == ROW + b"\n" + last


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, 64])
@pytest.mark.parametrize("last", [b"", b"{", b'{"b":'])
def test_the_last_line_is_found_whatever_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, last: bytes
) -> None:
    monkeypatch.setattr(tail, "_STEP_BYTES", step)
    path = written(tmp_path, ROW * 3 + last)
    if last:
        with pytest.warns(RunDataWarning, match="W-REPAIR|cut off"):
            prepare_append(path)
    else:
        prepare_append(path)
    assert path.read_bytes() == ROW * 3


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as caught:
        prepare_append(tmp_path)
    assert caught.value.code == "E-UNREADABLE"
