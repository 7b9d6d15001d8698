"""Calls that every type checker accepts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from usagebill import Billing
from usagebill.client import AsyncClient, Client
from usagebill.fields import ChargeFields, EventFields
from usagebill.records import Invoice


def price_list(billing: Billing, from_a_file: dict[str, Any]) -> None:
    metric = billing.billable_metrics.create(
        name="Storage", code="storage", aggregation_type="sum_agg", field_name="gb", recurring=False
    )
    storage: ChargeFields = {
        "billable_metric_id": metric.id,
        "charge_model": "graduated",
        "properties": {
            "graduated_ranges": [
                {"from_value": 0, "to_value": None, "per_unit_amount": Decimal("0.25"), "flat_amount": 0}
            ]
        },
    }
    plan = billing.plans.create(
        name="Pro",
        code="pro",
        interval="monthly",
        amount_cents=4900,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[storage, {"billable_metric_id": metric.id, "charge_model": "standard"}],
    )
    billing.plans.create(**from_a_file)
    billing.plans.update("pro", charges=from_a_file["charges"])
    dearer: list[ChargeFields] = [
        {"id": charge.id, "charge_model": "standard", "properties": {"amount": amount}}
        for charge, amount in zip(plan.charges, ("0.3", "2"), strict=True)
    ]
    billing.plans.update("pro", charges=dearer)
    billing.plans.update("pro", code="professional", name="Professional")
    names: list[str] = [charge.code for charge in plan.charges]
    print(names, plan.customers_count + 1)


def customers(billing: Billing) -> None:
    billing.customers.upsert(external_id="acme", currency="EUR", net_payment_term=30)
    billing.customers.upsert(external_id="acme", name=None)
    billing.subscriptions.create(
        external_customer_id="acme",
        plan_code="pro",
        external_id="acme-1",
        subscription_at=datetime(2024, 1, 1, tzinfo=UTC),
        ending_at="2030-01-01T00:00:00Z",
    )
    billing.taxes.create(name="VAT", code="vat", rate=Decimal("19.6"))
    billing.wallets.create(external_customer_id="acme", rate_amount="1", granted_credits=10)
    billing.events.create(transaction_id="1", code="storage", external_subscription_id="acme-1", properties={"gb": 1.5})
    billing.events.ingest([{"transaction_id": "2", "code": "storage"}])
    common: EventFields = {"transaction_id": "3", "code": "storage", "external_subscription_id": "acme-1"}
    billing.events.ingest(
        {**common, "transaction_id": str(number), "properties": {"gb": number}} for number in range(9)
    )
    billing.events.create_batch(json.loads("[]"))


def invoices(billing: Billing) -> int:
    page = billing.invoices.list(status="finalized", issuing_date_from=date(2024, 1, 1), per_page=50)
    due: int = sum(invoice.total_due_amount_cents for invoice in page)
    first: Invoice = page.items[0]
    for fee in first.fees:
        due += fee.amount_cents + fee.total_amount_cents
    return due + page.total_count


def from_afar(client: Client) -> int:
    client.customers.upsert(external_id="acme", currency="EUR", net_payment_term=30)
    event = client.events.create(transaction_id="1", code="storage", external_subscription_id="acme-1")
    with client.holds.hold("acme-1", code="storage", units=2) as held:
        held.capture(transaction_id=event.transaction_id)
    return sum(invoice.total_due_amount_cents for invoice in client.invoices.list(status="finalized"))


async def awaited(billing: Billing, client: AsyncClient) -> int:
    plan = await billing.aio.plans.get("pro")
    await client.plans.update(plan.code, name="Professional")
    async with billing.aio.holds.hold("acme-1", code="storage", units=2) as held:
        await held.capture(transaction_id="2")
    due = [invoice.total_due_amount_cents async for invoice in await billing.aio.invoices.list(per_page=50)]
    due += [invoice.total_due_amount_cents async for invoice in await client.invoices.list(per_page=50)]
    return sum(due)
