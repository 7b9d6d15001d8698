"""The service unit and the container file of the guide to going live: what they start serves, and stops on SIGTERM."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.test_docs import ROOT, blocks

GUIDE = (ROOT / "docs" / "guides" / "going-live.md").read_text(encoding="utf-8")
(UNIT,) = (block.text for block in blocks(GUIDE, "ini"))
(CONTAINER,) = (block.text for block in blocks(GUIDE, "dockerfile"))


def values(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def served_by(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Start the command as the user of the service would, ask for its health, and stop it; how it exited."""
    assert Path(words[0]).name == "usagebill"
    known = {name: text for name, text in os.environ.items() if not name.startswith("USAGEBILL_")}
    command = [sys.executable, "-m", "usagebill", *words[1:]]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**known, "PYTHONPATH": str(ROOT / "src"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            address = next(re.search(r":(\d+)/", line) for line in server.stdout if line.startswith("serving"))
            assert address is not None
            with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/health", timeout=30) as answer:
                assert json.load(answer)["message"] == "Success"
        finally:
            server.send_signal(signal.SIGTERM)
        return server.wait(60)


@pytest.mark.slow
def test_the_unit_starts_a_service_that_stops_on_sigterm(tmp_path: Path) -> None:
    environment = dict(text.split("=", 1) for text in values(UNIT, "Environment"))
    # Where systemd makes the folder of the unit's state.
    assert Path(environment["USAGEBILL_DB"]).parent == Path("/var/lib") / values(UNIT, "StateDirectory")[0]
    environment["USAGEBILL_DB"] = str(tmp_path / "billing.db")
    (command,) = values(UNIT, "ExecStart")
    words = shlex.split(command)
    words[words.index("--port") + 1] = "0"
    assert served_by(words, environment, tmp_path) == 0
    assert stat.S_IMODE((tmp_path / "billing.db").stat().st_mode) == 0o600
    assert int(values(UNIT, "TimeoutStopSec")[0]) > 30


def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd here")
    program = values(UNIT, "ExecStart")[0].split()[0]
    unit = tmp_path / "usagebill.service"
    unit.write_text(UNIT.replace(program, sys.executable), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if "usagebill.service" in line]


@pytest.mark.slow
def test_the_container_starts_a_service_on_its_volume(tmp_path: Path) -> None:
    lines = dict(line.split(" ", 1) for line in CONTAINER.splitlines() if line)
    assert lines["FROM"].startswith("python:3.1")
    environment = dict(text.split("=", 1) for text in shlex.split(lines["ENV"]))
    # The volume belongs to the user that serves, and the file is on it.
    assert Path(environment["USAGEBILL_DB"]).parent == Path(lines["VOLUME"])
    assert f"chown {lines['USER']} {lines['VOLUME']}" in lines["RUN"]
    environment |= {"USAGEBILL_DB": str(tmp_path / "billing.db"), "USAGEBILL_PORT": "0"}
    assert served_by(json.loads(lines["CMD"]), environment, tmp_path) == 0
    assert (tmp_path / "billing.db").exists()
