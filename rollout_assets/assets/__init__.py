"""The assets. Each reads what is upstream, calls the core, and returns a table with its metadata.

Modules that hold assets do not postpone annotations: Dagster reads them when it builds the asset.
"""
