"""Taking a run in at the end of a training job: one call to a Dagster webserver, from any host that reaches it.

On the command line, as the last line of the job:

```bash
rollout-assets trigger math/step-0100/rollouts --url http://dagster.example:3000
```

From Python, the same, and here the job also waits for the verdict:

```python
from rollout_assets.trigger import TriggerError, trigger, wait_for

try:
    started = trigger("math/step-0100/rollouts", "http://dagster.example:3000")
    outcome = wait_for(started, timeout=600)
    print("sound" if outcome.succeeded else "not sound", *outcome.problems)
except TriggerError as error:
    print(f"the rollouts were not taken in: {error}")
```

Only the standard library is used and Dagster is not imported: a trainer pays nothing for it. The run key is the path of
the results file below the runs root *of the Dagster side*, without `.jsonl`.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollout_assets.core.discovery import find_run, run_key_problem
from rollout_assets.core.errors import RunDataError

JOB = "ingest_run"
PARTITIONS = "rollout_runs"
LOCATION = "rollout_assets"

#: Marks results that stand for none, as `checks.partitioned` does.
NOT_JUDGED = "not_judged"
#: Seconds for one answer of the webserver: it may have to load the code location first.
_ANSWER_SECONDS = 60.0
_POLL_SECONDS = 1.0
#: What a check that failed as an error is called in a run that was taken in.
_FAILED = "failed"
#: Dagster run states that are final.
_ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})


class TriggerError(Exception):
    """A run was not taken in; the message says why and what to do."""


@dataclass(frozen=True)
class StartedRun:
    """A Dagster run that takes a run directory in. `page` is its address in the UI."""

    run_key: str
    url: str
    dagster_run_id: str

    @property
    def page(self) -> str:
        """Where a person can watch it."""
        return f"{self.url}/runs/{self.dagster_run_id}"


@dataclass(frozen=True)
class Outcome:
    """How it ended.

    Attributes:
        succeeded: The run was taken in to the end, and no check failed as an error.
        taken_in: The run was taken in to the end: it can be used.
        problems: The failed checks and the step failures, each a sentence; warnings among them.
    """

    succeeded: bool
    taken_in: bool
    problems: tuple[str, ...]


def trigger(
    run_key: str, url: str = "http://127.0.0.1:3000", *, runs_root: Path | None = None, location: str = LOCATION
) -> StartedRun:
    """Launch `ingest_run` for one run and return at once.

    Args:
        run_key: Path of the results file below the runs root, without `.jsonl`.
        url: Address of a Dagster webserver.
        runs_root: The runs root as seen from here. When given, a run that does not exist is refused before anything is
            launched; without it, the launched Dagster run fails with `E-RUN-GONE`.
        location: Name of the code location.

    Raises:
        TriggerError: The run key is outside the grammar or names no run, the webserver cannot be reached or is no
            Dagster webserver, or the code location is missing, broken or without the job.
    """
    _check_run_key(run_key, runs_root)
    url = url.rstrip("/")
    repository = {"repositoryLocationName": location, "repositoryName": _repository(url, location)}
    added = _ask(url, _ADD_PARTITION, {"repository": repository, "partition": run_key, "definition": PARTITIONS})
    _refuse(added, "addDynamicPartition", {"AddDynamicPartitionSuccess", "DuplicateDynamicPartitionError"})
    parameters = {
        "selector": {**repository, "jobName": JOB},
        "runConfigData": {},
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": run_key}]},
    }
    launched = _refuse(_ask(url, _LAUNCH, {"parameters": parameters}), "launchRun", {"LaunchRunSuccess"})
    return StartedRun(run_key, url, launched["run"]["runId"])


def wait_for(started: StartedRun, *, timeout: float | None = None) -> Outcome:
    """Wait until the Dagster run has ended.

    Args:
        started: What `trigger` returned.
        timeout: Seconds to wait at most; without it, for ever.

    Raises:
        TriggerError: The webserver cannot be reached, the Dagster run was deleted, or the time is up.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        answer = _ask(started.url, _STATUS, {"run": started.dagster_run_id})
        status = _refuse(answer, "runOrError", {"Run"})["status"]
        if status in _ENDED:
            # In a run that succeeded nothing was blocked: an error there is a threshold that was not kept.
            taken_in = status == "SUCCESS"
            problems = tuple(_problems(started, _FAILED if taken_in else "blocked"))
            return Outcome(taken_in and not any(text.startswith(_FAILED) for text in problems), taken_in, problems)
        if deadline is not None and time.monotonic() >= deadline:
            hint = "; is dagster-daemon running?" if status == "QUEUED" else ""
            raise TriggerError(f"{started.page} has not ended after {timeout:g} s, it is {status}{hint}")
        time.sleep(_POLL_SECONDS)


def _check_run_key(run_key: str, runs_root: Path | None) -> None:
    problem = run_key_problem(run_key)
    if problem is not None:
        raise TriggerError(f"{run_key!r} is no run key: {problem}")
    if runs_root is not None:
        try:
            find_run(runs_root, run_key)
        except RunDataError as error:
            raise TriggerError(str(error)) from None


