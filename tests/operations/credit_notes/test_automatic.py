"""Credit notes that nobody asked for, on invoices made by hand: surpluses, voids, drafts that change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests import builders
from tests.money import gross, percent, share
from tests.scenarios import Scenario, charge_on

from usagebill.core.credit_notes import CreditNote, CreditNoteReason
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.totals import Surplus
from usagebill.operations.credit_notes import on_surplus, on_void
from usagebill.operations.credit_notes.creation import make
from usagebill.operations.credit_notes.drafts import follow
from usagebill.queries.contracts import parties_of
from usagebill.queries.credit_note_balance import balance_of
from usagebill.rating.settlement import settle
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.now("2024-05-01T12:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    builders.customer_with(box)
    return box


def stored(box: Scenario, amounts: Sequence[int], *, tax: str | None = "20", **fields: Any) -> Invoice:
    """An invoice of fees of these amounts, with one tax."""
    owner = builders.customer_with(box)

    def make_invoice(work: Work) -> Invoice:
        if tax is not None:
            builders.give_taxes(work, "acme", {f"vat-{work.new_id()}": tax})
        invoice = builders.add_issued_invoice(work, owner, **fields)
        fees = [
            builders.unsaved_fee(
                work, owner, amount, invoice_id=invoice.id, fee_type="subscription", subscription_id=work.new_id()
            )
            for amount in amounts
        ]
        settled = settle(work, invoice, fees, (), parties=parties_of(work, invoice), finalizing=False)
        work.tx.insert(*settled.fees)
        work.tx.replace(settled.invoice)
        return settled.invoice

    return box.billing.writing(make_invoice)


def surplus(box: Scenario, invoice: Invoice, cents: int) -> CreditNote | None:
    owed = Surplus(invoice_id=invoice.id, cents=cents)
    return next(iter(box.billing.writing(lambda work: on_surplus(work, invoice, owed))), None)


def test_a_surplus_is_taken_from_the_largest_fees(box: Scenario) -> None:
    note = surplus(box, stored(box, [80, 40], invoice_type="progressive_billing"), 100)
    assert note is not None
    assert sorted(item.amount_cents for item in note.items) == [20, 80]
    assert (note.credit_amount_cents, note.taxes_amount_cents, note.reason) == (
        gross(100, 20),
        percent(100, 20),
        "other",
    )


def test_no_more_is_given_back_than_was_billed(box: Scenario) -> None:
    invoice = stored(box, [80, 40], invoice_type="progressive_billing")
    note = surplus(box, invoice, 130)
    assert note is not None
    assert note.total_amount_cents == gross(80 + 40, 20)
    assert surplus(box, invoice, 10) is None


def test_a_void_counts_what_was_billed_in_advance(box: Scenario) -> None:
    """400 of usage, 200 of which had been billed before: 200 are given back, the rest is noted."""
    invoice = stored(box, [400], tax=None, status="voided")
    invoice = replace(invoice, progressive_billing_credit_amount_cents=200, total_amount_cents=200)

    def void(work: Work) -> list[CreditNote]:
        work.tx.replace(invoice)
        assert balance_of(work, invoice).creditable() == 200
        return on_void(work, invoice, credit_cents=200, refund_cents=0)

    first, second = box.billing.writing(void)
    assert (first.items[0].amount_cents, first.total_amount_cents, first.credit_status) == (200, 200, "available")
    assert (second.items[0].amount_cents, second.credit_status, second.balance_amount_cents) == (200, "voided", 0)


def test_a_void_that_gives_back_a_part_takes_it_from_all_fees(box: Scenario) -> None:
    invoice = stored(box, [1000, 333], status="voided")
    first, second = box.billing.writing(lambda work: on_void(work, invoice, credit_cents=500, refund_cents=0))
    shares = [Decimal(cents * 500) / invoice.total_amount_cents for cents in (1000, 333)]
    assert [item.precise_amount_cents for item in first.items] == shares
    total = invoice.total_amount_cents
    assert [item.amount_cents for item in first.items] == [share(1000, 500, total), share(333, 500, total)]
    assert (first.total_amount_cents, first.taxes_amount_cents) == (500, round(sum(shares) * 20 / 100))
    assert (second.credit_status, second.balance_amount_cents) == ("voided", 0)


@pytest.mark.parametrize(
    ("amounts", "tax", "credit_cents"), [([7, 5, 3], "21", 4), ([103, 77, 55], "24.5", 33), ([9] * 15, "7", 20)]
)
def test_the_notes_of_a_void_make_up_the_invoice(
    box: Scenario, amounts: list[int], tax: str, credit_cents: int
) -> None:
    invoice = stored(box, amounts, tax=tax, status="voided")
    first, second = box.billing.writing(lambda work: on_void(work, invoice, credit_cents=credit_cents, refund_cents=0))
    assert (first.total_amount_cents, second.total_amount_cents) == (
        credit_cents,
        invoice.total_amount_cents - credit_cents,
    )
    for note in (first, second):
        assert note.sub_total_excluding_taxes_amount_cents + note.taxes_amount_cents == note.total_amount_cents


def test_a_void_gives_back_exactly_what_is_asked_for(box: Scenario) -> None:
    invoice = stored(box, [18500], tax="7.5", status="voided")
    first, _ = box.billing.writing(lambda work: on_void(work, invoice, credit_cents=6629, refund_cents=0))
    assert (first.total_amount_cents, first.credit_amount_cents) == (6629, 6629)
    assert first.sub_total_excluding_taxes_amount_cents + first.taxes_amount_cents == 6629


def test_the_cents_of_an_item_are_those_of_the_amount_that_is_kept(box: Scenario) -> None:
    invoice = stored(box, [186], tax="33.333", status="voided")
    first, _ = box.billing.writing(lambda work: on_void(work, invoice, credit_cents=126, refund_cents=0))
    share = Decimal(186 * 126) / invoice.total_amount_cents
    # 94.5, of which half a cent is rounded up.
    assert [(item.precise_amount_cents, item.amount_cents) for item in first.items] == [(share, 95)]
    assert (first.sub_total_excluding_taxes_amount_cents, first.taxes_amount_cents) == (95, 126 - 95)


@pytest.mark.parametrize(("amount", "expected"), [(900, 850), (3600, 3400), (0, 0)])
def test_the_note_of_a_draft_follows_its_fee(box: Scenario, amount: int, expected: int) -> None:
    invoice = stored(box, [1800], tax=None, status="draft")

    def change(work: Work) -> CreditNote:
        (fee,) = work.tx.find(Fee, eq("invoice_id", invoice.id))
        note = make(
            work, balance_of(work, invoice), [(fee, Decimal(1700))], None, reason=CreditNoteReason.ORDER_CANCELLATION
        )
        assert (note.status, note.total_amount_cents) == ("draft", 1700)
        work.tx.delete(fee)
        work.tx.insert(replace(fee, id=work.new_id(), amount_cents=amount, precise_amount_cents=Decimal(amount)))
        recomputed = replace(
            invoice,
            fees_amount_cents=amount,
            sub_total_excluding_taxes_amount_cents=amount,
            sub_total_including_taxes_amount_cents=amount,
            total_amount_cents=amount,
        )
        work.tx.replace(recomputed)
        follow(work, recomputed, [fee])
        stored = work.tx.get(CreditNote, note.id)
        assert stored is not None
        return stored

    note = box.billing.writing(change)
    assert (note.total_amount_cents, note.balance_amount_cents) == (expected, expected)
    assert note.items[0].amount_cents == expected


@pytest.mark.parametrize(("amount", "settled"), [(6200, 4000), (310, 200), (3100, 2000)])
def test_what_settles_a_draft_follows_its_fee(amount: int, settled: int) -> None:
    with Scenario(now="2024-03-01T10:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 30})
        box.plan(amount_cents=3100, pay_in_advance=True)
        box.subscribe()
        box.travel_to("2024-03-11T00:00:00Z")
        box.delete("/subscriptions/sub?on_termination_credit_note=offset")
        draft = box.invoice(box.get("/invoices?statuses[]=draft")["invoices"][-1]["svc_id"])
        assert draft["total_due_amount_cents"] == 3100
        (fee,) = draft["fees"]
        price = str(amount / 100)
        box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=fee["svc_id"], units=1, unit_precise_amount=price)
        box.travel_to("2024-04-20T00:00:00Z")
        (note,) = box.get("/credit_notes")["credit_notes"]
        assert (note["offset_amount_cents"], note["total_amount_cents"]) == (settled, settled)
        invoice = box.invoice(note["svc_invoice_id"])
        assert (invoice["total_amount_cents"], invoice["total_due_amount_cents"]) == (amount, amount - settled)


def test_each_item_of_a_draft_follows_its_own_fee() -> None:
    with Scenario(now="2024-03-01T10:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 30})
        charge = charge_on(box.metric("calls"), amount="1")
        other = {**charge, "billable_metric_id": box.metric("calls_2")}
        box.plan(charge, other)
        box.subscribe()
        box.event("calls", value="10")
        box.event("calls_2", value="20")
        box.travel_to("2024-04-01T06:00:00Z")
        (draft,) = box.get("/invoices?statuses[]=draft")["invoices"]
        fees = box.invoice(draft["svc_id"])["fees"]
        items = [
            {"fee_id": fee["svc_id"], "amount_cents": fee["amount_cents"] // 2}
            for fee in fees
            if fee["item"]["type"] == "charge"
        ]
        note = {"invoice_id": draft["svc_id"], "items": items, "credit_amount_cents": 1500}
        box.post("/credit_notes", credit_note=note)
        box.put(f"/invoices/{draft['svc_id']}/finalize")
        (issued,) = box.get("/credit_notes")["credit_notes"]
        credited = {item["fee"]["item"]["code"]: item["amount_cents"] for item in issued["items"]}
        assert credited == {"calls": 500, "calls_2": 1000}


def test_notes_of_a_draft_whose_fee_is_gone_come_to_nothing() -> None:
    """However the taxes of the other notes were rounded."""
    with Scenario(now="2024-03-01T10:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 30})
        box.billing.writing(lambda work: builders.give_taxes(work, "acme", {"vat": "18.7"}))
        charge = {"charge_model": "standard", "properties": {"amount": "1"}}
        box.plan({"billable_metric_id": box.metric("calls"), **charge})
        box.subscribe()
        box.event("calls", value="10")
        box.travel_to("2024-04-01T06:00:00Z")
        (draft,) = box.get("/invoices?statuses[]=draft")["invoices"]
        (fee,) = (fee for fee in box.invoice(draft["svc_id"])["fees"] if fee["item"]["type"] == "charge")
        for cents, credit in ((3, 4), (2, 2), (333, 395), (4, 5)):
            items = [{"fee_id": fee["svc_id"], "amount_cents": cents}]
            box.post(
                "/credit_notes",
                credit_note={"invoice_id": draft["svc_id"], "items": items, "credit_amount_cents": credit},
            )
        late = {"transaction_id": "late", "code": "calls", "external_subscription_id": "sub", "timestamp": 1710000000}
        box.post("/events", event={**late, "properties": {"value": "-10"}})
        box.put(f"/invoices/{draft['svc_id']}/refresh")
        box.put(f"/invoices/{draft['svc_id']}/finalize")
        notes = box.get("/credit_notes")["credit_notes"]
        assert [note["total_amount_cents"] for note in notes] == [0, 0, 0, 0]
        assert [note["balance_amount_cents"] for note in notes] == [0, 0, 0, 0]
        assert box.billing.audit().findings == ()


def test_notes_of_a_draft_each_follow_what_a_coupon_leaves_of_their_own_fee() -> None:
    with Scenario("2024-01-01T00:00:00Z") as box:
        box.customer(billing_configuration={"invoice_grace_period": 3})
        box.plan(amount_cents=3100, pay_in_advance=True)
        for name in ("sub", "other"):
            box.subscribe(external_id=name)
        box.travel_to("2024-03-01T12:00:00Z")
        for name in ("sub", "other"):
            box.unsubscribe(name)
        box.coupon(1, coupon_type="percentage", percentage_rate="50", frequency="forever")
        box.travel_to("2024-03-08T00:00:00Z")
        notes = box.get("/credit_notes")["credit_notes"]
        assert [note["total_amount_cents"] for note in notes] == [1500, 1500]
        assert box.billing.audit().findings == ()
