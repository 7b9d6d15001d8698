"""Commands that do one thing and end: organizations, keys, jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.books import Books
from tests.example_tasks import Act
from tests.scenarios import plan_fields

from usagebill import Billing, __version__
from usagebill.cli import main
from usagebill.fields import IntegrationCustomerFields
from usagebill.operations.jobs import HANDLERS, Handler
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Work


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "billing.db"
    Billing(path).close()
    return str(path)


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def run_json(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def options(group: click.Group) -> Iterator[tuple[str, click.Parameter]]:
    for name, command in group.commands.items():
        yield from ((name, option) for option in command.params)
        if isinstance(command, click.Group):
            yield from options(command)


FRACTIONS = [
    pytest.param(option.type, id=f"{command} {option.name}")
    for command, option in options(main)
    if isinstance(option.type, click.types.FloatParamType)
]


@pytest.mark.parametrize("kind", FRACTIONS)
@pytest.mark.parametrize("text", ["nan", "inf", "-1", "12,5", ""])
def test_an_option_that_is_no_number_of_seconds_is_refused(kind: click.ParamType[Any], text: str) -> None:
    assert kind.convert("12.5", None, None) == 12.5
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_version_names_what_runs() -> None:
    assert run("--version") == f"usagebill {__version__}\n"
    assert run_json("version")["usagebill"] == __version__


def test_commands_are_listed_in_sections_each_in_one_line() -> None:
    lines = run("--help").splitlines()
    assert [line for line in lines if line.endswith(":")] == [
        *("Options:", "Start:", "Bill and report:", "Operate:", "Repair:")
    ]
    listed = {line.split()[0]: line for line in lines if line.startswith("  ") and not line.startswith("   ")}
    for name, command in main.commands.items():
        assert (name in listed) is not command.hidden
        if not command.hidden:
            assert listed[name].endswith(command.get_short_help_str(1000).rstrip("."))
            assert len(listed[name]) <= 80


@pytest.mark.parametrize("command", ["serve", "work"])
def test_help_shows_the_options_that_matter_and_help_all_every_one(command: str) -> None:
    options = {option for param in main.commands[command].params for option in param.opts}
    brief, whole = run(command, "--help"), run(command, "--help-all")
    assert {option for option in options if f"  {option}" in whole} == options
    shown = {option for option in options if f"  {option}" in brief}
    assert {"--db", "--public-url", "--smtp-url", "--help-all"} < shown
    assert len(shown) <= 9


def test_without_a_database_it_is_billing_db_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("USAGEBILL_DB", raising=False)
    assert "there is no file 'billing.db'; `usagebill init --db billing.db` makes it" in run("status", code=2)
    run("init", "--key-file", "key")
    assert [path.name for path in sorted(tmp_path.glob("*.db"))] == ["billing.db"]
    assert len(run_json("keys", "list")) == 1


@pytest.mark.parametrize(
    "former", [("migrate", "--help"), ("usage", "rebuild", "--help"), ("lists", "recount", "--help")]
)
def test_former_names_of_commands_keep_working(former: tuple[str, ...]) -> None:
    assert "Usage:" in run(*former)


def test_organizations_are_made_with_a_key_and_listed(file: str) -> None:
    made = run_json("organizations", "create", "Hooli", "--db", file)
    assert [row["name"] for row in run_json("organizations", "list", "--db", file)] == ["Default organization", "Hooli"]
    keys = run_json("keys", "list", "--db", file, "--organization", made["id"])
    assert [key["id"] for key in keys] == [made["api_key"]["id"]]
    assert run_json("keys", "list", "--db", file) == []
    assert "Hooli" in run("organizations", "list", "--db", file)


@pytest.mark.parametrize(
    ("networks", "url", "is_ended"),
    [
        ("auto", "http://u:p@127.0.0.1:9000/hooks", True),
        ("auto", "http://localhost/hooks", True),
        ("auto", "http://10.1.2.3/hooks", True),
        ("auto", "http://93.184.215.14/hooks", False),
        ("allowed", "http://10.1.2.3/hooks", False),
    ],
)
def test_a_second_organization_ends_webhooks_to_private_addresses_and_says_which(
    file: str, networks: str, url: str, is_ended: bool
) -> None:
    with Billing(file) as billing:
        billing.webhook_endpoints.create(webhook_url=url)
    made = CliRunner().invoke(
        main, ["organizations", "create", "Hooli", "--db", file, "--private-networks", networks, "--json"]
    )
    known = url.replace("u:p@", "")
    assert json.loads(made.stdout)["webhooks_ended"] == ([known] if is_ended else [])
    assert (known in made.stderr, "private addresses" in made.stderr) == (False, False)
    # Another one changes nothing any more.
    third = CliRunner().invoke(main, ["organizations", "create", "Raviga", "--db", file])
    assert (third.exit_code, third.stderr) == (0, "")


def test_the_webhooks_that_end_are_told_to_people_too(file: str) -> None:
    with Billing(file) as billing:
        billing.webhook_endpoints.create(webhook_url="http://10.1.2.3/hooks")
    made = CliRunner().invoke(main, ["organizations", "create", "Hooli", "--db", file])
    assert made.stderr.splitlines() == [
        "These webhooks are no longer sent, as a file of several organizations sends none to private addresses"
        " (`--private-networks allowed` of serve and work permits them):",
        "  http://10.1.2.3/hooks",
    ]


def test_keys_are_shown_once_and_masked_ever_after(file: str) -> None:
    made = run_json("keys", "create", "--name", "ci", "--db", file)
    assert len(made["value"]) == 43
    listed = run("keys", "list", "--db", file)
    assert made["value"] not in listed
    assert "••••••••" + made["value"][-3:] in listed
    assert "everything" in listed
    assert made["permissions"] == "everything"


def test_keys_may_be_narrow(file: str) -> None:
    made = run_json("keys", "create", "--permission", "event:write", "--permission", "customer", "--db", file)
    assert made["permissions"] == {"event": ["write"], "customer": ["read", "write"]}
    assert "event:write customer:read,write" in run("keys", "list", "--db", file)


def test_tax_connections_are_made_changed_listed_and_ended(file: str) -> None:
    options = ["--db", file, "--kind", "anrok", "--code", "main", "--url", "https://tax.example/anrok"]
    made = run_json("tax-connections", "create", *options, "--api-key", "secret", "--item", "calls=SW1")
    assert (made["name"], made["has_api_key"], made["item_codes"]) == ("main", True, {"calls": "SW1"})
    again = run("tax-connections", "create", *options, code=1)
    assert "value_already_exist" in again
    changed = run("tax-connections", "update", "main", "--db", file, "--name", "Ours", "--item", "seats=SW2")
    assert "Ours" in changed
    assert "seats=SW2" in changed
    assert "secret" not in changed
    (listed,) = run_json("tax-connections", "list", "--db", file)
    assert (listed["name"], listed["item_codes"]) == ("Ours", {"seats": "SW2"})
    assert "https://tax.example/anrok" in run("tax-connections", "list", "--db", file)
    assert "deleted anrok main" in run("tax-connections", "delete", "main", "--db", file)
    assert run_json("tax-connections", "list", "--db", file) == []
    assert "no connection has the code main" in run("tax-connections", "delete", "main", "--db", file, code=1)


def test_sync_connections_are_made_changed_listed_and_ended(file: str) -> None:
    options = ["--db", file, "--kind", "xero", "--code", "books", "--url", "https://books.example"]
    made = run_json("sync-connections", "create", *options, "--api-key", "secret", "--no-payments")
    assert (made["name"], made["has_api_key"], made["sync_invoices"], made["sync_payments"]) == (
        "books",
        True,
        True,
        False,
    )
    assert "value_already_exist" in run("sync-connections", "create", *options, code=1)
    changed = run("sync-connections", "update", "books", "--db", file, "--name", "Ours", "--payments")
    assert "Ours" in changed
    assert "secret" not in changed
    (listed,) = run_json("sync-connections", "list", "--db", file)
    assert (listed["name"], listed["category"], listed["sync_payments"]) == ("Ours", "accounting", True)
    assert "https://books.example" in run("sync-connections", "list", "--db", file)
    assert "deleted xero books" in run("sync-connections", "delete", "books", "--db", file)
    assert run_json("sync-connections", "list", "--db", file) == []
    assert "no connection has the code books" in run("sync-connections", "delete", "books", "--db", file, code=1)


def test_what_was_pushed_is_listed_and_resent(file: str) -> None:
    clock = ManualClock(datetime(2024, 3, 5, tzinfo=UTC))
    link: IntegrationCustomerFields = {
        "integration_type": "xero",
        "integration_code": "books",
        "sync_with_provider": True,
    }
    with Billing(file, clock=clock, bridge=Books()) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.add_ons.create(name="Setup", code="setup", amount_cents=500, amount_currency="EUR")
        invoice = billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
        billing.sync_connections.create(kind="xero", code="books", url="https://books.example")
        billing.customers.upsert(external_id="acme", integration_customers=[link])
        billing.payments.create(invoice_id=invoice.id, amount_cents=500, reference="r")
        billing.run_due()
    (failed,) = run_json("sync-connections", "documents", "--failed", "--db", file)
    assert (failed["subject"], failed["error"]["error_code"]) == ("payment", "invoice_missing")
    assert "invoice_missing" in run("sync-connections", "documents", "--db", file)
    assert "is to be pushed" in run("sync-connections", "push", invoice.id, "--db", file)
    assert run_json("sync-connections", "documents", "--failed", "--db", file) == []
    statuses = {row["subject"]: row["status"] for row in run_json("sync-connections", "documents", "--db", file)}
    assert statuses == {"customer": "synced", "invoice": "pending", "payment": "pending"}
    (customer,) = run_json("sync-connections", "documents", "--status", "synced", "--db", file)
    assert "1 to be pushed again" in run("sync-connections", "resend", customer["svc_id"], "--db", file)
    assert "0 to be pushed again" in run("sync-connections", "resend", "--failed", "--db", file)
    assert "no document none" in run("sync-connections", "resend", "none", "--db", file, code=1)
    assert "--failed" in run("sync-connections", "resend", "--db", file, code=2)


def test_payment_connections_are_made_changed_listed_and_ended(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("whsec_0123456789abcdef\n")
    monkeypatch.setenv("USAGEBILL_PAYMENT_SECRET_KEY", "sk_live_0123456789abcdef")
    options = ["--db", file, "--kind", "stripe", "--code", "main", "--supports-3ds"]
    made = run_json("payment-connections", "create", *options, "--credential", f"webhook_secret=@{secret}")
    assert (made["name"], made["supports_3ds"], made["accepts_notices"]) == ("main", True, True)
    assert made["credentials"] == {"secret_key": "…cdef", "webhook_secret": "…cdef"}
    assert made["notice_path"].startswith("/webhooks/stripe/")
    assert "value_already_exist" in run("payment-connections", "create", *options, code=1)
    changed = run("payment-connections", "update", "main", "--db", file, "--name", "Ours", "--no-3ds")
    assert "Ours" in changed
    assert "0123456789" not in changed
    (listed,) = run_json("payment-connections", "list", "--db", file)
    assert (listed["name"], listed["supports_3ds"]) == ("Ours", False)
    taken = run_json("payment-connections", "update", "main", "--db", file, "--credential", "webhook_secret=")
    assert taken["accepts_notices"] is False
    assert "deleted stripe main" in run("payment-connections", "delete", "main", "--db", file)
    assert run_json("payment-connections", "list", "--db", file) == []
    assert "no connection has the code main" in run("payment-connections", "delete", "main", "--db", file, code=1)


@pytest.mark.parametrize("text", ["secret_key=sk_live_1", "no_such=@file", "secret_key"])
def test_credentials_are_not_taken_from_the_command_line_itself(file: str, text: str) -> None:
    options = ["--db", file, "--kind", "stripe", "--code", "main", "--credential", text]
    assert "NAME=@FILE" in run("payment-connections", "create", *options, code=2)


def test_dunning_campaigns_are_made_applied_changed_listed_and_ended(file: str) -> None:
    options = ["--db", file, "--code", "late", "--threshold", "15000 EUR", "--threshold", "10000 usd", "--days", "3"]
    made = run_json("dunning-campaigns", "create", *options, "--bcc", "cfo@lumen.example")
    assert (made["name"], made["days_between_attempts"], made["max_attempts"]) == ("late", 3, 1)
    assert made["thresholds"] == [
        {"amount_cents": 15000, "currency": "EUR"},
        {"amount_cents": 10000, "currency": "USD"},
    ]
    assert "value_already_exist" in run("dunning-campaigns", "create", *options, code=1)
    assert "15000 EUR" in run("dunning-campaigns", "create", "--db", file, "--code", "x", "--threshold", "EUR", code=2)
    changed = run("dunning-campaigns", "update", "late", "--db", file, "--attempts", "4", "--name", "Late payers")
    assert "15000 EUR, 10000 USD" in changed
    assert "late asks the customers of billing entity default" in run(
        "dunning-campaigns", "apply", "late", "--db", file
    )
    unknown = run("dunning-campaigns", "apply", "late", "--db", file, "--customer", "nobody", code=1)
    assert "no customer has the external id nobody" in unknown
    (listed,) = run_json("dunning-campaigns", "list", "--db", file)
    assert (listed["name"], listed["max_attempts"]) == ("Late payers", 4)
    assert "Late payers" in run("dunning-campaigns", "list", "--db", file)
    assert "deleted late" in run("dunning-campaigns", "delete", "late", "--db", file)
    assert "no dunning campaigns" in run("dunning-campaigns", "list", "--db", file)
    assert "no campaign has the code late" in run("dunning-campaigns", "apply", "late", "--db", file, code=1)


def test_item_codes_that_name_nothing_are_refused(file: str) -> None:
    options = ["--db", file, "--kind", "anrok", "--code", "main", "--url", "https://tax.example", "--item", "calls"]
    assert "OUR_CODE=THEIR_CODE" in run("tax-connections", "create", *options, code=2)


def test_rotating_ends_the_old_key_now_or_later(file: str) -> None:
    first = run_json("keys", "create", "--db", file)
    second = run_json("keys", "rotate", first["id"], "--db", file)
    assert second["value"] != first["value"]
    assert [key["id"] for key in run_json("keys", "list", "--db", file)] == [second["id"]]
    run_json("keys", "rotate", second["id"], "--expires-at", "2999-01-01", "--db", file)
    listed = run_json("keys", "list", "--db", file)
    assert [key["expires_at"] for key in listed] == ["2999-01-01T00:00:00Z", None]


def test_the_last_key_cannot_be_revoked(file: str) -> None:
    first = run_json("keys", "create", "--db", file)
    second = run_json("keys", "create", "--db", file)
    assert run("keys", "revoke", first["id"], "--db", file) == f"revoked {first['id']}\n"
    assert "last_non_expiring_api_key" in run("keys", "revoke", second["id"], "--db", file, code=1)
    assert "api_key_not_found" in run("keys", "revoke", "nonsense", "--db", file, code=1)


@pytest.mark.parametrize("permission", ["nothing", "event:fly", "event:", "event:read,"])
def test_permissions_that_do_not_exist_are_named(file: str, permission: str) -> None:
    assert permission in run("keys", "create", "--permission", permission, "--db", file, code=2)
    assert run_json("keys", "list", "--db", file) == []


@pytest.mark.parametrize("command", [["keys", "list"], ["run-due"], ["work"], ["jobs", "list"], ["audit"]])
def test_a_missing_file_is_not_made_in_passing(tmp_path: Path, command: list[str]) -> None:
    missing = tmp_path / "typo.db"
    assert f"`usagebill init --db {missing}` makes it" in run(*command, "--db", str(missing), code=2)
    assert not missing.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def failing(file: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with two jobs, one of which fails until it is fixed."""

    def act(work: Work, task: Act) -> None:
        if task.name == "bad":
            raise ValueError("out of paper")

    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, act))
    with Billing(file) as billing:
        for subject in ("good", "bad"):
            billing.writing(lambda work, subject=subject: work.schedule(Act(name=subject), work.now))  # type: ignore[misc]
    return file


