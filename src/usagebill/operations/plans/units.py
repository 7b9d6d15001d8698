"""Units of fixed charges over time, for each subscription that has the fixed charge."""

from __future__ import annotations

from collections.abc import Iterable

from usagebill.core.fixed_charges import units_effective_at
from usagebill.core.plans import FixedCharge, FixedChargeUnits, Plan
from usagebill.core.subscriptions import RUNNING, Subscription, SubscriptionStatus, cycle_of
from usagebill.core.tasks import BillFixedChargeUnits
from usagebill.queries.customers import customer_of, zone_of
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq, within


def units_of_subscription_changed(
    work: Work, plan: Plan, subscription: Subscription, fixed_charges: Iterable[FixedCharge], *, immediately: bool
) -> None:
    """Record the units of `fixed_charges` for `subscription`, on `plan`, from now or from its next period on.

    Units added at once to fixed charges paid in advance are billed at once, on one invoice.
    """
    if subscription.status not in RUNNING:
        return
    changed = tuple(fixed_charges)
    is_active = subscription.status == SubscriptionStatus.ACTIVE
    cycle = cycle_of(subscription, plan, zone_of(work, customer_of(work, subscription)))
    effective_at = units_effective_at(cycle, work.now, is_active=is_active, immediately=immediately)
    for fixed_charge in changed:
        work.tx.insert(
            FixedChargeUnits(
                id=work.new_id(),
                organization_id=work.organization.id,
                subscription_id=subscription.id,
                fixed_charge_id=fixed_charge.id,
                units=fixed_charge.units,
                effective_at=effective_at,
                created_at=work.now,
            )
        )
    billed = [fixed_charge.id for fixed_charge in changed if fixed_charge.pay_in_advance]
    if billed and immediately and is_active:
        added = BillFixedChargeUnits(
            customer_id=subscription.customer_id,
            subscription_id=subscription.id,
            fixed_charge_ids=tuple(billed),
            timestamp=work.now,
        )
        work.schedule(added, work.now)


def units_changed(
    work: Work, plan: Plan, *, at_once: Iterable[FixedCharge] = (), next_period: Iterable[FixedCharge] = ()
) -> None:
    """Record new fixed charges of `plan`, or new units of them, for every subscription on the plan.

    Subscriptions with their own units of a fixed charge keep them.
    """
    groups = ((tuple(at_once), True), (tuple(next_period), False))
    if not any(fixed_charges for fixed_charges, _ in groups):
        return
    living = work.tx.find(
        Subscription,
        eq("plan_id", plan.id),
        within("status", RUNNING),
        order=[asc("created_at"), asc("id")],
    )
    for subscription in living:
        for fixed_charges, immediately in groups:
            inherited = [charge for charge in fixed_charges if charge.id not in subscription.fixed_charge_units]
            if inherited:
                units_of_subscription_changed(work, plan, subscription, inherited, immediately=immediately)
