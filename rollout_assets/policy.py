"""The policy: which runs belong together, what each is compared with, and what is held against it.

One YAML file; all of it is optional. `rollout-assets policy check` says what it amounts to, `rollout-assets policy
schema` writes its JSON Schema for editors.

```yaml
settle_seconds: 60              # a run is left alone until its files have rested this long
severity:                       # what a fault of a line does: error blocks the run, warn shows, ignore only counts
  truncated_tail: error
gate:                           # thresholds of the check comparison_gate; without any it passes
  max_regressions: 0
defaults:                       # for every run; a group overrides it field by field
  baseline: previous
groups:
  - name: math
    runs: "math/*/rollouts"     # glob over run keys; * does not cross a /, ** does
    baseline: [previous, math/step-0/rollouts]  # previous | first | none | a run key, or several
    key: task_id                # how tasks are named; found by itself when left out
    gate: {min_tasks: 100}
```

A run belongs to the first group whose glob matches its key. A run that no group matches is grouped with the runs
whose folders lie in the same parent folder.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)

from rollout_assets.core.compare.keys import ALL_KEYS, INPUT_DIGEST
from rollout_assets.core.discovery import natural_order, run_key_problem
from rollout_assets.core.jsonl import FaultKind
from rollout_assets.policy_file import read_model

Severity = Literal["error", "warn", "ignore"]
#: Categories of a comparison that can be held against a run.
Counted = Literal["flipped", "flipped_agent_error", "masked", "missing"]

#: Faults that a sound producer can leave behind are warnings: a value that a rule masks by name, and the mark of a
#: killed writer. Every other fault of a line blocks the run.
_WARNINGS = {FaultKind.NON_FINITE_NUMBER, FaultKind.TRUNCATED_TAIL}
DEFAULT_SEVERITY: Mapping[FaultKind, Severity] = {kind: "warn" if kind in _WARNINGS else "error" for kind in FaultKind}

BASELINE_WORDS = ("previous", "first", "none")
_ALLOWED_BASELINE = f"one of {', '.join(BASELINE_WORDS)} or a run key"


def _baseline(value: object) -> object:
    if isinstance(value, str) and (value in BASELINE_WORDS or run_key_problem(value) is None):
        return value
    raise ValueError(f"must be {_ALLOWED_BASELINE}, not {value!r}")


def _baselines(value: object) -> object:
    """One baseline is a list of one; `none` stands alone, and no baseline stands twice."""
    values = value if isinstance(value, list | tuple) else [value]
    if not values or (len(values) > 1 and ("none" in values or len({*map(str, values)}) < len(values))):
        raise ValueError(f"must be {_ALLOWED_BASELINE}, or a list of different ones without none; not {value!r}")
    return tuple(values)


def _task_key(value: str) -> str:
    problem = task_key_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


_BASELINE_SCHEMA = {"anyOf": [{"enum": list(BASELINE_WORDS)}, {"type": "string", "description": "A run key."}]}
Baselines = Annotated[
    tuple[Annotated[str, BeforeValidator(_baseline)], ...],
    BeforeValidator(_baselines),
    WithJsonSchema(
        {"anyOf": [_BASELINE_SCHEMA, {"type": "array", "items": _BASELINE_SCHEMA, "minItems": 1, "uniqueItems": True}]}
    ),
]
#: Task keys that can be used on stored runs: the index holds the labels of these alone.
TASK_KEYS = (*ALL_KEYS, INPUT_DIGEST)
TaskKey = Annotated[str, AfterValidator(_task_key), WithJsonSchema({"enum": list(TASK_KEYS)})]
NaturalNumber = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class _Part(BaseModel):
    """A mapping of the policy file: no other keys, no infinities, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Gate(_Part):
    """Thresholds of the check comparison_gate. One that is left out, or null, is not looked at."""

    max_regressions: NaturalNumber | None = Field(
        default=None, description="Most tasks that may have got worse than in a baseline."
    )
    min_coverage_fraction: Share | None = Field(
        default=None,
        description="Least share of all tasks of a comparison that must be measured on both sides, from 0 to 1: tasks "
        "that are masked, or missing on a side, are not.",
    )
    min_tasks: NaturalNumber | None = Field(
        default=None, description="Least number of tasks that must be measured on both sides."
    )
    count: tuple[Counted, ...] = Field(
        default=("flipped", "flipped_agent_error"),
        min_length=1,
        description="What counts as a regression: `flipped` (the mean reward fell), `flipped_agent_error` (it fell, "
        "and a side has an agent error), `masked` (measured in the baseline, masked in the run), `missing` (measured "
        "in the baseline, not in the run at all).",
    )
    min_difference: Annotated[float, Field(strict=True, ge=0)] = Field(
        default=0.0, description="A mean reward that fell by less than this does not count."
    )

    severity: Literal["error", "warn"] = Field(
        default="error",
        description="What a gate that does not pass is: `error` shows the run as failed, and `ingest` and `trigger "
        "--wait` exit with 1; `warn` is shown and no more. Neither blocks anything.",
    )

    @property
    def thresholds(self) -> dict[str, int | float]:
        """The thresholds that are set, by name."""
        names = ("max_regressions", "min_coverage_fraction", "min_tasks")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class Rules(_Part):
    """What holds for a run."""

    baseline: Baselines = Field(
        default=("previous",),
        description="What a run is compared with: `previous` (the run before it in its group, in natural order of the "
        "keys), `first` (the first of its group), `none`, or the run key of a pinned run; or a list of these, and the "
        "run is compared with each.",
    )
    key: TaskKey | None = Field(
        default=None, description="The field that names the task of a row. Left out, it is found by itself, run by run."
    )
    gate: Gate = Field(default=Gate(), description="Thresholds of the check comparison_gate.")
    severity: dict[FaultKind, Severity] = Field(
        default={},
        description="What a fault of a line does, by kind: `error` blocks the run, `warn` is shown and lets it pass, "
        "`ignore` is only counted. By default non_finite_number and truncated_tail warn, everything else is an error.",
    )

    @property
    def baselines(self) -> tuple[str, ...]:
        """The baselines that a run is compared with."""
        return () if self.baseline == ("none",) else self.baseline

    @property
    def severities(self) -> Mapping[FaultKind, Severity]:
        """What a fault of each kind does."""
        return {**DEFAULT_SEVERITY, **self.severity}


