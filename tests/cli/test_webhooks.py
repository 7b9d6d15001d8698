"""Webhooks on the command line: failed messages with their reason, and resending them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.receiver import Receiver

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.derived_keys import Purpose, derived_key
from usagebill.process.settings import Settings


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done.output


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Two messages that were given up and one that arrived."""
    path = tmp_path / "billing.db"
    receiver = Receiver(500, 500, 200, answer=b"deploying\ntraceback")
    with Billing(path, settings=Settings(webhook_attempts=1)) as billing, receiver:
        billing.webhook_endpoints.create(webhook_url=receiver.url)
        for external_id in ("a", "b", "c"):
            billing.customers.upsert(external_id=external_id)
            billing.run_due()
    return str(path)


def test_failed_messages_are_listed_with_what_the_receiver_said(file: str) -> None:
    failed = run_json("webhooks", "list", "--failed", "--db", file)
    assert [row["status"] for row in failed] == ["failed", "failed"]
    assert len(run_json("webhooks", "list", "--db", file)) == 3
    assert len(run_json("webhooks", "list", "--status", "succeeded", "--db", file)) == 1
    table = run("webhooks", "list", "--failed", "--db", file)
    assert "customer.created" in table
    assert "500" in table
    assert "deploying" in table
    assert "traceback" not in table
    assert "1 of 2; --limit shows more" in run("webhooks", "list", "--failed", "--limit", "1", "--db", file)
    assert run("webhooks", "list", "--failed", "--type", "plan.created", "--db", file) == "no failed webhooks\n"


def test_failed_messages_are_resent_one_by_one_or_together(file: str) -> None:
    first, second = (row["svc_id"] for row in run_json("webhooks", "list", "--failed", "--db", file))
    assert run("webhooks", "resend", first, "--db", file) == "1 to be delivered once more\n"
    assert run_json("webhooks", "resend", "--all", "--db", file) == {"resent_count": 2}
    with Billing(file) as billing, Receiver() as receiver:
        billing.webhook_endpoints.update(billing.webhook_endpoints.list().items[0].id, webhook_url=receiver.url)
        billing.run_due()
        assert {delivery.headers["x-svc-unique-key"] for delivery in receiver.received} == {first, second}
    assert run("webhooks", "resend", "--all", "--db", file) == "no failed webhooks\n"
    assert "was delivered" in run("webhooks", "resend", first, "--db", file, code=1)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ((), 2, "--all"),
        (("none", "--all"), 2, "--all"),
        (("none", "--type", "plan.created"), 2, "need --all"),
        (("none",), 1, "webhooks list"),
        (("--all", "--endpoint", "none"), 1, "no endpoint has the id none"),
    ],
)
def test_a_resend_of_nothing_is_refused_in_a_line(
    file: str, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    refused = run("webhooks", "resend", *arguments, "--db", file, code=code)
    assert reason in refused
    assert "Traceback" not in refused


def test_the_key_of_signatures_can_be_had(file: str) -> None:
    text = run("webhooks", "key", "--db", file)
    assert base64.b64decode(text).startswith(b"-----BEGIN PUBLIC KEY-----")
    assert run_json("webhooks", "key", "--db", file) == {"public_key": text}
    with Billing(file) as billing:
        secret = billing.organizations.get().hmac_key
        bridge = derived_key(billing.organizations.get().root_key, Purpose.BRIDGE_CALL)
    assert run("webhooks", "key", "--hmac", "--db", file).strip() == secret
    assert run_json("webhooks", "key", "--hmac", "--db", file) == {"hmac_key": secret}
    assert run("webhooks", "key", "--bridge", "--db", file).strip() == bridge
    assert run_json("webhooks", "key", "--bridge", "--db", file) == {"bridge_key": bridge}


def test_a_secret_is_changed_and_the_old_one_ended(file: str) -> None:
    with Billing(file) as billing:
        billing.webhook_endpoints.update(billing.webhook_endpoints.list().items[0].id, signature_algo="hmac")
    (endpoint,) = run_json("webhooks", "endpoints", "--db", file)
    id = endpoint["svc_id"]
    assert id in run("webhooks", "endpoints", "--db", file)
    rotated = run_json("webhooks", "rotate-secret", id, "--old-expires-at", "2100-01-01", "--db", file)
    assert rotated["old_secret_expires_at"] == "2100-01-01T00:00:00Z"
    assert "end the older one first" in run("webhooks", "rotate-secret", id, "--db", file, code=1)
    assert run("webhooks", "end-old-secret", id, "--db", file) == "one secret signs\n"
    told = run("webhooks", "rotate-secret", id, "--at-once", "--db", file)
    assert "shown this once" in told
    assert "signs no longer" in told
    assert rotated["secret"] not in told
    assert "signs too until" in run("webhooks", "rotate-secret", id, "--db", file)
    for command in ("rotate-secret", "end-old-secret"):
        assert "webhooks endpoints" in run("webhooks", command, "none", "--db", file, code=1)


def test_the_key_pair_is_changed_and_the_old_one_ended(file: str) -> None:
    old = run("webhooks", "key", "--db", file)
    rotated = run_json("webhooks", "rotate-key", "--old-expires-at", "2100-01-01", "--db", file)
    assert rotated == {
        "public_key": run("webhooks", "key", "--db", file),
        "old_key_expires_at": "2100-01-01T00:00:00Z",
    }
    assert rotated["public_key"] != old
    assert "end the older one first" in run("webhooks", "rotate-key", "--db", file, code=1)
    assert run("webhooks", "end-old-key", "--db", file) == "one key signs\n"
    told = run("webhooks", "rotate-key", "--at-once", "--db", file)
    assert run("webhooks", "key", "--db", file) in told
    assert rotated["public_key"] not in told
    both = ("--at-once", "--old-expires-at", "2100-01-01")
    assert "--at-once or --old-expires-at" in run("webhooks", "rotate-key", *both, "--db", file, code=2)
