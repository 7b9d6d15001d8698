"""What goes back when an invoice is voided, what is withdrawn, and which voids are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.builders import NOW, invoice, note

from usagebill.core.credit_notes import Parts
from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.invoices.undoing import GivenNote, Received, undoing, used_cents, whole
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionType,
    WalletTransaction,
    WalletTransactionStatus,
)


def line(cents: int, source_id: str, returned_cents: int = 0) -> Credit:
    return Credit(
        id=f"line {source_id}",
        amount_cents=cents,
        amount_currency="EUR",
        before_taxes=False,
        item_id=source_id,
        item_type=CreditType.CREDIT_NOTE,
        item_code=source_id,
        item_name=source_id,
        created_at=NOW,
        source_id=source_id,
        returned_cents=returned_cents,
    )


def spent(cents: int, wallet_id: str = "wallet") -> WalletTransaction:
    return WalletTransaction(
        id=f"paid by {wallet_id}",
        organization_id="org",
        wallet_id=wallet_id,
        customer_id="customer",
        transaction_type=TransactionType.OUTBOUND,
        transaction_status=TransactionKind.INVOICED,
        status=WalletTransactionStatus.SETTLED,
        amount_cents=cents,
        credit_amount=cents,  # type: ignore[arg-type]
        created_at=NOW,
        updated_at=NOW,
    )


def given(
    credit: int = 0, *, used: int = 0, refund: int = 0, offset: int = 0, forgone: int = 0, id: str = "own"
) -> GivenNote:
    """A note of the invoice: of its credit, some is used and some voided by hand; the rest is its balance."""
    total = credit + refund + offset
    own = note(
        id,
        credit - used - forgone,
        number=id,
        total_amount_cents=total,
        credit_amount_cents=credit,
        refund_amount_cents=refund,
        offset_amount_cents=offset,
    )
    return GivenNote(note=own, used_cents=used)


def received(
    *, paid: int = 0, notes: int = 0, wallet: int = 0, ended: int = 0, own: tuple[GivenNote, ...] = (), **fields: Any
) -> Received:
    """An invoice of 31.00 and what paid it."""
    lines = (line(notes, "note"),) if notes else ()
    wallets = [(spent(cents, id), id == "wallet") for cents, id in ((ended, "ended"), (wallet, "wallet")) if cents]
    due = 3100 - notes - wallet - ended
    values = {"total_amount_cents": due, "total_paid_amount_cents": paid, "credits": lines, "currency": "EUR", **fields}
    values.setdefault("total_offset_amount_cents", sum(of.note.offset_amount_cents for of in own))
    return Received(invoice=invoice(id="voided", **values), wallets=wallets, notes=own)


def back(of: Received, credit: int = 0, refund: int = 0) -> tuple[int, int, int]:
    """The cents that go back to notes and to wallets, and those withdrawn."""
    decided = undoing(of, Parts(credit=credit, refund=refund))
    return (
        sum(cents for _, cents in decided.to_notes),
        sum(cents for _, cents in decided.to_wallets),
        sum(cents for _, cents in decided.withdrawn),
    )


@pytest.mark.parametrize(
    ("of", "asked", "expected"),
    [
        # Nothing was paid, nothing goes back; what the invoice gave is withdrawn.
        (received(), {}, (0, 0, 0)),
        (received(own=(given(1000),)), {}, (0, 0, 1000)),
        (received(own=(given(offset=1000),)), {}, (0, 0, 0)),
        # Notes and wallets get theirs back.
        (received(notes=700, wallet=1000), {}, (700, 1000, 0)),
        # A wallet gets its 10.00, so a note of 31.00 has nothing to stand on.
        (received(wallet=1000, own=(given(3100),)), {}, (0, 1000, 3100)),
        # 4.00 of a note were used: the wallet has paid for them, and gets 6.00.
        (received(wallet=1000, own=(given(1000, used=400),)), {}, (0, 600, 600)),
        # Money that was refunded is back already.
        (received(paid=2000, own=(given(refund=2000),)), {}, (0, 0, 0)),
        # Money goes back as the void is asked to; what that covers is not given back a second time.
        (received(paid=2000), {"refund": 2000}, (0, 0, 0)),
        (received(paid=2000), {"credit": 500, "refund": 1500}, (0, 0, 0)),
        (received(paid=2100, wallet=1000), {"refund": 2100}, (0, 1000, 0)),
        (received(paid=2100, wallet=1000), {"credit": 3100}, (0, 0, 0)),
        (received(paid=1600, notes=500, wallet=1000), {"credit": 1900}, (500, 700, 0)),
        (received(notes=500, wallet=2600, payment_status="succeeded"), {}, (500, 2600, 0)),
        # A balance stands as far as money was paid for it.
        (received(paid=3100, own=(given(1000),)), {"credit": 2100}, (0, 0, 0)),
        (received(paid=1000, own=(given(1000),)), {}, (0, 0, 0)),
        (received(paid=1000, own=(given(1000), given(500, id="other"))), {}, (0, 0, 500)),
        (received(paid=3100, own=(given(1000, used=1000),)), {"credit": 2100}, (0, 0, 0)),
        # What a person gave and took away again does not count.
        (received(wallet=1000, own=(given(1000, forgone=1000),)), {}, (0, 1000, 0)),
        # More may be given than was ever paid, if that is asked for.
        (received(), {"credit": 3100}, (0, 0, 0)),
        (received(paid=300), {"credit": 300, "refund": 300}, (0, 0, 0)),
        # An ended wallet's share can be part of the credit.
        (received(ended=1000), {"credit": 1000}, (0, 0, 0)),
        (received(ended=1000, wallet=500), {"credit": 1000}, (0, 500, 0)),
    ],
)
def test_what_paid_an_invoice_goes_back(of: Received, asked: dict[str, int], expected: tuple[int, int, int]) -> None:
    assert back(of, **asked) == expected


@pytest.mark.parametrize(
    ("of", "asked", "why"),
    [
        (received(paid=2000), {}, "paid: 20.00 EUR came in and must go back; a void with generate_credit_note"),
        (received(paid=2000), {"refund": 500}, "paid: 15.00 EUR came in"),
        (received(paid=3100, own=(given(refund=1000),)), {"credit": 500}, "paid: 16.00 EUR came in"),
        # A person gave 10.00 and took them away again.
        (received(paid=3100, own=(given(1000, forgone=1000),)), {"credit": 2100}, "paid: 10.00 EUR came in"),
        # Set as paid by hand.
        (received(payment_status="succeeded"), {}, "paid: 31.00 EUR came in"),
        (received(payment_status="succeeded", own=(given(offset=1000),)), {}, "paid: 21.00 EUR came in"),
        (received(paid=3100, invoice_type="credit"), {}, "31.00 EUR came in and must go back; a credit note refunds"),
        (received(ended=1000), {}, "paid with 10.00 EUR of a wallet that has ended"),
        (received(ended=1000, wallet=500), {"credit": 300}, "paid with 7.00 EUR of a wallet that has ended"),
        (received(own=(given(1000, used=400),)), {}, "credited by own, of which other invoices have used 4.00 EUR"),
        (received(own=(given(1000, used=400),)), {"credit": 500}, "other invoices have used 4.00 EUR"),
        (received(wallet=300, own=(given(1000, used=400),)), {}, "other invoices have used 4.00 EUR"),
    ],
)
def test_a_void_that_would_lose_money_is_refused(of: Received, asked: dict[str, int], why: str) -> None:
    with pytest.raises(NotAllowed) as refusal:
        back(of, **asked)
    assert refusal.value.code == "not_voidable"
    assert refusal.value.state is not None
    assert why in refusal.value.state


def test_an_invoice_that_was_never_issued_gives_everything_back() -> None:
    decided = whole(received(notes=700, wallet=1000, ended=500))
    assert [cents for _, cents in decided.to_notes] == [700]
    assert [cents for _, cents in decided.to_wallets] == [500, 1000]
    assert decided.withdrawn == ()


@pytest.mark.parametrize(
    ("status", "returned", "used"),
    [
        ("finalized", 0, 700),
        ("draft", 0, 700),
        ("voided", 700, 0),
        ("voided", 300, 400),
        # Earlier versions gave nothing back.
        ("voided", 0, 700),
        ("closed", 0, 0),
        ("deleted", 0, 0),
    ],
)
def test_what_invoices_have_used_of_a_note(status: str, returned: int, used: int) -> None:
    user: Invoice = invoice(id="user", status=status, credits=(line(700, "note", returned), line(100, "another")))
    assert used_cents("note", [user]) == used
