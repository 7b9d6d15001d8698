"""Tax providers over HTTP: the requests, and the interpretation of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.money import percent, share
from tests.provider import Provider
from tests.receiver import Received, Receiver
from tests.scenarios import plan_fields
from usagebill import Billing
from usagebill.core.customers import Address
from usagebill.core.fees import FeeType
from usagebill.core.tax_providers import (
    BreakdownLine,
    FailureKind,
    ItemTaxes,
    ProviderFailure,
    ProviderTaxes,
    Purpose,
    Reported,
    TaxConnection,
    TaxedItem,
    TaxedParty,
    TaxQuestion,
)
from usagebill.fields import IntegrationCustomerFields
from usagebill.outside.tax_provider import HttpTaxProvider
from usagebill.runtime.clock import ManualClock

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
ITEMS = (
    TaxedItem(id="f1", code="SW1", fee_type=FeeType.CHARGE, name="Calls", units=Decimal("2.50"), amount_cents=1000),
    TaxedItem(id="f2", code="seat", fee_type=FeeType.FIXED_CHARGE, name="Seats", units=Decimal(3), amount_cents=99),
)
QUESTION = TaxQuestion(
    purpose=Purpose.FINALIZED,
    document_id="i1",
    number=None,
    issuing_date=date(2024, 3, 5),
    currency="EUR",
    party=TaxedParty(
        external_id="acme",
        provider_id="cus_1",
        name="Acme",
        tax_identification_number=None,
        address=Address(city="Reno", country="US"),
    ),
    items=ITEMS,
)
TAXES: dict[str, Any] = {
    "customer_id": "cus_9",
    "items": [
        {
            "id": "f1",
            "tax_amount_cents": 100,
            "tax_breakdown": [{"name": "State", "rate": "0.1", "tax_amount_cents": 100, "type": "tax_exclusive"}],
        },
        {"id": "f2", "tax_amount_cents": 0, "tax_breakdown": []},
    ],
}


def connection(url: str, **fields: Any) -> TaxConnection:
    settings = {"kind": "anrok", "code": "main", "name": "Anrok", **fields}
    return TaxConnection(id="c1", organization_id="o1", url=url, created_at=NOW, updated_at=NOW, **settings)


def ask(
    status: int = 200, answer: object = TAXES, question: TaxQuestion = QUESTION, **fields: Any
) -> tuple[ProviderTaxes | Reported | ProviderFailure, Received]:
    """The adapter's interpretation of a provider's answer, and its request."""
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with Receiver(status, answer=body) as receiver:
        provider = HttpTaxProvider(timeout=5)
        try:
            return provider.ask(connection(receiver.url, **fields), question), receiver.received[0]
        finally:
            provider.close()


def failure(status: int = 200, answer: object = TAXES) -> ProviderFailure:
    taxes, _ = ask(status, answer)
    assert isinstance(taxes, ProviderFailure)
    return taxes


def test_a_document_is_sent_with_its_customer_and_its_items() -> None:
    _, request = ask(api_key="secret")
    assert request.path == "/hook/finalized_invoices?from=billing"
    assert (request.headers["authorization"], request.headers["content-type"]) == ("Bearer secret", "application/json")
    assert request.headers["idempotency-key"] == "finalized:i1"
    assert json.loads(request.body) == {
        "provider": "anrok",
        "connection": "main",
        "document": {"id": "i1", "number": None, "issuing_date": "2024-03-05", "currency": "EUR"},
        "customer": {
            "id": "cus_1",
            "external_id": "acme",
            "name": "Acme",
            "taxable": False,
            "tax_identification_number": None,
            "address_line1": None,
            "address_line2": None,
            "city": "Reno",
            "state": None,
            "zipcode": None,
            "country": "US",
        },
        "items": [
            {"id": "f1", "code": "SW1", "type": "charge", "name": "Calls", "amount_cents": 1000},
            {"id": "f2", "code": "seat", "type": "fixed_charge", "name": "Seats", "amount_cents": 99},
        ],
    }


def test_avalara_gets_amounts_in_major_units_and_quantities() -> None:
    _, request = ask(kind="avalara")
    items = [(item["amount"], item["units"]) for item in json.loads(request.body)["items"]]
    assert items == [("10.0", "2.5"), ("0.99", "3.0")]
    assert "authorization" not in request.headers


def test_amounts_of_currencies_without_cents() -> None:
    _, request = ask(kind="avalara", question=replace(QUESTION, currency="JPY"))
    assert json.loads(request.body)["items"][0]["amount"] == "1000.0"


@pytest.mark.parametrize(
    ("purpose", "path"),
    [
        (Purpose.DRAFT, "draft_invoices"),
        (Purpose.CREDIT_NOTE, "credit_notes"),
        (Purpose.VOID, "void_invoices"),
        (Purpose.NEGATE, "negate_invoices"),
        (Purpose.RETURN, "return_invoices"),
    ],
)
def test_each_purpose_has_a_path_of_its_own(purpose: Purpose, path: str) -> None:
    _, request = ask(question=replace(QUESTION, purpose=purpose))
    assert request.path == f"/hook/{path}?from=billing"


def test_what_is_not_stored_has_no_id_and_no_idempotency_key() -> None:
    _, request = ask(question=replace(QUESTION, purpose=Purpose.DRAFT, document_id=None))
    assert json.loads(request.body)["document"]["id"] is None
    assert "idempotency-key" not in request.headers


def test_the_taxes_of_each_item() -> None:
    taxes, _ = ask()
    state = BreakdownLine(name="State", rate=Decimal("0.1"), amount_cents=100, type="tax_exclusive")
    assert taxes == ProviderTaxes(
        items=(
            ItemTaxes(item_id="f1", requested_cents=1000, amount_cents=100, lines=(state,)),
            ItemTaxes(item_id="f2", requested_cents=99, amount_cents=0),
        ),
        customer_id="cus_9",
    )


def test_rates_are_exact_as_numbers_too() -> None:
    text = json.dumps(TAXES).replace('"0.1"', "0.0825000000000000000001").encode()
    taxes, _ = ask(answer=text)
    assert isinstance(taxes, ProviderTaxes)
    assert taxes.items[0].lines[0].rate == Decimal("0.0825000000000000000001")


def test_taxes_below_zero_belong_to_items_below_zero() -> None:
    below = replace(QUESTION, items=(replace(ITEMS[0], amount_cents=-1000), ITEMS[1]))
    line = {"name": "State", "rate": "0.1", "tax_amount_cents": -100}
    taxes, _ = ask(answer=changed(tax_amount_cents=-100, tax_breakdown=[line]), question=below)
    assert isinstance(taxes, ProviderTaxes)
    assert (taxes.items[0].amount_cents, taxes.items[0].lines[0].amount_cents) == (-100, -100)
    refused, _ = ask(question=below)
    assert isinstance(refused, ProviderFailure)


def test_only_so_much_of_an_answer_is_kept() -> None:
    line = {"name": "n" * 300, "type": "t" * 300, "rate": "0." + 40 * "3", "tax_amount_cents": 1}
    taxes, _ = ask(answer=changed(tax_breakdown=[line]))
    assert isinstance(taxes, ProviderTaxes)
    (kept,) = taxes.items[0].lines
    assert (kept.name, kept.type, kept.rate) == ("n" * 255, "t" * 255, Decimal("0." + 30 * "3"))
    long_failure = failure(422, {"error": {"code": "c" * 300, "message": "m" * 5000}})
    assert (len(long_failure.code), len(long_failure.message)) == (255, 1000)


def test_a_new_request_for_a_document_has_another_key() -> None:
    keys = [ask(question=replace(QUESTION, request_id=id))[1].headers["idempotency-key"] for id in ("r1", "r2", None)]
    assert keys == ["finalized:i1:r1", "finalized:i1:r2", "finalized:i1"]


def test_what_is_only_reported_needs_no_answer() -> None:
    for purpose in (Purpose.CREDIT_NOTE, Purpose.VOID, Purpose.NEGATE, Purpose.RETURN):
        taxes, _ = ask(204, b"", replace(QUESTION, purpose=purpose))
        assert taxes == Reported()


def changed(**fields: object) -> dict[str, Any]:
    """The answer with fields of its first item changed."""
    first, second = TAXES["items"]
    return {**TAXES, "items": [{**first, **fields}, second]}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        [],
        {},
        {"items": None},
        {"items": TAXES["items"][:1]},
        {"items": [*TAXES["items"], {**TAXES["items"][0], "id": "f3"}]},
        {"items": [*TAXES["items"], TAXES["items"][0]]},
        changed(tax_amount_cents="100"),
        changed(tax_amount_cents=1.5),
        changed(tax_amount_cents=10**80 + 1),
        changed(tax_amount_cents=-1),
        changed(tax_amount_cents=True),
        changed(tax_amount_cents=None),
        changed(tax_breakdown=[]),
        changed(tax_breakdown=None),
        changed(tax_breakdown=[{"name": "State", "rate": "0.1", "tax_amount_cents": "100"}]),
        changed(tax_breakdown=[{"name": "State", "rate": "a tenth"}]),
        changed(tax_breakdown=[{"name": "State", "rate": "-0.1"}]),
        changed(tax_breakdown=[{"name": "State", "rate": "NaN"}]),
        changed(tax_breakdown=[{"name": "State", "rate": "1e-99999"}]),
        changed(tax_breakdown=[{"name": "State", "rate": 20}]),
        changed(tax_breakdown=["State"]),
    ],
)
def test_an_answer_that_is_not_sound_taxes_nothing(answer: object) -> None:
    failed = failure(answer=answer)
    assert (failed.code, failed.kind) == ("invalid_response", FailureKind.REFUSED)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.REFUSED),
        (401, FailureKind.REFUSED),
        (422, FailureKind.REFUSED),
        (302, FailureKind.REFUSED),
        (408, FailureKind.UNREACHABLE),
        (429, FailureKind.THROTTLED),
        (500, FailureKind.UNREACHABLE),
        (503, FailureKind.UNREACHABLE),
    ],
)
def test_statuses_tell_whether_it_is_worth_asking_again(status: int, kind: FailureKind) -> None:
    named = failure(status, {"error": {"code": "taxDateTooFarInFuture", "message": "too far"}})
    assert (named.code, named.message, named.kind) == ("taxDateTooFarInFuture", "too far", kind)
    unnamed = failure(status, b"<html>")
    assert (unnamed.code, unnamed.kind) == (f"status_{status}", kind)


def test_a_provider_that_says_nothing_or_is_not_there() -> None:
    with Receiver(0) as receiver:
        provider = HttpTaxProvider(timeout=0.05)
        silent = provider.ask(connection(receiver.url), QUESTION)
        gone = provider.ask(connection("http://127.0.0.1:1/tax"), QUESTION)
        provider.close()
    for failed in (silent, gone):
        assert isinstance(failed, ProviderFailure)
        assert (failed.code, failed.kind) == ("network_error", FailureKind.UNREACHABLE)


# Within a billing system


def tenth(body: bytes) -> bytes:
    """A tenth of each item."""
    items = [
        {
            "id": item["id"],
            "tax_amount_cents": item["amount_cents"] // 10,
            "tax_breakdown": [{"name": "State", "rate": "0.1", "tax_amount_cents": item["amount_cents"] // 10}],
        }
        for item in json.loads(body)["items"]
    ]
    return json.dumps({"items": items}).encode()


def started(billing: Billing, url: str) -> None:
    """A customer of this provider, with an invoice that waits for its taxes."""
    billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url=url)
    link: IntegrationCustomerFields = {
        "integration_type": "anrok",
        "integration_code": "main",
        "sync_with_provider": True,
    }
    billing.customers.upsert(external_id="acme", currency="EUR", integration_customers=[link])
    billing.add_ons.create(name="Setup", code="setup", amount_cents=500, amount_currency="EUR")
    billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])


def shown(billing: Billing) -> tuple[str, int, int]:
    (invoice,) = billing.invoices.list().items
    return invoice.status, invoice.taxes_amount_cents, invoice.total_amount_cents


def test_the_address_of_the_connection_is_asked_outside_any_transaction() -> None:
    clock = ManualClock(NOW)
    with Receiver(503, 200, answer=tenth) as receiver, Billing(clock=clock) as billing:
        started(billing, receiver.url)
        assert (receiver.received, shown(billing)) == ([], ("pending", 0, 500))
        billing.run_due()
        assert (len(receiver.received), shown(billing)) == (1, ("pending", 0, 500))
        clock.set(NOW + timedelta(seconds=15))
        billing.run_due()
        assert (len(receiver.received), shown(billing)) == (2, ("finalized", 50, 550))
        first, second = (request.headers["idempotency-key"] for request in receiver.received)
        assert first == second


def test_a_question_that_was_cut_short_is_asked_again(tmp_path: Any) -> None:
    path = tmp_path / "billing.db"
    clock = ManualClock(NOW)

    class Killed(BaseException):
        """The process ends here."""

    class Dying:
        def ask(self, connection: TaxConnection, question: TaxQuestion) -> Reported:
            raise Killed

    with Receiver(200, answer=tenth) as receiver:
        with Billing(path, clock=clock, tax_provider=Dying()) as billing:
            started(billing, receiver.url)
            with pytest.raises(Killed):
                billing.run_due()
        with Billing(path, clock=clock) as billing:
            billing.run_due()
            assert receiver.received == []  # another worker may still be waiting for the answer
            clock.set(NOW + timedelta(minutes=5))
            billing.run_due()
            assert (len(receiver.received), shown(billing)) == (1, ("finalized", 50, 550))


def test_a_provider_that_breaks_is_one_that_does_not_answer() -> None:
    class Broken:
        def ask(self, connection: TaxConnection, question: TaxQuestion) -> Reported:
            raise RuntimeError("out of order")

    messages: list[Mapping[str, Any]] = []
    clock = ManualClock(NOW)
    with Billing(clock=clock, tax_provider=Broken(), on_message=messages.append) as billing:
        started(billing, "https://tax.example")
        for _ in range(6):
            billing.run_due()
            clock.set(clock.now() + timedelta(hours=1))
        assert shown(billing) == ("failed", 0, 500)
    (failed,) = [message for message in messages if message["webhook_type"] == "customer.tax_provider_error"]
    assert failed["tax_provider_customer_error"]["provider_error"]["message"] == "RuntimeError: out of order"


def test_previews_of_many_threads_ask_at_once_write_nothing_and_keep_no_writer_waiting(tmp_path: Path) -> None:
    names = [f"customer-{number}" for number in range(8)]
    together = Barrier(len(names), timeout=60)
    heard: list[Any] = []

    class Meeting(Provider):
        def ask(self, connection: TaxConnection, question: TaxQuestion) -> Any:
            # No request continues before all have arrived, and a change is made meanwhile.
            together.wait()
            billing.events.create(
                transaction_id=f"meanwhile-{question.party.external_id}", code="calls", external_subscription_id="none"
            )
            return super().ask(connection, question)

    with Billing(tmp_path / "billing.db", clock=ManualClock(NOW), tax_provider=Meeting(), deliver=False) as billing:
        billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        billing.plans.create(**plan_fields(amount_cents=3100))
        billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url="https://tax.example")
        for name in names:
            link: IntegrationCustomerFields = {
                "integration_type": "anrok",
                "integration_code": "main",
                "sync_with_provider": True,
            }
            billing.customers.upsert(external_id=name, currency="EUR", integration_customers=[link])
            billing.subscriptions.create(external_customer_id=name, external_id=name, plan_code="basic")
        billing.run_due()
        next_due = billing.next_due()
        billing.on_immediate(lambda: heard.append("woken"))
        with ThreadPoolExecutor(len(names)) as pool:
            shown = list(
                pool.map(
                    lambda name: billing.invoices.preview(
                        customer={"external_id": name}, subscriptions={"external_ids": [name]}
                    ),
                    names,
                )
            )
        net = share(3100, 27, 31)  # January from the 5th on
        assert {(invoice["fees_amount_cents"], invoice["taxes_amount_cents"]) for invoice in shown} == {
            (net, percent(net, 10))
        }
        assert (billing.invoices.list().total_count, billing.next_due(), heard) == (0, next_due, [])
        assert billing.events.list().total_count == len(names)
