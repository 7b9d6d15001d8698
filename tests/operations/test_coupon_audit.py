"""The audit of a coupon whose usage was billed ahead, and fell afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scenarios import Scenario, charge_on

from usagebill.core.invoices.records import CreditType, Invoice
from usagebill.operations.audit import AuditReport, audit
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = [pytest.mark.now("2024-01-01T00:00:00Z"), pytest.mark.usefixtures("acme")]


def test_a_coupon_takes_again_what_usage_that_fell_gave_back_and_no_cent_more(box: Scenario) -> None:
    level = charge_on(box.metric("level", aggregation_type="latest_agg"), amount="1")
    box.plan(level, amount_cents=3100, usage_thresholds=[{"amount_cents": 500}])
    coupon = {"name": "Three", "code": "three", "expiration": "no_expiration", "frequency": "forever"}
    box.post(
        "/coupons", coupon={**coupon, "coupon_type": "fixed_amount", "amount_cents": 333, "amount_currency": "EUR"}
    )
    box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "three"})
    box.subscribe()
    box.event("level", value=8)  # 8.00 billed ahead, 3.33 of it by the coupon
    box.event("level", value=2)
    box.travel_to("2024-02-01T01:00:00Z")
    # The coupon keeps 2.00 of its 3.33 for the 2.00 of usage that are left, and takes 1.33 of the fee.
    assert box.billing.audit().findings == ()
    reports: list[AuditReport] = []

    def a_cent_more(work: Work) -> None:
        (closing,) = work.tx.find(Invoice, eq("invoice_type", "subscription"))
        assert [(line.item_type, line.amount_cents) for line in closing.credits] == [("invoice", 200), ("coupon", 133)]
        credits = [
            replace(line, amount_cents=134) if line.item_type == CreditType.COUPON else line for line in closing.credits
        ]
        work.tx.replace(replace(closing, credits=tuple(credits)))
        reports.append(audit(work))

    box.billing.writing(a_cent_more)
    assert ("used by one invoice", "at most 333", "334") in {
        (finding.detail, finding.expected, finding.found) for finding in reports[0].findings
    }
