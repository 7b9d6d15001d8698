"""A MariaDB server of a test's own, where one is installed (`apt-get install mariadb-server`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mariadb() -> Iterator[Path]:
    """The socket of a server with an empty database `shop`, whose user `root` needs no password."""
    server, install = (
        shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin"),
        shutil.which("mariadb-install-db"),
    )
    if server is None or install is None:
        pytest.skip("MariaDB is not installed here (apt-get install mariadb-server): the outbox was not tried in it")
    # The path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="mariadb-") as folder:
        files, socket, first = Path(folder) / "files", Path(folder) / "socket", Path(folder) / "first.sql"
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        made = [install, "--no-defaults", *as_root, f"--datadir={files}", "--auth-root-authentication-method=normal"]
        subprocess.run([*made, "--skip-test-db"], check=True, capture_output=True)
        first.write_text("CREATE DATABASE shop;\n", "utf-8")
        options = [f"--datadir={files}", f"--socket={socket}", "--skip-networking", f"--init-file={first}"]
        with subprocess.Popen(
            [server, "--no-defaults", *as_root, *options], stderr=subprocess.PIPE, text=True
        ) as running:
            try:
                assert running.stderr is not None
                log = []
                for line in running.stderr:
                    log.append(line)
                    if "ready for connections" in line:
                        break
                else:
                    pytest.fail("MariaDB did not start:\n" + "".join(log))
                yield socket
            finally:
                running.kill()
