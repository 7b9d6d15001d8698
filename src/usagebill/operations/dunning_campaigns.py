"""Dunning campaigns: created, changed, deleted, and applied to billing entities and customers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from usagebill.core import limits
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contacts import normalized_email
from usagebill.core.customers import Customer
from usagebill.core.dunning import (
    DunningCampaign,
    DunningProgress,
    DunningThreshold,
    campaign_errors,
    overdue_balances,
    reaches_a_threshold,
)
from usagebill.core.errors import Invalid
from usagebill.operations import dunning_progress
from usagebill.operations.backlog import after_backlog, of_everyone
from usagebill.queries.customers import find_customer
from usagebill.queries.dunning import (
    campaign_by_code as campaign_by_code,
    overdue_invoices,
)
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, all_of, any_of, eq, missing, related, within
from usagebill.storage.ports import Page


@Input
class DunningThresholdInput:
    """The overdue amount, in cents of a currency, from which customers are asked to pay (inclusive)."""

    amount_cents: Maybe[Annotated[int, limits.DUNNING_THRESHOLD]] = described(
        "The overdue balance from which payment is requested.", unit="cents", required="always"
    )
    currency: Maybe[str] = described(required="always")


@Input
class DunningCampaignInput:
    """`thresholds` is the whole list, one per dunned currency."""

    name: Maybe[str] = described(required="create")
    code: Maybe[str] = described(required="create")
    description: Maybe[str] = ABSENT
    bcc_emails: Maybe[Annotated[object, list[str]]] = described("The recipients of blind copies.")
    days_between_attempts: Maybe[Annotated[int, limits.DUNNING_DAYS]] = described(
        "The time between attempts.", unit="days"
    )
    max_attempts: Maybe[Annotated[int, limits.DUNNING_ATTEMPTS]] = described(
        "The maximum number of attempts.", unit="attempts"
    )
    thresholds: Maybe[tuple[DunningThresholdInput, ...]] = described(required="create")


@after_backlog(of_everyone)
def create(work: Work, request: DunningCampaignInput) -> DunningCampaign:
    """A new campaign, inactive until it is applied to a billing entity or a customer. Raises `Invalid`."""
    campaign = DunningCampaign(
        id=work.new_id(),
        organization_id=work.organization.id,
        code=value_or(request.code, ""),
        name=value_or(request.name, ""),
        created_at=work.now,
        updated_at=work.now,
    )
    campaign = _changed(campaign, request)
    _check(work, campaign)
    work.tx.insert(campaign)
    return campaign


def list_all(reader: Reader, paging: Paging) -> Page[DunningCampaign]:
    """Campaigns, newest first."""
    return reader.page(DunningCampaign, paging=paging)


@after_backlog(of_everyone)
def update(work: Work, code: str, request: DunningCampaignInput) -> DunningCampaign:
    """Change the sent fields of a campaign. Raises `NotFound` and `Invalid`.

    If a threshold is changed or removed, the attempts of customers who no longer reach any are reset.
    """
    before = campaign_by_code(work, code)
    after = replace(_changed(before, request), updated_at=work.now)
    _check(work, after)
    work.tx.replace(after)
    if not set(before.thresholds) <= set(after.thresholds):
        for customer in _dunned_by(work, after):
            if not reaches_a_threshold(after, overdue_balances(overdue_invoices(work, customer.id))):
                dunning_progress.clear(work, customer)
    dunning_progress.review(work)
    return after


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> DunningCampaign:
    """Delete a campaign: it applies to nobody any more, and the attempts of its customers are reset."""
    campaign = campaign_by_code(work, code)
    for customer in _dunned_by(work, campaign):
        dunning_progress.clear(work, customer)
    applied = eq("applied_dunning_campaign_id", campaign.id)
    for entity in work.tx.find(BillingEntity, applied, deleted=True):
        work.tx.replace(replace(entity, applied_dunning_campaign_id=None, updated_at=work.now))
    for customer in work.tx.find(Customer, applied, deleted=True):
        work.tx.replace(replace(customer, applied_dunning_campaign_id=None, updated_at=work.now))
    deleted = replace(campaign, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    # Customers with a campaign of their own fall back on their billing entity's.
    dunning_progress.review(work)
    return deleted


def _changed(campaign: DunningCampaign, request: DunningCampaignInput) -> DunningCampaign:
    plain = changes(request, "name", "code", "description", "days_between_attempts", "max_attempts")
    kept = {name: value for name, value in plain.items() if value is not None or name == "description"}
    campaign = replace(campaign, **kept)
    if is_given(request.bcc_emails):
        campaign = replace(campaign, bcc_emails=_addresses(request.bcc_emails))
    if is_given(request.thresholds):
        campaign = replace(campaign, thresholds=_thresholds(value_or(request.thresholds, ())))
    return campaign


def _addresses(sent: object) -> tuple[str, ...]:
    if sent is None:
        return ()
    if not isinstance(sent, (list, tuple)):
        raise Invalid(bcc_emails="must_be_an_array")
    return tuple(dict.fromkeys(normalized_email(str(address)) for address in sent if address is not None))


def _thresholds(sent: Sequence[DunningThresholdInput]) -> tuple[DunningThreshold, ...]:
    missing_fields = {
        str(place): {
            name: ["value_is_mandatory"]
            for name in ("amount_cents", "currency")
            if getattr(threshold, name) in (None, ABSENT, "")
        }
        for place, threshold in enumerate(sent)
    }
    problems = {place: fields for place, fields in missing_fields.items() if fields}
    if problems:
        raise Invalid({"thresholds": problems})
    return tuple(
        DunningThreshold(
            amount_cents=value_or(threshold.amount_cents, 0), currency=value_or(threshold.currency, "").upper()
        )
        for threshold in sent
    )


def _check(reader: Reader, campaign: DunningCampaign) -> None:
    problems = campaign_errors(campaign)
    holder = reader.tx.first(DunningCampaign, eq("code", campaign.code)) if campaign.code else None
    if holder is not None and holder.id != campaign.id:
        problems["code"] = ["value_already_exist"]
    if problems:
        raise Invalid(problems)


def _dunned_by(reader: Reader, campaign: DunningCampaign) -> Iterator[Customer]:
    """The customers with attempts to whom the campaign applies, directly or by their billing entity."""
    applied = eq("applied_dunning_campaign_id", campaign.id)
    entities = [entity.id for entity in reader.tx.find(BillingEntity, applied, deleted=True)]
    by_default: Condition = all_of(missing("applied_dunning_campaign_id"), within("billing_entity_id", entities))
    for progress in reader.tx.find(DunningProgress, related(Customer, "customer_id", any_of(applied, by_default))):
        customer = find_customer(reader, progress.customer_id)
        if customer is not None:
            yield customer
