"""Records made by hand, for what looks at invoices without caring how they came about."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeItem
from usagebill.core.invoices.records import Invoice
from usagebill.core.taxes import Tax
from usagebill.storage.conditions import eq
from usagebill.testing import Sandbox
from usagebill.work import Work


def customer(box: Sandbox, external_id: str = "acme", **fields: Any) -> Customer:
    """The customer with this external id, made where it is not there yet."""

    def make(work: Work) -> Customer:
        found = work.tx.first(Customer, eq("external_id", external_id))
        if found is None:
            raise LookupError(external_id)
        changed = replace(found, **fields)
        work.tx.replace(changed)
        return changed

    box.request("POST", "/api/v1/customers", json={"customer": {"external_id": external_id}})
    return box.billing.writing(make)


def tax(work: Work, code: str, rate: str) -> Tax:
    made = Tax(
        id=work.new_id(),
        organization_id=work.organization.id,
        name=code,
        code=code,
        rate=Decimal(rate),
        created_at=work.now,
        updated_at=work.now,
    )
    work.tx.insert(made)
    return made


def invoice(work: Work, customer: Customer, **fields: Any) -> Invoice:
    values: dict[str, Any] = {
        "id": work.new_id(),
        "organization_id": work.organization.id,
        "customer_id": customer.id,
        "billing_entity_id": customer.billing_entity_id,
        "invoice_type": "subscription",
        "status": "finalized",
        "currency": "EUR",
        "number": "TST-001-001",
        "issuing_date": work.now.date(),
        "payment_due_date": work.now.date(),
        "net_payment_term": 0,
        "created_at": work.now,
        "updated_at": work.now,
        **fields,
    }
    made = Invoice(**values)
    work.tx.insert(made)
    return made


def fee(work: Work, customer: Customer, amount_cents: int, **fields: Any) -> Fee:
    item = FeeItem(type="add_on", item_type="AddOn", id=work.new_id(), code="setup", name="Setup")
    values: dict[str, Any] = {
        "id": work.new_id(),
        "organization_id": work.organization.id,
        "customer_id": customer.id,
        "fee_type": "add_on",
        "item": item,
        "amount_cents": amount_cents,
        "precise_amount_cents": Decimal(amount_cents),
        "currency": "EUR",
        "units": Decimal(1),
        "created_at": work.now,
        "updated_at": work.now,
        **fields,
    }
    return Fee(**values)


def stored(work: Work, made: Fee) -> Fee:
    work.tx.insert(made)
    return made


def customer_taxes(work: Work, external_id: str, rates: dict[str, str]) -> None:
    """Taxes of these codes and rates, all of them the customer's."""
    ids = tuple(tax(work, code, rate).id for code, rate in rates.items())
    found = work.tx.first(Customer, eq("external_id", external_id))
    assert found is not None
    work.tx.replace(replace(found, tax_ids=ids))
