"""Which keys must not occur twice in one object, and how bad it is (records.md, decision 14; compare.md, decision 1).

Of all other duplicate keys the last one wins, without a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rollout_assets.core.jsonl.faults import FaultKind
from rollout_assets.core.jsonl.fields import RECORD_KEYS, ROW_KEYS

#: Verifier logs: too large to decode in a scan, read by the comparison's report (compare.md §1.10).
LOG_KEYS: Final = frozenset({"test_output", "verifier_stdout", "verifier_output"})

#: Keys whose value may be an object that names the task (compare.md §1.5).
_TASK_KEYS: Final = ("task_id", "task_name", "instance_id", "problem_id", "uuid", "id")


@dataclass(frozen=True)
class Watch:
    """What is watched in one object.

    Attributes:
        keys: The fault of each key that must not occur twice here.
        every: The fault of all other keys, here and below, if they must not either.
        below: What is watched in the values of certain keys.
    """

    keys: Mapping[str, FaultKind] = field(default_factory=dict)
    every: FaultKind | None = None
    below: Mapping[str, Watch] = field(default_factory=dict)

    def fault(self, key: str) -> FaultKind | None:
        """The fault of a second occurrence of `key`, if it is one."""
        return self.keys.get(key, self.every)

    def inside(self, key: str) -> Watch | None:
        """What is watched in the value of `key`."""
        return self if self.every else self.below.get(key)


def _compared(*keys: str, below: Mapping[str, Watch] | None = None) -> Watch:
    return Watch(dict.fromkeys(keys, FaultKind.DUPLICATE_COMPARED_KEY), below=below or {})


_ALL_RECORD: Final = Watch(every=FaultKind.DUPLICATE_KEY)
_ALL_COMPARED: Final = Watch(every=FaultKind.DUPLICATE_COMPARED_KEY)
_VERIFIER_KEYS: Final = ("task_id", "task_name", "instance_id", "id")

#: What is watched in a row.
ROW_WATCH: Final = Watch(
    keys={
        **dict.fromkeys(ROW_KEYS | LOG_KEYS, FaultKind.DUPLICATE_COMPARED_KEY),
        **dict.fromkeys(RECORD_KEYS, FaultKind.DUPLICATE_KEY),
    },
    below={
        **dict.fromkeys(("_ng_task_id", *_TASK_KEYS), _ALL_COMPARED),
        "_ng_failure_record": _ALL_RECORD,
        "response": _compared("metadata", below={"metadata": _ALL_COMPARED}),
        "verifier_metadata": _compared(*_VERIFIER_KEYS, below=dict.fromkeys(_VERIFIER_KEYS, _ALL_COMPARED)),
        "responses_create_params": _compared("input"),
    },
)
