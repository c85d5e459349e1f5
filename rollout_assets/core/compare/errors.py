"""The one exception of a comparison."""

from __future__ import annotations

from os import PathLike

from rollout_assets.core.errors import RunDataError


class CompareInputError(RunDataError):
    """Rollouts that cannot be compared; the message names the place, the task where known, and what to do."""

    def at(self, path: str | PathLike[str], line: int, offset: int) -> CompareInputError:
        """The same error with the place of the row that caused it."""
        return CompareInputError(self.code, self.reason, path=path, line=line, offset=offset, kind=self.kind)
