"""Customers who are billed alike are billed together, with the same results as one by one."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.scenarios import charge_on, fixed_charge_on, plan_fields, price_ranges
from usagebill import Billing, rehearsals
from usagebill.clock import ManualClock
from usagebill.core.tasks import MarkOverdue
from usagebill.operations.cohorts import AlikeInvoice, Cohort
from usagebill.rehearsals import Together
from usagebill.storage.jobs import job_of
from usagebill.storage.sqlite import SqliteStore

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
FEBRUARY = datetime(2024, 2, 1, 1, tzinfo=UTC)
MARCH = datetime(2024, 3, 1, 1, tzinfo=UTC)
_NEVER = 10**9
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

# Differences between customers; most differ in nothing that an invoice depends on.
_KINDS = ("plain",) * 8 + ("coupon", "wallet", "second", "units", "grace", "tax", "zone", "past", "threshold", "free")


@st.composite
def _customers(draw: st.DrawFn) -> list[dict[str, Any]]:
    usage = st.lists(
        st.tuples(st.sampled_from(("sum", "max", "count", "unique")), st.integers(0, 40), st.integers(0, 27)),
        max_size=6,
    )
    customer = st.fixed_dictionaries(
        {
            "kind": st.sampled_from(_KINDS),
            "name": st.sampled_from((None, "Ada", "Zoë")),
            "january": usage,
            "february": usage,
        }
    )
    return draw(st.lists(customer, min_size=3, max_size=9))


def _open(file: Path, now: datetime) -> Billing:
    return Billing(file, clock=ManualClock(now), deliver=False)


# The message types of each endpoint; None is all.
_ENDPOINTS: tuple[tuple[list[str] | None, ...], ...] = (
    (),
    (None,),
    (["invoice.created"], None),
    (["customer.created"],),
)


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
    events = [
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


def _bill(file: Path, at: datetime, monkeypatch: pytest.MonkeyPatch, *, fewest: int, together: int = 3) -> Counter[str]:
    """Everything in the file after a run, with the ids that the run made replaced by what they are of."""
    with closing(sqlite3.connect(file)) as connection:
        before = set(_UUID.findall(" ".join(_rows(connection, None))))
    monkeypatch.setattr(rehearsals, "FEWEST_ALIKE", fewest)
    monkeypatch.setattr(SqliteStore, "group_size", together)
    with _open(file, at) as billing:
        # Nothing is delivered: when an endpoint answers is left open.
        while billing.run_batch(strict=True):
            pass
        assert list(billing.audit().findings) == []
    with closing(sqlite3.connect(file)) as connection:
        return _rows(connection, before)


def _rows(connection: sqlite3.Connection, before: set[str] | None) -> Counter[str]:
    """All rows of all tables; ids that are not among those from `before` say what they are of."""
    owners = {
        id: f"{table} of {customer}"
        for table in ("invoices", "fees")
        for id, customer in connection.execute(f"SELECT id, customer_id FROM {table}").fetchall()
    }
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        " AND name NOT LIKE '%\\_search%' ESCAPE '\\' AND name NOT LIKE '%\\_short%' ESCAPE '\\'"
    ).fetchall()
    rows: Counter[str] = Counter()
    for (table,) in tables:
        # The file counts commits, of which customers billed together need fewer.
        condition = " WHERE name NOT LIKE 'writes/%'" if table == "sequences" else ""
        cursor = connection.execute(f'SELECT * FROM "{table}"{condition}')
        # Who comes first in a run is left open, and with that places in queues and in the entity's sequence.
        names = [
            column[0] if column[0] not in ("sequence", "entity_sequential_id") else "" for column in cursor.description
        ]
        for row in cursor.fetchall():
            if table.endswith("_counts") and not row[-1]:
                continue
            text = repr({name: value for name, value in zip(names, row, strict=True) if name})
            if before is not None:
                text = _UUID.sub(lambda match: match[0] if match[0] in before else owners.get(match[0], "new"), text)
            rows[f"{table}: {text}"] += 1
    return rows


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many invoices were stored together, each time."""
    sizes: list[int] = []
    store = Together.is_stored

    def watched(self: Together, *args: Any) -> bool:
        done = False
        try:
            done = store(self, *args)
        finally:
            sizes.append(len(self.invoices) if done else 0)
        return done

    monkeypatch.setattr(Together, "is_stored", watched)
    return sizes


