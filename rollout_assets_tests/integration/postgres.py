"""A PostgreSQL server of the tests' own: in a temporary folder, on loopback, with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rollout_assets_tests.integration.processes import free_port, running, wait_until

_USER, _PASSWORD, _DATABASE = "rollout", "a/b c@d", "postgres"


@dataclass(frozen=True)
class Server:
    """How to reach it."""

    port: int

    def environment(self) -> dict[str, str]:
        """The variables that the production profile reads."""
        return {
            "ROLLOUT_PG_HOST": "127.0.0.1",
            "ROLLOUT_PG_PORT": str(self.port),
            "ROLLOUT_PG_DATABASE": _DATABASE,
            "ROLLOUT_PG_USER": _USER,
            "ROLLOUT_PG_PASSWORD": _PASSWORD,
        }


def why_not() -> str | None:
    """Why no server can be started here, or None."""
    if _programs() is None:
        return "no PostgreSQL server is installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _unprivileged_user() is None:
        return "PostgreSQL does not run as root, and there is no user `postgres` to run it as"
    return None


@contextmanager
def server() -> Iterator[Server]:
    """A new, empty server, gone when the block ends."""
    programs, user, port = _programs(), _unprivileged_user(), free_port()
    assert programs is not None
    # Not in pytest's own folder: that is closed to the user that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="rollout-postgres-"))
    try:
        password, data, log = folder / "password", folder / "data", folder / "log"
        password.write_text(_PASSWORD)
        if user is not None:
            for path in (folder, password):
                shutil.chown(path, user, user)
        access = ["--username", _USER, "--pwfile", str(password), "--auth", "scram-sha-256"]
        subprocess.run(
            [programs / "initdb", "-D", data, *access, "--no-sync", "--encoding", "UTF8", "--locale", "C.UTF-8"],
            check=True,
            capture_output=True,
            cwd=folder,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [programs / "postgres", "-D", data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with running(command, log, user=user, stop_signal=signal.SIGINT) as process:
            wait_until(lambda: _accepts_connections(programs, port), "postgres", process, log)
            yield Server(port)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _accepts_connections(programs: Path, port: int) -> bool | None:
    asked = subprocess.run([programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True)
    return True if asked.returncode == 0 else None


def _programs() -> Path | None:
    """The folder of the newest server's programs: Debian keeps them out of the search path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = debian[-1] if debian else shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


def _unprivileged_user() -> str | None:
    """The user to run the server as, or None for the present one."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None
