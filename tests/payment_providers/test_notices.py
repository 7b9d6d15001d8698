"""Notices that are forged, repeated or late: each provider's own messages, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_servers.adyen import AdyenServer
from tests.payment_servers.cashfree import CashfreeServer
from tests.payment_servers.flutterwave import FlutterwaveServer
from tests.payment_servers.gocardless import GoCardlessServer
from tests.payment_servers.moneyhash import MoneyHashServer
from tests.payment_servers.server import Notice, PaymentServer
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


@dataclass(frozen=True)
class Case:
    """A kind of provider: `begin` makes an invoice that waits for a notice, and gives it with two of them.

    The first says that it did not work, or not yet; the second that it was paid.
    """

    server: type[PaymentServer]
    currency: str
    begin: Callable[[Life, Any], tuple[Any, Notice, Notice]]
    # Without a signature over the contents there are no forged ones; then it is the word that is guessed.
    forge: Callable[[Notice], Notice] = Notice.forged


def stripe(life: Life, server: StripeServer) -> tuple[Any, Notice, Notice]:
    life.notice(server.card_added("cus_1", "pm_1"))
    server.outcomes.append("processing")
    invoice = life.invoice()
    (intent,) = server.intents
    return invoice, server.payment_event(intent, "payment_failed"), server.payment_event(intent, "succeeded")


def gocardless(life: Life, server: GoCardlessServer) -> tuple[Any, Notice, Notice]:
    life.notice(server.mandate_signed(next(iter(server.customers)), "MD1"))
    invoice = life.invoice()
    (debit,) = server.payments
    return invoice, server.payment_event(debit, "confirmed"), server.payment_event(debit, "paid_out")


def adyen(life: Life, server: AdyenServer) -> tuple[Any, Notice, Notice]:
    life.notice(server.card_left("acme", "8415"))
    server.outcomes.append("Received")
    invoice = life.invoice()
    charge = list(server.payments)[-1]
    return invoice, server.about(charge, "REPORT_AVAILABLE"), server.about(charge, "AUTHORISATION")


def cashfree(life: Life, server: CashfreeServer) -> tuple[Any, Notice, Notice]:
    invoice = life.invoice()
    life.page(invoice)
    (link,) = server.links
    return invoice, server.link_event(link, "EXPIRED"), server.link_event(link)


def flutterwave(life: Life, server: FlutterwaveServer) -> tuple[Any, Notice, Notice]:
    invoice = life.invoice()
    life.page(invoice)
    (page,) = server.pages
    return invoice, server.page_paid(page, verified="failed"), server.page_paid(page)


def moneyhash(life: Life, server: MoneyHashServer) -> tuple[Any, Notice, Notice]:
    fields = server.customers["mh-cus-1"]["custom_fields"]
    life.notice(server.token_event("created", "tok_1", fields))
    invoice = life.invoice()
    intent = list(server.intents)[-1]
    return invoice, server.purchase_event(intent, "failed"), server.purchase_event(intent, "successful")


def other_amount(notice: Notice) -> Notice:
    return Notice(notice.body.replace(b"1050", b"1051").replace(b"10.5", b"10.6"), notice.headers)


def guessed_word(notice: Notice) -> Notice:
    return Notice(notice.body, {"verif-hash": "guessed"})


CASES = [
    Case(StripeServer, "EUR", stripe),
    Case(GoCardlessServer, "GBP", gocardless),
    Case(AdyenServer, "EUR", adyen, other_amount),
    Case(CashfreeServer, "INR", cashfree, other_amount),
    Case(FlutterwaveServer, "NGN", flutterwave, guessed_word),
    Case(MoneyHashServer, "EUR", moneyhash, other_amount),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.begin.__name__)
def test_forged_repeated_and_late_notices_pay_an_invoice_once(case: Case, box: Scenario) -> None:
    server: Any = case.server(now=lambda: box.now)
    with living(box, server, case.currency) as life:
        invoice, earlier, paid = case.begin(life, server)
        for notice in (earlier, paid):
            assert life.notice(case.forge(notice)) == 400
        assert life.reread(invoice)["payment_status"] == "pending"
        # The later one comes first, and each comes twice.
        for notice in (paid, earlier, paid, earlier):
            assert life.notice(notice) == 200
        life.assert_paid(invoice)
        assert life.reread(invoice)["payment_dispute_lost_at"] is None
        (payment,) = life.payments()
        assert (payment["payment_status"], payment["amount_cents"]) == ("succeeded", 1050)
        message_types = ("payment.succeeded", "invoice.payment_status_updated", "invoice.payment_failure")
        assert life.sent(*message_types) == ["payment.succeeded", "invoice.payment_status_updated"]
