"""Asset checks: each states a verdict with evidence, and what to do about it."""
