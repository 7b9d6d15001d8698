"""The dates of invoices, from the settings that apply to a customer."""

from __future__ import annotations

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import (
    Customer,
    grace_period,
    issuing_date_adjustment,
    issuing_date_anchor,
    net_payment_term,
)
from usagebill.core.dates import DatingSettings, IssuingDateAdjustment, IssuingDateAnchor

__all__ = ["dating_settings"]


def dating_settings(customer: Customer, entity: BillingEntity) -> DatingSettings:
    """What decides the dates of the customer's invoices: its own values, else its billing entity's."""
    return DatingSettings(
        grace_period=grace_period(customer, entity),
        net_payment_term=net_payment_term(customer, entity),
        anchor=IssuingDateAnchor(issuing_date_anchor(customer, entity)),
        adjustment=IssuingDateAdjustment(issuing_date_adjustment(customer, entity)),
    )
