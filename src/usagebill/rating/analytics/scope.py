"""The scope of an analysis: its months, currency, customer and billing entity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from typing import Annotated

from usagebill.core import limits
from usagebill.core.analytics import month_of, months_between
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.requests.inputs import ABSENT, Input, Maybe, described, value_or
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, eq, missing, within

# How far the day of the westernmost time zone is behind UTC's.
_WESTERNMOST = timedelta(hours=12)


@Input
class AnalyticsFilters:
    """`months` is the number of months, the running one included; by default all since the organization was created.
    An unknown billing entity is ignored.
    """

    currency: Maybe[str] = ABSENT
    months: Maybe[Annotated[int, limits.MONTHS]] = described(
        "The number of months, including the current one.", unit="months", default="12"
    )
    external_customer_id: Maybe[str] = ABSENT
    billing_entity_code: Maybe[str] = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The months to show, oldest first, and the filters of the records; None filters nothing.

    `first` is the month of the organization's first day in the westernmost time zone: documents of that day may be
    dated in the month before, which is shown if it has any.
    """

    months: tuple[date, ...]
    first: date
    currency: str | None
    customer_ids: tuple[str, ...] | None
    billing_entity_id: str | None

    def of_record(self, *, entity: str | None = "billing_entity_id") -> Iterator[Condition]:
        """Conditions for records with a customer and a currency; `entity` names the column of the billing entity."""
        if self.currency is not None:
            yield eq("currency", self.currency)
        if self.customer_ids is not None:
            yield within("customer_id", self.customer_ids)
        if self.billing_entity_id is not None and entity is not None:
            yield eq(entity, self.billing_entity_id)

    def of_invoice(self) -> Iterator[Condition]:
        """Conditions for the billing entity of the invoice, for records that have customer and currency themselves."""
        if self.billing_entity_id is not None:
            yield eq("billing_entity_id", self.billing_entity_id)

    def month(self, text: object) -> date | None:
        """The month written as `2024-01`; None if it is not to be shown."""
        if not isinstance(text, str):
            return None
        month = date.fromisoformat(f"{text}-01")
        return month if self.shows(month) else None

    def shows(self, month: date) -> bool:
        """Whether what is dated in `month` is shown."""
        return bool(self.months) and self.first <= month <= self.months[-1]


def scope_of(reader: Reader, options: AnalyticsFilters) -> Scope:
    """The scope of the request. Raises `Invalid` for a number of months below zero."""
    last = month_of(reader.now.astimezone(UTC).date())
    created = reader.organization.created_at.astimezone(UTC)
    months = months_between(created.date(), last)
    first = month_of((created - _WESTERNMOST).date())
    count = value_or(options.months, None)
    if count is not None:
        if not limits.MONTHS.holds(count):
            raise Invalid(months="value_is_out_of_range")
        if count <= len(months):
            months = months[-max(count, 1) :]
            first = min(months, default=first)
    customer_ids = None
    if options.external_customer_id:
        named = reader.tx.find(Customer, eq("external_id", options.external_customer_id), deleted=True)
        customer_ids = tuple(customer.id for customer in named)
    entity = None
    if options.billing_entity_code:
        entity = reader.tx.first(BillingEntity, eq("code", options.billing_entity_code))
    return Scope(
        months=tuple(months),
        first=first,
        currency=options.currency.upper() if options.currency else None,
        customer_ids=customer_ids,
        billing_entity_id=None if entity is None else entity.id,
    )


def stands() -> tuple[Condition, ...]:
    """Conditions for an invoice that counts as revenue."""
    return eq("status", InvoiceStatus.FINALIZED), missing("payment_dispute_lost_at"), eq("self_billed", False)
