"""E-mails on the command line: the mail server's options, and the list of failed e-mails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.mail_server import MailServer

from usagebill import Billing
from usagebill.cli import main
from usagebill.process.settings import Settings


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A billing system with an invoice that waits to be sent."""
    path = tmp_path / "billing.db"
    with Billing(path, settings=Settings(smtp_url="smtp://127.0.0.1:9")) as billing:
        billing.billing_entities.update("default", email="billing@seller.example", email_settings=["invoice.finalized"])
        billing.customers.upsert(external_id="acme", currency="EUR", email="anna@acme.example")
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
    return str(path)


def test_an_email_that_failed_is_seen_and_can_be_tried_again(file: str) -> None:
    with MailServer() as server:
        server.data_answers = ["554 not today"]
        failed = run("run-due", "--db", file, "--smtp-url", server.url)
        assert failed.exit_code == 1
        assert "send_email of" in failed.stdout
        assert "554 not today" in failed.stdout
        (job,) = json.loads(run("jobs", "list", "--db", file, "--json").stdout)
        assert (job["kind"], job["attempts"], job["next_try_at"]) == ("send_email", 1, None)
        assert job["error"] == "Undelivered: 554 not today"
        assert run("jobs", "retry", job["id"], "--db", file).exit_code == 0
        done = run(
            "run-due", "--db", file, USAGEBILL_SMTP_URL=server.url, USAGEBILL_EMAIL_FROM="noreply@platform.example"
        )
        assert (done.exit_code, done.stdout) == (0, "1 done, 0 failed\n")
        assert [(mail.sender, mail.recipients) for mail in server.received] == [
            ("noreply@platform.example", ["anna@acme.example"])
        ]
    assert run("jobs", "list", "--db", file).stdout == "no failed jobs\n"


@pytest.mark.parametrize("option", [("--smtp-url", "mail.example"), ("--email-from", "Lumen"), ("--smtp-timeout", "0")])
def test_settings_that_cannot_be_are_refused_in_a_line(file: str, option: tuple[str, str]) -> None:
    refused = run("run-due", "--db", file, *option)
    assert refused.exit_code == 2
    assert "Traceback" not in refused.output
