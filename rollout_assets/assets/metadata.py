"""What the UI shows beside a table: columns and what they are made of, row count."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa

from rollout_assets.tables import Column, Table

#: Rows of a table shown in metadata: the UI puts every row on the page.
SHOWN_ROWS = 30
#: Who answers for the assets.
OWNERS = ["team:rl-evaluation"]


def column_schema(table: Table) -> dg.TableSchema:
    """The declared columns as Dagster shows them."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                _type_name(column.type),
                description=_description(column),
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in table.columns
        ]
    )


def column_lineage(table: Table) -> dg.TableColumnLineage:
    """The columns of other tables that each column is made of, for whoever asks Dagster for it."""
    return dg.TableColumnLineage(
        {
            column.name: [dg.TableColumnDep(dg.AssetKey(source), name) for source, name in column.made_of]
            for column in table.columns
            if column.made_of
        }
    )


def definition_metadata(table: Table) -> dict[str, Any]:
    """Metadata of an asset's definition: its columns, and what they are made of."""
    lineage = column_lineage(table)
    return {
        "dagster/column_schema": column_schema(table),
        **({"dagster/column_lineage": lineage} if lineage.deps_by_column else {}),
    }


def grain(one_row_per: str) -> dict[str, str]:
    """The tag that says what a row of a table stands for."""
    return {"grain": one_row_per}


def row_count(rows: int) -> dict[str, Any]:
    """The count that the UI shows as a chip of its own."""
    return {"dagster/row_count": rows}


def shown_table(records: list[dict[str, Any]]) -> dg.TableMetadataValue:
    """The first rows as a table; every cell is text, a number, a truth value or empty."""
    shown = [dg.TableRecord({name: _cell(value) for name, value in record.items()}) for record in records[:SHOWN_ROWS]]
    columns = list(records[0]) if records else ["nothing"]
    schema = dg.TableSchema(columns=[dg.TableColumn(name) for name in columns])
    return dg.MetadataValue.table(records=shown, schema=schema)


def _description(column: Column) -> str:
    """The meaning of a column and what it is made of, for the page: the UI shows column lineage as JSON alone."""
    sources: dict[str, dict[str, None]] = {}
    for table, name in column.made_of:
        sources.setdefault(table, {})["key_*" if name.startswith("key_") else name] = None
    made_of = "; ".join(f"{table}: {', '.join(names)}" for table, names in sources.items())
    return column.meaning + (f"\n\n← {made_of}" if made_of else "")


def _cell(value: object) -> str | int | float | bool | None:
    if isinstance(value, float) and value != value:  # NaN shows as an empty cell
        return "nan"
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _type_name(kind: pa.DataType) -> str:
    return "string" if pa.types.is_dictionary(kind) else str(kind)
