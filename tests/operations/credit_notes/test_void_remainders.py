"""All notes of a voided invoice, those made before among them, come to the invoice: in all, in taxes, in items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests import builders
from tests.core.builders import coupon, fee, settle, tax
from tests.examples import examples

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import CreditNote, CreditNoteReason, Parts
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.totals import ProgressiveBilled
from usagebill.core.progressive_billing import ProgressiveFee
from usagebill.core.statuses import PaymentStatus
from usagebill.operations.credit_notes import on_void
from usagebill.operations.credit_notes.automatic import check_void_amounts
from usagebill.operations.credit_notes.creation import make
from usagebill.queries.credit_note_balance import balance_of
from usagebill.runtime.work import Work
from usagebill.testing import Sandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    # Ids of the lines are not those that webhooks would be looked at for.
    box = Sandbox(now="2024-05-01T12:00:00Z")
    builders.customer_with(box)
    yield box
    box.close()


@dataclass(frozen=True)
class BillingContext:
    """An invoice, the items of notes made before its void, and how much of what is left is asked for."""

    invoice: Invoice
    fees: tuple[Fee, ...]
    noted: Sequence[tuple[int, Decimal]]
    asked: Decimal
    refunded: Decimal


_shares = st.decimals(0, 1, places=3)
_rates = st.lists(st.sampled_from(["0", "5.5", "7", "19", "21", "23.33"]), max_size=3, unique=True)


@st.composite
def _billed(draw: st.DrawFn) -> BillingContext:
    currency = draw(st.sampled_from(["JPY", "USD", "KWD"]))
    amounts = draw(st.lists(st.integers(1, 2000), min_size=1, max_size=8))
    lines = [
        fee(cents, id=f"f{place}", billable_metric_id=f"m{place}", charge_id=f"c{place}", subscription_id="s")
        for place, cents in enumerate(amounts)
    ]
    taxes = [tax(rate) for rate in draw(_rates)]
    coupons = []
    if off := draw(st.integers(0, sum(amounts))):
        coupons.append(coupon(cents=off, metrics=draw(st.sampled_from([None, ["m0"]])), currency="EUR"))
    ahead = tuple(
        ProgressiveFee(
            charge_id=f"c{place}", charge_filter_id=None, grouped_by={}, amount_cents=draw(st.integers(0, n))
        )
        for place, n in enumerate(amounts)
    )
    before = sum(note.amount_cents for note in ahead)
    billed_ahead = ProgressiveBilled(
        invoice_id="p", number="P", subscription_id="s", left_cents=draw(st.integers(0, before)), fees=ahead
    )
    chosen = {line.id: draw(st.sampled_from([taxes, taxes[:1]])) for line in lines}
    settled = settle(lines, chosen, coupons=coupons, progressive=[billed_ahead] if draw(st.booleans()) else [])
    noted = [(draw(st.integers(0, len(lines) - 1)), draw(_shares)) for _ in range(draw(st.integers(0, 3)))]
    invoice = replace(settled.invoice, currency=currency)
    fees = tuple(replace(line, currency=currency) for line in settled.fees)
    return BillingContext(invoice=invoice, fees=fees, noted=noted, asked=draw(_shares), refunded=draw(_shares))


def stored(work: Work, billed: BillingContext) -> Invoice:
    """The invoice under ids of its own, of the customer of the sandbox."""
    customer = work.tx.first(Customer)
    assert customer is not None
    owner = builders.add_issued_invoice(work, customer)
    invoice = replace(
        billed.invoice,
        id=owner.id,
        organization_id=owner.organization_id,
        customer_id=owner.customer_id,
        billing_entity_id=owner.billing_entity_id,
        number=owner.number,
        status=InvoiceStatus.FINALIZED,
        payment_status=PaymentStatus.SUCCEEDED,
        total_paid_amount_cents=billed.invoice.total_amount_cents,
    )
    work.tx.replace(invoice)
    for place, line in enumerate(billed.fees):
        line_of_owner = replace(line, id=f"{owner.id}-{place:02d}", invoice_id=owner.id)
        work.tx.insert(replace(line_of_owner, organization_id=owner.organization_id, customer_id=owner.customer_id))
    return invoice


def note(work: Work, invoice: Invoice, fee_id: str, share: Decimal) -> None:
    """A note over a part of what is left of a fee, as anybody may ask for."""
    balance = balance_of(work, invoice)
    line = balance.fee(fee_id)
    assert line is not None
    items = [(line, balance.creditable_cents_of(line) * share)]
    whole = balance.worth(items)
    if whole > 0:
        make(work, balance, items, Parts(credit=whole), reason=CreditNoteReason.OTHER)


def sums(notes: Sequence[CreditNote]) -> tuple[int, int, int]:
    return (
        sum(note.total_amount_cents for note in notes),
        sum(note.sub_total_excluding_taxes_amount_cents for note in notes),
        sum(note.taxes_amount_cents for note in notes),
    )


@pytest.mark.slow
@examples(100)
@given(billed=_billed())
def test_the_notes_of_a_voided_invoice_make_it_up(box: Sandbox, billed: BillingContext) -> None:
    def voided(work: Work) -> tuple[Invoice, list[CreditNote], list[CreditNote], Balance]:
        invoice = stored(work, billed)
        for place, share in billed.noted:
            note(work, invoice, f"{invoice.id}-{place:02d}", share)
        before = balance_of(work, invoice)
        wanted_cents = int(before.creditable() * billed.asked)
        refund = min(int(wanted_cents * billed.refunded), before.refundable)
        check_void_amounts(work, invoice, credit_cents=wanted_cents - refund, refund_cents=refund)
        issued = on_void(work, invoice, credit_cents=wanted_cents - refund, refund_cents=refund)
        # What is asked for is given, but for the cents that earlier notes have rounded up.
        back = sum(note.total_amount_cents for note in issued if note.credit_status == "available")
        assert wanted_cents - 2 * len(before.notes) <= back <= wanted_cents
        return invoice, list(before.notes), issued, balance_of(work, invoice)

    invoice, before, compensations, after = box.billing.writing(voided)
    whole = (
        invoice.sub_total_including_taxes_amount_cents,
        invoice.sub_total_excluding_taxes_amount_cents,
        invoice.taxes_amount_cents,
    )
    # Notes made before may have taken a cent of rounding too much; a void adds none.
    most = [max(limit, had) for limit, had in zip(whole, sums(before), strict=True)]
    assert all(credited <= limit for credited, limit in zip(sums(after.notes), most, strict=True))
    for credit_note in after.notes:
        assert credit_note.credit_amount_cents + credit_note.refund_amount_cents == credit_note.total_amount_cents
        assert (
            credit_note.sub_total_excluding_taxes_amount_cents + credit_note.taxes_amount_cents
            == credit_note.total_amount_cents
        )
        assert min(credit_note.sub_total_excluding_taxes_amount_cents, credit_note.taxes_amount_cents) >= 0
    for line in after.fees:
        assert after.creditable_cents_of(line) >= 0
    for taxed in invoice.applied_taxes:
        had = [
            applied_tax.amount_cents
            for note in before
            for applied_tax in note.applied_taxes
            if applied_tax.code == taxed.code
        ]
        now = [
            applied_tax.amount_cents
            for note in after.notes
            for applied_tax in note.applied_taxes
            if applied_tax.code == taxed.code
        ]
        assert sum(now) <= max(taxed.amount_cents, sum(had))
    if len(compensations) and compensations[-1].credit_status == "voided":
        assert all(after.creditable_cents_of(line) == 0 for line in after.fees)
        assert sum(note.total_amount_cents for note in after.notes) == most[0]


def test_a_cent_that_an_earlier_note_rounded_up_is_not_given_back_again(box: Sandbox) -> None:
    """Three fees of 5 at 10 %: 15 and 2 of tax. Two notes of 6 leave 5, while 5 and a tax of 0.5 would be 6."""
    lines = [fee(5, id=f"f{place}") for place in range(3)]
    settled = settle(lines, [tax("10")])
    billed = BillingContext(invoice=settled.invoice, fees=settled.fees, noted=(), asked=Decimal(0), refunded=Decimal(0))

    def voided(work: Work) -> list[CreditNote]:
        invoice = stored(work, billed)
        assert invoice.total_amount_cents == 17
        for place in range(2):
            note(work, invoice, f"{invoice.id}-{place:02d}", Decimal(1))
        check_void_amounts(work, invoice, credit_cents=6, refund_cents=0)
        with pytest.raises(Invalid):
            check_void_amounts(work, invoice, credit_cents=7, refund_cents=0)
        return on_void(work, invoice, credit_cents=6, refund_cents=0)

    (only,) = box.billing.writing(voided)
    assert (only.total_amount_cents, only.credit_amount_cents, only.credit_status) == (5, 5, "available")
    assert (only.sub_total_excluding_taxes_amount_cents, only.taxes_amount_cents) == (5, 0)
