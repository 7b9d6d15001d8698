"""What `deploy` and the guide to going live start: it serves, and stops on SIGTERM."""

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
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.test_docs import ROOT
from usagebill.cli import main

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "systemd" / "usagebill.service").read_text(encoding="utf-8")
WORKER = (DEPLOY / "systemd" / "usagebill-worker@.service").read_text(encoding="utf-8")
CONTAINER = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSED: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
# What an installation may lack at most, of the ten that an unprotected one has.
MOST_EXPOSED = 4.0


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
        env={**known, "PYTHONPATH": str(ROOT / "src"), **environment, "USAGEBILL_DRAIN_SECONDS": "0"},
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


def make_system(folder: Path) -> None:
    arguments = ["init", "--db", str(folder / "billing.db"), "--key-file", str(folder / "key")]
    assert CliRunner().invoke(main, arguments).exit_code == 0


def option(command: str, name: str) -> Any:
    """The default of an option of a command."""
    (found,) = (known for known in main.commands[command].params if known.name == name)
    return found.default


@pytest.mark.slow
def test_the_unit_starts_a_service_that_stops_on_sigterm(tmp_path: Path) -> None:
    environment = dict(text.split("=", 1) for text in values(UNIT, "Environment"))
    # Where systemd makes the folder of the unit's state.
    assert Path(environment["USAGEBILL_DB"]).parent == Path("/var/lib") / values(UNIT, "StateDirectory")[0]
    environment["USAGEBILL_DB"] = str(tmp_path / "billing.db")
    make_system(tmp_path)
    (command,) = values(UNIT, "ExecStart")
    words = shlex.split(command)
    words[words.index("--port") + 1] = "0"
    assert "--must-exist" in words
    assert served_by(words, environment, tmp_path) == 0
    assert stat.S_IMODE((tmp_path / "billing.db").stat().st_mode) == 0o600
    # Serving on, and then finishing what is in flight.
    assert int(values(UNIT, "TimeoutStopSec")[0]) > option("serve", "drain_seconds") + 30