@pytest.mark.slow
@examples(12, deadline=None)
@given(
    customers=_customers(),
    together=st.integers(1, 4),
    billing_time=st.sampled_from(("calendar", "anniversary")),
    endpoints=st.sampled_from(_ENDPOINTS),
)
def test_billed_together_or_one_by_one_everything_stored_is_the_same(
    customers: list[dict[str, Any]], together: int, billing_time: str, endpoints: tuple[list[str] | None, ...]
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        file, other = Path(folder) / "one.db", Path(folder) / "other.db"
        with _open(file, START) as billing:
            _price_list(billing)
            _listen(billing, endpoints)
            for number, customer in enumerate(customers):
                clock: Any = billing.clock
                clock.set(START + timedelta(minutes=number))
                _sign_up(billing, f"c{number}", customer["kind"], customer["name"], billing_time=billing_time)
                _use(billing, f"c{number}", customer["january"], START)
            while billing.run_batch(strict=True):
                pass
        for month, at in (("february", FEBRUARY), ("march", MARCH)):
            shutil.copy(file, other)
            alone = _bill(other, at, monkeypatch, fewest=_NEVER)
            alike = _bill(file, at, monkeypatch, fewest=1, together=together)
            assert alike - alone == Counter()
            assert alone - alike == Counter()
            with _open(file, at) as billing:
                for number, customer in enumerate(customers):
                    _use(billing, f"c{number}", customer.get(month, []), at)


def _signed_up(folder: Path, count: int) -> Path:
    file = folder / "billing.db"
    with _open(file, START) as billing:
        _price_list(billing)
        for number in range(count):
            _sign_up(billing, f"c{number}", "plain", None)
            _use(billing, f"c{number}", [("sum", number, 3), ("count", 1, 4)], START)
        billing.run_due(strict=True)
    return file


def test_customers_alike_are_billed_together_from_the_second_on(tmp_path: Path, stored: list[int]) -> None:
    with _open(_signed_up(tmp_path, 20), FEBRUARY) as billing:
        billing.run_due(strict=True)
        assert billing.invoices.list(per_page=1).total_count == 20
        assert list(billing.audit().findings) == []
    assert sum(stored) >= 18
    assert 0 not in stored


def test_each_customer_billed_together_is_announced_to_every_endpoint(tmp_path: Path, stored: list[int]) -> None:
    file = _signed_up(tmp_path, 20)
    with _open(file, START) as billing:
        _listen(billing, (None, ["invoice.created"], ["customer.created"]))
    with _open(file, FEBRUARY) as billing:
        while billing.run_batch():
            pass
        messages = billing.webhooks.list(per_page=100).items
        invoices = {invoice.id: invoice for invoice in billing.invoices.list(per_page=100).items}
    assert sum(stored) >= 18
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


def test_code_that_listens_is_told_of_invoices_made_together(tmp_path: Path, stored: list[int]) -> None:
    messages: list[Any] = []
    with Billing(
        _signed_up(tmp_path, 12), clock=ManualClock(FEBRUARY), deliver=False, on_message=messages.append
    ) as billing:
        billing.run_due(strict=True)
        numbers = {invoice.number for invoice in billing.invoices.list(per_page=100).items}
    assert sum(stored) >= 10
    assert Counter(message["invoice"]["number"] for message in messages) == dict.fromkeys(numbers, 1)


def test_a_change_before_they_are_stored_bills_its_customer_first_and_once(
    tmp_path: Path, stored: list[int], monkeypatch: pytest.MonkeyPatch
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
        billing.run_batch()
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
    assert 0 in stored, "nothing had been worked out together by then"
    # The coupon came after January was due: it is not of that invoice.
    assert coupons == {f"c{number}": [0] for number in range(8)}


@pytest.mark.slow
@pytest.mark.parametrize("numbering", ["per_customer", "per_billing_entity"])
def test_workers_that_take_each_other_s_jobs_go_on_billing_many_together(
    tmp_path: Path, stored: list[int], numbering: Literal["per_customer", "per_billing_entity"]
) -> None:
    file = _signed_up(tmp_path, 60)
    with _open(file, START) as billing:
        billing.billing_entities.update("default", document_numbering=numbering)
        _listen(billing, (None,))
    with _open(file, FEBRUARY) as first, _open(file, FEBRUARY) as second:
        while first.run_batch() + second.run_batch():
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
    assert sum(stored) > 60 / 2


@pytest.mark.slow
def test_workers_on_one_run_seldom_work_out_the_same_invoice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, worked_out = 200, []
    invoices = Cohort.invoices

    def counted(cohort: Cohort, *args: Any) -> list[AlikeInvoice]:
        made = invoices(cohort, *args)
        worked_out.append(len(made))
        return made

    file = _signed_up(tmp_path, count)
    monkeypatch.setattr(Cohort, "invoices", counted)
    monkeypatch.setattr(rehearsals, "random", Random(0).random)
    with _open(file, FEBRUARY) as first, _open(file, FEBRUARY) as second:
        while first.run_batch() + second.run_batch():
            pass
        assert first.invoices.list(per_page=1).total_count == count
        assert list(first.audit().findings) == []
    # They meet at the beginning, where neither knows of the other yet, and at the end: some fifty jobs each time.
    assert sum(worked_out) < 1.6 * count


def test_one_customer_who_cannot_be_billed_keeps_nobody_else(tmp_path: Path, stored: list[int]) -> None:
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
    assert 0 in stored


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
        while billing.run_batch():
            pass
    with closing(sqlite3.connect(file)) as connection:
        (emails,) = connection.execute("SELECT COUNT(*) FROM jobs WHERE kind = 'send_email'").fetchone()
    assert emails == 3
