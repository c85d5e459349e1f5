"""What a resume would do with a rollout (records.md §10, §14)."""

from __future__ import annotations

import os
import warnings
from enum import StrEnum
from typing import Final

from rollout_assets.core.records.outcomes import Disposition, OutcomeFacts, disposition_of, is_final

DEFAULT_MAX_ATTEMPTS: Final = 3
MAX_ATTEMPTS_VARIABLE: Final = "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"


class Resume(StrEnum):
    """What a resume would do with a rollout that is below its cap."""

    RUN = "run"
    KEEP = "keep"
    BLOCKED = "blocked"
    LEAVE_TO_RECOVERY = "leave to recovery"


def resume_action(facts: OutcomeFacts | None, *, blocked: bool, retry_terminal_timeouts: bool) -> Resume:
    """Whether a resume runs a rollout again; the first matching row of the table decides (§10.4, decisions 9 and 11).

    Args:
        facts: The outcome of its newest attempt; None when that has none.
        blocked: Whether an open re-judgment admission names the rollout (row 3, proposal).
        retry_terminal_timeouts: The run's retry option.
    """
    disposition = disposition_of(facts)
    if disposition is Disposition.OMITTED:  # row 1
        return Resume.KEEP
    if blocked:  # row 3, tested before row 2
        return Resume.BLOCKED
    if facts is None:  # row 4
        return Resume.RUN
    if is_final(facts, retry_terminal_timeouts):  # rows 2 and 5
        return Resume.KEEP
    if not facts.migrated and (facts.judge_failure or facts.saved_answer):  # row 6
        return Resume.LEAVE_TO_RECOVERY
    if facts.unclassified_execution_failure:  # row 7
        return Resume.LEAVE_TO_RECOVERY
    return Resume.RUN  # rows 2 (approved), 8 and 9; interruptions of unknown cause too (decision 2)


def base_attempt_cap(saved: int | None) -> int:
    """The saved cap of a run, else the environment's, else 3 (§10.1; reading the environment is a proposal)."""
    if saved is not None:
        return saved
    text = os.environ.get(MAX_ATTEMPTS_VARIABLE)
    if text is None:
        return DEFAULT_MAX_ATTEMPTS
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    warnings.warn(
        f"{MAX_ATTEMPTS_VARIABLE}={text!r} is no positive integer; {DEFAULT_MAX_ATTEMPTS} is used", stacklevel=2
    )
    return DEFAULT_MAX_ATTEMPTS
