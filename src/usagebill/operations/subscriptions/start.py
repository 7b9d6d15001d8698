"""Starts: subscriptions become active, with their billing at the start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.invoice_triggers import Trigger, at_start
from usagebill.core.invoices.life_cycle import InvoicingReason
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import FixedCharge, FixedChargeUnits
from usagebill.core.subscription_changes import started
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, TerminationInvoice
from usagebill.operations.alert_watch import watch_subscription
from usagebill.operations.invoices.subscription import bill, bill_added_units
from usagebill.operations.subscriptions.schedule import schedule
from usagebill.queries.contracts import contract_of
from usagebill.queries.plans import plan_definition
from usagebill.rating.fees.subscription import end_of_trial
from usagebill.rating.invoice import Entry
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq, present
from usagebill.views.subscriptions import entitled_subscription


def start(
    work: Work, subscription: Subscription, started_at: datetime, *, billed_from: datetime | None = None
) -> Contract:
    """Make a pending subscription active from `started_at` on, and schedule its billing. Bills nothing yet.

    `billed_from` is the instant up to which the previous plan was billed.
    """
    active = started(subscription, started_at, work.now, billed_from=billed_from)
    work.tx.replace(active)
    contract = contract_of(work, active)
    divide_time(work, contract)
    note_units(work, contract)
    schedule(work, contract)
    watch_subscription(work, active)
    work.emit("subscription.started", lambda: entitled_subscription(work, active), active.id)
    return contract


def divide_time(work: Work, contract: Contract) -> None:
    """Tell what is received before a start from what comes after it, if charges in advance bill only that."""
    charges = plan_definition(work, contract.plan.id, contract.plan).charges
    work.divides_time |= any(charge.pay_in_advance for charge in charges)


def note_units(work: Work, contract: Contract) -> None:
    """Begin the timeline of each fixed charge's units, unless it has an entry on the day of the start."""
    subscription, zone = contract.subscription, contract.zone
    if subscription.started_at is None:
        return
    day = local_date(subscription.started_at, zone)
    entries: Sequence[FixedChargeUnits] = work.tx.find(FixedChargeUnits, eq("subscription_id", subscription.id))
    begun = {entry.fixed_charge_id for entry in entries if local_date(entry.effective_at, zone) == day}
    for charge in plan_definition(work, subscription.plan_id, contract.plan).fixed_charges:
        if charge.id not in begun:
            work.tx.insert(
                FixedChargeUnits(
                    id=work.new_id(),
                    organization_id=subscription.organization_id,
                    subscription_id=subscription.id,
                    fixed_charge_id=charge.id,
                    units=subscription.fixed_charge_units.get(charge.id, charge.units),
                    effective_at=subscription.started_at,
                    created_at=work.now,
                )
            )


def in_trial(reader: Reader, contract: Contract, at: datetime) -> bool:
    """Whether the subscription's fee is free at `at`."""
    ends_at = end_of_trial(reader, contract.subscription, contract.plan.trial_period)
    return ends_at is not None and at < ends_at


def bill_start(
    work: Work,
    contract: Contract,
    *,
    hidden: bool = False,
    at: datetime | None = None,
    dated: datetime | None = None,
) -> Invoice | None:
    """Bill the fees in advance of a subscription that has just started: of its period at `at`, by default at its start.

    Returns the invoice, None if nothing is due. With `hidden` it stays hidden until it is paid; `dated` is for a start
    billed belatedly.
    """
    starts = at or contract.subscription.started_at
    if starts is None:
        return None
    trigger = owed_at_start(work, contract, starts)
    if trigger is Trigger.START:
        entries = [Entry(contract=contract, reason=InvoicingReason.STARTING)]
        return bill(work, entries, at=starts, trigger=trigger, hidden=hidden, dated=dated)
    if trigger is Trigger.ADDED_UNITS:
        at_once = _fixed_in_advance(work, contract)
        return bill_added_units(work, contract, at_once, at=starts, hidden=hidden, dated=dated)
    return None


def owed_at_start(reader: Reader, contract: Contract, at: datetime) -> Trigger | None:
    """The trigger of the first invoice of a subscription that starts at `at`; None if nothing is due in advance."""
    pay_in_advance = contract.plan.pay_in_advance
    return at_start(
        pay_in_advance=pay_in_advance,
        in_trial=pay_in_advance and in_trial(reader, contract, at),
        fixed_in_advance=bool(_fixed_in_advance(reader, contract)),
    )


def _fixed_in_advance(reader: Reader, contract: Contract) -> list[FixedCharge]:
    return [charge for charge in plan_definition(reader, contract.plan.id).fixed_charges if charge.pay_in_advance]


def ends_invoiced(reader: Reader, external_id: str) -> list[datetime]:
    """The ends, if they were invoiced, of former subscriptions with this external id, of any customer."""
    ended = reader.tx.find(
        Subscription,
        eq("external_id", external_id),
        eq("status", SubscriptionStatus.TERMINATED),
        eq("on_termination_invoice", TerminationInvoice.GENERATE),
        present("terminated_at"),
    )
    return [subscription.terminated_at for subscription in ended if subscription.terminated_at is not None]
