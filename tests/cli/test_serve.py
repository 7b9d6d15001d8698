"""One command is a service: it creates its file, shows its key once, runs due jobs, and shuts down gracefully."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from tests.scenarios import plan_fields
from tests.service import ENVIRONMENT, Service, command, start

from usagebill import Billing, __version__
from usagebill.operations import api_keys
from usagebill.runtime.clock import ManualClock
from usagebill.storage.sqlite.schema import VERSION

# Each starts a server, a process of its own.
pytestmark = pytest.mark.slow


def test_first_start_makes_everything_and_shows_the_key_once(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file) as service:
        first = service.announced
        made = service.client.post("/api/v1/customers", json={"customer": {"external_id": "acme"}})
        assert made.status_code == 200
    with Service(file, key=first["api_key"]) as service:
        assert service.announced["api_key"] is None
        assert service.announced["organization"] == first["organization"]
        assert service.client.get("/api/v1/customers/acme").json() == made.json()


def test_announcement_for_people_names_key_and_address(tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    arguments = ["serve", "--db", str(tmp_path / "billing.db"), "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "usagebill", *arguments], env=ENVIRONMENT, stdout=side, stderr=subprocess.DEVNULL
    )
    os.close(side)
    with open(terminal, encoding="utf-8") as shown:
        lines = [shown.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    key = lines[1].split()[2]
    assert [line.split()[0] for line in lines] == ["organization", "API", "serving"]
    assert len(key) == 43


def test_without_a_terminal_no_key_is_made_and_none_is_in_the_journal(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    process = start("serve", "--db", str(file), "--port", "0")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert lines[1] == "API key       none yet: `usagebill keys create` makes one\n"
    assert lines[2].startswith("serving ")
    with Billing(file) as billing:
        assert billing.api_keys.list().items == []


def test_a_sandbox_needs_no_file_and_bills_as_its_time_is_moved(tmp_path: Path) -> None:
    process = start("serve", "--sandbox", "--port", "0", "--json")
    assert process.stdout is not None
    announced, depth = "", 0
    while not announced or depth:
        line = process.stdout.readline()
        announced += line
        depth += line.count("{") - line.count("}")
    told = json.loads(announced)
    client = httpx.Client(base_url=told["url"], headers={"authorization": f"Bearer {told['api_key']}"})
    with client:
        plan = plan_fields(code="pro", amount_cents=3100)
        assert client.post("/api/v1/plans", json={"plan": plan}).status_code == 200
        subscription = {"external_customer_id": "acme", "plan_code": "pro", "external_id": "s"}
        client.post("/api/v1/customers", json={"customer": {"external_id": "acme", "currency": "EUR"}})
        assert client.post("/api/v1/subscriptions", json={"subscription": subscription}).status_code == 200
        now = datetime.fromisoformat(client.get("/clock").json()["clock"]["now"])
        assert client.post("/clock", json={"now": (now + timedelta(days=62)).isoformat()}).status_code == 200
        assert len(client.get("/api/v1/invoices").json()["invoices"]) == 2
        assert "Sandbox" in client.get("/console/sign-in").text
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_sandbox_is_no_copy_of_what_is_no_file(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.db")
    for arguments in (["--sandbox", "--db", missing], ["--sandbox", "--events", "chdb:///x"]):
        refused = command("serve", *arguments, check=False)
        assert refused.returncode == 2
        assert "--db" in refused.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_terminal_is_shown_a_link_for_the_first_administrator(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    for has_signed_in in (False, True):
        reader, writer = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "usagebill", "serve", "--db", str(file), "--port", "0"],
            env=ENVIRONMENT,
            stdout=writer,
            stderr=subprocess.DEVNULL,
        )
        os.close(writer)
        with os.fdopen(reader) as terminal:
            line = next(line for line in terminal if line.startswith("console"))
            address = line.split()[1]
            assert ("sign-in?link=" in address) == (not has_signed_in)
            if not has_signed_in:
                page, _, query = address.partition("?link=")
                assert httpx.post(page, data={"link": query}).headers["location"] == "/console/"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0


def test_port_in_use_is_reported_before_a_key_is_created(tmp_path: Path) -> None:
    with Service(tmp_path / "one.db") as service:
        port = service.announced["url"].rsplit(":", 1)[1]
        refused = command("serve", "--db", str(tmp_path / "two.db"), "--port", port, check=False)
    assert refused.returncode == 1
    assert "cannot listen" in refused.stderr
    assert not (tmp_path / "two.db").exists()


def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Sir or Madam, this is a letter and not a database." * 100)
    refused = command("serve", "--db", str(file), "--port", "0", check=False)
    assert refused.returncode == 1
    assert refused.stderr.strip() == f"Error: {file}: file is not a database"


def test_sigterm_turns_ready_into_503_and_requests_still_finish(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db", "--drain-seconds", "3") as service:
        assert service.client.get("/ready").json() == {"status": "ok"}
        service.process.send_signal(signal.SIGTERM)
        for _ in range(10_000):
            answer = service.client.get("/ready")
            if answer.status_code != 200:
                break
        assert (answer.status_code, answer.json()) == (503, {"status": "shutting down"})
        assert service.client.get("/health").json()["message"] == "Success"
        code, _ = service.stop()
        assert code == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(service.announced["url"] + "/ready")


def test_requests_in_flight_are_answered_after_the_signal(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db", "--drain-seconds", "0") as service:
        sent = threading.Event()

        def parts() -> object:
            yield b'{"customer": '
            sent.set()
            service.process.send_signal(signal.SIGTERM)
            yield b'{"external_id": "late"}}'

        answer = service.client.post("/api/v1/customers", content=parts())  # type: ignore[arg-type]
        assert sent.is_set()
        assert answer.json()["customer"]["external_id"] == "late"


def test_every_request_leaves_a_line_in_the_log(tmp_path: Path) -> None:
    trace = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with Service(tmp_path / "billing.db") as service:
        headers = {"X-Request-Id": "abc-1", "User-Agent": "shop/2", "traceparent": trace}
        service.client.get("/api/v1/customers/nobody", headers=headers)
        httpx.get(service.announced["url"] + "/api/v1/customers", headers={"traceparent": "anything"})
        # This machine is a trusted proxy unless another is named.
        forwarded = {"X-Request-Id": "abc-2", "X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
        service.client.get("/health", headers=forwarded)
        too_long = b" " * (11 << 20)
        refused = service.client.post("/api/v1/events/batch", content=too_long, headers={"X-Request-Id": "abc-3"})
        assert refused.status_code == 413
        _, log = service.stop()
    lines = {line["request_id"]: line for line in log if line["event"] == "request"}
    assert lines.pop("abc-3")["key"] == "First key"
    known = lines.pop("abc-1")
    assert (known["method"], known["path"], known["status"]) == ("GET", "/api/v1/customers/nobody", 404)
    assert known["route"] == "/api/v1/customers/{external_id}"
    assert known["organization"] == service.announced["organization"]["id"]
    assert (known["client"], known["key"], known["user_agent"]) == ("127.0.0.1", "First key", "shop/2")
    assert known["traceparent"] == trace
    assert known["key_id"] not in (None, service.key)
    assert known["milliseconds"] > 0
    # The client that the nearest proxy saw: whatever stands before it was sent by that client.
    assert lines.pop("abc-2")["client"] == "203.0.113.7"
    strangers = [(line["status"], line["organization"], line["key"], line["traceparent"]) for line in lines.values()]
    assert strangers == [(401, None, None, None)]


def test_start_and_end_leave_lines_in_the_log_without_secrets(tmp_path: Path) -> None:
    with Service(tmp_path / "billing.db", "--metrics-key", "hidden", "--strict", "true") as service:
        code, log = service.stop()
    assert code == 0
    started, stopping, stopped = (line for line in log if line["event"].startswith("server_"))
    assert started["event"] == "server_started"
    assert (started["version"], started["schema"]) == (__version__, VERSION)
    assert started["address"] == service.announced["url"]
    assert started["database"] == str(tmp_path / "billing.db")
    assert started["settings"] == {
        "public_url": started["settings"]["public_url"],
        "metrics_key": "(set)",
        "strict": True,
        "events_ahead_days": 1,
    }
    assert started["limits"]["drain_seconds"] == 0
    assert (stopping["event"], stopping["signal"], stopping["drain_seconds"]) == ("server_stopping", "SIGTERM", 0)
    assert (stopped["event"], stopped["signal"]) == ("server_stopped", "SIGTERM")
    assert "hidden" not in json.dumps(log)


def test_a_worker_leaves_lines_at_its_start_and_end(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    Billing(file).close()
    process = start("work", "--db", str(file), "--smtp-url", "smtp://user:hidden@mail.example")
    assert process.stdout is not None
    assert process.stdout.readline() == f"working on {file}\n"
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["event"] for line in lines if line["event"].startswith("worker_")] == [
        "worker_started",
        "worker_stopped",
    ]
    assert lines[0]["settings"] == {"smtp_url": "(set)", "events_ahead_days": 1}
    assert "hidden" not in log


def test_a_server_listens_at_a_unix_socket_below_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "billing.sock"
    # What a server leaves that was killed.
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    options = ("--unix-socket", str(path), "--root-path", "/billing/")
    with Service(tmp_path / "billing.db", *options) as service:
        assert service.announced["url"] == f"unix:{path}/billing"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        refused = command("serve", "--db", str(tmp_path / "two.db"), *options, check=False)
        assert (refused.returncode, "cannot listen on" in refused.stderr) == (1, True)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://billing") as client:
            headers = {"Authorization": f"Bearer {service.key}", "X-Forwarded-For": "203.0.113.7"}
            assert client.get("/billing/api/v1/customers", headers=headers).status_code == 200
            assert client.get("/ready").status_code == 200
            assert client.get("/openapi.json").json()["servers"] == [{"url": "/billing"}]
        _, log = service.stop()
    assert not path.exists()
    lines = [line for line in log if line["event"] == "request"]
    assert sorted(line["client"] for line in lines) == ["127.0.0.1", "127.0.0.1", "203.0.113.7"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--root-path", "/console/billing"], "cannot begin with /console"),
        (["--root-path", "/api"], "cannot begin with /api"),
        (["--root-path", "billing"], "a prefix of paths is like /billing"),
        (["--trusted-proxies", "127.0.0.1,*"], "'*' is neither an IP address nor a network"),
    ],
)
def test_a_prefix_or_a_proxy_that_cannot_be_is_refused(tmp_path: Path, options: list[str], reason: str) -> None:
    refused = command("serve", "--db", str(tmp_path / "billing.db"), "--port", "0", *options, check=False)
    assert (refused.returncode, reason in " ".join(refused.stderr.split())) == (2, True)
    assert not (tmp_path / "billing.db").exists()


def test_settings_come_from_options_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(tmp_path / "billing.db", "--id-prefix", "acme_") as service:
        made = service.client.post("/api/v1/customers", json={"customer": {"external_id": "a"}}).json()
        assert "acme_id" in made["customer"]
        assert "svc_id" not in made["customer"]


def test_what_fell_due_while_nothing_ran_is_billed_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    with Billing(file, clock=clock) as billing:
        _, key = billing.writing(lambda work: api_keys.create(work))
        billing.plans.create(**plan_fields(interval="yearly", amount_cents=900, pay_in_advance=True))
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(
            external_customer_id="acme", plan_code="basic", external_id="s1", ending_at="2026-02-01T00:00:00Z"
        )
    with Service(file, key=key) as service:
        for _ in range(10_000):
            listed = service.client.get("/api/v1/invoices").json()["invoices"]
            if len(listed) >= 3:
                break
        assert [invoice["issuing_date"] for invoice in listed][-3:] == ["2026-01-01", "2025-01-01", "2024-01-01"]
