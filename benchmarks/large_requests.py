"""How long the largest requests hold the write lock of a file, while all others wait; beside a tenth of each, which is
to take at least a fifteenth of the time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from usagebill import Billing
from usagebill.core.fees import Fee
from usagebill.fields import ChargeFields, ChargeFilterFields, CreditNoteItemFields, MetricFilterFields, OneOffFeeFields
from usagebill.storage.conditions import eq

ROUNDS = 3
EURO: dict[str, Any] = {"amount_cents": 100, "amount_currency": "EUR"}
PLAN: dict[str, Any] = {"name": "Plan", "interval": "monthly", "pay_in_advance": False, **EURO}
PRICED: ChargeFields = {"charge_model": "standard", "properties": {"amount": "1"}}


class Lock:
    """The CPU time of the last write of a billing system."""

    def __init__(self, billing: Billing) -> None:
        self.held = 0.0
        write: Callable[..., Any] = billing.store.write

        def timed(*arguments: Any) -> Any:
            started = time.thread_time()
            try:
                return write(*arguments)
            finally:
                self.held = time.thread_time() - started

        billing.store.write = timed  # type: ignore[assignment,method-assign]


def one_off(billing: Billing, size: int) -> Any:
    fees: list[OneOffFeeFields] = [{"add_on_code": f"a{number}"} for number in range(size)]
    return billing.invoices.create_one_off(external_customer_id="acme", currency="EUR", fees=fees)


def credit_note(billing: Billing, size: int) -> None:
    invoice = one_off(billing, size)
    fees = billing.reading(lambda reader: reader.tx.find(Fee, eq("invoice_id", invoice.id)))
    items: list[CreditNoteItemFields] = [{"fee_id": fee.id, "amount_cents": 100} for fee in fees]
    billing.credit_notes.create(
        invoice_id=invoice.id, reason="other", credit_amount_cents=size * 120, refund_amount_cents=0, items=items
    )


def void(billing: Billing, size: int) -> None:
    billing.invoices.void(one_off(billing, size).id)


def coupon(billing: Billing, size: int) -> None:
    codes = [f"p{number}" for number in range(size)]
    terms: dict[str, Any] = {"coupon_type": "fixed_amount", "frequency": "once", "expiration": "no_expiration", **EURO}
    billing.coupons.create(name="Coupon", code=str(time.time_ns()), applies_to={"plan_codes": codes}, **terms)


def plan(billing: Billing, size: int) -> Any:
    charges: list[ChargeFields] = [{"billable_metric_id": metric(billing), **PRICED} for _ in range(size)]
    return billing.plans.create(code=str(time.time_ns()), charges=charges, **PLAN)


def filters(billing: Billing, size: int) -> None:
    priced: list[ChargeFilterFields] = [
        {"values": {"key": [f"v{number}"]}, "properties": {"amount": "2"}} for number in range(size)
    ]
    charge: ChargeFields = {"billable_metric_id": metric(billing), **PRICED, "filters": priced}
    billing.plans.create(code=str(time.time_ns()), charges=[charge], **PLAN)


def metric(billing: Billing) -> str:
    return billing.billable_metrics.list().items[0].id


CASES: dict[str, tuple[Callable[[Billing, int], object], int]] = {
    "fees of a one-off invoice": (one_off, 1000),
    "items of a credit note": (credit_note, 1000),
    "fees of an invoice that is voided": (void, 1000),
    "plans of a coupon": (coupon, 1000),
    "charges of a plan": (plan, 1000),
    "filters of a charge, of 10,000 values": (filters, 10_000),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Billing(Path(folder) / "billing.db", deliver=False) as billing:
        billing.taxes.create(name="VAT", code="vat", rate="20", applied_to_organization=True)
        billing.customers.upsert(external_id="acme", currency="EUR")
        values = [f"v{number}" for number in range(10_000)]
        declared: list[MetricFilterFields] = [{"key": "key", "values": values}]
        billing.billable_metrics.create(name="M", code="m", aggregation_type="count_agg", filters=declared)
        for number in range(1000):
            billing.add_ons.create(name="Add-on", code=f"a{number}", **EURO)
            billing.plans.create(code=f"p{number}", **PLAN)
        lock = Lock(billing)
        for name, (act, most) in CASES.items():
            best = {most // 10: 1e9, most: 1e9}
            for _ in range(ROUNDS):
                for size in best:
                    act(billing, size)
                    best[size] = min(best[size], lock.held)
            tenth, whole = best.values()
            print(f"{most:6,} {name}: {whole * 1000:6.1f} ms, {whole / tenth:4.1f} times a tenth (at most 15)")


if __name__ == "__main__":
    main()
