"""The freshness policy of `record_index`: its hours, and what stands in the definitions."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy

from rollout_assets.automation.freshness import freshness_policy
from rollout_assets.core.errors import RunDataError
from rollout_assets.definitions import build_defs


def hours(policy: dg.FreshnessPolicy | None) -> tuple[float, float]:
    assert isinstance(policy, TimeWindowFreshnessPolicy)
    assert policy.warn_window is not None
    warn, fail = (window.to_timedelta() / timedelta(hours=1) for window in (policy.warn_window, policy.fail_window))
    return warn, fail


def variables(warn: str, fail: str) -> dict[str, str]:
    return {"ROLLOUT_FRESHNESS_WARN_HOURS": warn, "ROLLOUT_FRESHNESS_FAIL_HOURS": fail}


def test_a_day_without_a_new_index_warns_and_half_a_day_more_fails() -> None:
    graph = build_defs().resolve_asset_graph()
    policies = {
        key.to_user_string(): graph.get(key).freshness_policy_or_from_metadata for key in graph.get_all_asset_keys()
    }
    assert [name for name, policy in policies.items() if policy] == ["record_index"]
    assert hours(policies["record_index"]) == (24, 36)


@pytest.mark.parametrize(
    ("warn", "fail", "expected"), [("", "", (24, 36)), ("1.5", "2", (1.5, 2)), ("", "200", (24, 200))]
)
def test_the_hours_come_from_the_environment(warn: str, fail: str, expected: tuple[float, float]) -> None:
    assert hours(freshness_policy(variables(warn, fail))) == expected


@pytest.mark.parametrize(
    ("warn", "fail", "message"),
    [
        ("a day", "", "ROLLOUT_FRESHNESS_WARN_HOURS must be a number of hours .*, not 'a day'"),
        ("0", "", "ROLLOUT_FRESHNESS_WARN_HOURS must be a number"),
        ("", "nan", "ROLLOUT_FRESHNESS_FAIL_HOURS must be a number"),
        ("", "inf", "ROLLOUT_FRESHNESS_FAIL_HOURS must be a number"),
        ("-1", "", "ROLLOUT_FRESHNESS_WARN_HOURS must be a number"),
        ("48", "", r"ROLLOUT_FRESHNESS_WARN_HOURS \(48\) must be below ROLLOUT_FRESHNESS_FAIL_HOURS \(36\)"),
        ("5", "5", "must be below"),
    ],
)
def test_hours_that_make_no_sense_are_refused(warn: str, fail: str, message: str) -> None:
    with pytest.raises(RunDataError, match=message):
        freshness_policy(variables(warn, fail))
