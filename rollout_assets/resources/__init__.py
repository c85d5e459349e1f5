"""Dagster resources: where runs and tables lie, and how tables are stored. They hold paths, never open files."""
