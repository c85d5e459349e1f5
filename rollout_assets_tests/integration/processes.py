"""Real processes for tests: started in a group of their own, always ended with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Longest that anything may take here; far above what a slow machine needs.
PATIENCE_SECONDS = 120.0


@contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process and whatever it starts, until the block ends. What it prints goes to `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    try:
        yield process
    finally:
        process.send_signal(stop_signal)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end_group(process)


def wait_until(ready: Callable[[], T | None], what: str, process: subprocess.Popen[bytes], log: Path) -> T:
    """The first answer of `ready` that is not None; fails with the log when the process ends before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = ready()
        if answer is not None:
            return answer
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            why = f"the process ended with {ended}" if ended is not None else f"not within {PATIENCE_SECONDS:g} s"
            raise AssertionError(f"{what}: {why}\n{log.read_text(errors='replace')[-8000:]}")
        time.sleep(0.2)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def dagster_environment(home: Path, **variables: str) -> dict[str, str]:
    """The environment of a Dagster process, free of what this machine says about Dagster and rollouts."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER_", "ROLLOUT_", "PYTHON"))
    }
    return {**inherited, "DAGSTER_HOME": str(home), "no_proxy": "127.0.0.1", **variables}


@contextmanager
def webserver(workspace: Path, environment: Mapping[str, str], log: Path) -> Iterator[str]:
    """A real `dagster-webserver` on loopback; its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "dagster_webserver", "-w", workspace, "-h", "127.0.0.1", "-p", str(port)]
    with running(command, log, environment=environment) as process:
        wait_until(lambda: _answers(f"{url}/server_info"), "dagster-webserver", process, log)
        yield url


@contextmanager
def daemon(workspace: Path, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real `dagster-daemon`."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-w", workspace]
    with running(command, log, environment=environment) as process:
        yield process


def _answers(url: str) -> bool | None:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(15)
