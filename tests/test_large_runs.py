"""A run over many customers: each is billed, numbered, announced and logged once, whatever others do meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.scenarios import charge_on, fixed_charge_on, plan_fields, price_ranges
from usagebill import Billing
from usagebill.core.tasks import MarkOverdue
from usagebill.fields import EventFields
from usagebill.runtime.clock import ManualClock
from usagebill.storage.jobs import job_of

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
FEBRUARY = datetime(2024, 2, 1, 1, tzinfo=UTC)
MARCH = datetime(2024, 3, 1, 1, tzinfo=UTC)


def _open(file: Path, now: datetime) -> Billing:
    return Billing(file, clock=ManualClock(now), deliver=False)


def _listen(billing: Any, endpoints: tuple[list[str] | None, ...]) -> None:
    for number, types in enumerate(endpoints):
        billing.webhook_endpoints.create(webhook_url=f"https://acme.example/{number}", event_types=types)


def _price_list(billing: Any) -> None:
    metrics = {
        code: billing.billable_metrics.create(
            name=code, code=code, aggregation_type=f"{code}_agg" if code != "unique" else "unique_count_agg", **field
        ).id
        for code, field in (
            ("sum", {"field_name": "value"}),
            ("max", {"field_name": "value"}),
            ("count", {}),
            ("unique", {"field_name": "value"}),
        )
    }
    support = billing.add_ons.create(name="Support", code="support", amount_cents=1000, amount_currency="EUR")
    billing.taxes.create(name="VAT", code="vat", rate="19", applied_to_organization=True)
    billing.taxes.create(name="City", code="city", rate="1.5", applied_to_organization=True)
    ranges = price_ranges((0, 10, "0.105", "1"), (11, None, "0.05", "0"))
    charges = (
        charge_on(metrics["sum"], amount="0.333"),
        charge_on(metrics["max"], "graduated", graduated_ranges=ranges),
        charge_on(metrics["count"], "package", amount="5", package_size=3, free_units=1),
        charge_on(metrics["unique"], "volume", volume_ranges=ranges),
    )
    for code in ("basic", "other"):
        billing.plans.create(
            **plan_fields(
                *charges[: 4 if code == "basic" else 1],
                code=code,
                amount_cents=3100,
                fixed_charges=[fixed_charge_on(support.id, units=2, amount="3")],
            )
        )
    billing.coupons.create(
        name="Off",
        code="off",
        coupon_type="fixed_amount",
        amount_cents=700,
        amount_currency="EUR",
        frequency="once",
        expiration="no_expiration",
    )


def _announced_number(message: Any) -> str:
    return str(json.loads(message.payload)["invoice"]["number"])


def _sign_up(billing: Any, id: str, kind: str, name: str | None, *, billing_time: str = "calendar") -> None:
    settings: dict[str, dict[str, Any]] = {
        "grace": {"billing_configuration": {"invoice_grace_period": 2}},
        "zone": {"timezone": "America/New_York"},
        "tax": {"tax_codes": ["city"]},
    }
    more = settings.get(kind, {})
    billing.customers.upsert(external_id=id, name=name, currency="EUR", **more)
    plan = "other" if kind == "free" else "basic"
    started: dict[str, Any] = {"subscription_at": "2023-11-07T03:00:00Z"} if kind == "past" else {}
    thresholds: dict[str, Any] = {"usage_thresholds": [{"amount_cents": 1000}]} if kind == "threshold" else {}
    billing.subscriptions.create(
        external_customer_id=id,
        plan_code=plan,
        external_id=f"sub {id}",
        billing_time=billing_time,
        **started,
        **thresholds,
    )
    if kind == "coupon":
        billing.applied_coupons.apply(external_customer_id=id, coupon_code="off")
    if kind == "wallet":
        billing.wallets.create(external_customer_id=id, rate_amount="1", currency="EUR", granted_credits="3")
    if kind == "second":
        billing.subscriptions.create(external_customer_id=id, plan_code="other", external_id=f"more {id}")
    if kind == "units":
        billing.subscriptions.update_fixed_charge(f"sub {id}", "support", units=5)


def _use(billing: Billing, id: str, usage: list[tuple[str, int, int]], since: datetime) -> None:
    events: list[EventFields] = [
        {
            "transaction_id": f"{id} {since:%m} {number}",
            "code": code,
            "external_subscription_id": f"sub {id}",
            "timestamp": (since + timedelta(days=day, hours=number)).timestamp(),
            "properties": {"value": value},
        }
        for number, (code, value, day) in enumerate(usage)
    ]
    if events:
        billing.events.ingest(events)


def _signed_up(folder: Path, count: int) -> Path:
    file = folder / "billing.db"
    with _open(file, START) as billing:
        _price_list(billing)
        for number in range(count):
            _sign_up(billing, f"c{number}", "plain", None)
            _use(billing, f"c{number}", [("sum", number, 3), ("count", 1, 4)], START)
        billing.run_due(strict=True)
    return file


def test_each_invoice_of_a_run_is_announced_to_every_endpoint(tmp_path: Path) -> None:
    file = _signed_up(tmp_path, 20)
    with _open(file, START) as billing:
        _listen(billing, (None, ["invoice.created"], ["customer.created"]))
    with _open(file, FEBRUARY) as billing:
        while billing._system.run_batch():
            pass
        messages = billing.webhooks.list(per_page=100).items
        invoices = {invoice.id: invoice for invoice in billing.invoices.list(per_page=100).items}
    assert Counter(message.object_id for message in messages) == dict.fromkeys(invoices, 2)
    with closing(sqlite3.connect(file)) as connection:
        waiting = connection.execute("SELECT subject_id FROM jobs WHERE kind = 'deliver_webhook'").fetchall()
    assert sorted(id for (id,) in waiting) == sorted(message.id for message in messages)
    for message in messages:
        shown = json.loads(message.payload)["invoice"]
        invoice = invoices[shown["svc_id"]]
        assert (message.object_id, shown["number"]) == (invoice.id, invoice.number)
        assert shown["total_amount_cents"] == invoice.total_amount_cents
        assert {fee["svc_invoice_id"] for fee in shown["fees"]} == {invoice.id}


def test_code_that_listens_is_told_of_each_invoice_of_a_run(tmp_path: Path) -> None:
    messages: list[Any] = []
    with Billing(
        _signed_up(tmp_path, 12), clock=ManualClock(FEBRUARY), deliver=False, on_message=messages.append
    ) as billing:
        billing.run_due(strict=True)
        numbers = {invoice.number for invoice in billing.invoices.list(per_page=100).items}
    assert Counter(message["invoice"]["number"] for message in messages) == dict.fromkeys(numbers, 1)


def test_a_change_before_they_are_stored_bills_its_customer_first_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _signed_up(tmp_path, 8)
    with _open(file, FEBRUARY) as billing:
        store: Any = billing.store
        write = store.write
        changes: list[Callable[[], None]] = []

        def late(organization_id: str | None, change: Any) -> Any:
            if organization_id is None and changes:
                changes.pop()()
            return write(organization_id, change)

        def elsewhere() -> None:
            with _open(file, FEBRUARY) as other:
                other.applied_coupons.apply(external_customer_id="c6", coupon_code="off")

        # The first batch only bills the first customer, whose invoice copies the billing entity.
        billing._system.run_batch()
        changes.append(elsewhere)
        monkeypatch.setattr(store, "write", late)
        billing.run_due(strict=True)
        coupons = {
            customer.external_id: [
                invoice.coupons_amount_cents
                for invoice in billing.invoices.list(external_customer_id=customer.external_id).items
            ]
            for customer in billing.customers.list(per_page=100).items
        }
        assert list(billing.audit().findings) == []
    # The coupon came after January was due: it is not of that invoice.
    assert coupons == {f"c{number}": [0] for number in range(8)}


@pytest.mark.slow
@pytest.mark.parametrize("numbering", ["per_customer", "per_billing_entity"])
def test_workers_that_take_each_other_s_jobs_number_announce_and_log_each_invoice_once(
    tmp_path: Path, numbering: Literal["per_customer", "per_billing_entity"]
) -> None:
    file = _signed_up(tmp_path, 60)
    with _open(file, START) as billing:
        billing.billing_entities.update("default", document_numbering=numbering)
        _listen(billing, (None,))
    with _open(file, FEBRUARY) as first, _open(file, FEBRUARY) as second:
        while first._system.run_batch() + second._system.run_batch():
            pass
        invoices = first.invoices.list(per_page=100).items
        assert len(invoices) == 60
        # Numbers that another worker took are neither announced nor logged.
        numbers = {(invoice.id, invoice.number) for invoice in invoices}
        messages = first.webhooks.list(per_page=100).items
        assert {(message.object_id, _announced_number(message)) for message in messages} == numbers
        logs = first.activity_logs.list(activity_types=["invoice.created"], per_page=100).items
        assert {(log.resource_id, json.loads(log.activity_object)["number"]) for log in logs} == numbers
        assert list(first.audit().findings) == []


def test_one_customer_who_cannot_be_billed_keeps_nobody_else(tmp_path: Path) -> None:
    file = _signed_up(tmp_path, 8)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER refused BEFORE INSERT ON invoices WHEN NEW.customer_id ="
            " (SELECT id FROM customers WHERE external_id = 'c4') BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    failures: list[str] = []
    with _open(file, FEBRUARY) as billing:
        billing.run_due(on_failure=lambda job, problem: failures.append(str(problem)))
        assert billing.invoices.list(per_page=1).total_count == 7
        numbers = sorted(invoice.entity_sequential_id or 0 for invoice in billing.invoices.list(per_page=100).items)
        assert numbers == list(range(1, 8))
    assert failures == ["refused"]


def test_a_customer_with_something_due_before_that_has_to_wait_keeps_nobody_else(tmp_path: Path) -> None:
    with _open(_signed_up(tmp_path, 40), FEBRUARY) as billing:
        customer = billing.customers.get("c30").id
        task = MarkOverdue(customer_id=customer, invoice_id="unknown")
        first, later = FEBRUARY - timedelta(days=9), FEBRUARY + timedelta(days=9)
        waits = job_of(task, id="waits", organization_id=billing.organization.id, due_at=first, created_at=first)
        billing.store.write(
            billing.organization.id, lambda tx: tx.jobs.add(replace(waits, run_at=later, attempts=1, error="refused"))
        )
        billing.run_due(strict=True)
        assert billing.invoices.list(per_page=1).total_count == 40
        assert list(billing.audit().findings) == []


def test_whoever_has_an_address_is_sent_the_invoice(tmp_path: Path) -> None:
    file = _signed_up(tmp_path, 10)
    with _open(file, START) as billing:
        (entity,) = billing.billing_entities.list()
        billing.billing_entities.update(entity.code, email="b@lumen.example", email_settings=["invoice.finalized"])
        for number in (3, 6, 9):
            billing.customers.upsert(external_id=f"c{number}", email=f"c{number}@acme.example")
    mailer: Any = object()
    with Billing(file, clock=ManualClock(FEBRUARY), deliver=False, mailer=mailer) as billing:
        while billing._system.run_batch():
            pass
    with closing(sqlite3.connect(file)) as connection:
        (emails,) = connection.execute("SELECT COUNT(*) FROM jobs WHERE kind = 'send_email'").fetchone()
    assert emails == 3
