"""Fees of single events, billed by charges paid in advance as soon as an event arrives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from usagebill.core.aggregation import Window
from usagebill.core.charge_lines import charge_line
from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.periods import Boundaries
from usagebill.core.periods.calendar import day_start
from usagebill.core.plans import PlanDefinition
from usagebill.core.subscriptions import Subscription
from usagebill.queries.billing_periods import cycle_at, running_boundaries
from usagebill.queries.contracts import contract_of
from usagebill.queries.subscriptions import definition_for
from usagebill.rating.charge_scope import usage_window
from usagebill.rating.events import EventPrice
from usagebill.runtime.work import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBilling:
    """The contract, plan and charges period that an event is billed in; `boundaries` are the whole subscription's."""

    contract: Contract
    definition: PlanDefinition
    boundaries: Boundaries
    window: Window

    @property
    def subscription(self) -> Subscription:
        """The subscription that the event belongs to."""
        return self.contract.subscription


def event_billing(reader: Reader, subscription: Subscription, at: datetime) -> EventBilling:
    """The contract, plan and charges period that bill an event at `at`; the subscription must have started."""
    contract = contract_of(reader, subscription)
    periods = cycle_at(contract, at)
    boundaries = running_boundaries(reader, contract, periods, at)
    charges = boundaries.charges
    if charges is None:
        raise LookupError(f"subscription {subscription.id} has no charges period at {at.isoformat()}")
    window = usage_window(charges, periods.tz, subscription)
    return EventBilling(
        contract=contract,
        definition=definition_for(reader, subscription, window.start, contract.plan),
        boundaries=boundaries,
        window=window,
    )


def advance_fee(
    reader: Reader, billing: EventBilling, priced: EventPrice, event: Event, invoice: Invoice | None = None
) -> Fee:
    """The fee of one event under one charge, without taxes, on `invoice` or on none."""
    window, invoiceable = billing.window, priced.charge.invoiceable
    return replace(
        charge_line(billing, priced, invoice, id=reader.new_id(), now=reader.now),
        pay_in_advance=True,
        from_datetime=window.start if invoiceable else first_instant(window.start, window.tz),
        event_transaction_id=event.transaction_id,
        amount_details=priced.price.amount_details,
        basis=priced.price.basis,
    )


def first_instant(at: datetime, tz: tzinfo) -> datetime:
    """The start of the local day of `at`, which fees without invoice show as their first day."""
    return day_start(local_date(at, tz), tz)
