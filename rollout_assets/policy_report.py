"""What a policy amounts to for the runs there are: which group each falls in, which comparisons would exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rollout_assets.core.discovery import Discovery
from rollout_assets.core.text import counted
from rollout_assets.policy import BASELINE_WORDS, Group, Policy, RunGroups


@dataclass(frozen=True)
class PlannedComparison:
    """A comparison that would be made when every run is sound.

    Attributes:
        run: The run to judge.
        wanted: The baseline as the policy has it.
        baseline: The run it stands for; None when there is none, and then `reason` says why.
        reason: Why there is no such comparison.
    """

    run: str
    wanted: str
    baseline: str | None
    reason: str | None = None


@dataclass(frozen=True)
class GroupReport:
    """A group, and the comparisons of each of its runs, in order; `named` if the policy names it."""

    group: Group
    named: bool
    runs: Mapping[str, tuple[PlannedComparison, ...]]


@dataclass(frozen=True)
class PolicyReport:
    """The groups of the policy in its order, then those of neighbours; `notes` are worth a second look."""

    groups: tuple[GroupReport, ...]
    notes: tuple[str, ...]


def report_on(policy: Policy, discovery: Discovery) -> PolicyReport:
    """Lay out a policy over the runs that were found."""
    keys = [run.key for run in discovery.runs]
    arranged, known = RunGroups(policy, keys), set(keys)
    groups = [
        GroupReport(
            group,
            group in policy.filled_in,
            {run: tuple(_comparisons(run, group, arranged, known)) for run in arranged.members(group)},
        )
        for group in arranged.groups()
    ]
    return PolicyReport(tuple(groups), tuple(_notes(groups, discovery)))


def as_text(report: PolicyReport) -> str:
    """The report for a terminal: a paragraph per group."""
    lines: list[str] = []
    for part in report.groups:
        group = part.group
        against = ", ".join(group.baselines) or "nothing"
        title = f"group {group.name} ({group.runs})" if part.named else f"runs of no group ({group.runs})"
        lines.append(f"{title}: {counted(len(part.runs), 'run')}, each compared with {against}")
        lines.append(f"  gate: {_gate(group)}")
        for run, comparisons in part.runs.items():
            lines.append(f"  {run}: {'; '.join(map(_planned, comparisons)) or 'not compared'}")
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def as_json(report: PolicyReport, discovery: Discovery, *, policy_file: Path | None, runs_root: Path) -> dict[str, Any]:
    """The report for a program."""
    return {
        "policy": None if policy_file is None else str(policy_file),
        "runs_root": str(runs_root),
        "groups": [
            {
                **part.group.model_dump(mode="json", exclude={"baseline", "severity"}),
                "baselines": list(part.group.baselines),
                "severity": {str(kind): severity for kind, severity in part.group.severities.items()},
                "members": list(part.runs),
            }
            for part in report.groups
        ],
        "comparisons": [
            asdict(comparison)
            for part in report.groups
            for comparisons in part.runs.values()
            for comparison in comparisons
        ],
        "cannot_be_taken_in": [{"path": str(item.path), "reason": item.reason} for item in discovery.rejected],
        "notes": list(report.notes),
    }


def _comparisons(run: str, group: Group, arranged: RunGroups, known: set[str]) -> Iterator[PlannedComparison]:
    taken: set[str] = set()
    for wanted in group.baselines:
        baseline = next(arranged.candidates(run, wanted), None)
        if baseline is None:
            yield PlannedComparison(run, wanted, None, _why_none(wanted))
        elif baseline not in known:
            yield PlannedComparison(run, wanted, None, f"there is no run {baseline!r}")
        elif baseline in taken:
            yield PlannedComparison(run, wanted, None, f"{baseline!r} is compared with already")
        else:
            taken.add(baseline)
            yield PlannedComparison(run, wanted, baseline)


def _why_none(wanted: str) -> str:
    return "it is the first run of its group" if wanted in BASELINE_WORDS else "it is the baseline itself"


def _notes(groups: list[GroupReport], discovery: Discovery) -> Iterator[str]:
    known = {run.key for run in discovery.runs}
    for part in groups:
        if not part.runs:
            yield f"no run falls in group {part.group.name!r} (runs: {part.group.runs})"
        for wanted in part.group.baselines:
            if wanted not in BASELINE_WORDS and wanted not in known:
                yield f"the baseline {wanted!r} of group {part.group.name!r} is no run below the runs root"
    for item in discovery.rejected:
        yield f"{item.path} cannot be taken in: {item.reason}"


def _gate(group: Group) -> str:
    thresholds = ", ".join(f"{name} {value}" for name, value in group.gate.thresholds.items())
    return thresholds + (" (a warning)" if group.gate.severity == "warn" else "") if thresholds else "none"


def _planned(comparison: PlannedComparison) -> str:
    if comparison.baseline is None:
        return f"no {comparison.wanted} ({comparison.reason})"
    because = "" if comparison.wanted == comparison.baseline else f" ({comparison.wanted})"
    return f"against {comparison.baseline}{because}"