def test_run_due_says_what_failed_and_a_retry_mends_it(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run_json("run-due", "--db", failing, code=1)
    assert ran["done"] == 1
    assert [(row["subject_id"], row["error"]) for row in ran["failed"]] == [("bad", "ValueError: out of paper")]
    listed = run_json("jobs", "list", "--db", failing)
    assert [(row["kind"], row["attempts"]) for row in listed] == [("act", 1)]
    assert "out of paper" in run("jobs", "list", "--db", failing)
    # It waits for its next try, unless it is retried by hand.
    assert run_json("run-due", "--db", failing) == {"done": 0, "failed": []}
    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, lambda work, task: None))
    assert run_json("jobs", "retry", listed[0]["id"], "--db", failing) == {"retried": [listed[0]["id"]], "unknown": []}
    assert run("run-due", "--db", failing) == "1 done, 0 failed\n"
    assert run("jobs", "list", "--db", failing) == "no failed jobs\n"


def test_run_due_at_a_time_does_what_is_due_by_then(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setitem(HANDLERS, Act.kind, Handler(Act, lambda work, task: ran.append(work.now.isoformat())))
    with Billing(file) as billing:
        billing.writing(lambda work: work.schedule(Act(name="x"), work.now.replace(year=2990)))
    assert run_json("run-due", "--at", "2989-12-31", "--force", "--db", file)["done"] == 0
    assert run_json("run-due", "--at", "2991-01-01T00:00:00+01:00", "--force", "--db", file)["done"] == 1
    assert [text[:4] for text in ran] == ["2990"]
    assert "is not an ISO 8601 time" in run("run-due", "--at", "tomorrow", "--db", file, code=2)


def test_unknown_jobs_are_named(file: str) -> None:
    assert "no such job: x" in run("jobs", "retry", "x", "--db", file, code=1)
    assert "name the jobs" in run("jobs", "retry", "--db", file, code=2)


def test_an_audit_says_what_it_looked_at_and_what_it_found(file: str) -> None:
    box = Billing(file, clock=ManualClock(datetime(2024, 1, 5, tzinfo=UTC)))
    box.plans.create(**plan_fields(amount_cents=1000))
    box.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code="basic")
    box.run_due(datetime(2024, 3, 2, tzinfo=UTC))
    box.close()
    (clean,) = run_json("audit", "--db", file)["organizations"]
    assert (clean["invoices"], clean["subscriptions"], clean["found"], clean["findings"]) == (2, 1, 0, [])
    assert clean["recounted"] == {"subscription": 2}
    assert clean["not_recounted"] == []
    assert "Default organization: 0 found in 2 invoices" in run("audit", "--db", file)
    assert "recounted: 2 subscription fees" in run("audit", "--db", file)
    assert "recounted" not in run("audit", "--no-recount", "--db", file)

    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE invoices SET total_amount_cents = total_amount_cents + 1 WHERE sequential_id = 2")
    (wrong,) = run_json("audit", "--db", file, code=1)["organizations"]
    # The total is not that of its parts, and what is due by it not what the ledger says.
    assert [finding["check"] for finding in wrong["findings"]] == ["invoice_total", "ledger"]
    assert wrong["findings"][0]["detail"] == "total_amount_cents"
    assert "expected 1000, found 1001" in run("audit", "--db", file, code=1)
    assert "no organization nobody" in run("audit", "--organization", "nobody", "--db", file, code=1)


