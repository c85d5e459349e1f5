"""A reader beside a writer that reserves and appends (records.md §6.3)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rollout_assets.core.records import manifest_path_for, open_run
from rollout_assets_tests.core.records.runs import write_run

ROLLOUTS = 150

#: Reserve in the manifest (atomically), then append the outcome in two writes, so that torn rows can be seen.
WRITER = """
import json, os, sys
folder, rollouts = sys.argv[1], int(sys.argv[2])
name = os.path.join(folder, "rollouts_manifest.json")
manifest = json.load(open(name))
output = open(os.path.join(folder, "rollouts.jsonl"), "ab", buffering=0)
failures = open(os.path.join(folder, "rollouts_failures.jsonl"), "ab", buffering=0)
print("ready", flush=True)
for attempt in range(2):
    for task in range(rollouts):
        manifest["next_attempt"][f"{task}-0"] = attempt + 1
        with open(name + ".tmp", "w") as file:
            json.dump(manifest, file)
        os.replace(name + ".tmp", name)
        row = {"_ng_task_index": task, "_ng_rollout_index": 0, "_ng_attempt_index": attempt,
               "_ng_run_id": manifest["run_id"], "note": "x" * 500}
        row.update({"_ng_failure_class": "agent_run_error"} if attempt == 0 else {"reward": 1.0})
        line = json.dumps(row).encode() + b"\\n"
        file = failures if attempt == 0 else output
        file.write(line[:300])
        file.write(line[300:])
"""


def test_a_reader_never_fails(tmp_path: Path) -> None:
    output = write_run(tmp_path, inventory=ROLLOUTS, reserved={})
    command = [sys.executable, "-c", WRITER, os.fspath(tmp_path), str(ROLLOUTS)]
    readings, outcomes = 0, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        while writer.poll() is None:
            records = open_run(output)
            assert records is not None
            assert len(records.payloads) >= outcomes  # files only grow
            outcomes = len(records.payloads)
            readings += 1
        assert writer.returncode == 0
    assert readings > 0
    records = open_run(output)
    assert records is not None
    coverage = records.coverage()
    assert (coverage["complete"], coverage["counted_failures"]) == (True, ROLLOUTS)
    assert json.loads(manifest_path_for(output).read_text())["next_attempt"] == records.next_attempts()
