"""The manifest: version 2 strictly, later versions loosely (records.md §4.1, decision 15)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout_assets.core.records import RunDataError, RunManifest
from rollout_assets_tests.core.records.runs import RUN_ID, contents, manifest

ADMISSION = {
    "operation_id": "op-1",
    "predecessor_id": "ev-1",
    "predecessor_sha256": "1" * 64,
    "rollout_id": "0-0",
    "attempt": 0,
    "admitted_at": "2026-11-01T00:00:00Z",
}


def fields(**changes: Any) -> dict[str, Any]:
    """A manifest with these changes; an ellipsis removes a field."""
    return {key: value for key, value in manifest([], **changes).items() if value is not ...}


def read(folder: Path, text: str | bytes) -> RunManifest:
    path = folder / "rollouts_manifest.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return RunManifest.read(path)


def test_version_2(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps(fields(schema_version=2, next_attempt={"0-0": 2, "1-0": 0}), indent=2))
    assert (found.schema_version, found.run_id, found.next_attempt) == (2, RUN_ID, {"0-0": 2, "1-0": 0})
    assert (found.max_rollout_attempts, found.attempt_extension, found.retry_terminal_timeouts) == (None, 0, False)


def test_defaults(tmp_path: Path) -> None:
    optional = ("schema_version", "selection_policy", "legacy_import", "identity_overridden", "next_attempt")
    found = read(tmp_path, json.dumps(fields(**dict.fromkeys(optional, ...))))
    assert (found.schema_version, found.selection_policy, found.next_attempt) == (2, "latest_allocated", {})
    assert not found.legacy_import
    assert not found.identity_overridden


def test_later_versions_keep_what_they_do_not_know(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        json.dumps(
            fields(
                schema_version=7,
                source_digest="unverified",
                config_digest="unverified",
                max_rollout_attempts=5,
                attempt_extension=2,
                retry_terminal_timeouts=True,
                rerun_masked=[[0, 1, 2]],
                pending_rejudges=[{**ADMISSION, "more": 1}],
                configuration={"a": 1},
                later={"x": [1]},
            )
        ),
    )
    assert found.rerun_masked == [(0, 1, 2)]
    assert found.pending_rejudges[0].operation_id == "op-1"
    assert found.unknown_fields == {"later": {"x": [1]}}
    assert found.next_attempt == {}


def test_a_reservation_may_be_of_any_size(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps(fields(next_attempt={"0-0": 10**30}))).next_attempt == {"0-0": 10**30}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"schema_version": 1}, "journal format"),
        ({"schema_version": 0}, ">= 2"),
        ({"schema_version": "2"}, "got `str`"),
        ({"schema_version": True}, "got `bool`"),
        ({"schema_version": 2.5}, "got `float`"),
        ({"schema_version": None}, "got `null`"),
        ({"schema_version": 2, "later": 1}, "'later'"),
        ({"schema_version": 2, "attempt_extension": 0}, "'attempt_extension'"),
        ({"selection_policy": "latest_dispatched"}, "latest_dispatched"),
        ({"run_id": ...}, "run_id"),
        ({"run_id": "A" * 32}, "$.run_id"),
        ({"run_id": "a" * 31}, "$.run_id"),
        ({"run_id": "a" * 32 + "\n"}, "$.run_id"),
        ({"materialized_digest": "unverified"}, "$.materialized_digest"),
        ({"source_digest": "5" * 63}, "$.source_digest"),
        ({"config_digest": None}, "$.config_digest"),
        ({"legacy_import": 1}, "$.legacy_import"),
        ({"identity_overridden": None}, "$.identity_overridden"),
        ({"next_attempt": {"0-0": -1}}, "$.next_attempt"),
        ({"next_attempt": {"0-0": True}}, "$.next_attempt"),
        ({"next_attempt": {"0-0": 1.0}}, "$.next_attempt"),
        ({"next_attempt": []}, "$.next_attempt"),
        ({"max_rollout_attempts": 0}, "$.max_rollout_attempts"),
        ({"max_rollout_attempts": None}, "$.max_rollout_attempts"),
        ({"attempt_extension": -1}, "$.attempt_extension"),
        ({"retry_terminal_timeouts": "yes"}, "$.retry_terminal_timeouts"),
        ({"rerun_masked": [[0, 0]]}, "$.rerun_masked"),
        ({"rerun_masked": [[0, 0, -1]]}, "$.rerun_masked"),
        ({"pending_rejudges": [{**ADMISSION, "attempt": "0"}]}, "$.pending_rejudges"),
        ({"pending_rejudges": [{}]}, "$.pending_rejudges"),
        ({"configuration": []}, "$.configuration"),
    ],
)
def test_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    assert_refused(tmp_path, json.dumps(fields(**changes)), named)


@pytest.mark.parametrize(
    ("text", "named", "kind"),
    [
        ("", "ends in the middle", "invalid_json"),
        ("{", "ends in the middle", "invalid_json"),
        ("[]", "object", "not_an_object"),
        (b'{"a": "\xff"}', "UTF-8", "not_utf8"),
        ('{"a": "\\ud800"}', "surrogate", "lone_surrogate"),
        ("[" * 600 + "]" * 600, "512", "too_deep"),
    ],
)
def test_malformed(tmp_path: Path, text: str | bytes, named: str, kind: str) -> None:
    assert assert_refused(tmp_path, text, named).kind == kind


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'{{"run_id": "{RUN_ID}", "run_id": "{RUN_ID}"}}', "run_id"),
        ('{"next_attempt": {"0-0": 1, "0-0": 2}}', "0-0"),
        ('{"pending_rejudges": [{"attempt": 0, "attempt": 1}]}', "attempt"),
    ],
)
def test_a_key_that_a_rule_reads_stands_once(tmp_path: Path, text: str, key: str) -> None:
    assert_refused(tmp_path, text, f"the key {key!r} occurs twice")


def test_of_other_duplicates_the_last_wins(tmp_path: Path) -> None:
    text = json.dumps(fields(configuration={"a": 1})).replace('{"a": 1}', '{"a": 1, "a": 2}')
    assert read(tmp_path, text[:-1] + ', "later": 1, "later": 2}').configuration == {"a": 2}


def assert_refused(folder: Path, text: str | bytes, named: str) -> RunDataError:
    with pytest.raises(RunDataError) as raised:
        read(folder, text)
    assert raised.value.code == "E-MANIFEST"
    assert raised.value.path == str(folder / "rollouts_manifest.json")
    assert named in str(raised.value)
    assert "restore it" in str(raised.value)
    assert contents(folder) == {"rollouts_manifest.json": text.encode() if isinstance(text, str) else text}
    return raised.value


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(RunDataError) as raised:
        RunManifest.read(tmp_path)
    assert raised.value.code == "E-UNREADABLE"
