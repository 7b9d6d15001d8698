"""What the tests of operations have in common: a sandbox with customers, plans and subscriptions in a few words."""

from __future__ import annotations

from typing import Any

from usagebill.core.plans import Plan
from usagebill.testing import Sandbox

__all__ = ["add_coupon", "add_plan", "ask", "details", "invoices_of", "subscribe", "windows"]


def ask(box: Sandbox, method: str, path: str, json: object = None, status: int = 200) -> Any:
    """The body of an answer that has `status`."""
    found, body = box.request(method, "/api/v1" + path, json=json)
    assert found == status, f"{method} {path}: {found} {body}"
    return body


def add_plan(box: Sandbox, code: str = "basic", **fields: Any) -> Plan:
    """A monthly plan of 100.00 EUR in arrears, but for `fields`."""

    def insert(work: Any) -> Plan:
        given = {
            "name": code.capitalize(),
            "interval": "monthly",
            "amount_cents": 10_000,
            "amount_currency": "EUR",
            "pay_in_advance": False,
            **fields,
        }
        plan = Plan(
            id=work.new_id(),
            organization_id=work.organization.id,
            code=code,
            created_at=work.now,
            updated_at=work.now,
            **given,
        )
        work.tx.insert(plan)
        return plan

    return box.billing.writing(insert)


def add_coupon(box: Sandbox, cents: int, customer: str = "acme") -> None:
    """A coupon of so many cents of EUR, once, for the customer; its code is `off`."""
    coupon = {
        "name": "off",
        "code": "off",
        "coupon_type": "fixed_amount",
        "amount_cents": cents,
        "amount_currency": "EUR",
        "frequency": "once",
        "expiration": "no_expiration",
    }
    ask(box, "POST", "/coupons", {"coupon": coupon})
    ask(box, "POST", "/applied_coupons", {"applied_coupon": {"external_customer_id": customer, "coupon_code": "off"}})


def subscribe(box: Sandbox, plan: str = "basic", customer: str = "acme", id: str = "sub", **fields: object) -> Any:
    """Subscribe a customer, or change its plan; the subscription of the answer."""
    body = {"external_customer_id": customer, "external_id": id, "plan_code": plan, **fields}
    return ask(box, "POST", "/subscriptions", {"subscription": body})["subscription"]


def invoices_of(box: Sandbox, customer: str = "acme") -> list[Any]:
    """The customer's invoices in full, oldest first."""
    listed = ask(box, "GET", f"/invoices?external_customer_id={customer}&per_page=1000")["invoices"]
    found = [details(box, invoice["svc_id"]) for invoice in listed]
    return sorted(found, key=lambda invoice: (invoice["created_at"], invoice["svc_id"]))


def details(box: Sandbox, invoice_id: str) -> Any:
    return ask(box, "GET", f"/invoices/{invoice_id}")["invoice"]


def windows(invoice: Any) -> list[tuple[str, str]]:
    """The subscription windows that an invoice bills."""
    return [
        (period["subscription_from_datetime"], period["subscription_to_datetime"])
        for period in invoice["billing_periods"]
    ]
