"""How a process that only indexes starts faster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Say that there is no pandas; others say where everything else is."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def spare_pandas() -> None:
    """Keep pyarrow from importing pandas, which takes a third of a second, to ask whether a list is one of its series.

    For programs that use no pandas at all: pyarrow looks for it once, and what it finds holds for the whole process.
    Where pandas is imported already nothing is done.
    """
    if "pandas" not in sys.modules:
        finder = _NoPandas()
        sys.meta_path.insert(0, finder)
        pa.array([])
        sys.meta_path.remove(finder)