def test_the_units_start_commands_that_exist_with_their_secrets_from_a_file() -> None:
    for unit, command in ((UNIT, "serve"), (WORKER, "work")):
        words = shlex.split(values(unit, "ExecStart")[0])
        assert words[1] == command
        known = {name for parameter in main.commands[command].params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
        assert values(unit, "EnvironmentFile")[0].removeprefix("-") == "/etc/usagebill.env"
        # However often it ends, it is started again.
        assert (values(unit, "Restart"), values(unit, "StartLimitIntervalSec")) == (["always"], ["0"])


@pytest.mark.parametrize("unit", [UNIT, WORKER], ids=["service", "worker"])
def test_the_unit_is_one_that_systemd_understands_and_protects(unit: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd here")
    program = values(unit, "ExecStart")[0].split()[0]
    file = tmp_path / "usagebill@1.service"
    file.write_text(unit.replace(program, sys.executable), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if file.name in line]
    done = subprocess.run(
        [analyze, "security", "--offline=true", str(file)], capture_output=True, text=True, check=False
    )
    level = re.search(r"exposure level for .*: ([\d.]+)", done.stdout)
    if level is None:
        pytest.skip("this systemd cannot judge a file")
    assert float(level[1]) < MOST_EXPOSED


@pytest.mark.slow
def test_the_container_starts_a_service_on_its_volume(tmp_path: Path) -> None:
    lines = dict(line.split(" ", 1) for line in CONTAINER.splitlines() if line and not line.startswith("#"))
    # One release, so that a new image is one of what was changed here alone.
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", lines["FROM"])
    environment = dict(text.split("=", 1) for text in shlex.split(lines["ENV"]))
    # The volume belongs to the user that serves, who is not root, and the file is on it.
    assert Path(environment["USAGEBILL_DB"]).parent == Path(lines["VOLUME"])
    assert f"useradd --uid {lines['USER']} --create-home usagebill" in CONTAINER
    assert f"install -d -o usagebill -m 700 {lines['VOLUME']}" in CONTAINER
    assert int(lines["USER"]) > 0
    assert f"127.0.0.1:{lines['EXPOSE']}/health" in lines["HEALTHCHECK"]
    assert int(lines["EXPOSE"]) == option("serve", "port")
    environment |= {"USAGEBILL_DB": str(tmp_path / "billing.db"), "USAGEBILL_PORT": "0"}
    make_system(tmp_path)
    assert "--must-exist" in (words := json.loads(lines["CMD"]))
    assert served_by(words, environment, tmp_path) == 0


def test_what_is_composed_is_there() -> None:
    services = COMPOSED["services"]
    assert set(services) == {"usagebill", "worker", "postgresql", "prometheus", "grafana"}
    for name, service in services.items():
        image = service["image"].partition(":")[2]
        assert name in ("usagebill", "worker") or re.search(r"\d+\.\d+", image), f"{name} is of no release"
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in COMPOSED["volumes"]
        assert set(service.get("secrets", ())) <= set(COMPOSED["secrets"])
        assert {used["source"] for used in service.get("configs", ())} <= set(COMPOSED["configs"])
    assert (DEPLOY / services["usagebill"]["build"]["context"] / services["usagebill"]["build"]["dockerfile"]).is_file()
    ignored = (DEPLOY / ".gitignore").read_text(encoding="utf-8").split()
    assert sorted(ignored) == sorted(COMPOSED["secrets"])
    # Prometheus finds the service where it is.
    scraped = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    assert scraped[0]["static_configs"] == [{"targets": [f"usagebill:{option('serve', 'port')}"]}]


@pytest.mark.parametrize("name", ["usagebill", "worker"])
def test_the_composed_commands_get_their_secrets(name: str, tmp_path: Path) -> None:
    """The entry point, run by a shell with `usagebill` in place of a program that tells its surroundings."""
    service = COMPOSED["services"][name]
    (tmp_path / "database_password").write_text("secret\n", encoding="utf-8")
    (tmp_path / "metrics_key").write_text("scraper\n", encoding="utf-8")
    program = tmp_path / "usagebill"
    program.write_text('#!/bin/sh\necho "$USAGEBILL_DB $USAGEBILL_METRICS_KEY $@"\n', encoding="utf-8")
    program.chmod(0o755)
    shell, options, script = service["entrypoint"]
    script = script.replace("$$", "$").replace("/run/secrets", str(tmp_path))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [shell, options, script, *service["command"]], capture_output=True, text=True, check=True, env=environment
    )
    told = f"postgresql://usagebill:secret@postgresql/usagebill scraper {' '.join(service['command'][1:])}\n"
    assert done.stdout == told
    known = {parameter.envvar for parameter in main.commands[service["command"][1]].params}
    assert set(service["environment"]) <= known
    assert ("--must-exist" in service["command"]) is (name == "usagebill")
    assert CliRunner().invoke(main, [*service["command"][1:], "--help"]).exit_code == 0


def test_proxies_end_connections_before_the_server_does() -> None:
    nginx = (DEPLOY / "proxy" / "nginx.conf").read_text(encoding="utf-8")
    caddy = (DEPLOY / "proxy" / "Caddyfile").read_text(encoding="utf-8")
    for pattern, text in ((r"keepalive_timeout (\d+)s;", nginx), (r"\bkeepalive (\d+)s$", caddy)):
        (seconds,) = re.findall(pattern, text, re.MULTILINE)
        assert int(seconds) < option("serve", "keep_alive_seconds")
    for pattern, text in ((r"proxy_read_timeout (\d+)s;", nginx), (r"response_header_timeout (\d+)s", caddy)):
        (seconds,) = re.findall(pattern, text)
        assert int(seconds) > option("serve", "request_timeout")
