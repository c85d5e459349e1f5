"""Indexing one run: both of its files, line by line, into the tables `record_index` and `producer_faults`.

`batches` turns the bytes of a range of lines into batches of records and faults; `records` says what is indexed of one
row; `run` indexes a whole run.
"""

from rollout_assets.indexing.run import REWARD_FAULTS, IndexSummary, index_run

__all__ = ["REWARD_FAULTS", "IndexSummary", "index_run"]
