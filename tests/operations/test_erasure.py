"""Erasure: a word in every text that a customer's records can have is nowhere once the customer is anonymized, but on
its issued documents, and not there once they have been kept long enough; every amount stays.
"""

from __future__ import annotations

import json
import sqlite3
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner
from tests.json_asserts import missing, refused
from tests.postgresql import server_url
from tests.scenarios import Scenario, charge_on

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.documents.files import Document
from usagebill.core.emails import EmailSubject
from usagebill.core.erasure import ISSUED, PERSONAL
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import NoticeStatus, Payment, PaymentMethod, PaymentPage, ProviderNotice
from usagebill.core.subscriptions import Subscription
from usagebill.core.sync_connections import SyncedDocument
from usagebill.core.tasks import SendEmail
from usagebill.process.settings import Settings
from usagebill.queries.belongings import OWNERS, belongings
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.tables import TABLES

WORD = "Zaphodia"
NOW = "2024-03-05T12:00:00Z"
# Documents of 2024 are kept until the end of 2025.
SETTINGS = Settings(document_years=1)
LAST, AFTER = datetime(2025, 12, 31, 23, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
KEPT_TABLES = {
    "adjusted_fees",
    "billing_periods",
    "credit_notes",
    "documents",
    "fees",
    "credit_notes_values",
    "invoices",
    "invoices_values",
    "ledger",
    "payment_receipts",
    "payments",
    "refunds",
}

# Texts that say nothing about a person: they come from us, or from a short list, or bills are counted by them.
_KEPT = frozenset(
    {
        *(
            "id",
            "slug",
            "number",
            "currency",
            "amount_currency",
            "base_currency",
            "provider_fee_currency",
            "status",
            "timezone",
            "country",
            "code",
            "frequency",
        ),
        *("account_type", "customer_type", "document_locale", "finalize_zero_amount_invoice", "billing_time"),
        *("subscription_invoice_issuing_date_anchor", "subscription_invoice_issuing_date_adjustment"),
        *("payment_provider", "payment_provider_code", "payment_provider_type", "provider_payment_methods"),
        *("on_termination_credit_note", "on_termination_invoice", "payment_method_type", "origin", "succession"),
        *("usage_thresholds", "activation_rules", "fixed_charge_units", "applied_taxes", "applied_custom_sections"),
        *("applied_usage_thresholds", "credits", "items", "fee_types", "paid_fees", "thresholds", "attempts"),
        *("payment_method", "error_codes", "tax_code", "provider", "question", "group", "value", "fingerprint"),
        *(
            "charges",
            "change",
            "values",
            "external_subscription_id",
            "plan",
            "counted",
            "removed",
            "definition",
            "item",
        ),
        *("filters", "grouped_by", "amount_details", "basis", "pricing_unit_details", "presentation_breakdowns"),
        *("content", "transaction_ids"),
    }
)
# Ids in our tables or in those of providers that name nobody outside, and must stay as they are for what follows.
_ALSO_KEPT: Mapping[type, frozenset[str]] = {
    Subscription: frozenset({"external_id"}),
    PaymentMethod: frozenset(),
    SyncedDocument: frozenset({"error_code"}),
    Document: frozenset({"name"}),
}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def box(request: pytest.FixtureRequest) -> Iterator[Scenario]:
    if request.param == "sqlite":
        with Scenario(now=NOW, settings=SETTINGS) as box:
            yield box
        return
    with Scenario(now=NOW, settings=SETTINGS, database=server_url()) as box:
        yield box


def planted(hint: Any, name: str) -> Any:
    """A value of this type in which every text has the word."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return planted(next(item for item in arguments if item is not type(None)), name)
    if name == "integration_type":
        return "hubspot"
    if hint in (str, object, Any):
        return f"{WORD} {name}"
    if origin is tuple:
        return (planted(arguments[0], name),)
    if origin is not None and issubclass(origin, Mapping):
        return {f"{name}": planted(arguments[1], name)}
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{item.name: planted(hints[item.name], item.name) for item in fields(hint)})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    samples = {int: 1, bool: False, Decimal: Decimal(1), datetime: datetime(2024, 1, 1, tzinfo=UTC), bytes: b"x"}
    return {**samples, date: date(2024, 1, 1)}[hint]


def has_text(hint: Any) -> bool:
    """Whether a value of this type can hold a text that somebody has written."""
    if hint in (str, object, Any):
        return True
    if isinstance(hint, type) and issubclass(hint, Enum):
        return False
    if isinstance(hint, type) and is_dataclass(hint):
        return any(map(has_text, get_type_hints(hint).values()))
    return any(map(has_text, get_args(hint)))


def is_kept(kind: type, name: str) -> bool:
    return (
        name in _KEPT
        or (name.endswith(("_id", "_ids")) and name not in ("external_id", "provider_method_id"))
        or (name in _ALSO_KEPT.get(kind, ()))
    )


def plant(work: Work, customer_id: str) -> set[tuple[type, str]]:
    """Put the word into every text of the customer's records; returns which fields of which kinds these are."""
    done: set[tuple[type, str]] = set()
    for record in [*belongings(work, [customer_id])]:
        hints = get_type_hints(type(record))
        names = [name for name, hint in hints.items() if has_text(hint) and not is_kept(type(record), name)]
        values = {name: planted(hints[name], name) for name in names}
        for shown in ("customer_snapshot", "subscription_snapshot"):
            if values.get(shown):
                # What documents show has the members that it was shown with.
                values[shown] = with_word(getattr(record, shown))
        if isinstance(record, Customer):
            values.pop("external_id")
        if isinstance(record, Document):
            values = {"content": WORD.encode()}
        work.tx.replace(replace(record, **values))
        done |= {(type(record), name) for name in values}
    return done


def with_word(shown: Mapping[str, Any] | None) -> dict[str, Any]:
    """The shown customer or subscription with the word in every text in which a customer may have written."""
    told = {*PERSONAL[Customer], *PERSONAL[Subscription], *Address}
    return {
        name: with_word(value)
        if isinstance(value, Mapping)
        else WORD
        if name in told and not isinstance(value, list)
        else value
        for name, value in (shown or {}).items()
    }


Address = ("address_line1", "address_line2", "city", "state", "zipcode")


def sell(box: Scenario) -> str:
    """Sell something of everything to `zaphod`, who has paid for it and left; the id of the customer."""
    box.post("/webhook_endpoints", webhook_endpoint={"webhook_url": "https://listener.example"})
    box.tax(10)
    address = {"address_line1": WORD, "city": WORD, "zipcode": WORD, "country": "BE"}
    metadata = [{"key": "note", "value": WORD}]
    person = {"name": WORD, "email": f"{WORD}@example.com", "phone": WORD, "metadata": metadata, **address}
    id = str(box.customer("Zaphodia-7", **person, tax_identification_number=WORD)["svc_id"])
    box.plan(charge_on(box.metric("calls"), amount="1"), amount_cents=1000, pay_in_advance=True)
    box.subscribe(customer="Zaphodia-7", name=WORD)
    box.event("calls", value=3, user=WORD)
    box.event("calls", value=4, seat={"owner": WORD})
    wallet = {"external_customer_id": "Zaphodia-7", "rate_amount": "1", "currency": "EUR", "name": WORD}
    wallet_id = box.post("/wallets", wallet={**wallet, "granted_credits": "2"})["wallet"]["svc_id"]
    watch = {"alert_type": "current_usage_amount", "code": "watch", "name": WORD, "thresholds": [{"value": 100_000}]}
    box.post("/subscriptions/sub/alerts", alert=watch)
    box.travel_to("2024-03-20T00:00:00Z")
    box.unsubscribe()
    box.travel_to("2024-04-10T00:00:00Z")
    for invoice in box.invoices("Zaphodia-7"):
        if invoice["total_due_amount_cents"]:
            paid = {"invoice_id": invoice["svc_id"], "amount_cents": invoice["total_due_amount_cents"]}
            box.post("/payments", payment={**paid, "reference": WORD})
        box.post(f"/invoices/{invoice['svc_id']}/download")
    box.delete(f"/wallets/{wallet_id}")
    for note in box.get("/credit_notes?external_customer_id=Zaphodia-7")["credit_notes"]:
        if note["balance_amount_cents"]:
            box.put(f"/credit_notes/{note['svc_id']}/void")
    return id


def add_the_rest(work: Work, customer_id: str) -> None:
    """Records of the kinds that only payment providers bring."""
    invoice = work.tx.find(Invoice, eq("customer_id", customer_id))[0]
    common: dict[str, Any] = {"organization_id": work.organization.id, "customer_id": customer_id}
    customer = work.tx.get(Customer, customer_id)
    assert customer is not None
    work.tx.replace(replace(customer, provider_customer_id="cus_7"))
    made: dict[str, Any] = {"created_at": work.now, "updated_at": work.now}
    money: dict[str, Any] = {"amount_cents": 1, "currency": "EUR"}
    told = {"data": {"object": {"customer": "cus_7", "receipt_email": f"{WORD}@example.com"}}}
    work.tx.insert(
        ProviderNotice(
            id=work.new_id(),
            organization_id=work.organization.id,
            connection_id="c",
            event_id="e",
            type="charge.succeeded",
            body=json.dumps(told),
            status=NoticeStatus.SUCCEEDED,
            **made,
        ),
        PaymentMethod(id=work.new_id(), connection_id="c", provider_method_id="pm", is_usable=False, **common, **made),
        PaymentPage(
            id=work.new_id(),
            connection_id="c",
            url="https://pay.example",
            created_at=work.now,
            expires_at=work.now,
            ended_at=work.now,
            **common,
            **money,
        ),
        PaymentRequest(
            id=work.new_id(),
            billing_entity_id=invoice.billing_entity_id,
            amount_cents=0,
            currency="EUR",
            **common,
            **made,
        ),
    )


def where(box: Scenario, word: str = WORD) -> set[str]:
    """The tables with the word, in any of their columns."""
    store: Any = box.billing.store
    if isinstance(store, SqliteStore):
        return store.read(None, lambda tx: tables_with(tx._connection, word))
    names = store.ask(
        lambda connection: [
            row[0]
            for row in connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            ).fetchall()
        ]
    )
    found = set()
    for name in names:
        rows = store.ask(lambda connection, name=name: connection.execute(f'SELECT * FROM "{name}"').fetchall())
        if any(word.casefold() in text(cell).casefold() for row in rows for cell in row):
            found.add(name)
    return found


