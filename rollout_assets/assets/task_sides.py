"""The asset `task_sides`: one run, task by task."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow.compute as pc

from rollout_assets.assets.metadata import OWNERS, definition_metadata, grain, row_count
from rollout_assets.automation.partitions import ROLLOUT_RUNS
from rollout_assets.checks.partitioned import not_judged
from rollout_assets.checks.task_key_sound import TASK_KEY_SOUND, task_key_sound
from rollout_assets.core.compare.table import FactTable
from rollout_assets.core.errors import RunDataError
from rollout_assets.facts_table import standing_facts
from rollout_assets.plots import reward_histogram
from rollout_assets.resources.parquet import permanent_failure
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.sides import Sides, summarize_run
from rollout_assets.tables import TASK_SIDES


@dg.asset(
    partitions_def=ROLLOUT_RUNS,
    group_name="comparison",
    kinds={"python", "parquet"},
    owners=OWNERS,
    tags=grain("task"),
    code_version="1",
    metadata=definition_metadata(TASK_SIDES),
    description=TASK_SIDES.meaning,
    deps=["attempt_outcomes"],
    check_specs=[TASK_KEY_SOUND],
    output_required=False,
)
def task_sides(context: dg.AssetExecutionContext, workspace: RolloutWorkspace) -> Iterator[Any]:
    """Group the standing outcomes by task, under the key of the policy or the one found."""
    key = context.partition_key
    try:
        facts = standing_facts(workspace.store, key)
        sides = summarize_run(facts, workspace.policy.group_of(key).key)
    except RunDataError as error:
        yield from not_judged([TASK_KEY_SOUND], error)
        raise permanent_failure(error) from None
    plot = dg.MetadataValue.md(reward_histogram(_counted_rewards(facts)))
    yield dg.Output(sides.table, metadata={**_metadata(sides), "reward_histogram": plot})
    yield task_key_sound(sides)


def _counted_rewards(facts: FactTable) -> Iterator[float]:
    """The rewards of the rows that are not masked."""
    for row in range(len(facts)):
        reward = facts.finite_reward(row)
        if reward is not None and facts.signals(row).mask_reason is None:
            yield reward


def _metadata(sides: Sides) -> dict[str, Any]:
    table = sides.table
    masked = table.num_rows - table["masked"].null_count
    measured = table.filter(pc.is_null(table["masked"]))
    mean = pc.mean(measured["reward_mean"]).as_py()
    metadata: dict[str, Any] = {
        **row_count(table.num_rows),
        "task_key": sides.key,
        "key_source": sides.key_source,
        "tasks_measured": table.num_rows - masked,
        "tasks_masked": masked,
    }
    return metadata | ({} if mean is None else {"mean_reward_of_measured_tasks": mean})
