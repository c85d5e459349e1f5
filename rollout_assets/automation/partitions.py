"""The one partition dimension: a run. A leaf module, because assets, checks and sensors all need it."""

from __future__ import annotations

import dagster as dg

ROLLOUT_RUNS = dg.DynamicPartitionsDefinition(name="rollout_runs")