def tables_with(connection: sqlite3.Connection, word: str) -> set[str]:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()]
    return {
        name
        for name in names
        for row in connection.execute(f'SELECT * FROM "{name}"')
        for cell in row
        if word.casefold() in text(cell).casefold()
    }


def text(cell: object) -> str:
    return bytes(cell).decode("latin-1") if isinstance(cell, (bytes, memoryview)) else str(cell)


def anonymize(box: Scenario, *properties: str, status: int = 200) -> Any:
    body = {"event_properties": list(properties)} if properties else None
    return box.ask("POST", "/customers/Zaphodia-7/anonymize", body, status)


@pytest.mark.now(NOW)
def test_every_text_about_a_person_is_erased_and_no_amount_changes(box: Scenario) -> None:
    customer_id = sell(box)
    invoice_id = box.invoices("Zaphodia-7")[0]["svc_id"]
    box.billing.writing(lambda work: add_the_rest(work, customer_id))
    done = box.billing.writing(lambda work: plant(work, customer_id))
    declared = {(kind, name) for group in (PERSONAL, ISSUED) for kind, names in group.items() for name in names}
    unseen = {(kind.__name__, name) for kind, name in done - declared}
    assert unseen <= {("Customer", "external_id"), ("PaymentMethod", "provider_method_id"), ("Document", "content")}
    to = (f"{WORD}@example.com",)
    email = SendEmail(subject=EmailSubject.INVOICE, subject_id=invoice_id, message_id="m", asked=True, to=to)
    box.billing.writing(lambda work: work.schedule(email, work.now.replace(year=2025)))
    before = amounts(box)

    shown = anonymize(box, "user", "seat")["customer"]

    assert shown["external_id"] == f"anonymized-{customer_id}"
    assert where(box) <= KEPT_TABLES
    assert {"invoices", "documents", "payment_receipts"} <= where(box)
    assert amounts(box) == before
    assert box.billing.audit().findings == ()
    for path in (f"/customers?search_term={WORD}", f"/invoices?search_term={WORD}"):
        assert box.get(path)["meta"]["total_count"] == 0

    box.travel_to(LAST)
    assert "invoices" in where(box)
    box.travel_to(AFTER)
    assert where(box) == set()
    assert amounts(box) == before
    assert box.billing.audit().findings == ()
    assert box.invoice(invoice_id)["customer"]["country"] == "BE"


