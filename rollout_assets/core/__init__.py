"""The rules, in plain Python: no Dagster anywhere below here.

* `jsonl`: one line of a file.
* `records`: one run.
* `compare`: two runs.
"""
