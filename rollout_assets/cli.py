"""The command line, `rollout-assets`: the same core without Dagster.

Commands import what they need when they run, so that `--help` and small checks start fast.
"""

from __future__ import annotations

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rollout-assets")
def main() -> None:
    """Index, check, fold and compare the rollout files of NeMo Gym runs."""
