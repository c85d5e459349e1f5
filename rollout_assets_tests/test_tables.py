"""The declared columns: each is made of columns that exist, and Dagster is told of them."""

from __future__ import annotations

import dagster as dg

from rollout_assets.definitions import defs
from rollout_assets.tables import ATTEMPT_OUTCOMES, COMPARISON_REPORT, TABLES, TASK_SIDES


def test_every_dependency_of_a_column_is_a_column_of_a_table_upstream() -> None:
    graph = defs.resolve_asset_graph()
    for table in TABLES.values():
        upstream = graph.get_ancestor_asset_keys(dg.AssetKey(table.name))
        for column in table.columns:
            assert len(set(column.made_of)) == len(column.made_of), (table.name, column.name)
            for source, name in column.made_of:
                assert dg.AssetKey(source) in upstream, (table.name, column.name, source)
                assert name in TABLES[source].schema.names, (table.name, column.name, source, name)


def test_tables_that_are_made_of_others_say_of_each_column_of_which() -> None:
    alone = {
        (table.name, column.name)
        for table in (ATTEMPT_OUTCOMES, TASK_SIDES, COMPARISON_REPORT)
        for column in table.columns
        if not column.made_of
    }
    assert alone == {("comparison_report", "baseline")}  # the policy names it


def test_dagster_is_told_what_a_column_is_made_of() -> None:
    metadata = defs.resolve_asset_graph().get(dg.AssetKey("task_sides")).metadata
    lineage, schema = metadata["dagster/column_lineage"], metadata["dagster/column_schema"]
    assert lineage.deps_by_column["reward_mean"] == [
        dg.TableColumnDep(dg.AssetKey("attempt_outcomes"), "selected"),
        dg.TableColumnDep(dg.AssetKey("record_index"), "reward"),
        dg.TableColumnDep(dg.AssetKey("record_index"), "reward_state"),
    ]
    described = {column.name: column.description for column in schema.columns}
    assert described["reward_mean"].endswith("\n\n← record_index: reward, reward_state; attempt_outcomes: selected")
    assert "dagster/column_lineage" not in defs.resolve_asset_graph().get(dg.AssetKey("record_index")).metadata


def test_every_asset_is_described_for_a_newcomer() -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert (node.description or "").rstrip("\n").endswith("."), key
        assert node.group_name in {"runs", "rollouts", "comparison"}, key
        assert node.tags["grain"], key
        assert node.kinds, key
        # Dagster takes no owner for a source that is only observed.
        assert node.owners or key == dg.AssetKey("raw_run"), key
