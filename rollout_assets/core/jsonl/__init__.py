"""One line of a file: strict scan with byte coordinates, and the faults it finds."""

from rollout_assets.core.jsonl.faults import READABLE, Fault, FaultKind
from rollout_assets.core.jsonl.fields import RowFields, project
from rollout_assets.core.jsonl.scan import Line, Row, scan

__all__ = ["READABLE", "Fault", "FaultKind", "Line", "Row", "RowFields", "project", "scan"]
