"""The IO manager: one Parquet file per table and run, written whole or not at all, read through the guard."""

from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
from upath import UPath

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import written_beside
from rollout_assets.resources.workspace import RolloutWorkspace
from rollout_assets.store import Store
from rollout_assets.tables import TABLES


class ParquetIOManager(dg.UPathIOManager):
    """Stores Arrow tables and data frames in the schema that `tables.py` declares for the asset.

    An input annotated as `pa.Table` is given as such, any other as a pandas data frame with Arrow types.
    """

    extension = ".parquet"

    def __init__(self, store: Store) -> None:
        self._store = store
        super().__init__(base_path=UPath(store.root))

    def dump_to_path(self, context: dg.OutputContext, obj: pa.Table | pd.DataFrame | Path, path: UPath) -> None:
        """Write a table, or move a finished Parquet file (an asset that streams gives its path) into place."""
        if isinstance(obj, pd.DataFrame):
            schema = TABLES[context.asset_key.path[-1]].schema
            obj = pa.Table.from_pandas(obj, schema=schema, preserve_index=False)
        try:
            if isinstance(obj, Path):
                with written_beside(path) as temporary:
                    obj.replace(temporary)
            else:
                self._store.write_table(path, obj)
        except RunDataError as error:
            raise permanent_failure(error) from error

    def load_from_path(self, context: dg.InputContext, path: UPath) -> Any:
        """Read a table unless the guard refuses its run; the step then fails with the guard's message, for good."""
        try:
            table = self._store.read_table(context.asset_key.path[-1], context.asset_partition_key)
        except RunDataError as error:
            raise permanent_failure(error) from error
        if context.dagster_type.typing_type is pa.Table:
            return table
        return table.to_pandas(types_mapper=pd.ArrowDtype)


class ParquetStorage(dg.ConfigurableIOManagerFactory[ParquetIOManager]):
    """Makes the IO manager for the store of a workspace."""

    workspace: dg.ResourceDependency[RolloutWorkspace]

    def create_io_manager(self, context: dg.InitResourceContext) -> ParquetIOManager:
        """The IO manager for the workspace's store."""
        return ParquetIOManager(self.workspace.store)


def permanent_failure(error: RunDataError) -> dg.Failure:
    """A failure that no retry mends: bad data stays bad. Says what the error says and nothing else."""
    metadata: dict[str, Any] = {"code": error.code}
    if error.path is not None:
        metadata["path"] = dg.MetadataValue.path(error.path)
    return dg.Failure(str(error), metadata=metadata, allow_retries=False)
