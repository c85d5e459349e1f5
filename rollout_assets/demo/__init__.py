"""Demo run directories, good and malformed, as NeMo Gym would leave them."""

from rollout_assets.demo.runs import write_demo_runs

__all__ = ["write_demo_runs"]
