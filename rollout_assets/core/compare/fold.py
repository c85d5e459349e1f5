"""The simple fold, on facts: an output with the failures of its sidecar that still stand (compare.md §1.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from os import fspath

from rollout_assets.core.compare.facts import RowFacts, read_facts
from rollout_assets.core.compare.rows import DEFAULT_FAILURE_KIND, Attempt, StrPath, reason_of_mask, surviving
from rollout_assets.core.compare.table import FactTable, LabelPool


def load_facts(path: StrPath, *, key: str | None = None, pool: LabelPool | None = None) -> FactTable:
    """Read an output and its sidecar, folded: the facts of what `load_rollouts` gives, without holding a row.

    Args:
        path: The output.
        key: The task key that the comparison was asked for, if any; keys outside `keys.ALL_KEYS` need this.
        pool: Shares the texts of several tables.

    Raises:
        CompareInputError: As `load_rollouts` does.
    """
    table = fold(read_facts(path, key=key), pool=pool)
    table.path = fspath(path)
    return table


def fold(facts: Iterable[RowFacts], *, pool: LabelPool | None = None) -> FactTable:
    """Output rows, then the failures that stand, as masked rows without reward.

    Evidence rows are left out and supersede nothing; of each attempt identity the last failure in file order stands,
    unless the output has that identity (compare.md §1.4, decisions 4 and 5).

    Args:
        facts: Rows of one run, of output and sidecar, each in the order of its lines; not folded yet.
        pool: Shares the texts of several tables.
    """
    table = FactTable(pool)
    failures: list[RowFacts] = []
    for row in facts:
        if row.file == "output":
            table.append(row)
        elif not row.evidence:
            failures.append(row)
    keys = [_attempt(row.task_index, row.rollout_index) for row in failures]
    standing = surviving(keys, _scored(table, {key for key in keys if key is not None}))
    for position in standing:
        table.append(failure_facts(failures[position]))
    table.late_attempts = _late_attempts(failures, keys, standing)
    return table


def failure_facts(failure: RowFacts) -> RowFacts:
    """The facts of `failure_as_row`: masked, without reward, with a failure kind."""
    kind = failure.failure_kind or failure.failure_class or DEFAULT_FAILURE_KIND
    return failure._replace(
        reward=None,
        reward_state="absent",
        mask_sample=True,
        mask_reason=reason_of_mask(True, kind, None),
        odd_mask_value=False,
        failure_kind=kind,
    )


def _attempt(task_index: int | float | None, rollout_index: int | float | None) -> Attempt | None:
    return None if task_index is None or rollout_index is None else (task_index, rollout_index)


def _scored(table: FactTable, wanted: set[Attempt]) -> set[Attempt]:
    """Those of the wanted identities that an output row has."""
    if not wanted:
        return set()
    found = (table.attempt(row) for row in range(len(table)))
    return {key for key in found if key is not None and key in wanted}


def _late_attempts(
    failures: list[RowFacts], keys: list[Attempt | None], standing: list[int]
) -> list[tuple[RowFacts, RowFacts]]:
    """Where the order of lines and the attempt numbers disagree: the line order decides, but someone should know."""
    earlier: defaultdict[Attempt, list[RowFacts]] = defaultdict(list)
    for key, failure in zip(keys, failures, strict=True):
        if key is not None and failure.attempt_index is not None:
            earlier[key].append(failure)
    pairs = []
    for position in standing:
        key, kept = keys[position], failures[position]
        if key is not None and kept.attempt_index is not None:
            latest = max(earlier[key], key=lambda failure: failure.attempt_index or 0)
            if (latest.attempt_index or 0) > kept.attempt_index:
                pairs.append((kept, latest))
    return pairs