def _repository(url: str, location: str) -> str:
    """The name of the repository in the code location that holds the job."""
    answer = _ask(url, _LOCATIONS, {})
    entries = _refuse(answer, "workspaceOrError", {"Workspace"})["locationEntries"]
    entry = next((entry for entry in entries if entry["name"] == location), None)
    if entry is None:
        found = ", ".join(entry["name"] for entry in entries) or "none"
        raise TriggerError(
            f"{url} has no code location {location!r}; it has: {found}. Start it with the project's workspace.yaml"
        )
    loaded = entry["locationOrLoadError"]
    if loaded is None:
        raise TriggerError(f"the code location {location!r} of {url} is still being loaded; try again in a minute")
    if loaded["__typename"] != "RepositoryLocation":
        raise TriggerError(f"the code location {location!r} of {url} could not be loaded: {loaded['message'].strip()}")
    for repository in loaded["repositories"]:
        if any(job["name"] == JOB for job in repository["jobs"]):
            return str(repository["name"])
    raise TriggerError(f"the code location {location!r} of {url} has no job {JOB!r}; is it another project's?")


def _problems(started: StartedRun, error: str) -> list[str]:
    """The checks that failed and the steps that failed, in the order of events; nothing is told twice.

    Args:
        started: The run.
        error: What an error of a check is called.
    """
    problems: list[str] = []
    cursor: str | None = None
    more = True
    while more:
        answer = _ask(started.url, _EVENTS, {"run": started.dagster_run_id, "after": cursor})
        page = _refuse(answer, "runOrError", {"Run"})["eventConnection"]
        for event in page["events"]:
            sentence = _problem(event, error)
            if sentence is not None and not any(_repeats(sentence, told) for told in problems):
                problems.append(sentence)
        cursor, more = page["cursor"], page["hasMore"]
    return problems


def _repeats(sentence: str, told: str) -> bool:
    """Whether all that was told comes again: the step that a check blocks fails with what the check says."""
    return told.partition(": ")[2].rstrip(".") in sentence


def _problem(event: dict[str, Any], error: str) -> str | None:
    kind = event["__typename"]
    if kind == "AssetCheckEvaluationEvent" and not event["evaluation"]["success"]:
        check = event["evaluation"]
        if any(entry["label"] == NOT_JUDGED for entry in check["metadataEntries"]):
            return None  # what could not be read is told of the check or the step that tried
        word = error if check["severity"] == "ERROR" else "warning"
        return f"{word}: {check['checkName']}: {check['description'] or 'failed'}"
    if kind == "ExecutionStepFailureEvent":
        told = (event["failureMetadata"] or {}).get("description") or (event["error"] or {}).get("message") or "failed"
        return f"failed: {event['stepKey']}: {told.strip()}"
    return None


def _ask(url: str, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """One GraphQL request; the `data` of its answer."""
    if not url.startswith(("http://", "https://")):
        raise TriggerError(f"{url!r} is no address of a webserver; give one like http://host:3000")
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(  # noqa: S310 - the scheme was looked at above
        f"{url}/graphql", body, {"Content-Type": "application/json", "Accept": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:  # noqa: S310
            answer = json.load(response)
        errors, data = answer.get("errors"), answer.get("data")
    except urllib.error.HTTPError as error:
        raise TriggerError(f"{url} answered {error.code} {error.reason}; is it a Dagster webserver?") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise TriggerError(
            f"no Dagster webserver answers at {url} ({reason}); start it, or give the address of another (--url, `url`)"
        ) from None
    except (ValueError, AttributeError):
        raise TriggerError(f"{url} did not answer as a Dagster webserver does; check the address") from None
    if errors or not isinstance(data, dict):
        raise TriggerError(f"{url} refused the request: {errors[0].get('message') if errors else answer}")
    return data


def _refuse(data: dict[str, Any], field: str, expected: set[str]) -> dict[str, Any]:
    """The value of a field of an answer, if it is of an expected type; an error of the server otherwise."""
    value: dict[str, Any] = data[field]
    if value["__typename"] not in expected:
        raise TriggerError(f"{value['__typename']}: {str(value.get('message') or 'refused').strip()}")
    return value


_LOCATIONS = """
query {
  workspaceOrError {
    __typename
    ... on Workspace {
      locationEntries {
        name
        locationOrLoadError {
          __typename
          ... on RepositoryLocation { repositories { name jobs { name } } }
          ... on PythonError { message }
        }
      }
    }
    ... on PythonError { message }
  }
}
"""

_ADD_PARTITION = """
mutation($repository: RepositorySelector!, $definition: String!, $partition: String!) {
  addDynamicPartition(
    repositorySelector: $repository, partitionsDefName: $definition, partitionKey: $partition
  ) {
    __typename
    ... on UnauthorizedError { message }
    ... on PythonError { message }
  }
}
"""

_LAUNCH = """
mutation($parameters: ExecutionParams!) {
  launchRun(executionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on Error { message }
  }
}
"""

_STATUS = """
query($run: ID!) { runOrError(runId: $run) { __typename ... on Run { status } ... on Error { message } } }
"""

_EVENTS = """
query($run: ID!, $after: String) {
  runOrError(runId: $run) {
    __typename
    ... on Run {
      eventConnection(afterCursor: $after) {
        cursor
        hasMore
        events {
          __typename
          ... on AssetCheckEvaluationEvent {
            evaluation { checkName success severity description metadataEntries { label } }
          }
          ... on ExecutionStepFailureEvent { stepKey error { message } failureMetadata { description } }
        }
      }
    }
    ... on Error { message }
  }
}
"""
