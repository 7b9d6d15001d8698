"""The servers of nginx and Caddy in `deploy/proxy`, run: in front of a port, and of a socket with a prefix."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.outages.servers import eventually, free_port
from tests.service import ROOT, Service

pytestmark = [pytest.mark.slow]

PROXY = ROOT / "deploy" / "proxy"
NAME = "billing.example.com"
MIB = 2**20


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None or shutil.which("openssl") is None:
        pytest.skip(f"no {name}, or no openssl here")
    return found


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def nginx(folder: Path, port: int, to: str) -> Sequence[str]:
    server = changed(
        (PROXY / "nginx.conf").read_text(encoding="utf-8"),
        (f"/etc/ssl/{NAME}.pem", f"{folder}/cert.pem"),
        (f"/etc/ssl/private/{NAME}.key", f"{folder}/key.pem"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server 127.0.0.1:8000;", f"server {to};"),
    )
    own = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root; " if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user}daemon off; pid {folder}/pid; error_log {folder}/log; events {{}}\n"
        f"http {{ access_log off; {own}\n{server} }}",
        encoding="utf-8",
    )
    return (program("nginx"), "-c", str(folder / "nginx.conf"), "-e", str(folder / "log"))


def caddy(folder: Path, port: int, to: str) -> Sequence[str]:
    site = changed(
        (PROXY / "Caddyfile").read_text(encoding="utf-8"),
        (f"{NAME} {{", f"{NAME}:{port} {{\n\ttls {folder}/cert.pem {folder}/key.pem"),
        ("127.0.0.1:8000", to.replace("unix:", "unix/")),
    )
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site, encoding="utf-8")
    return (program("caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile"))


@contextmanager
def in_front(words: Sequence[str], folder: Path, port: int, key: str) -> Iterator[httpx.Client]:
    """The proxy, and a client for it."""
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=environment, **quiet) as process:
        context = ssl.create_default_context(cafile=folder / "cert.pem")
        try:
            with httpx.Client(
                base_url=f"https://127.0.0.1:{port}",
                headers={"Authorization": f"Bearer {key}", "Host": f"{NAME}:{port}"},
                verify=context,
                timeout=60,
                event_hooks={"request": [_named]},
            ) as client:
                eventually(lambda: _is_ready(client))
                yield client
        finally:
            process.terminate()


def _named(request: httpx.Request) -> None:
    """The name that the certificate is for, though it is this machine that is asked."""
    request.extensions["sni_hostname"] = NAME


def _is_ready(client: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return client.get("/ready").status_code == 200
    return False


@pytest.mark.parametrize("prefix", ["", "/billing"])
@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_proxy_passes_requests_on_as_they_were_sent(proxy: Any, prefix: str, tmp_path: Path) -> None:
    port, socket = free_port(), tmp_path / "usagebill.sock"
    program(proxy.__name__)
    certified = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", "key.pem")
    command = ["openssl", "req", "-x509", "-new", "-nodes", "-days", "3", *certified, "-out", "cert.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
    options = ["--metrics-key", "monitor"]
    if prefix:
        options += ["--unix-socket", str(socket), "--root-path", prefix, "--public-url", f"https://{NAME}{prefix}"]
    with Service(tmp_path / "billing.db", *options) as service:
        to = f"unix:{socket}" if prefix else service.announced["url"].removeprefix("http://")
        words = proxy(tmp_path, port, to)
        with in_front(words, tmp_path, port, service.key) as web:
            assert web.get(f"{prefix}/health").json()["message"] == "Success"
            # Metrics are for those inside.
            assert web.get("/metrics", headers={"Authorization": "Bearer monitor"}).status_code == 404
            sent = {"customer": {"external_id": "a/b"}}
            forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "gopher"}
            assert web.post(f"{prefix}/api/v1/customers", json=sent, headers=forged).status_code == 200
            assert web.get(f"{prefix}/api/v1/customers/a%2Fb").json()["customer"]["external_id"] == "a/b"
            # What is too long is refused with a reason.
            long = web.post(f"{prefix}/api/v1/events", content=b"x" * (10 * MIB + MIB // 2))
            assert (long.status_code, "10,485,760" in long.json()["message"]) == (413, True)
            codes = [
                web.post(f"{prefix}/api/v1/customers", json={"customer": {"external_id": f"c{number}"}}).status_code
                for number in range(30)
            ]
            assert set(codes) == {200}
        _, log = service.stop()
    asked = [line for line in log if line["event"] == "request" and line["route"] == "/api/v1/customers"]
    assert len(asked) == 31
    assert {line["status"] for line in asked} == {200}
