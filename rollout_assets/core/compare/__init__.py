"""Two runs: what changed between them, task by task."""
