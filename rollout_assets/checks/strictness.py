"""The two strictness checks of an index: is every line sound JSON, and is every reward a number or null.

What they say is decided in `indexing.strictness`, from what the scan found, so a file is read once.
"""

from __future__ import annotations

from typing import Any

import dagster as dg

from rollout_assets.checks.partitioned import check_result, partitioned_check
from rollout_assets.core.jsonl import Fault
from rollout_assets.core.jsonl.faults import EXCERPT_CHARACTERS
from rollout_assets.core.records.paths import File
from rollout_assets.indexing import strictness
from rollout_assets.indexing.strictness import Judgment

#: Characters of an excerpt shown in the table of places; `producer_faults` holds all of it.
SHOWN_EXCERPT = 24

JSONL_STRICT = partitioned_check(
    strictness.JSONL_STRICT,
    "record_index",
    blocking=True,
    description="Every line of the results file and the sidecar is one JSON object in UTF-8, without duplicate keys "
    "that a rule reads, lone surrogates or excessive depth. One that is not blocks everything downstream of the run. "
    "`NaN`, infinities and a torn last line are warnings, unless the policy says otherwise: the rules know what to do "
    "with them.",
)
REWARD_STRICT = partitioned_check(
    strictness.REWARD_STRICT,
    "record_index",
    blocking=True,
    description="Every `reward` is a number or null. A boolean, string, list or object blocks everything downstream of "
    "the run: it would be read as something that the producer did not measure.",
)


_SPECS = {spec.name: spec for spec in (JSONL_STRICT, REWARD_STRICT)}


def strictness_result(judgment: Judgment) -> dg.AssetCheckResult:
    """What Dagster is told of a judgment on a run."""
    warns = not judgment.passed and not judgment.blocks
    return check_result(
        _SPECS[judgment.rule],
        judgment.description,
        passed=judgment.passed,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        metadata=judgment.figures,
        places=[place(file, fault) for file, fault in judgment.faults],
    )


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
