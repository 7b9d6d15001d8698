"""`usagebill audit --provider`: a provider's own books against ours, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.stripe import StripeServer

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.fields import BillingConfigurationFields, CreditNoteItemFields

Plant = Callable[["Books"], None]


class Books:
    """A file in which an invoice of 10.50 was charged through Stripe, and 4.00 of it refunded."""

    def __init__(self, file: Path, stripe: StripeServer) -> None:
        self.file = file
        self.stripe = stripe
        stripe.knows("cus_1", "pm_1")
        with Billing(file) as billing:
            credentials: dict[str, Any] = stripe.credentials
            billing.payment_connections.create(kind="stripe", code="main", url=stripe.url, **credentials)
            account: BillingConfigurationFields = {
                "payment_provider": "stripe",
                "payment_provider_code": "main",
                "provider_customer_id": "cus_1",
            }
            billing.customers.upsert(external_id="acme", currency="EUR", billing_configuration=account)
            billing.add_ons.create(name="Setup", code="setup", amount_cents=1050, amount_currency="EUR")
            billing.run_due()
            invoice = billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
            billing.run_due()
            fee = billing.view(billing.invoices.get(invoice.id))["fees"][0]["svc_id"]
            item: CreditNoteItemFields = {"fee_id": fee, "amount_cents": 400}
            billing.credit_notes.create(invoice_id=invoice.id, reason="other", refund_amount_cents=400, items=[item])
            billing.run_due()

    @property
    def intent(self) -> Any:
        """The charge in Stripe's books."""
        (intent,) = self.stripe.intents.values()
        return intent

    def change(self, **fields: Any) -> None:
        """Change the payment in ours."""

        def act(work: Any) -> None:
            (payment,) = work.tx.find(Payment)
            work.tx.replace(replace(payment, **fields))

        with Billing(self.file, deliver=False) as billing:
            billing.writing(act)

    def audit(self, *options: str) -> Result:
        return CliRunner().invoke(main, ["audit", "--db", str(self.file), "--provider", "main", *options])


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    with StripeServer(now=lambda: datetime.now(UTC)) as stripe:
        yield Books(tmp_path / "billing.db", stripe)


def test_books_that_agree(books: Books) -> None:
    done = books.audit()
    assert (done.exit_code, done.stdout) == (0, "main: 0 found\n")
    assert json.loads(books.audit("--json").stdout) == []


def it_failed_there(books: Books) -> None:
    books.intent["status"] = "canceled"


def it_failed_here(books: Books) -> None:
    books.change(payment_status=ChargeStatus.FAILED)


def another_amount(books: Books) -> None:
    books.intent["amount"] = 1051


def a_refund_that_is_not_known_here(books: Books) -> None:
    books.intent["refunded"] = 650


def a_refund_that_is_not_known_there(books: Books) -> None:
    books.intent["refunded"] = 0


def a_charge_that_is_not_known_there(books: Books) -> None:
    books.stripe.intents.clear()


def a_charge_that_is_not_known_here(books: Books) -> None:
    books.change(provider_payment_id=None, payment_status=ChargeStatus.FAILED)


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (it_failed_there, "failed there, succeeded here"),
        (it_failed_here, "succeeded there, failed here"),
        (another_amount, "1051 EUR there, 1050 EUR here"),
        (a_refund_that_is_not_known_here, "650 EUR refunded there, 400 here"),
        (a_refund_that_is_not_known_there, "0 EUR refunded there, 400 here"),
        (a_charge_that_is_not_known_there, "1050 EUR succeeded here, and are not listed there"),
        (a_charge_that_is_not_known_here, "1050 EUR succeeded there, and are not known here"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_kind_of_difference_is_found(books: Books, plant: Plant, text: str) -> None:
    plant(books)
    done = books.audit()
    assert done.exit_code == 1
    assert text in done.stdout
    (difference,) = json.loads(books.audit("--json").stdout)
    assert difference["text"] == text


def test_a_refund_under_way_may_be_listed_or_not(books: Books) -> None:
    def begin_again(work: Any) -> None:
        (attempt,) = work.tx.find(RefundAttempt)
        work.tx.replace(replace(attempt, refund_status=PaymentStatus.PENDING))

    with Billing(books.file, deliver=False) as billing:
        billing.writing(begin_again)
    for cents, code in ((400, 0), (0, 0), (401, 1)):
        books.intent["refunded"] = cents
        assert books.audit().exit_code == code


def test_what_cannot_be_compared_is_said(books: Books) -> None:
    unknown = CliRunner().invoke(main, ["audit", "--db", str(books.file), "--provider", "other"])
    assert (unknown.exit_code, "no connection has the code other" in unknown.output) == (1, True)
    with AdyenServer(now=lambda: datetime.now(UTC)) as adyen, Billing(books.file, deliver=False) as billing:
        credentials: dict[str, Any] = adyen.credentials
        billing.payment_connections.create(kind="adyen", code="cards", url=adyen.url, **credentials)
    listless = CliRunner().invoke(main, ["audit", "--db", str(books.file), "--provider", "cards"])
    assert (listless.exit_code, "adyen has no lists of charges" in listless.output) == (1, True)
