"""A real server process for tests: `usagebill serve` on a free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import httpx
from click.testing import CliRunner

from usagebill.cli import main

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200", "USAGEBILL_DRAIN_SECONDS": "0"}


def command(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `usagebill` with `arguments` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "usagebill", *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def command_here(*arguments: str) -> str:
    """The output of `usagebill` with `arguments`, run in this process: importing it takes a second in a new one."""
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def start(
    *arguments: str, log: IO[str] | None = None, program: Sequence[str] = ("usagebill",)
) -> subprocess.Popen[str]:
    """Start `usagebill`, or a module in its place, with `arguments`; its output can be read."""
    return subprocess.Popen(
        [sys.executable, "-m", *program, *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=log or subprocess.PIPE,
        text=True,
    )


class Service:
    """`usagebill serve` on `file` (or a database's URL), with its announcement and a client for it."""

    def __init__(
        self, file: Path | str, *options: str, key: str | None = None, program: Sequence[str] = ("usagebill",)
    ) -> None:
        # A file, because a full pipe that nobody reads would block the process.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = start(
            "serve", "--db", str(file), "--port", "0", "--json", *options, log=self._log, program=program
        )
        assert self.process.stdout is not None
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            line = self.process.stdout.readline()
            assert line, self._logged()
            text += line
        self.announced: dict[str, Any] = json.loads(text)
        self.key = key or self.announced["api_key"]
        self.client = httpx.Client(
            base_url=self.announced["url"], headers={"Authorization": f"Bearer {self.key}"}, timeout=30
        )

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.stop(signal.SIGINT)
        self._log.close()

    def _logged(self) -> str:
        # The process writes where this file stands, so that place is left alone.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def logged(self) -> Sequence[dict[str, Any]]:
        """The lines of its log so far."""
        return [json.loads(line) for line in self._logged().splitlines() if line.endswith("}")]

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.process.kill()
        self.process.communicate()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, Sequence[dict[str, Any]]]:
        """Ask the process to end; its exit code and the lines of its log."""
        self.process.send_signal(number)
        self.process.communicate(timeout=30)
        return self.process.returncode, [json.loads(line) for line in self._logged().splitlines()]
