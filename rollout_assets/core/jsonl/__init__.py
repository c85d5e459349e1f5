"""One line of a file: strict scan with byte coordinates, projection of huge rows, and repair of torn tails."""

from rollout_assets.core.jsonl.faults import READABLE, Fault, FaultKind
from rollout_assets.core.jsonl.fields import RowFields, project
from rollout_assets.core.jsonl.projector import PROJECTED_ROW_BYTES, TopLevelProjector
from rollout_assets.core.jsonl.scan import Line, Row, scan
from rollout_assets.core.jsonl.tail import prepare_append

__all__ = [
    "PROJECTED_ROW_BYTES",
    "READABLE",
    "Fault",
    "FaultKind",
    "Line",
    "Row",
    "RowFields",
    "TopLevelProjector",
    "prepare_append",
    "project",
    "scan",
]
