"""Laws of the index, on runs that hypothesis makes up (records.md §9)."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_assets.core.records import RolloutRecords, RunManifest, open_run, timeline
from rollout_assets.core.records.paths import manifest_path_for
from rollout_assets_tests.core.records.runs import failure, load, result, write_run

LAW = settings(derandomize=True, deadline=None, max_examples=120)
ROLLOUTS = 3
KINDS = ("result", "masked", "failure", "terminal", "skip", "killed")


@dataclass
class History:
    """What a run went through: reservations made, and outcomes saved in the order of their arrival."""

    reserved: dict[int, int] = field(default_factory=dict)
    saved: list[tuple[int, int, str]] = field(default_factory=list)

    def rows(self, file: str) -> list[dict[str, Any]]:
        return [row(*outcome) for outcome in self.saved if (outcome[2] in ("result", "masked")) is (file == "results")]

    def run(self) -> dict[str, Any]:
        return {
            "inventory": ROLLOUTS,
            "results": self.rows("results"),
            "failures": self.rows("failures"),
            "reserved": {f"{task}-0": n for task, n in self.reserved.items()},
        }


def row(task: int, attempt: int, kind: str) -> dict[str, Any]:
    return {
        "result": result(task, attempt),
        "masked": result(task, attempt, mask_sample=True),
        "failure": failure(task, attempt),
        "terminal": failure(task, attempt, _ng_failure_terminal=True),
        "skip": failure(task, attempt, label="skipped", _ng_failure_terminal=True),
        "killed": failure(task, attempt, label="kill_shaped"),
    }[kind]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Reserve, save, be killed, save late, deliver twice: any interleaving a producer can leave behind."""
    history, in_flight = History(), list[tuple[int, int]]()
    for _ in range(draw(st.integers(0, 16))):
        event = draw(st.sampled_from(["reserve", "save", "save", "kill", "again"]))
        if event == "reserve":
            task = draw(st.integers(0, ROLLOUTS - 1))
            in_flight.append((task, history.reserved.get(task, 0)))
            history.reserved[task] = history.reserved.get(task, 0) + 1
        elif event == "save" and in_flight:  # in any order: late ones too
            task, attempt = in_flight.pop(draw(st.integers(0, len(in_flight) - 1)))
            history.saved.append((task, attempt, draw(st.sampled_from(KINDS))))
        elif event == "kill":
            in_flight.clear()
        elif event == "again" and history.saved:
            history.saved.append(draw(st.sampled_from(history.saved)))
    return history


def model(history: History) -> list[tuple[str, int, bool]]:
    """Disposition, counted failures, and whether a resume runs it, of each rollout (§9, §10)."""
    found, kinds = [], {(task, attempt): kind for task, attempt, kind in history.saved}
    for task in range(ROLLOUTS):
        newest = history.reserved.get(task, 0) - 1
        kind = kinds.get((task, newest))
        names = {None: "unknown", "result": "success", "masked": "success", "skip": "omitted"}
        disposition = names.get(kind, "failure")
        count = sum(kinds.get((task, n)) == "failure" for n in range(newest + 1))
        found.append((disposition, count, kind in (None, "failure", "killed") and count < 3))
    return found


def seen(records: RolloutRecords) -> list[tuple[str, int, bool]]:
    pending = set(records.pending_identities())
    ids = [f"{task}-0" for task in range(ROLLOUTS)]
    return [(str(records.disposition(i)), records.failure_count(i), i in pending) for i in ids]


def indexed(**run: Any) -> RolloutRecords:
    with tempfile.TemporaryDirectory() as folder:
        records = load(write_run(Path(folder), **run))
        check_identities(records)
        return records