def amounts(box: Scenario) -> Any:
    """Every invoice, fee, payment and note with its amount."""

    kinds: list[tuple[type[Any], str]] = [
        (Invoice, "total_amount_cents"),
        (Fee, "precise_amount_cents"),
        (Payment, "amount_cents"),
        (CreditNote, "total_amount_cents"),
    ]

    def read(reader: Reader) -> Any:
        return [sorted((record.id, getattr(record, name)) for record in reader.tx.find(kind)) for kind, name in kinds]

    return box.billing.reading(read)


def test_logs_and_messages_of_others_stay_as_they_are(box: Scenario) -> None:
    sell(box)
    box.customer("acme", name="Acme")
    others = {"activity_logs": told(box, "Acme"), "customer": box.get("/customers/acme")["customer"]}
    anonymize(box)
    assert {"activity_logs": told(box, "Acme"), "customer": box.get("/customers/acme")["customer"]} == others
    assert others["activity_logs"]


def told(box: Scenario, name: str) -> list[Any]:
    """The activities with this name."""
    return [entry for entry in box.get("/activity_logs?per_page=100")["activity_logs"] if name in str(entry)]


def test_refused_keys_and_refused_events_name_nobody(box: Scenario) -> None:
    sell(box)
    permissions = {"customer": ["read"]}
    key = box.post("/api_keys", api_key={"name": "reader", "permissions": permissions})["api_key"]["value"]
    kept = box.api_key
    box.api_key = key
    box.ask("DELETE", "/customers/Zaphodia-7", status=403)
    box.api_key = kept
    assert "security_logs" in where(box)
    anonymize(box, "user", "seat")
    assert "security_logs" not in where(box)
    assert box.get("/security_logs?to_date=2100-01-01&log_events[]=api_key.refused")["security_logs"]


