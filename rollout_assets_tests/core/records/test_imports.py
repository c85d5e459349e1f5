"""What importing the index of a run does not bring along."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("rollout_assets.core.records", ("dagster", "pandas", "pyarrow", "numpy", "pydantic", "click")),
        ("rollout_assets.core.jsonl", ("dagster", "pandas", "pyarrow", "numpy", "pydantic", "click")),
    ],
)
def test_imports_are_light(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*(name for name in {absent!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []
