"""A payment that its provider reports counts once, whatever has become of the debt, the customer or the notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_providers.test_notices import CASES, Case
from tests.payment_servers.cashfree import CashfreeServer
from tests.payment_servers.server import Notice
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario
from usagebill.core.ledger import Account, Movement
from usagebill.core.payments import Payment, ProviderNotice, RefundAttempt
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


def nothing(life: Life, invoice: Any) -> None:
    """The debt is as it was."""


def by_hand(life: Life, invoice: Any, cents: int = 1050) -> None:
    life._ask(
        "POST",
        "/payments",
        payment={"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "bank"},
    )
    life.box.run_due()


def in_part(life: Life, invoice: Any) -> None:
    by_hand(life, invoice, 400)


def refunded(life: Life, invoice: Any) -> None:
    by_hand(life, invoice)
    life.credit_note(invoice, 400)


def void(life: Life, invoice: Any) -> None:
    life._ask("POST", f"/invoices/{invoice['svc_id']}/void")
    life.box.run_due()


def offset(life: Life, invoice: Any) -> None:
    item = {"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 1050}
    note = {"invoice_id": invoice["svc_id"], "reason": "other", "offset_amount_cents": 1050, "items": [item]}
    life._ask("POST", "/credit_notes", credit_note=note)
    life.box.run_due()


def without_customer(life: Life, invoice: Any) -> None:
    life._ask("DELETE", "/customers/acme")
    life.box.run_due()


def overdue(life: Life, invoice: Any) -> None:
    life.box.travel_to("2024-03-05T20:00:00Z")


STATES: tuple[Callable[[Life, Any], None], ...] = (
    nothing,
    by_hand,
    in_part,
    refunded,
    void,
    offset,
    Life.settle_by_hand,
    without_customer,
    overdue,
)


def sent_now(server: Any, notice: Notice) -> Notice:
    """The same notice, signed now: two providers refuse an older signature."""
    stamp = str(int(server.now().timestamp()))
    match server:
        case StripeServer():
            return replace(notice, headers={"stripe-signature": server.signature(notice.body, int(stamp))})
        case CashfreeServer():
            return server.signed(notice.body, stamp)
    return notice


def assert_counted_once(life: Life) -> None:
    """The books have the provider's money once, less what went back to it."""

    def read(reader: Any) -> tuple[list[Payment], list[RefundAttempt], list[Movement]]:
        movements = reader.tx.find(Movement, eq("account", Account.CASH), eq("provider", "main"))
        return reader.tx.find(Payment), reader.tx.find(RefundAttempt), movements

    payments, refunds, movements = life.box.billing.reading(read)
    (payment,) = (one for one in payments if not one.is_manual)
    assert (payment.payment_status, payment.amount_cents) == ("succeeded", 1050)
    back = sum(one.amount_cents for one in refunds if one.refund_status == "succeeded" and one.payment_id == payment.id)
    assert sum(movement.amount_cents for movement in movements) == 1050 - back
    assert {finding.check for finding in life.box.billing.audit().findings} <= {"invoice_overpaid", "money_back"}


@pytest.mark.parametrize("paid_first", [False, True])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server.kind)
def test_a_payment_counts_once_in_every_state(
    case: Case, state: Callable[[Life, Any], None], paid_first: bool, box: Scenario
) -> None:
    server = case.server(now=lambda: box.now)
    with living(box, server, case.currency) as life:
        invoice, other, paid = case.begin(life, server)
        state(life, invoice)
        other, paid = (sent_now(server, notice) for notice in (other, paid))
        for notice in (paid, other, paid, other) if paid_first else (other, paid, other, paid):
            assert life.notice(notice) == 200
        assert_counted_once(life)
        # Flutterwave does not confirm what the other one says.
        assert life.unhandled() == (["charge.completed"] if server.kind == "flutterwave" else [])
        notices = box.billing.reading(lambda reader: reader.tx.find(ProviderNotice))
        assert {notice.status for notice in notices} <= {"succeeded", "ignored", "unhandled"}
