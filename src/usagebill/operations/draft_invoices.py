"""Draft invoices: which of them a change of the catalog or of a customer makes out of date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.storage.conditions import Condition, eq, has, within
from usagebill.work import Work

__all__ = ["drafts_of_customers", "drafts_of_plans", "flag"]


def flag(work: Work, *conditions: Condition) -> None:
    """Have the drafts that match computed anew before they are shown or finalized."""
    for invoice in work.tx.find(Invoice, eq("status", "draft"), eq("refresh_wanted", False), *conditions):
        work.tx.replace(replace(invoice, refresh_wanted=True, updated_at=work.now))


def drafts_of_plans(plan_ids: Iterable[str]) -> Condition:
    """Invoices that bill a subscription of one of these plans."""
    return has(BillingPeriod, "invoice_id", within("plan_id", plan_ids))


def drafts_of_customers(customer_ids: Iterable[str]) -> Condition:
    return within("customer_id", customer_ids)