def test_it_is_told_without_what_was_erased(box: Scenario) -> None:
    customer_id = sell(box)
    anonymize(box)
    (message,) = [message for message in box.webhooks if message["webhook_type"] == "customer.anonymized"]
    assert message["customer"]["svc_id"] == customer_id
    assert message["customer"]["name"] is None
    (activity,) = box.get("/activity_logs?activity_types[]=customer.anonymized")["activity_logs"]
    assert activity["activity_object"]["external_id"] == f"anonymized-{customer_id}"
    assert activity["activity_object_changes"] == {}
    assert WORD not in str(activity)
    stored = [item for item in box.get("/webhooks?per_page=100")["webhooks"] if item["object_id"] == customer_id]
    assert {item["webhook_type"] for item in stored} == {"customer.created", "customer.anonymized"}


def test_a_customer_is_gone_and_its_external_id_is_free(box: Scenario) -> None:
    sell(box)
    anonymize(box)
    assert missing(box.send("GET", "/customers/Zaphodia-7")) == "customer"
    assert missing(box.send("POST", "/customers/Zaphodia-7/anonymize")) == "customer"
    assert box.customer("Zaphodia-7")["sequential_id"] == 2


def test_deleted_customers_of_the_same_external_id_are_anonymized_too(box: Scenario) -> None:
    box.customer("Zaphodia-7", name=WORD)
    box.delete("/customers/Zaphodia-7")
    box.customer("Zaphodia-7", name=WORD)
    box.delete("/customers/Zaphodia-7")
    anonymize(box)
    assert where(box) == set()


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("customer_has_subscriptions", "subscription"),
        ("customer_has_open_invoices", "draft"),
        ("customer_has_open_invoices", "invoice"),
        ("customer_has_credits", "wallet"),
    ],
)
def test_a_customer_with_open_business_is_not_anonymized(box: Scenario, code: str, ends: str) -> None:
    box.customer("Zaphodia-7", name=WORD, billing_configuration={"invoice_grace_period": 3 if ends == "draft" else 0})
    box.plan(amount_cents=1000)
    if ends in ("subscription", "draft"):
        box.subscribe(customer="Zaphodia-7")
    if ends == "draft":
        box.unsubscribe()
    if ends == "invoice":
        box.add_on("setup", 100)
        box.post("/invoices", invoice={"external_customer_id": "Zaphodia-7", "fees": [{"add_on_code": "setup"}]})
    if ends == "wallet":
        credits = {"rate_amount": "1", "currency": "EUR", "granted_credits": "5"}
        box.post("/wallets", wallet={"external_customer_id": "Zaphodia-7", **credits})
    before = box.get("/customers/Zaphodia-7")
    status, body = box.send("POST", "/customers/Zaphodia-7/anonymize")
    assert (status, body["code"]) == (405, code)
    assert box.get("/customers/Zaphodia-7") == before


