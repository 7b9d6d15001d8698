"""Voided invoices are audited: what paid them went back, and nothing more, unless it was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.core.builders import invoice, note
from tests.core.invoices.test_undoing import line

from usagebill.core.credit_notes import CreditNote
from usagebill.core.statuses import PaymentStatus
from usagebill.core.void_audit import audited_void

UNPAID = invoice(id="I", number="I", status="voided", total_amount_cents=3100)


def own(credit: int = 0, balance: int = 0, **fields: Any) -> CreditNote:
    return note("own", balance, credit_amount_cents=credit, **fields)


def of_void(credit: int = 0, refund: int = 0) -> CreditNote:
    return note("back", credit, credit_amount_cents=credit, refund_amount_cents=refund, of_void=True)


REMAINDER = note("rest", 0, credit_amount_cents=1100, withdrawn_amount_cents=1100, of_void=True)


def found(
    *notes: tuple[CreditNote, int], paid: int = 0, credits: Any = (), wallets: tuple[int, int] = (0, 0)
) -> list[tuple[str, str, str]]:
    took, got = wallets
    findings = audited_void(
        replace(UNPAID, credits=credits),
        paid_cents=paid,
        wallets_paid_cents=took,
        wallets_returned_cents=got,
        notes=notes,
    )
    return [(finding.detail, finding.expected, finding.found) for finding in findings]


def test_nothing_is_found_in_right_books() -> None:
    assert found() == []
    assert found((own(1000, withdrawn_amount_cents=1000), 0)) == []
    assert found(credits=(line(700, "note", 700),), wallets=(1000, 1000)) == []
    assert found((of_void(refund=2000), 0), (REMAINDER, 0), paid=2000) == []
    # A balance stands for money that came in; so does what other invoices have used.
    assert found((own(1000, 600), 400), (of_void(2100), 0), paid=3100) == []
    # It was asked for more than was paid.
    assert found((of_void(3100), 0)) == []
    # A person gave it, and took it away again.
    assert found((own(1000), 0), (of_void(2100), 0), paid=3100) == []


def test_wrong_sums_are_found() -> None:
    least, most = "given back", "given back beside what the void was asked for"
    # 20.00 of 31.00 were paid, and the invoice was voided.
    assert found(paid=2000) == [(least, "at least 2000", "0")]
    assert found((of_void(refund=500), 0), paid=2000) == [(least, "at least 2000", "500")]
    # A credit note or a wallet that had paid got nothing back.
    assert found(credits=(line(1000, "note"),)) == [(least, "at least 1000", "0")]
    assert found(wallets=(1000, 300)) == [(least, "at least 1000", "300")]
    # A note made on an unpaid invoice can still be spent, or was.
    assert found((own(1000, 1000), 0)) == [(most, "at most 0", "1000")]
    assert found((own(1000, 600), 400)) == [(most, "at most 0", "1000")]
    # The wallet has its 10.00 back, and the note its 31.00.
    assert found((own(3100, 3100), 0), wallets=(1000, 1000)) == [(most, "at most 1000", "4100")]
    # Credited and given back as well.
    assert found((of_void(1000), 0), wallets=(1000, 1000)) == [(most, "at most 0", "1000")]


def test_an_invoice_set_as_paid_by_hand_has_received_what_was_due() -> None:
    by_hand = replace(UNPAID, payment_status=PaymentStatus.SUCCEEDED, total_offset_amount_cents=1000)
    values: dict[str, Any] = {"paid_cents": 0, "wallets_paid_cents": 0, "wallets_returned_cents": 0}
    (finding,) = audited_void(by_hand, **values, notes=[])
    assert (finding.check, finding.expected) == ("invoice_voided", "at least 2100")
