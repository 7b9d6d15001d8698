"""Records as tests put them into a store: the fields that matter to the test, the rest filled in."""

from __future__ import annotations

from datetime import date
from typing import Any

from usagebill.core.customers import Customer
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.work import Work

__all__ = ["add_charge", "add_fixed_charge", "add_invoice", "add_period", "add_plan"]


def _own(work: Work) -> dict[str, Any]:
    return {"id": work.new_id(), "organization_id": work.organization.id, "created_at": work.now}


def add_plan(work: Work, **fields: Any) -> Plan:
    """A monthly plan in euros that costs nothing."""
    plan = Plan(
        **{
            **_own(work),
            "updated_at": work.now,
            "name": "Basic",
            "code": "basic",
            "interval": "monthly",
            "amount_cents": 0,
            "amount_currency": "EUR",
            "pay_in_advance": False,
            **fields,
        }
    )
    work.tx.insert(plan)
    return plan


def add_charge(work: Work, **fields: Any) -> Charge:
    """A standard charge of 1.00 a unit."""
    charge = Charge(
        **{
            **_own(work),
            "updated_at": work.now,
            "code": "usage",
            "charge_model": "standard",
            "properties": {"amount": "1"},
            **fields,
        }
    )
    work.tx.insert(charge)
    return charge


def add_fixed_charge(work: Work, **fields: Any) -> FixedCharge:
    """One unit of an add-on at 1.00."""
    charge = FixedCharge(
        **{
            **_own(work),
            "updated_at": work.now,
            "code": "fixed",
            "charge_model": "standard",
            "properties": {"amount": "1"},
            "units": 1,
            **fields,
        }
    )
    work.tx.insert(charge)
    return charge


def add_invoice(work: Work, customer: Customer, **fields: Any) -> Invoice:
    """A draft of a subscription invoice, in euros, over nothing."""
    invoice = Invoice(
        **{
            **_own(work),
            "updated_at": work.now,
            "customer_id": customer.id,
            "billing_entity_id": customer.billing_entity_id,
            "invoice_type": "subscription",
            "status": "draft",
            "currency": "EUR",
            "number": f"{customer.external_id}-DRAFT",
            "issuing_date": date(2024, 3, 8),
            "payment_due_date": date(2024, 3, 8),
            "net_payment_term": 0,
            **fields,
        }
    )
    work.tx.insert(invoice)
    return invoice


def add_period(work: Work, invoice: Invoice, plan_id: str, **fields: Any) -> BillingPeriod:
    """What the invoice bills of a subscription of the plan."""
    period = BillingPeriod(
        **{
            **_own(work),
            "invoice_id": invoice.id,
            "subscription_id": work.new_id(),
            "external_subscription_id": "s1",
            "plan_id": plan_id,
            "timestamp": work.now,
            "invoicing_reason": "subscription_periodic",
            **fields,
        }
    )
    work.tx.insert(period)
    return period
