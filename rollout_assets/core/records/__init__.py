"""One run: its files, its identity, and which outcome of each rollout stands."""
