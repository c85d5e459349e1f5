"""The trigger for trainers: its errors without a webserver, and real runs through a real webserver and daemon."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rollout_assets.checks import partitioned
from rollout_assets.cli import main
from rollout_assets.home import local_instance, workspace_file
from rollout_assets.settings import Settings
from rollout_assets.trigger import NOT_JUDGED, TriggerError, trigger, wait_for
from rollout_assets_tests.conftest import as_jsonl
from rollout_assets_tests.integration.processes import daemon, dagster_environment, free_port, webserver

ROWS = as_jsonl([{"task_id": task, "reward": 1.0} for task in "abc"])

BROKEN_LOCATION = """
  - python_module:
      module_name: rollout_assets.no_such_module
      location_name: broken
"""


def test_runs_are_taken_in_and_the_verdict_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.inside(tmp_path)
    for key, content in (("good/1", ROWS), ("malformed/1", ROWS + b"{oops\n"), ("later/1", ROWS)):
        path = settings.runs_root / key / "rollouts.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    with local_instance(settings):
        pass
    workspace = workspace_file(settings)
    workspace.write_text(workspace.read_text() + BROKEN_LOCATION)
    environment = dagster_environment(settings.dagster_home, **settings.environment())
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with (
        daemon(workspace, environment, tmp_path / "daemon.log"),
        webserver(workspace, environment, tmp_path / "webserver.log") as url,
    ):
        started = trigger("good/1/rollouts", url + "/")
        gone = trigger("gone/1/rollouts", url)
        with pytest.raises(TriggerError, match=r"'broken' .* could not be loaded: .*no_such_module"):
            trigger("good/1/rollouts", url, location="broken")
        with pytest.raises(TriggerError, match=r"no code location 'other'; it has: .*rollout_assets"):
            trigger("good/1/rollouts", url, location="other")

        malformed = command("trigger", "malformed/1/rollouts", "--url", url, "--wait", "--timeout", "120")
        assert malformed.exit_code == 1, malformed.output
        assert f"taking in malformed/1/rollouts: {url}/runs/" in malformed.output
        assert "blocked: jsonl_strict: " in malformed.output
        assert f"malformed/1/rollouts.jsonl:4 (byte {len(ROWS) + 1})" in malformed.output
        assert malformed.output.endswith("malformed/1/rollouts cannot be used\n")
        assert "Not judged" not in malformed.output
        assert malformed.output.count("Mend the producer") == 1

        outcome = wait_for(started, timeout=120)
        assert outcome.succeeded
        assert outcome.problems == ()
        assert (settings.store_root / "comparison_report" / "good" / "1" / "rollouts.parquet").exists()

        lost = wait_for(gone, timeout=120)
        assert not lost.succeeded
        assert any("the results file of run 'gone/1/rollouts' does not exist" in problem for problem in lost.problems)

        once_more = command("trigger", "good/1/rollouts", "--url", url)
        assert once_more.exit_code == 0, once_more.output

        with pytest.raises(TriggerError, match="has not ended after 0 s"):
            wait_for(trigger("later/1/rollouts", url), timeout=0)


def test_a_result_that_stands_for_none_has_one_mark() -> None:
    assert NOT_JUDGED == partitioned.NOT_JUDGED


@pytest.mark.parametrize("key", ["", "../up", "a b", "rollouts.jsonl/", "/absolute"])
def test_what_is_no_run_key_is_refused_before_anything_is_asked(key: str) -> None:
    with pytest.raises(TriggerError, match="is no run key"):
        trigger(key, "http://127.0.0.1:1")


def test_a_run_that_is_not_below_the_runs_root_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    refused = command("trigger", "math/rollouts", "--url", "http://127.0.0.1:1", "--runs-root", str(tmp_path))
    assert refused.exit_code == 1
    assert f"{tmp_path}/math/rollouts.jsonl: the results file of run 'math/rollouts' does not exist" in refused.output


def test_a_webserver_that_does_not_answer_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TriggerError, match=rf"no Dagster webserver answers at {url} \(.*refused\)"):
        trigger("run", url)


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(TriggerError, match="'localhost:3000' is no address of a webserver"):
        trigger("run", "localhost:3000")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b"not found", "answered 404 Not Found; is it a Dagster webserver"),
        (200, b"<html>", "did not answer as a Dagster webserver does"),
        (200, b"[]", "did not answer as a Dagster webserver does"),
        (200, b"{}", "refused the request"),
        (200, b'{"errors": [{"message": "read only"}]}', "refused the request: read only"),
    ],
)
def test_another_web_server_is_told_from_dagster(status: int, body: bytes, message: str) -> None:
    with answering(status, body) as url, pytest.raises(TriggerError, match=message):
        trigger("run", url)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"ROLLOUT_RUNS_ROOT": None})


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A web server that says the same to everyone."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
