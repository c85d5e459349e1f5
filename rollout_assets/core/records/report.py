"""Coverage and attempts of a run as text and as JSON, for the command line (records.md §16.4, §17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rollout_assets.core.discovery import discover
from rollout_assets.core.errors import RunDataError, unreadable_file
from rollout_assets.core.records.paths import resolve_rollout_owner
from rollout_assets.core.records.timeline import ReadingMode, RunReading, TimelineEntry

#: Figures of the coverage report in the order they are shown; the indented ones are part of the one above.
_SHOWN: Final = (
    ("expected", 0),
    ("successful", 1),
    ("measured", 2),
    ("masked", 2),
    ("unscored", 2),
    ("failed", 1),
    ("failed_final", 2),
    ("failed_not_final", 2),
    ("intentionally_omitted", 1),
    ("unknown", 1),
    ("never_dispatched", 2),
    ("retryable", 0),
    ("attempts_exhausted", 0),
    ("stopped", 0),
    ("attempts", 0),
    ("counted_failures", 0),
    ("max_rollout_attempts", 0),
)
_VERDICTS: Final = ("complete", "reconciled", "identity_verified")
_MODES: Final = {
    ReadingMode.MANIFEST: "its manifest",
    ReadingMode.LEGACY_IMPORT: "its inventory, there is no manifest",
    ReadingMode.ROWS_ONLY: "its rows alone, there is neither manifest nor inventory",
}
#: Attempt numbers that are listed; a manifest can reserve any number of them.
_LISTED: Final = 20


def results_file_of(path: Path) -> Path:
    """The results file that a person means: a file, the file a companion belongs to, or the only one in a folder.

    Raises:
        RunDataError: `E-UNREADABLE` when there is no such file; `E-RUN-COUNT` when a folder holds no run, or several,
            which are named; `E-ALIAS`.
    """
    if not path.is_dir():
        if not path.exists():
            raise unreadable_file(path, FileNotFoundError())
        return resolve_rollout_owner(path)
    found = discover(path)
    outputs = [run.output for run in found.runs] + [item.path for item in found.rejected if item.path.is_file()]
    if len(outputs) != 1:
        names = ", ".join(str(output.relative_to(path)) for output in outputs[:10])
        reason = f"holds {len(outputs)} runs ({names}); name one of their results files"
        if not outputs:
            reason = "holds no run: no results file `*.jsonl` in any folder; name the results file of a run"
        raise RunDataError("E-RUN-COUNT", reason, path=path)
    return outputs[0]


def as_json(
    output: Path, reading: RunReading, coverage: Mapping[str, Any] | None, rollout_id: str | None = None
) -> dict[str, Any]:
    """What is known of a run, ready for JSON; with the attempts of one rollout if an id is given.

    `coverage` is the report of `RolloutRecords.coverage`, None for a run that is read by its rows alone.
    """
    counts = Counter(entry.disposition for entry in reading.timeline if entry.selected)
    known = (
        {"coverage_known": False, "expected": None, "standing": {str(key): n for key, n in sorted(counts.items())}}
        if coverage is None
        else {"coverage_known": True, **coverage}
    )
    report = {"path": str(output), "mode": str(reading.mode), **known}
    if rollout_id is not None:
        report["timeline"] = [entry._asdict() for entry in attempts_of(reading, rollout_id)]
    return report


def attempts_of(reading: RunReading, rollout_id: str) -> list[TimelineEntry]:
    """The saved rows of one rollout.

    Raises:
        RunDataError: `E-NOT-IN-INVENTORY` when the run does not expect the rollout, or no row names it.
    """
    entries = [entry for entry in reading.timeline if entry.rollout_id == rollout_id]
    if not entries and (reading.records is None or rollout_id not in reading.records.expected):
        some = list(dict.fromkeys(entry.rollout_id for entry in reading.timeline if entry.rollout_id))
        examples = f"; ids look like {', '.join(some[:3])}" if some else ""
        raise RunDataError("E-NOT-IN-INVENTORY", f"the run has no rollout {rollout_id!r}{examples}")
    return entries


def as_text(
    output: Path, reading: RunReading, coverage: Mapping[str, Any] | None, rollout_id: str | None = None
) -> str:
    """The same as `as_json`, for a person."""
    lines = [f"{output} (read by {_MODES[reading.mode]})"]
    if coverage is None:
        standing = Counter(entry.disposition for entry in reading.timeline if entry.selected)
        lines.append("coverage is unknown: without manifest and inventory nothing says how many rollouts were expected")
        lines += [
            f"  {disposition}: {count:,} {'row stands' if count == 1 else 'rows stand'}"
            for disposition, count in sorted(standing.items())
        ]
    else:
        lines += _coverage_lines(coverage)
    if rollout_id is not None:
        lines += ["", f"attempts of {rollout_id}", *_attempt_lines(reading, rollout_id)]
    return "\n".join(lines)


def _coverage_lines(coverage: Mapping[str, Any]) -> Iterator[str]:
    for name, depth in _SHOWN:
        yield f"{'  ' * (depth + 1) + name:<32} {coverage[name]:>12,}"
        if name == "failed_not_final":
            for label, count in coverage["failed_by_class"].items():
                yield f"{'      ' + (label or '(empty class)'):<32} {count:>12,}"
    yield "  " + ", ".join(f"{name}: {'yes' if coverage[name] else 'no'}" for name in _VERDICTS)


def _attempt_lines(reading: RunReading, rollout_id: str) -> Iterator[str]:
    entries = attempts_of(reading, rollout_id)
    for entry in entries:
        attempt = "?" if entry.attempt_index is None else str(entry.attempt_index)
        what = "result" if entry.failure_class is None else entry.failure_class or "failure"
        state = "stands" if entry.selected else entry.dropped_because
        notes = "".join([", final" if entry.final else "", ", counted" if entry.counted else ""])
        yield f"  attempt {attempt}: {entry.file} line {entry.line} (byte {entry.offset}): {what}, {state}{notes}"
    if reading.records is not None:
        saved = {entry.attempt_index for entry in entries}
        reserved = reading.records.manifest.next_attempt.get(rollout_id, 0)
        unfilled = list(islice((n for n in range(reserved) if n not in saved), _LISTED + 1))
        if unfilled:
            more = ", …" if len(unfilled) > _LISTED else ""
            yield f"  reserved, nothing saved: {', '.join(map(str, unfilled[:_LISTED]))}{more}"
        yield f"  the rollout is {reading.records.disposition(rollout_id)}"
