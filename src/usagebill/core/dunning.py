"""Dunning: customers are reminded of overdue amounts repeatedly, as configured by a campaign."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contacts import is_email
from usagebill.core.currencies import CURRENCIES
from usagebill.core.customers import AccountType, Customer
from usagebill.core.instants import MICROSECOND
from usagebill.core.invoices.records import Invoice
from usagebill.core.limits import DUNNING_ATTEMPTS, DUNNING_DAYS, DUNNING_THRESHOLD
from usagebill.core.periods.schedule import dunning_run_at


@dataclass(frozen=True, slots=True, kw_only=True)
class DunningThreshold:
    """The overdue amount in a currency, in cents, from which a customer is asked to pay."""

    amount_cents: int
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DunningCampaign:
    """The rules for asking customers to pay overdue amounts: at most `max_attempts` times per currency, with a number
    of days between attempts. `bcc_emails` get a copy of each e-mail.
    """

    id: str
    organization_id: str
    code: str
    name: str
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    bcc_emails: tuple[str, ...] = ()
    days_between_attempts: int = 1
    max_attempts: int = 1
    thresholds: tuple[DunningThreshold, ...] = ()
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DunningProgress:
    """The number of attempts since the customer last paid, by currency. All currencies share one clock."""

    id: str
    organization_id: str
    customer_id: str
    created_at: datetime
    updated_at: datetime
    attempts: Mapping[str, int] = field(default_factory=dict)
    last_attempt_at: datetime | None = None


def campaign_errors(campaign: DunningCampaign) -> dict[str, object]:
    """Errors in the fields of a campaign, as field -> codes, or place -> field -> codes; empty if there are none."""
    errors: dict[str, object] = {}
    for name in ("name", "code"):
        if not getattr(campaign, name).strip():
            errors[name] = ["value_is_mandatory"]
    wrong = [
        f"invalid_email_format[{place},{email}]"
        for place, email in enumerate(campaign.bcc_emails)
        if "," in email or not is_email(email)
    ]
    if wrong:
        errors["bcc_emails"] = wrong
    if not DUNNING_DAYS.holds(campaign.days_between_attempts):
        errors["days_between_attempts"] = ["value_is_out_of_range"]
    if not DUNNING_ATTEMPTS.holds(campaign.max_attempts):
        errors["max_attempts"] = ["value_is_out_of_range"]
    if not campaign.thresholds:
        errors["thresholds"] = ["can't be blank"]
    elif problems := _threshold_errors(campaign.thresholds):
        errors["thresholds"] = problems
    return errors


def _threshold_errors(thresholds: Sequence[DunningThreshold]) -> dict[str, dict[str, list[str]]]:
    problems: dict[str, dict[str, list[str]]] = {}
    currencies: set[str] = set()
    for place, threshold in enumerate(thresholds):
        wrong: dict[str, list[str]] = {}
        if not DUNNING_THRESHOLD.holds(threshold.amount_cents):
            wrong["amount_cents"] = ["value_is_out_of_range"]
        if threshold.currency not in CURRENCIES:
            wrong["currency"] = ["value_is_invalid"]
        elif threshold.currency in currencies:
            wrong["currency"] = ["value_already_exist"]
        currencies.add(threshold.currency)
        if wrong:
            problems[str(place)] = wrong
    return problems


# Overdue amounts


def overdue_balances(invoices: Iterable[Invoice]) -> dict[str, int]:
    """The totals of overdue invoices by currency, in cents, regardless of partial payments."""
    balances: dict[str, int] = {}
    for invoice in invoices:
        balances[invoice.currency] = balances.get(invoice.currency, 0) + invoice.total_amount_cents
    return balances


def threshold_of(campaign: DunningCampaign, currency: str) -> int | None:
    """The campaign's threshold in the currency, in cents; None if it has none."""
    return next(
        (threshold.amount_cents for threshold in campaign.thresholds if threshold.currency == currency),
        None,
    )


def reaches_a_threshold(campaign: DunningCampaign, balances: Mapping[str, int]) -> bool:
    """Whether the overdue amount in some currency reaches its threshold."""
    return any(
        threshold.amount_cents <= balances[threshold.currency]
        for threshold in campaign.thresholds
        if threshold.currency in balances
    )


def currencies_to_attempt(
    campaign: DunningCampaign, attempts: Mapping[str, int], balances: Mapping[str, int]
) -> list[str]:
    """The currencies in which the customer is to be asked to pay: the threshold is reached, and an attempt remains."""
    currencies = []
    for currency in sorted(balances):
        threshold = threshold_of(campaign, currency)
        has_attempts = attempts.get(currency, 0) < campaign.max_attempts
        if threshold is not None and threshold <= balances[currency] and has_attempts:
            currencies.append(currency)
    return currencies


def requested_together(
    campaign: DunningCampaign, currency: str, invoices: Iterable[Invoice]
) -> dict[str, list[Invoice]]:
    """The overdue invoices of a currency that the customer is now asked to pay, by billing entity: one request each.

    Only those that can be paid now, and none if together they do not reach the threshold.
    """
    payable = [invoice for invoice in invoices if invoice.currency == currency and invoice.ready_for_payment_processing]
    threshold = threshold_of(campaign, currency)
    if threshold is None or overdue_balances(payable).get(currency, 0) < threshold:
        return {}
    by_entity: dict[str, list[Invoice]] = {}
    for invoice in payable:
        by_entity.setdefault(invoice.billing_entity_id, []).append(invoice)
    return by_entity


# Attempts


def next_run_at(campaign: DunningCampaign, progress: DunningProgress | None, now: datetime) -> datetime:
    """When the customer may be asked next: at an hourly run, more than the days between attempts after the last one."""
    if progress is None or progress.last_attempt_at is None:
        return dunning_run_at(now)
    days = timedelta(days=campaign.days_between_attempts)
    return dunning_run_at(max(now, progress.last_attempt_at + days + MICROSECOND))


def attempted(progress: DunningProgress, currencies: Iterable[str], now: datetime) -> DunningProgress:
    """The progress after an attempt in these currencies."""
    counts = {**progress.attempts, **{currency: progress.attempts.get(currency, 0) + 1 for currency in currencies}}
    return replace(progress, attempts=counts, last_attempt_at=now, updated_at=now)


def reset(progress: DunningProgress, currency: str, now: datetime) -> DunningProgress:
    """The progress after the amount requested in a currency was paid; with the last currency, the clock restarts
    too.
    """
    counts = {**progress.attempts, currency: 0}
    last = progress.last_attempt_at if any(counts.values()) else None
    return replace(progress, attempts=counts, last_attempt_at=last, updated_at=now)


def is_finished(campaign: DunningCampaign, attempts: Mapping[str, int], balances: Mapping[str, int]) -> bool:
    """Whether no attempt remains in any currency that was attempted and is still overdue."""
    counts = [count for currency, count in attempts.items() if currency in balances]
    return bool(counts) and min(counts) >= campaign.max_attempts


def applicable_campaign_id(customer: Customer, entity: BillingEntity) -> str | None:
    """The id of the campaign that duns the customer: its own, else its billing entity's; None if it is not dunned.

    Partners are not dunned: their invoices are ours to pay.
    """
    if customer.exclude_from_dunning_campaign or customer.deleted_at is not None:
        return None
    if customer.account_type == AccountType.PARTNER:
        return None
    return customer.applied_dunning_campaign_id or entity.applied_dunning_campaign_id
