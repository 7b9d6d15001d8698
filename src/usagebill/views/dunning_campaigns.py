"""Dunning campaigns as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from usagebill.core.customers import Customer
from usagebill.core.dunning import DunningCampaign
from usagebill.queries.customers import entity_of
from usagebill.runtime.work import Reader
from usagebill.views.formats import Id, Instant, instant_text


class DunningThresholdView(TypedDict):
    amount_cents: int
    currency: str


class DunningCampaignView(TypedDict):
    svc_id: Id
    code: str
    name: str
    description: str | None
    bcc_emails: list[str]
    days_between_attempts: int
    max_attempts: int
    thresholds: list[DunningThresholdView]
    created_at: Instant
    updated_at: Instant


class CampaignBalanceView(TypedDict):
    currency: str
    amount_cents: int


class DunningFinished(TypedDict):
    """The message that a campaign has asked a customer for the last time."""

    external_customer_id: str
    # The same under its former name.
    customer_external_id: str
    dunning_campaign_code: str
    overdue_balance_cents: int
    overdue_balance_currency: str
    overdue_balances: list[CampaignBalanceView]


def dunning_campaign_view(_: Reader, campaign: DunningCampaign) -> DunningCampaignView:
    """The campaign with its thresholds."""
    return {
        "svc_id": campaign.id,
        "code": campaign.code,
        "name": campaign.name,
        "description": campaign.description,
        "bcc_emails": list(campaign.bcc_emails),
        "days_between_attempts": campaign.days_between_attempts,
        "max_attempts": campaign.max_attempts,
        "thresholds": [
            {"amount_cents": threshold.amount_cents, "currency": threshold.currency}
            for threshold in campaign.thresholds
        ],
        "created_at": instant_text(campaign.created_at),
        "updated_at": instant_text(campaign.updated_at),
    }


def dunning_finished_view(
    reader: Reader, customer: Customer, campaign: DunningCampaign, balances: Mapping[str, int]
) -> DunningFinished:
    """The customer's overdue amounts, in its own currency and in each, after the last attempt."""
    currency = customer.currency or entity_of(reader, customer).default_currency
    return {
        "external_customer_id": customer.external_id,
        "customer_external_id": customer.external_id,
        "dunning_campaign_code": campaign.code,
        "overdue_balance_cents": balances.get(currency, 0),
        "overdue_balance_currency": currency,
        "overdue_balances": [
            {"currency": currency, "amount_cents": balances[currency]} for currency in sorted(balances)
        ],
    }
