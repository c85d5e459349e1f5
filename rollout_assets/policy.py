"""The policy: which runs belong together, and what each is compared with. One YAML file; all of it is optional.

```yaml
groups:
  - name: math
    runs: "math/*/rollouts"     # glob over run keys; * does not cross a /, ** does
    baseline: previous          # previous | first | none | a run key
    key: task_id                # how tasks are named; found by itself when left out
```

A run belongs to the first group whose glob matches its key. A run that no group matches is grouped with the runs
whose folders lie in the same parent folder, and compared with the previous one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from rollout_assets.core.discovery import natural_order, run_key_problem
from rollout_assets.core.errors import RunDataError

Baseline = Literal["previous", "first", "none"]
_BASELINE_WORDS = ("previous", "first", "none")


class Group(BaseModel):
    """Runs that are compared with each other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    runs: str
    baseline: str = "previous"
    key: str | None = None

    @field_validator("baseline")
    @classmethod
    def _baseline_is_known(cls, value: str) -> str:
        if value not in _BASELINE_WORDS and run_key_problem(value) is not None:
            raise ValueError(f"must be one of {', '.join(_BASELINE_WORDS)} or a run key, not {value!r}")
        return value

    def matches(self, run_key: str) -> bool:
        """Whether the group's glob covers a run key."""
        return _glob(self.runs).fullmatch(run_key) is not None


class Policy(BaseModel):
    """The whole policy file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    groups: tuple[Group, ...] = ()

    def group_of(self, run_key: str) -> Group:
        """The group of a run: the first that matches, else the one of its neighbours."""
        for group in self.groups:
            if group.matches(run_key):
                return group
        parent = PurePosixPath(run_key).parent.parent.as_posix()
        return Group(name=parent, runs="**" if parent == "." else f"{parent}/**")

    def candidates_for_baseline(self, run_key: str, run_keys: Iterable[str]) -> list[str]:
        """The runs that may serve as the baseline of `run_key`, best first; empty when there is none to compare with.

        For `previous` these are all earlier runs of the group, newest first, so that a caller can pass over a blocked
        one. Earlier means before it in natural order of the keys (`step-9` before `step-10`).
        """
        group = self.group_of(run_key)
        if group.baseline == "none" or group.baseline == run_key:
            return []
        if group.baseline not in _BASELINE_WORDS:
            return [group.baseline]
        members = sorted((key for key in run_keys if self.group_of(key).name == group.name), key=natural_order)
        earlier = [key for key in members if natural_order(key) < natural_order(run_key)]
        return earlier if group.baseline == "first" else earlier[::-1]


def load_policy(path: Path | None) -> Policy:
    """Read a policy file; without a file, or without a path, everything is at its default.

    Raises:
        RunDataError: `E-POLICY`, naming the file, the line or the key, what is wrong and what is allowed.
    """
    if path is None or not path.exists():
        return Policy()
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Policy.model_validate({} if value is None else value)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise RunDataError(
            "E-POLICY", f"is no YAML: {getattr(error, 'problem', error)}", path=path, line=line
        ) from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors())
        raise RunDataError("E-POLICY", f"is no policy: {problems}", path=path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RunDataError("E-POLICY", f"cannot be read: {error}", path=path) from error


def _glob(pattern: str) -> re.Pattern[str]:
    """A glob over run keys as a regular expression: `**` crosses slashes, `*` and `?` do not."""
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    meaning = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece, re.escape(piece)) for piece in pieces))
