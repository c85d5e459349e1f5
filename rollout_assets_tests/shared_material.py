"""Where the conformance cases and the real rollout files lie, if they are beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
RECORD_CASES = SHARED / "cases" / "records"
NEMO_GYM = SHARED / "data" / "nemo_gym"

needs_record_cases = pytest.mark.skipif(
    not RECORD_CASES.is_dir(), reason="the conformance cases are not beside the checkout (../shared/cases/records)"
)
needs_nemo_gym = pytest.mark.skipif(
    not NEMO_GYM.is_dir(), reason="the real rollout files are not beside the checkout (../shared/data/nemo_gym)"
)
