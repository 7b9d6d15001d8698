"""Money is in the books of the day on which its provider took it, however late we hear of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.server import Notice, PaymentServer
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario
from usagebill.core.ledger import Account, DocumentType, Movement
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")
MARCH_31, APRIL_1 = date(2024, 3, 31), date(2024, 4, 1)


def under_way(life: Life, server: PaymentServer) -> None:
    """The customer has a method, and the next charge is under way."""
    match server:
        case StripeServer():
            life.notice(server.card_added("cus_1", "pm_1"))
            server.outcomes.append("processing")
        case GoCardlessServer():
            life.notice(server.mandate_signed(next(iter(server.customers)), "MD1"))
        case AdyenServer():
            life.notice(server.card_left("acme", "8415"))
            server.outcomes.append("Received")


def succeeded(server: PaymentServer) -> Notice:
    """The notice that the charge under way has succeeded."""
    match server:
        case StripeServer():
            return server.payment_event(next(iter(server.intents)), "succeeded")
        case GoCardlessServer():
            return server.payment_event(next(iter(server.payments)), "paid_out")
        case AdyenServer():
            charge = next(iter(server.payments))
            server.payments[charge]["result"] = "Authorised"
            return server.about(charge, "AUTHORISATION")
    raise NotImplementedError


def sent_late(server: PaymentServer, notice: Notice) -> Notice:
    """The same notice, sent now: Stripe signs it anew."""
    if not isinstance(server, StripeServer):
        return notice
    signature = server.signature(notice.body, int(server.now().timestamp()))
    return replace(notice, headers={"stripe-signature": signature})


def days(life: Life, type: DocumentType, account: Account) -> set[tuple[date, date]]:
    """The days on which it happened and was posted."""
    of_type = eq("document_type", type), eq("account", account)
    found = life.box.billing.reading(lambda reader: reader.tx.find(Movement, *of_type))
    return {(movement.document_date, movement.posting_date) for movement in found}


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("kind", [StripeServer, GoCardlessServer, AdyenServer])
def test_a_notice_that_comes_late_has_the_day_of_the_money(
    kind: type[PaymentServer], closed: bool, box: Scenario
) -> None:
    server = kind(now=lambda: box.now)
    with living(box, server, "GBP" if kind is GoCardlessServer else "EUR") as life:
        box.travel_to("2024-03-31T18:00:00Z")
        under_way(life, server)
        invoice = life.invoice()
        late = succeeded(server)
        # Nobody was there until then.
        box.jump_to("2024-04-02T08:00:00Z")
        if closed:
            box.billing.ledger.close(month="2024-03")
        life.notice(sent_late(server, late))
        life.assert_paid(invoice)
        posted = APRIL_1 if closed else MARCH_31
        assert days(life, DocumentType.PAYMENT, Account.CASH) == {(MARCH_31, posted)}


def test_the_money_of_a_request_is_shared_out_on_its_day(box: Scenario) -> None:
    stripe = StripeServer(now=lambda: box.now)
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        stripe.outcomes.extend(["declined", "declined", "processing"])
        invoices = [life.invoice(), life.invoice()]
        box.travel_to("2024-03-31T18:00:00Z")
        asked = {"external_customer_id": "acme", "svc_invoice_ids": [invoice["svc_id"] for invoice in invoices]}
        life._ask("POST", "/payment_requests", payment_request=asked)
        box.run_due()
        late = stripe.payment_event(list(stripe.intents)[-1], "succeeded")
        box.jump_to("2024-04-02T08:00:00Z")
        life.notice(sent_late(stripe, late))
        assert days(life, DocumentType.ALLOCATION, Account.RECEIVABLE) == {(MARCH_31, MARCH_31)}
