"""What may be given back of an invoice, in tables: which facts leave how much to credit, to refund and to offset."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, fee, ids, item, note, settle, tax

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_note_requests import fitting_parts, requested_items, takes_void_parts
from usagebill.core.credit_notes import CreditNote, Parts, with_amounts
from usagebill.core.errors import Invalid, NotFound

D = Decimal

# Two fees at 20 %.
FEES_CENTS = (6000, 4000)
NET_CENTS = sum(FEES_CENTS)
TOTAL_CENTS = NET_CENTS * 120 // 100


def balance(*notes: CreditNote, unused_cents: int | None = None, **fields: Any) -> Balance:
    """An issued invoice over two fees, unpaid unless `fields` say otherwise, with these notes."""
    issued = settle([fee(cents, id=f"f{place}") for place, cents in enumerate(FEES_CENTS)], [tax("20")])
    values: dict[str, Any] = {"status": "finalized", "payment_status": "pending", **fields}
    return Balance(
        invoice=replace(issued.invoice, **values), fees=tuple(issued.fees), notes=notes, unused_cents=unused_cents
    )


def noted(fee_id: str, cents: int, **fields: Any) -> CreditNote:
    """A note over so much of a fee, before taxes."""
    return note("n", cents * 120 // 100, items=(item(fee_id, str(cents)),), status="finalized", **fields)


PAID: dict[str, Any] = {"payment_status": "succeeded", "total_paid_amount_cents": TOTAL_CENTS}
# A top-up is not taxed.
TOP_UP: dict[str, Any] = {
    "invoice_type": "credit",
    "taxes_amount_cents": 0,
    "total_amount_cents": NET_CENTS,
}
PAID_TOP_UP = {**TOP_UP, "payment_status": "succeeded", "total_paid_amount_cents": NET_CENTS}


@pytest.mark.parametrize(
    ("of", "creditable", "refundable", "offsettable"),
    [
        (balance(), TOTAL_CENTS, 0, TOTAL_CENTS),
        (balance(**PAID), TOTAL_CENTS, TOTAL_CENTS, 0),
        (balance(total_paid_amount_cents=5000), TOTAL_CENTS, 5000, TOTAL_CENTS - 5000),
        # The whole amount is noted as paid, and the payment still pends.
        (balance(payment_status="pending", total_paid_amount_cents=TOTAL_CENTS), TOTAL_CENTS, 0, 0),
        (balance(status="draft"), 0, 0, 0),
        (balance(status="voided"), TOTAL_CENTS, 0, 0),
        # One fee is credited, the other one is left.
        (balance(noted("f0", 6000)), 4000 * D("1.2"), 0, 4000 * D("1.2")),
        (balance(noted("f0", 6000), noted("f1", 4000)), 0, 0, 0),
        (balance(noted("f0", 1000, refund_amount_cents=1200), **PAID), 9000 * D("1.2"), 9000 * D("1.2"), 0),
        # Credits of a wallet, of which 2500 are unused.
        (balance(unused_cents=2500, **TOP_UP), 0, 0, NET_CENTS),
        (balance(unused_cents=2500, **PAID_TOP_UP), 0, 2500, 0),
        (
            balance(note("n", 0, refund_amount_cents=NET_CENTS - 100), unused_cents=2500, **PAID_TOP_UP),
            0,
            100,
            0,
        ),
    ],
)
def test_what_may_be_given_back_of_an_invoice(
    of: Balance, creditable: Decimal, refundable: int, offsettable: int
) -> None:
    assert (of.creditable(), of.refundable, of.offsettable) == (creditable, refundable, offsettable)


def test_what_is_left_of_a_fee_is_at_most_what_the_wallet_still_holds() -> None:
    assert balance(noted("f0", 1000)).creditable_cents_by_fee() == {"f0": 6000 - 1000, "f1": 4000}
    assert balance(unused_cents=4500, **PAID_TOP_UP).creditable_cents_by_fee() == {"f0": 4500, "f1": 4000}


def test_a_fee_that_is_credited_in_full_is_not_among_what_is_left() -> None:
    of = balance(noted("f0", 6000))
    assert [(line.id, cents) for line, cents in of.creditable_items()] == [("f1", D(4000))]
    assert of.worth(of.creditable_items()) == 4000 * 120 // 100


@pytest.mark.parametrize(
    ("of", "cents", "items"),
    [
        # A twelfth of 120.00.
        (balance(), 1000, [("f0", D(500)), ("f1", D("333.33333"))]),
        (balance(), TOTAL_CENTS, [("f0", D(6000)), ("f1", D(4000))]),
        # More than there is, which a note refuses.
        (balance(), TOTAL_CENTS + 1, [("f0", D(6000)), ("f1", D(4000))]),
        (balance(noted("f0", 6000)), 1200, [("f1", D(1000))]),
        (balance(noted("f0", 6000), noted("f1", 4000)), 1, []),
    ],
)
def test_an_amount_is_spread_over_what_is_left_of_all_fees(
    of: Balance, cents: int, items: list[tuple[str, Decimal]]
) -> None:
    assert [(fee.id, amount) for fee, amount in of.spread(cents)] == items


def test_other_notes_count_voided_ones_too_but_no_drafts() -> None:
    counted = note("a", 100, credit_status="voided", refund_amount_cents=20, offset_amount_cents=3)
    draft = note("b", 5000, status="draft")
    edited = note("c", 700)
    assert balance(counted, draft, edited).parts_of_notes("c") == Parts(credit=100, refund=20, offset=3)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ("f0", Invalid(items="must_be_an_array")),
        ([{"fee_id": "f9", "amount_cents": 1}], NotFound("fee")),
        (["f0"], NotFound("fee")),
        ([{"fee_id": "f0", "amount_cents": "ten"}], Invalid(amount_cents="invalid_value")),
        ([{"fee_id": "f0", "amount_cents": 6001}], Invalid(amount_cents="higher_than_remaining_fee_amount")),
        # Together they are too much.
        (
            [{"fee_id": "f0", "amount_cents": 6000}, {"fee_id": "f0", "amount_cents": 1}],
            Invalid(amount_cents="higher_than_remaining_fee_amount"),
        ),
        # The first one that is wrong is named.
        ([{"fee_id": "f0", "amount_cents": None}, {"fee_id": "f9"}], NotFound("fee")),
    ],
)
def test_which_items_are_refused(sent: object, error: Invalid | NotFound) -> None:
    with pytest.raises(type(error)) as raised:
        requested_items(balance(), sent)
    assert str(raised.value) == str(error)


def test_an_estimate_looks_at_each_item_by_itself() -> None:
    twice = [{"fee_id": "f0", "amount_cents": 6000}] * 2
    assert [cents for _, cents in requested_items(balance(), twice, together=False)] == [6000, 6000]


@pytest.mark.parametrize(
    ("of", "parts", "taken"),
    [
        (balance(**PAID), Parts(credit=TOTAL_CENTS), True),
        (balance(**PAID), Parts(refund=TOTAL_CENTS), True),
        (balance(**PAID), Parts(credit=1, refund=TOTAL_CENTS), False),
        (balance(**PAID), Parts(credit=TOTAL_CENTS + 1), False),
        (balance(**PAID), Parts(credit=-1, refund=10), False),
        (balance(**PAID), Parts(credit=10, refund=-1), False),
        (balance(), Parts(refund=1), False),
        (balance(), Parts(), True),
    ],
)
def test_what_a_void_may_give_back(of: Balance, parts: Parts, taken: bool) -> None:
    assert takes_void_parts(of, parts) is taken


@pytest.mark.parametrize(
    ("parts", "stored"),
    [
        (Parts(credit=1200), Parts(credit=1200)),
        # A cent of rounding is forgiven, and the parts are moved to what the items come to.
        (Parts(credit=1201), Parts(credit=1200)),
        (Parts(credit=1199), Parts(credit=1200)),
        (Parts(credit=1000, offset=200), Parts(credit=1000, offset=200)),
        (Parts(credit=1202), None),
        (Parts(refund=1200), None),
    ],
)
def test_the_parts_of_a_note_are_what_its_items_come_to(parts: Parts, stored: Parts | None) -> None:
    of = balance()
    items = [(of.fees[0], D(1000))]
    result = of.credited(items, None, now=NOW, new_id=ids())
    if stored is None:
        with pytest.raises(Invalid):
            fitting_parts(of, parts, result)
    else:
        assert fitting_parts(of, parts, result) == stored


def test_a_note_has_its_parts_and_what_its_items_come_to() -> None:
    of = balance()
    result = of.credited([(of.fees[0], D(1000))], None, now=NOW, new_id=ids())
    made = with_amounts(note("n", 0), Parts(credit=700, offset=500), result)
    assert (made.total_amount_cents, made.credit_amount_cents, made.offset_amount_cents) == (700 + 500, 700, 500)
    assert (made.balance_amount_cents, made.refund_amount_cents) == (700, 0)
    assert (made.sub_total_excluding_taxes_amount_cents, made.taxes_amount_cents) == (1000, 1000 * 20 // 100)
    assert [line.rate for line in made.applied_taxes] == [D(20)]