class Group(Rules):
    """Runs that are compared with each other. What it does not say is as the defaults have it."""

    name: Annotated[str, StringConstraints(min_length=1)] = Field(description="Its name, for messages and the UI.")
    runs: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="Glob over run keys (the path of the results file below the runs root, without .jsonl): `*` and "
        "`?` do not cross a `/`, `**` does. A run belongs to the first group that matches."
    )

    @field_validator("runs")
    @classmethod
    def _runs_can_match(cls, value: str) -> str:
        if value.startswith("/") or value.endswith(".jsonl"):
            raise ValueError(
                f"{value!r} matches no run key: a key is the path below the runs root, without .jsonl and with no / "
                "before it"
            )
        return value

    def matches(self, run_key: str) -> bool:
        """Whether the group's glob covers a run key."""
        return _glob(self.runs).fullmatch(run_key) is not None


class Policy(_Part):
    """The policy of rollout-assets: which runs are compared with which, and what is held against them."""

    groups: tuple[Group, ...] = Field(
        default=(), description="Groups of runs, first match first. Runs of no group are grouped by parent folder."
    )
    defaults: Rules = Field(default=Rules(), description="For every run; a group overrides it field by field.")
    severity: dict[FaultKind, Severity] = Field(
        default={},
        description="What a fault of a line does, by kind, for every run: `error` blocks the run, `warn` is shown and "
        "lets it pass, `ignore` is only counted. Defaults and groups override it kind by kind.",
    )
    gate: Gate = Field(
        default=Gate(),
        description="Thresholds of the check comparison_gate, for every run. Defaults and groups override it one by "
        "one.",
    )
    settle_seconds: Annotated[float, Field(strict=True, ge=0)] = Field(
        default=60.0, description="Seconds for which the files of a run must have rested before it is taken in."
    )

    @field_validator("groups")
    @classmethod
    def _names_differ(cls, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        names = [group.name for group in groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two groups are called {twice!r}; give each a name of its own")
        return groups

    def group_of(self, run_key: str) -> Group:
        """The group of a run, its defaults filled in: the first that matches, else the one of its neighbours."""
        for group in self.filled_in:
            if group.matches(run_key):
                return group
        parent = PurePosixPath(run_key).parent.parent.as_posix()
        return self._fill_in(Group(name=parent, runs="**" if parent == "." else f"{parent}/**"))

    def candidates_for_baseline(self, run_key: str, run_keys: Iterable[str]) -> list[str]:
        """The runs that may serve as a baseline of `run_key`, best first; empty when there is none to compare with.

        For `previous` these are all earlier runs of the group, newest first, so that a caller can pass over a blocked
        one. Earlier means before it in natural order of the keys (`step-9` before `step-10`). Candidates for several
        baselines follow each other; `RunGroups` tells them apart, and is the one to use for many runs.
        """
        arranged = RunGroups(self, run_keys)
        found = (key for wanted in self.group_of(run_key).baselines for key in arranged.candidates(run_key, wanted))
        return list(dict.fromkeys(found))

    @cached_property
    def filled_in(self) -> tuple[Group, ...]:
        """The groups, each with the defaults in place of what it does not say."""
        return tuple(self._fill_in(group) for group in self.groups)

    def _fill_in(self, group: Group) -> Group:
        layers = (Rules(severity=self.severity, gate=self.gate), self.defaults, group)
        gate: dict[str, Any] = {}
        severity: dict[FaultKind, Severity] = {}
        plain: dict[str, Any] = {}
        for layer in layers:
            gate |= {name: getattr(layer.gate, name) for name in layer.gate.model_fields_set}
            severity |= layer.severity
            plain |= {name: getattr(layer, name) for name in ("baseline", "key") if name in layer.model_fields_set}
        return group.model_copy(update={**plain, "gate": Gate(**gate), "severity": severity})


class RunGroups:
    """The known runs by group, in natural order of their keys: what each may be compared with."""

    def __init__(self, policy: Policy, run_keys: Iterable[str]) -> None:
        self._policy = policy
        self._members: dict[tuple[str, str], list[str]] = {}
        for key in sorted(run_keys, key=natural_order):
            self._members.setdefault(_identity(policy.group_of(key)), []).append(key)

    def groups(self) -> list[Group]:
        """The groups of the policy in its order, then the groups of neighbours that have runs."""
        listed = list(self._policy.filled_in)
        seen = {_identity(group) for group in listed}
        return listed + [self._policy.group_of(members[0]) for key, members in self._members.items() if key not in seen]

    def members(self, group: Group) -> list[str]:
        """The known runs of a group, in order."""
        return self._members.get(_identity(group), [])

    def candidates(self, run_key: str, baseline: str) -> Iterator[str]:
        """The runs that may serve as this baseline of a run, best first; a run is never its own baseline."""
        if baseline not in BASELINE_WORDS:
            yield from () if baseline == run_key else (baseline,)
            return
        members = self.members(self._policy.group_of(run_key))
        earlier = bisect_left(members, natural_order(run_key), key=natural_order)
        if baseline == "previous":
            yield from (members[position] for position in range(earlier - 1, -1, -1))
        elif baseline == "first":
            yield from (members[position] for position in range(earlier))


def load_policy(path: Path | None) -> Policy:
    """Read a policy file; without a file, or without a path, everything is at its default.

    Raises:
        RunDataError: `E-POLICY`, naming the file, the line and the key, what is wrong and what is allowed.
    """
    there = path is not None and (path.exists() or path.is_symlink())  # a link to nothing is no absent policy
    return read_model(path, Policy, "policy") if path is not None and there else Policy()


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of the policy file, draft 2020-12."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Policy.model_json_schema()}


def task_key_problem(key: str) -> str | None:
    """Why a task key cannot be used on stored runs, or `None` when it can."""
    return None if key in TASK_KEYS else f"{key!r} is no task key of the index; allowed: {', '.join(TASK_KEYS)}"


def _identity(group: Group) -> tuple[str, str]:
    """Tells groups apart; a group of neighbours may have the name of another, never its glob too."""
    return group.name, group.runs


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    """A glob over run keys as a regular expression: `**` crosses slashes, `*` and `?` do not."""
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    meaning = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece, re.escape(piece)) for piece in pieces))
