"""Everything here holds with the compiled engine and without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollout_assets.core.jsonl import blocks, engine


@pytest.fixture(scope="module", autouse=True, params=["compiled", "typed"])
def reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which reader of blocks is in force."""
    if request.param == "compiled" and engine.new_engine() is None:
        pytest.skip("the engine is not compiled: install the package where there is a C compiler")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "typed":
            patch.setattr(blocks, "new_engine", lambda: None)
        yield request.param
