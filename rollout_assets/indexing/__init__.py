"""Indexing runs: both files of each, line by line, into the tables `record_index` and `producer_faults`.

From the bytes up: `batches` turns the bytes of a range of lines into batches of records and faults; `records` says what
is indexed of one row, `columns` applies that to many rows at once. `ranges` cuts files into ranges; `pieces` scans them
one by one, or side by side in `threads`, or in the processes of `pool`, each of which runs `worker`. `run` indexes a
whole run, or goes on from an earlier index of it, for which `grow` adds rows to a Parquet file whose `footer` it takes
apart. `incremental` does that with what the store remembers of a run (`state`). `strictness` judges what was found
(`faults`).
"""

from rollout_assets.indexing.faults import IndexSummary
from rollout_assets.indexing.run import index_run

__all__ = ["IndexSummary", "index_run"]
