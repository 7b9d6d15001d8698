"""Records put straight into a store: the fields that matter to the test, the rest filled in.

For tests of records that do not depend on their history; `tests.scenarios` uses the API instead.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax
from usagebill.core.wallet_transactions import (
    TransactionKind,
    TransactionType,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import Wallet
from usagebill.operations.wallet_ledger import bring_in
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq
from usagebill.testing import Sandbox


def _identity(work: Work) -> dict[str, Any]:
    return {"id": work.new_id(), "organization_id": work.organization.id, "created_at": work.now}


def add_plan(work: Work, **fields: Any) -> Plan:
    """A monthly plan in euros that costs nothing."""
    plan = Plan(
        **{
            **_identity(work),
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
            **_identity(work),
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
            **_identity(work),
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


def add_tax(work: Work, code: str, rate: str) -> Tax:
    tax = Tax(**{**_identity(work), "updated_at": work.now, "name": code, "code": code, "rate": Decimal(rate)})
    work.tx.insert(tax)
    return tax


def add_wallet(box: Sandbox, granted_cents: int, external_id: str = "acme", **fields: Any) -> Wallet:
    """A wallet of the customer at 1.00 a credit, with this many granted and unused cents."""

    def fill(work: Work) -> Wallet:
        customer = work.tx.first(Customer, eq("external_id", external_id))
        assert customer is not None
        belongs = {**_identity(work), "customer_id": customer.id, "updated_at": work.now}
        wallet = Wallet(
            **{**belongs, "code": "default", "currency": "EUR", "rate_amount": Decimal(1), **fields},
        )
        work.tx.insert(wallet)
        grant = WalletTransaction(
            **{**belongs, "id": work.new_id()},
            wallet_id=wallet.id,
            transaction_type=TransactionType.INBOUND,
            transaction_status=TransactionKind.GRANTED,
            status=WalletTransactionStatus.SETTLED,
            amount_cents=granted_cents,
            credit_amount=Decimal(granted_cents) / 100,
            remaining_amount_cents=granted_cents,
            settled_at=work.now,
        )
        work.tx.insert(grant)
        return bring_in(work, grant)

    return box.billing.writing(fill)


def customer_with(box: Sandbox, external_id: str = "acme", **fields: Any) -> Customer:
    """The customer with this external id, created unless it exists, with its record's `fields` set."""

    def change(work: Work) -> Customer:
        customer = work.tx.first(Customer, eq("external_id", external_id))
        assert customer is not None
        changed = replace(customer, **fields)
        work.tx.replace(changed)
        return changed

    box.request("POST", "/api/v1/customers", json={"customer": {"external_id": external_id}})
    return box.billing.writing(change)


def add_subscription(box: Sandbox, plan_id: str, external_id: str = "sub1", **fields: Any) -> Subscription:
    """A new customer subscribed to the plan from now on; nothing is billed."""
    customer = customer_with(box, f"customer of {external_id}")

    def insert(work: Work) -> Subscription:
        subscription = Subscription(
            **{
                **_identity(work),
                "updated_at": work.now,
                "external_id": external_id,
                "customer_id": customer.id,
                "plan_id": plan_id,
                "status": "active",
                "billing_time": "calendar",
                "subscription_at": work.now,
                "started_at": work.now,
                **fields,
            }
        )
        work.tx.insert(subscription)
        return subscription

    return box.billing.writing(insert)


def give_taxes(work: Work, external_id: str, rates: dict[str, str]) -> None:
    """Replace the customer's taxes by new ones with these codes and rates."""
    ids = tuple(add_tax(work, code, rate).id for code, rate in rates.items())
    customer = work.tx.first(Customer, eq("external_id", external_id))
    assert customer is not None
    work.tx.replace(replace(customer, tax_ids=ids))


def _add_invoice(work: Work, customer: Customer, **fields: Any) -> Invoice:
    invoice = Invoice(
        **{
            **_identity(work),
            "updated_at": work.now,
            "customer_id": customer.id,
            "billing_entity_id": customer.billing_entity_id,
            "invoice_type": "subscription",
            "currency": "EUR",
            "net_payment_term": 0,
            **fields,
        }
    )
    work.tx.insert(invoice)
    return invoice


def add_draft(work: Work, customer: Customer, **fields: Any) -> Invoice:
    """A draft of a subscription invoice, in euros, over nothing, dated 8 March 2024."""
    dated = {"issuing_date": date(2024, 3, 8), "payment_due_date": date(2024, 3, 8)}
    number = f"{customer.external_id}-DRAFT"
    return _add_invoice(work, customer, **{"status": "draft", "number": number, **dated, **fields})


def add_issued_invoice(work: Work, customer: Customer, **fields: Any) -> Invoice:
    """A finalized subscription invoice, in euros, over nothing, issued and due today."""
    dated = {"issuing_date": work.now.date(), "payment_due_date": work.now.date()}
    return _add_invoice(work, customer, **{"status": "finalized", "number": "TST-001-001", **dated, **fields})


def add_period(work: Work, invoice: Invoice, plan_id: str, **fields: Any) -> BillingPeriod:
    """The billing period of a subscription of the plan on the invoice."""
    period = BillingPeriod(
        **{
            **_identity(work),
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


def unsaved_fee(work: Work, customer: Customer, amount_cents: int, **fields: Any) -> Fee:
    """A fee of one unit of the add-on `setup`, not in the store yet."""
    item = FeeItem(type=FeeType.ADD_ON, item_type="AddOn", id=work.new_id(), code="setup", name="Setup")
    return Fee(
        **{
            **_identity(work),
            "updated_at": work.now,
            "customer_id": customer.id,
            "fee_type": "add_on",
            "item": item,
            "amount_cents": amount_cents,
            "precise_amount_cents": Decimal(amount_cents),
            "currency": "EUR",
            "units": Decimal(1),
            **fields,
        }
    )


def add_fee(work: Work, customer: Customer, amount_cents: int, **fields: Any) -> Fee:
    """A fee of one unit of the add-on `setup`."""
    fee = unsaved_fee(work, customer, amount_cents, **fields)
    work.tx.insert(fee)
    return fee
