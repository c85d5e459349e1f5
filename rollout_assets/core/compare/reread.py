"""Reading a row again by its place, for what facts do not hold: the verifier output of a flip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from rollout_assets.core.compare.errors import CompareInputError
from rollout_assets.core.compare.facts import RowFacts, row_facts
from rollout_assets.core.compare.fold import failure_facts
from rollout_assets.core.compare.rows import StrPath, sidecar_path
from rollout_assets.core.jsonl.fields import RowFields
from rollout_assets.core.jsonl.parse import parse_line


class _Fields(RowFields, total=False):
    """What is decoded of a row: the fields of its facts, to know it again, and those of the verifier."""

    test_output: Any
    verifier_stdout: Any
    verifier_output: Any


_decode: Final = msgspec.json.Decoder(_Fields).decode
_decode_keys: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def row_reader(path: StrPath) -> Callable[[RowFacts], dict[str, Any]]:
    """A function that reads rows of an output and its sidecar again.

    It gives all top-level keys of the row, with the values that the comparison and the verifier output read and None
    for the others. It raises `CompareInputError` when the row is no longer what its facts were taken from.
    """

    def read(facts: RowFacts) -> dict[str, Any]:
        file = path if facts.file == "output" else sidecar_path(path)
        gone = CompareInputError(
            "E-CHANGED",
            "the row changed after it was read; compare again when the run is no longer written to",
            path=file,
            line=facts.line,
            offset=facts.offset,
        )
        if file is None:
            raise gone
        try:
            with Path(file).open("rb") as source:
                source.seek(facts.offset)
                data = source.read(facts.length)
        except OSError as error:
            raise gone from error
        for decode in (_quickly, _exactly):
            row = decode(data)
            if row is not None and _is_row_of(facts, row):
                return row
        raise gone

    return read


def _quickly(data: bytes) -> dict[str, Any] | None:
    try:
        return {**dict.fromkeys(_decode_keys(data)), **_decode(data)}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _exactly(data: bytes) -> dict[str, Any] | None:
    """For numbers that are not finite or huge, which the quick way does not read."""
    return parse_line(data).row


def _is_row_of(facts: RowFacts, row: dict[str, Any]) -> bool:
    now = row_facts(row, file=facts.file, line=facts.line, offset=facts.offset, length=facts.length)
    if facts.file == "failures":
        now = failure_facts(now)
    # A label of another key was read from the whole row; a digest may be that of the inventory.
    now = now._replace(input_digest=None)
    then = facts._replace(input_digest=None, labels=facts.labels[: len(now.labels)])
    # By their text too, since NaN equals nothing.
    return now == then or repr(now) == repr(then)
