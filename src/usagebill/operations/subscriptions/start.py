"""Starts: a subscription becomes active, from which instant on, and what is billed at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from usagebill.core.contracts import Contract
from usagebill.core.days import local_date
from usagebill.core.fixed_charges import units_at_start
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
from usagebill.storage.conditions import eq, present
from usagebill.views.subscriptions import entitled_subscription
from usagebill.work import Reader, Work

__all__ = ["bill_start", "ends_invoiced", "in_trial", "note_units", "owed_at_start", "start"]


def start(
    work: Work, subscription: Subscription, started_at: datetime, *, billed_from: datetime | None = None
) -> Contract:
    """Make a pending subscription active from `started_at` on, and schedule its billing. Bills nothing yet.

    `billed_from` is where billing of the previous plan stopped.
    """
    active = started(subscription, started_at, work.now, billed_from=billed_from)
    work.tx.replace(active)
    contract = contract_of(work, active)
    note_units(work, contract)
    schedule(work, contract)
    watch_subscription(work, active)
    work.emit("subscription.started", lambda: entitled_subscription(work, active), active.id)
    return contract


def note_units(work: Work, contract: Contract) -> None:
    """Begin the time line of every fixed charge's units, unless it has an entry of the day of the start already."""
    subscription, zone = contract.subscription, contract.zone
    if subscription.started_at is None:
        return
    day = local_date(subscription.started_at, zone)
    known: Sequence[FixedChargeUnits] = work.tx.find(FixedChargeUnits, eq("subscription_id", subscription.id))
    begun = {entry.fixed_charge_id for entry in known if local_date(entry.effective_at, zone) == day}
    for charge in plan_definition(work, subscription.plan_id, contract.plan).fixed_charges:
        if charge.id not in begun:
            work.tx.insert(
                FixedChargeUnits(
                    id=work.new_id(),
                    organization_id=subscription.organization_id,
                    subscription_id=subscription.id,
                    fixed_charge_id=charge.id,
                    units=subscription.fixed_charge_units.get(charge.id, charge.units),
                    effective_at=units_at_start(subscription.started_at),
                    created_at=work.now,
                )
            )


def in_trial(reader: Reader, contract: Contract, at: datetime) -> bool:
    """Whether the subscription's fee is free at `at`."""
    ends_at = end_of_trial(reader, contract.subscription, contract.plan.trial_period)
    return ends_at is not None and at < ends_at


def bill_start(work: Work, contract: Contract, *, hidden: bool = False) -> Invoice | None:
    """Bill what a subscription that has just started owes at once: its fee, if it is paid in advance.

    The invoice, None if nothing is owed. With `hidden`, nobody sees it until it is paid.
    """
    started_at = contract.subscription.started_at
    if started_at is None:
        return None
    trigger = owed_at_start(work, contract, started_at)
    if trigger is Trigger.START:
        entries = [Entry(contract=contract, reason=InvoicingReason.STARTING)]
        return bill(work, entries, at=started_at, trigger=trigger, hidden=hidden)
    if trigger is Trigger.ADDED_UNITS:
        at_once = _fixed_in_advance(work, contract)
        return bill_added_units(work, contract, at_once, at=units_at_start(started_at), hidden=hidden)
    return None


def owed_at_start(reader: Reader, contract: Contract, at: datetime) -> Trigger | None:
    """What makes the first invoice of a subscription that starts at `at`; None if it owes nothing in advance."""
    pay_in_advance = contract.plan.pay_in_advance
    return at_start(
        pay_in_advance=pay_in_advance,
        in_trial=pay_in_advance and in_trial(reader, contract, at),
        fixed_in_advance=bool(_fixed_in_advance(reader, contract)),
    )


def _fixed_in_advance(reader: Reader, contract: Contract) -> list[FixedCharge]:
    return [charge for charge in plan_definition(reader, contract.plan.id).fixed_charges if charge.pay_in_advance]


def ends_invoiced(reader: Reader, external_id: str) -> list[datetime]:
    """When the ended subscriptions of this external id, of whatever customer, whose ends were invoiced, ended."""
    ended = reader.tx.find(
        Subscription,
        eq("external_id", external_id),
        eq("status", SubscriptionStatus.TERMINATED),
        eq("on_termination_invoice", TerminationInvoice.GENERATE),
        present("terminated_at"),
    )
    return [other.terminated_at for other in ended if other.terminated_at is not None]