def check_identities(records: RolloutRecords) -> None:
    """The identities of §17, and that every saved row has one entry in the timeline."""
    c = records.coverage()
    outcomes = c["measured"] + c["masked"] + c["unscored"] + c["failed"] + c["intentionally_omitted"] + c["unknown"]
    assert c["expected"] == outcomes
    assert c["successful"] == c["measured"] + c["masked"] + c["unscored"]
    assert c["failed"] == c["failed_final"] + c["failed_not_final"] == sum(c["failed_by_class"].values())
    failed = [i for i in records.expected if records.disposition(i) == "failure" and not records.is_final(i)]
    pending = set(records.pending_identities())
    exhausted = [i for i in failed if records.failure_count(i) >= records.attempt_cap]
    assert c["failed_not_final"] == sum(i in pending for i in failed) + len(exhausted) + c["stopped"]
    entries = timeline(records)
    assert len({(entry.file, entry.line) for entry in entries}) == len(entries)
    standing = [entry.rollout_id for entry in entries if entry.selected]
    assert len(standing) == len(set(standing)) == c["expected"] - c["unknown"]
    assert sum(entry.counted for entry in entries) == c["counted_failures"]


@LAW
@given(histories())
def test_any_history_gives_what_the_model_says(history: History) -> None:
    records = indexed(**history.run())
    assert seen(records) == model(history)
    assert len(timeline(records)) == len(history.saved)


@LAW
@given(histories(), st.data())
def test_the_order_of_arrival_does_not_matter(history: History, data: st.DataObject) -> None:
    once = history.run()
    shuffled = {name: data.draw(st.permutations(once[name])) for name in ("results", "failures")}
    assert seen(indexed(**{**once, **shuffled})) == seen(indexed(**once))


@LAW
@given(histories(), st.data())
def test_a_prefix_never_gives_more_than_the_file(history: History, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        output = write_run(Path(folder), **history.run())
        whole = load(output)
        sidecar = output.with_name("rollouts_failures.jsonl")
        limits = {path: data.draw(st.integers(0, path.stat().st_size)) for path in (output, sidecar)}
        part = load(output, outcome_limits=limits)
        check_identities(part)
    assert part.payloads.keys() <= whole.payloads.keys()
    assert all(part.failure_count(i) <= whole.failure_count(i) for i in whole.expected)
    for (rollout_id, attempt), outcome in part.payloads.items():
        assert outcome.facts == whole.payloads[rollout_id, attempt].facts


@LAW
@given(histories(), st.data())
def test_saving_what_is_charged_changes_nothing_but_the_count(history: History, data: st.DataObject) -> None:
    run = history.run()
    records = indexed(**run)
    with tempfile.TemporaryDirectory() as folder:
        output = write_run(Path(folder), **run)
        charges = list(load(output).allocation_end_charges())
        kept = charges[: data.draw(st.integers(0, len(charges)))]
    after = indexed(**{**run, "failures": [*run["failures"], *kept]})
    for rollout_id in records.expected:
        spent = sum(charge["_ng_task_index"] == int(rollout_id.split("-")[0]) for charge in kept)
        assert after.failure_count(rollout_id) == records.failure_count(rollout_id) + spent


@LAW
@given(st.lists(st.sampled_from(["failure", "result"]), max_size=6), st.integers(0, 6))
def test_an_import_numbers_rows_without_gaps(kinds: Sequence[str], cut: int) -> None:
    """Sidecar first, then output, each in file order: 0, 1, 2, …; equal rows are attempts of their own."""
    rows = [{"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_failure_class": "x"} for _ in kinds[:cut]]
    results = [{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1} for _ in kinds[cut:]]
    with tempfile.TemporaryDirectory() as folder:
        output = write_run(Path(folder), failures=rows, results=results, with_manifest=False)
        records = open_run(output)
    assert records is not None
    places = [(o.source.name, o.line) for o in itertools.islice(records.payloads.values(), None)]
    assert [attempt for _, attempt in records.payloads] == list(range(len(kinds)))
    assert places == [("failures", n + 1) for n in range(len(rows))] + [("output", n + 1) for n in range(len(results))]


def test_the_manifest_is_read_after_the_lengths_are_taken(tmp_path: Path) -> None:
    """Whatever the reader sees of the files, the manifest that it reads later reserves it."""
    output = write_run(tmp_path, results=[result()])
    before = RunManifest.read(manifest_path_for(output))
    assert before.next_attempt == {"0-0": 1}
    records = open_run(output)
    assert records is not None
    assert all(attempt < records.manifest.next_attempt[rollout_id] for rollout_id, attempt in records.payloads)
