"""Dagster assets that turn rollout run directories into a verdict.

`rollout_assets.core` is plain Python and knows nothing of Dagster; everything else here is a thin layer over it.
Import the concrete submodules: this package has no import-time wiring.
"""