def test_users_of_the_console_are_added_with_a_link_and_removed(file: str) -> None:
    made = run_json("users", "add", "ada@example.com", "--role", "admin", "--db", file)
    assert made["url"].startswith("http://localhost:8000/console/sign-in?link=")
    public = ("--public-url", "https://billing.example/")
    link = run("users", "link", "ada@example.com", *public, "--db", file)
    assert "https://billing.example/console/sign-in?link=" in link
    assert made["url"].partition("link=")[2] not in link
    run("users", "add", "grace@example.com", "--role", "finance", "--db", file)
    listed = run_json("users", "list", "--db", file)
    assert [(user["email"], user["role"]) for user in listed] == [
        ("ada@example.com", "admin"),
        ("grace@example.com", "finance"),
    ]
    assert run("users", "remove", "grace@example.com", "--db", file).strip() == "removed grace@example.com"
    assert "no user has the address" in run("users", "link", "grace@example.com", "--db", file, code=1)
    assert "administrator" in run("users", "remove", "ada@example.com", "--db", file, code=1)
    assert [user["email"] for user in run_json("users", "list", "--db", file)] == ["ada@example.com"]


def test_an_organization_is_limited_and_its_limits_are_shown(file: str) -> None:
    unlimited = {"requests_per_second": None, "events_per_day": None, "customers": None}
    assert run_json("organizations", "limit", "--db", file) == unlimited
    limited = run_json("organizations", "limit", "--customers", "5", "--events-per-day", "1000", "--db", file)
    assert limited == {**unlimited, "customers": 5, "events_per_day": 1000}
    assert run_json("organizations", "limit", "--customers", "none", "--db", file) == {**limited, "customers": None}
    assert "events per day        1000\n" in run("organizations", "limit", "--db", file)
    assert "0 is not in the range" in run("organizations", "limit", "--customers", "0", "--db", file, code=2)
