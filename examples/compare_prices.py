"""Which price list would have earned more? The same month of usage under two plans, in a second."""

from __future__ import annotations

import random

from usagebill import Billing
from usagebill.fields import ChargeFields
from usagebill.testing import Sandbox

PLANS: dict[str, ChargeFields] = {
    "flat": {"charge_model": "standard", "properties": {"amount": "0.012"}},
    "tiered": {
        "charge_model": "graduated",
        "properties": {
            "graduated_ranges": [
                {"from_value": 0, "to_value": 1000, "per_unit_amount": "0.02", "flat_amount": "0"},
                {"from_value": 1001, "to_value": None, "per_unit_amount": "0.008", "flat_amount": "0"},
            ]
        },
    },
}
CUSTOMERS = 20


def set_up(billing: Billing) -> None:
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="sum_agg", field_name="count")
    for code, price in PLANS.items():
        billing.plans.create(
            name=code.title(),
            code=code,
            interval="monthly",
            amount_cents=0,
            amount_currency="EUR",
            pay_in_advance=False,
            charges=[{"billable_metric_code": "calls", **price}],
        )


def use(billing: Billing) -> None:
    """A month of usage, the same for both plans: most customers call little, some a lot."""
    chance = random.Random(7)
    for number in range(CUSTOMERS):
        total = int(chance.paretovariate(1.2) * 300)
        for code in PLANS:
            name = f"{code}-{number}"
            billing.customers.upsert(external_id=name, currency="EUR")
            billing.subscriptions.create(external_customer_id=name, plan_code=code, external_id=name)
            billing.events.create(
                transaction_id=name, code="calls", external_subscription_id=name, properties={"count": total}
            )


def main() -> None:
    with Sandbox(now="2024-01-01T00:00:00Z") as box:
        set_up(box.billing)
        use(box.billing)
        box.travel_to("2024-02-01T01:00:00Z")
        earned = dict.fromkeys(PLANS, 0)
        for invoice in box.billing.invoices.list(per_page=1000).items:
            customer = box.billing.view(invoice)["customer"]["external_id"]
            earned[customer.split("-")[0]] += invoice.total_amount_cents
        for code, cents in earned.items():
            print(f"{code:8} {cents / 100:10,.2f} EUR from {CUSTOMERS} customers")


if __name__ == "__main__":
    main()
