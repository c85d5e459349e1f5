"""The two strictness rules of an index: is every line sound JSON, and is every reward a number or null.

Pure: they are read off what the scan found. The checks in Dagster and the command `index` tell the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rollout_assets.core.jsonl import Fault, FaultKind
from rollout_assets.core.records.paths import File
from rollout_assets.core.text import counted
from rollout_assets.indexing.faults import IndexSummary
from rollout_assets.policy import Severity

#: The fault that `reward_strict` judges; `jsonl_strict` judges all others.
REWARD_FAULTS: Final = frozenset({FaultKind.REWARD_NOT_A_NUMBER})
JSONL_STRICT, REWARD_STRICT = "jsonl_strict", "reward_strict"


@dataclass(frozen=True)
class Judgment:
    """What one rule says of a run.

    Attributes:
        rule: `jsonl_strict` or `reward_strict`.
        description: The verdict in words: what is wrong and what to do.
        passed: Whether nothing is wrong that the policy does not ignore.
        blocks: Whether nothing may use the run.
        figures: Numbers of rows and faults.
        faults: The first faults of each kind, those that block first.
    """

    rule: str
    description: str
    passed: bool
    blocks: bool
    figures: Mapping[str, int]
    faults: list[tuple[File, Fault]]


def judge(summary: IndexSummary, key: str, severities: Mapping[FaultKind, Severity]) -> list[Judgment]:
    """What both rules say of a run, with the severities of its policy."""
    return [
        _judgment(JSONL_STRICT, summary, key, severities, frozenset(FaultKind) - REWARD_FAULTS),
        _judgment(REWARD_STRICT, summary, key, severities, REWARD_FAULTS),
    ]


def blocking_reason(judgments: Iterable[Judgment]) -> str | None:
    """Why a run may not be used, or `None` when it may."""
    return "; ".join(f"{found.rule}: {found.description.rstrip('.')}" for found in judgments if found.blocks) or None


def _judgment(
    rule: str,
    summary: IndexSummary,
    key: str,
    severities: Mapping[FaultKind, Severity],
    kinds: frozenset[FaultKind],
) -> Judgment:
    counts = {kind: number for kind, number in summary.counts.items() if kind in kinds}
    told = {kind: number for kind, number in counts.items() if severities[kind] != "ignore"}
    blocks = any(severities[kind] == "error" for kind in told)
    # What blocks comes first: a table shows a few dozen.
    faults = sorted(
        ((file, fault) for file, fault in summary.faults if fault.kind in told),
        key=lambda found: severities[found[1].kind] != "error",
    )
    rows, total, ignored = summary.rows.total(), sum(told.values()), sum(counts.values()) - sum(told.values())
    if told:
        description = _describe(told, faults[0][1], blocks=blocks)
    elif not rows and not counts and rule == JSONL_STRICT:
        blocks = True
        description = f"Run {key!r} holds no row yet. Wait until its producer has saved one, or remove it."
    else:
        description = f"All {rows} rows are sound."
    if ignored:
        description += f" The policy ignores {counted(ignored, 'fault')} that producer_faults lists."
    figures = {
        "rows": rows,
        "faults": total,
        **({"ignored_faults": ignored} if ignored else {}),
        **{f"faults_{kind}": number for kind, number in counts.items()},
    }
    return Judgment(rule, description, passed=not told and not blocks, blocks=blocks, figures=figures, faults=faults)


def _describe(counts: Mapping[FaultKind, int], first: Fault, *, blocks: bool) -> str:
    total = sum(counts.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    place = f"{first.path}:{first.line} (byte {first.byte}): {first.message}"
    if blocks:
        advice = "Mend the producer or the file, then take the run in again; until then nothing downstream uses it."
    else:
        advice = "The run goes on: such rows are masked or left out by rule."
    return f"{counted(total, 'fault')} ({kinds}). First: {place}. {advice}"