def test_properties_by_which_usage_is_counted_are_not_erased(box: Scenario) -> None:
    sell(box)
    sent = {"event_properties": ["user", "value"]}
    details = refused(box.send("POST", "/customers/Zaphodia-7/anonymize", sent))
    assert details == {"event_properties": ["value_is_counted"]}
    assert box.get("/customers/Zaphodia-7")["customer"]["name"] == WORD


def test_events_lose_the_named_properties_alone(box: Scenario) -> None:
    sell(box)
    box.customer("acme")
    box.subscribe(customer="acme", external_id="other")
    box.event("calls", external_id="other", value=5, user="Ford")
    anonymize(box, "user")
    kept = {event["transaction_id"]: event["properties"] for event in box.get("/events")["events"]}
    assert kept == {"t1": {"value": 3}, "t2": {"value": 4, "seat": {"owner": WORD}}, "t3": {"value": 5, "user": "Ford"}}
    assert box.billing.audit().findings == ()


def test_an_id_that_another_customer_uses_now_keeps_that_ones_events(box: Scenario) -> None:
    sell(box)
    box.customer("acme")
    box.subscribe(customer="acme", external_id="sub")
    box.event("calls", value=5, user="Ford")
    anonymize(box, "user")
    kept = {event["transaction_id"]: event["properties"] for event in box.get("/events")["events"]}
    assert kept["t1"] == {"value": 3}
    assert kept["t3"] == {"value": 5, "user": "Ford"}


def test_a_vacuumed_file_has_no_byte_of_it(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    with Billing(path, deliver=False) as billing:
        billing.customers.upsert(external_id="z", name=WORD, email=f"{WORD}@example.com", city=WORD)
    assert WORD.encode() in contents(path)
    result = CliRunner().invoke(main, ["customers", "anonymize", "z", "--yes", "--db", str(path)])
    assert result.exit_code == 0, result.output
    assert "anonymized-" in result.output
    with Billing(path, deliver=False) as billing:
        billing.run_due(strict=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("VACUUM")
    connection.close()
    assert WORD.encode() not in contents(path)
    assert WORD.lower().encode() not in contents(path)


def contents(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def test_a_customer_is_erased_by_the_command_only_after_a_yes(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    with Billing(path, deliver=False) as billing:
        billing.customers.upsert(external_id="z", name=WORD)
    result = CliRunner().invoke(main, ["customers", "anonymize", "z", "--db", str(path)], input="n\n")
    assert result.exit_code == 1
    with Billing(path, deliver=False) as billing:
        assert billing.customers.get("z").name == WORD


def test_every_record_of_a_customer_is_found_by_its_columns() -> None:
    """A column with an id of a customer's record that nobody follows would leave its records behind."""
    kinds = {"customer", "subscription", "invoice", "credit_note", "payment", "payment_request", "wallet", "subject"}
    for table in TABLES:
        for item in fields(table.kind):
            owner = item.name.removesuffix("_id")
            assert item.name == owner or owner not in kinds or item.name in OWNERS
    assert set(PERSONAL) | set(ISSUED) <= {
        table.kind
        for table in TABLES
        if table.kind is Customer or OWNERS.keys() & {item.name for item in fields(table.kind)}
    }
