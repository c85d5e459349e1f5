"""The two strictness checks of an index: is every line sound JSON, and is every reward a number or null.

The verdict is pure: it is read off what the scan found, so a file is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from rollout_assets.checks.partitioned import check_result, partitioned_check
from rollout_assets.core.jsonl import Fault, FaultKind
from rollout_assets.core.jsonl.faults import EXCERPT_CHARACTERS
from rollout_assets.core.records.paths import File
from rollout_assets.core.text import counted
from rollout_assets.indexing import REWARD_FAULTS, IndexSummary
from rollout_assets.policy import Severity

#: Characters of an excerpt shown in the table of places; `producer_faults` holds all of it.
SHOWN_EXCERPT = 24

JSONL_STRICT = partitioned_check(
    "jsonl_strict",
    "record_index",
    blocking=True,
    description="Every line of the results file and the sidecar is one JSON object in UTF-8, without duplicate keys "
    "that a rule reads, lone surrogates or excessive depth. One that is not blocks everything downstream of the run. "
    "`NaN`, infinities and a torn last line are warnings, unless the policy says otherwise: the rules know what to do "
    "with them.",
)
REWARD_STRICT = partitioned_check(
    "reward_strict",
    "record_index",
    blocking=True,
    description="Every `reward` is a number or null. A boolean, string, list or object blocks everything downstream of "
    "the run: it would be read as something that the producer did not measure.",
)


def judge(summary: IndexSummary, key: str, severities: Mapping[FaultKind, Severity]) -> list[dg.AssetCheckResult]:
    """The results of both checks for one run, with the severities of its policy."""
    return [
        _result(JSONL_STRICT, summary, key, severities, frozenset(FaultKind) - REWARD_FAULTS),
        _result(REWARD_STRICT, summary, key, severities, REWARD_FAULTS),
    ]


def blocking_reason(results: list[dg.AssetCheckResult]) -> str | None:
    """Why a run may not be used, or `None` when it may."""
    failed = [r for r in results if not r.passed and r.severity is dg.AssetCheckSeverity.ERROR]
    return "; ".join(f"{result.check_name}: {result.description}" for result in failed) or None


def _result(
    spec: dg.AssetCheckSpec,
    summary: IndexSummary,
    key: str,
    severities: Mapping[FaultKind, Severity],
    kinds: frozenset[FaultKind],
) -> dg.AssetCheckResult:
    counts = {kind: number for kind, number in summary.counts.items() if kind in kinds}
    told = {kind: number for kind, number in counts.items() if severities[kind] != "ignore"}
    blocks = any(severities[kind] == "error" for kind in told)
    # What blocks comes first: the table shows a few dozen.
    faults = sorted(
        ((file, fault) for file, fault in summary.faults if fault.kind in told),
        key=lambda found: severities[found[1].kind] != "error",
    )
    rows, total, ignored = summary.rows.total(), sum(told.values()), sum(counts.values()) - sum(told.values())
    if told:
        description = _describe(told, faults[0][1], blocks=blocks)
    elif not rows and not counts and spec is JSONL_STRICT:
        blocks = True
        description = f"Run {key!r} holds no row yet. Wait until its producer has saved one, or remove it."
    else:
        description = f"All {rows} rows are sound."
    if ignored:
        description += f" The policy ignores {counted(ignored, 'fault')} that producer_faults lists."
    return check_result(
        spec,
        description,
        passed=not told and not blocks,
        severity=dg.AssetCheckSeverity.ERROR if blocks or not told else dg.AssetCheckSeverity.WARN,
        metadata={
            "rows": rows,
            "faults": total,
            **({"ignored_faults": ignored} if ignored else {}),
            **{f"faults_{kind}": number for kind, number in counts.items()},
        },
        places=[place(file, fault) for file, fault in faults],
    )


def _describe(counts: Mapping[FaultKind, int], first: Fault, *, blocks: bool) -> str:
    total = sum(counts.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    place = f"{first.path}:{first.line} (byte {first.byte}): {first.message}"
    if blocks:
        advice = "Mend the producer or the file, then materialize record_index again; nothing downstream runs before."
    else:
        advice = "The run goes on: such rows are masked or left out by rule."
    return f"{counted(total, 'fault')} ({kinds}). First: {place}. {advice}"


def place(file: File, fault: Fault) -> dict[str, Any]:
    """A fault as a line of a table: the byte offset is that of the fault, not of its line."""
    return {
        "file": file,
        "line": fault.line,
        "column": fault.column,
        "byte offset": fault.byte,
        "kind": str(fault.kind),
        "message": fault.message,
        "excerpt": _narrow(fault),
    }


def _narrow(fault: Fault) -> str:
    """The middle of the excerpt: the UI does not break it, and a long one pushes the page out of the window."""
    at = min(fault.column - 1, EXCERPT_CHARACTERS // 2)  # where the fault stands in the excerpt
    start = max(0, at - SHOWN_EXCERPT // 2)
    shown = fault.excerpt[start : start + SHOWN_EXCERPT]
    return ("…" if start else "") + shown + ("…" if start + SHOWN_EXCERPT < len(fault.excerpt) else "")
