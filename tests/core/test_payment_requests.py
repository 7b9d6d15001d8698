"""What a payment of several invoices pays of each, and when they can be charged together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, invoice

from usagebill.core.payment_requests import (
    RequestedInvoice,
    distributed,
    dues,
    dues_by_currency,
    is_ready,
    noted_payment,
)

_CENTS = st.integers(0, 10**12)


@given(st.lists(_CENTS, min_size=1, max_size=8), _CENTS)
def test_all_that_was_paid_is_distributed_and_nothing_more(dues: list[int], amount: int) -> None:
    shares = distributed(amount, dues)
    assert sum(shares) == amount
    assert len(shares) == len(dues)
    assert min(shares) >= 0
    for position, (share, due) in enumerate(zip(shares, dues, strict=True)):
        # Only the last gets more than is due, and nobody gets anything before those ahead have all of it.
        assert share <= due or position == len(dues) - 1
        assert share == 0 or shares[:position] == dues[:position]


@given(st.lists(_CENTS, min_size=1, max_size=8))
def test_what_was_asked_for_pays_every_invoice(dues: list[int]) -> None:
    assert distributed(sum(dues), dues) == dues


@given(st.lists(st.tuples(_CENTS, st.booleans()), min_size=1, max_size=8), _CENTS)
def test_what_was_asked_for_voided_invoices_comes_after_what_is_due_of_the_others(
    requested: list[tuple[int, bool]], amount: int
) -> None:
    voided = {place: cents for place, (cents, is_voided) in enumerate(requested) if is_voided}
    dues = [0 if is_voided else cents for cents, is_voided in requested]
    shares = distributed(amount, dues, voided)
    assert sum(shares) == amount
    assert min(shares) >= 0
    payable = [place for place in range(len(requested)) if place not in voided]
    wanted, unwanted = sum(dues), sum(voided.values())
    # The rest is given back, up to what was asked for voided ones; beyond that it stays where a note can refund it.
    returned = sum(shares[place] for place in voided)
    assert returned == (min(max(0, amount - wanted), unwanted) if payable else amount)
    assert sum(shares[place] for place in payable) == amount - returned


def part(id: str, amount_cents: int, paid_cents: int = 0) -> RequestedInvoice:
    return RequestedInvoice(
        id=f"part-{id}",
        organization_id="organization",
        payment_request_id="request",
        invoice_id=id,
        amount_cents=amount_cents,
        paid_cents=paid_cents,
        created_at=NOW,
        updated_at=NOW,
    )


@given(st.lists(st.tuples(_CENTS, _CENTS, st.booleans()), min_size=1, max_size=6), _CENTS)
def test_a_payment_is_noted_on_parts_to_the_cent(requested: list[tuple[int, int, bool]], amount: int) -> None:
    invoices = {
        str(place): invoice(
            id=str(place),
            status="voided" if is_voided else "finalized",
            total_amount_cents=total,
            total_paid_amount_cents=min(paid, total),
        )
        for place, (total, paid, is_voided) in enumerate(requested)
    }
    parts = [part(id, requested_of.total_amount_cents) for id, requested_of in invoices.items()]
    noted = noted_payment(amount, parts, invoices, NOW)
    shares = {after.invoice_id: after.paid_cents for after in noted.parts}
    assert sum(shares.values()) == amount
    assert min(shares.values(), default=0) >= 0
    # What came for voided invoices goes back, and nothing else does.
    voided = {id: cents for id, cents in shares.items() if invoices[id].status == "voided"}
    assert noted.unwanted == voided


def test_nothing_is_due_of_an_overpaid_invoice() -> None:
    paid = invoice(status="finalized", total_amount_cents=100, total_paid_amount_cents=130)
    assert dues([paid, invoice(status="finalized", total_amount_cents=50)]) == [0, 50]


READY: dict[str, Any] = {"status": "finalized", "payment_status": "pending"}
UNDER_WAY = {**READY, "ready_for_payment_processing": False}
PAID = {"status": "finalized", "payment_status": "succeeded", "ready_for_payment_processing": False}
VOIDED = {"status": "voided", "ready_for_payment_processing": False}


@pytest.mark.parametrize(
    ("invoices", "expected"),
    [
        ([READY], True),
        ([READY, READY], True),
        ([READY, UNDER_WAY], False),
        ([READY, PAID], True),
        ([READY, VOIDED], True),
        ([VOIDED], False),
        ([], False),
        ([{**READY, "status": "draft"}], False),
    ],
)
def test_a_request_is_charged_unless_another_charge_is_under_way(invoices: list[Any], expected: bool) -> None:
    assert is_ready([invoice(**fields) for fields in invoices]) is expected


@pytest.mark.parametrize(
    ("owed", "expected"),
    [
        ([], {}),
        ([("USD", 100, 0), ("EUR", 50, 20)], {"EUR": 30, "USD": 100}),
        ([("EUR", 50, 50)], {}),
        # What was overpaid counts against the rest.
        ([("EUR", 50, 60), ("EUR", 100, 0)], {"EUR": 90}),
        ([("EUR", 50, 160), ("EUR", 100, 0), ("USD", 1, 0)], {"USD": 1}),
    ],
)
def test_what_is_due_in_each_currency(owed: list[tuple[str, int, int]], expected: dict[str, int]) -> None:
    invoices = [
        invoice(status="finalized", currency=currency, total_amount_cents=total, total_paid_amount_cents=paid)
        for currency, total, paid in owed
    ]
    assert list(dues_by_currency(invoices).items()) == list(expected.items())
