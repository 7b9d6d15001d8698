"""Bills are worked out from a snapshot, without writing: what a run would make is what it makes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.scenarios import Scenario, charge_on, fixed_charge_on

from usagebill.core.bills import Bill, Step
from usagebill.core.invoice_triggers import Trigger
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.subscriptions import Subscription
from usagebill.queries.contracts import contract_of
from usagebill.rating.invoice import Entry, subscription_bill
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.now("2025-06-01T00:00:00Z")

RUN = datetime(2025, 7, 1, 0, 10, tzinfo=UTC)


def billed(box: Scenario, at: datetime = RUN) -> Bill | None:
    """What a run at `at` would bill, read from a snapshot."""

    def work_out(reader: Reader) -> Bill | None:
        subscription = reader.tx.first(Subscription, eq("external_id", "sub"))
        assert subscription is not None
        entries = [Entry(contract=contract_of(reader, subscription), reason=InvoicingReason.PERIODIC)]
        return subscription_bill(reader.at(at), entries, at=at, trigger=Trigger.RUN)

    return box.billing.reading(work_out)


def used(box: Scenario) -> None:
    """A month of a customer with a coupon, of usage that is summed up over time among others."""
    box.tax(20)
    box.coupon(700)
    disk = box.metric("disk", "weighted_sum_agg", recurring=True, weighted_interval="seconds")
    box.plan(
        charge_on(box.metric("gb"), amount="1", min_amount_cents=5000),
        charge_on(disk, amount="2"),
        amount_cents=3100,
        fixed_charges=[fixed_charge_on(box.add_on("seats"), amount="5", units="2")],
    )
    box.subscribe()
    box.event("gb", value=12)
    box.event("disk", value=4)
    box.travel_to("2025-06-30T12:00:00Z")


def test_what_a_run_would_bill_is_what_it_bills(box: Scenario) -> None:
    box.customer()
    used(box)
    bill = billed(box)
    assert bill is not None
    assert (bill.step, bill.is_new, len(bill.changed)) == (Step.ISSUE, True, 1)
    assert box.invoices() == []
    box.travel_to("2025-07-01T01:00:00Z")
    (invoice,) = box.invoices()
    for name in ("fees_amount_cents", "coupons_amount_cents", "taxes_amount_cents", "total_amount_cents"):
        assert invoice[name] == getattr(bill.invoice, name) > 0
    assert [(fee["item"]["type"], fee["amount_cents"]) for fee in invoice["fees"]] == [
        (fee.fee_type, fee.amount_cents) for fee in bill.fees
    ]
    assert billed(box) is None, "a period is billed once"


def test_what_is_to_be_a_draft_uses_no_coupon(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 3})
    used(box)
    bill = billed(box)
    assert bill is not None
    assert (bill.step, bill.changed, bill.invoice.coupons_amount_cents) == (Step.DRAFT, (), 0)


def test_a_bill_that_is_worked_out_again_comes_to_the_same(box: Scenario) -> None:
    box.customer()
    used(box)
    once, again = billed(box), billed(box)
    assert once is not None
    assert again is not None
    assert [fee.amount_cents for fee in once.fees] == [fee.amount_cents for fee in again.fees]
    assert {fee.id for fee in once.fees}.isdisjoint(fee.id for fee in again.fees)
