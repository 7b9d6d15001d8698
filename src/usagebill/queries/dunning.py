"""Dunning: campaigns, customers' progress in them, and overdue invoices."""

from __future__ import annotations

from usagebill.core.customers import Customer
from usagebill.core.dunning import DunningCampaign, DunningProgress, applicable_campaign_id
from usagebill.core.errors import NotFound
from usagebill.core.invoices.records import Invoice
from usagebill.queries.customers import entity_of
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq


def campaign_by_code(reader: Reader, code: str) -> DunningCampaign:
    """The campaign with this code. Raises `NotFound`."""
    campaign = reader.tx.first(DunningCampaign, eq("code", code))
    if campaign is None:
        raise NotFound("dunning_campaign", code)
    return campaign


def campaign_code(reader: Reader, campaign_id: str | None) -> str | None:
    """The code of a campaign; None if it was deleted, or for None."""
    campaign = None if campaign_id is None else reader.tx.get(DunningCampaign, campaign_id)
    return None if campaign is None else campaign.code


def applicable_campaign(reader: Reader, customer: Customer) -> DunningCampaign | None:
    """The campaign that duns the customer: its own, else its billing entity's; None if it is not to be dunned."""
    id = applicable_campaign_id(customer, entity_of(reader, customer))
    return None if id is None else reader.tx.get(DunningCampaign, id)


def progress_of(reader: Reader, customer_id: str) -> DunningProgress | None:
    """The customer's dunning progress: its attempts by currency; None before the first."""
    return reader.tx.first(DunningProgress, eq("customer_id", customer_id))


def overdue_invoices(reader: Reader, customer_id: str) -> list[Invoice]:
    """The customer's overdue invoices, oldest first; self-billed ones are left out."""
    return reader.tx.find(
        Invoice,
        eq("customer_id", customer_id),
        eq("payment_overdue", True),
        eq("self_billed", False),
        order=[asc("issuing_date"), asc("created_at"), asc("id")],
    )
