"""Dunning: which campaign applies to whom, and what is overdue."""

from __future__ import annotations

from usagebill.core.customers import AccountType, Customer
from usagebill.core.dunning import DunningCampaign, DunningProgress
from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.queries.customers import entity_of
from usagebill.storage.conditions import asc, eq
from usagebill.work import Reader

__all__ = ["applicable_campaign", "campaign_by_code", "campaign_code", "overdue_invoices", "progress_of"]


def campaign_by_code(reader: Reader, code: str) -> DunningCampaign:
    """The campaign with this code. Raises `NotFound`."""
    campaign = reader.tx.first(DunningCampaign, eq("code", code))
    if campaign is None:
        raise NotFound("dunning_campaign", code)
    return campaign


def campaign_code(reader: Reader, campaign_id: str | None) -> str | None:
    """The code of a campaign; None for one that is gone, or none at all."""
    campaign = None if campaign_id is None else reader.tx.get(DunningCampaign, campaign_id)
    return None if campaign is None else campaign.code


def applicable_campaign(reader: Reader, customer: Customer) -> DunningCampaign | None:
    """The campaign that the customer is dunned by: its own, else its billing entity's.

    None for one that is excluded, deleted, or a partner, whose invoices are ours to pay.
    """
    if customer.exclude_from_dunning_campaign or customer.deleted_at is not None:
        return None
    if customer.account_type == AccountType.PARTNER:
        return None
    id = customer.applied_dunning_campaign_id or entity_of(reader, customer).applied_dunning_campaign_id
    return None if id is None else reader.tx.get(DunningCampaign, id)


def progress_of(reader: Reader, customer_id: str) -> DunningProgress | None:
    """How often the customer was asked; None if it never was."""
    return reader.tx.first(DunningProgress, eq("customer_id", customer_id))


def overdue_invoices(reader: Reader, customer_id: str) -> list[Invoice]:
    """What the customer has not paid in time, oldest first; what it invoices itself is left out."""
    return reader.tx.find(
        Invoice,
        eq("customer_id", customer_id),
        eq("payment_overdue", True),
        eq("self_billed", False),
        order=[asc("issuing_date"), asc("created_at"), asc("id")],
    )
