"""Usage of the running period, with what open holds would add to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from usagebill.core.numbers import round_cents, total
from usagebill.operations.held_usage import EventOfUsage, held_usage, use
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.holds import open_holds
from usagebill.rating import current_usage
from usagebill.rating.current_usage import ChargeUsage, CurrentUsage, UsageOptions, is_narrowed
from usagebill.runtime.work import Reader, Work


def current(reader: Reader, external_customer_id: str, options: UsageOptions) -> CurrentUsage:
    """The usage of the customer's active subscription in the charges period that contains now, and what its open holds
    would add to it now, before taxes.

    Raises `NotFound` for the customer or the requested charges, `NotAllowed` (`no_active_subscription`,
    `full_usage_not_allowed`).
    """
    used = current_usage.current(reader, external_customer_id, options)
    customer = customer_by_external_id(reader, external_customer_id)
    name = options.external_subscription_id
    own = [hold for hold in open_holds(reader, customer) if hold.external_subscription_id == name]
    if not own:
        return used
    charges = Counter(usage.charge.billable_metric_id for usage in used.charges)
    # What each hold added when it was made is told by metric alone.
    by_charge = is_narrowed(options) or any(count > 1 for count in charges.values())
    held = held_usage(reader, customer, (), to_the_cent=by_charge)
    if held.events and not reader.can_try:
        # Of a database that is opened for reading alone: what each hold added when it was made.
        held = replace(held, events=(), amounts=own)
    events = [one for one in held.events if one.event.external_subscription_id == name]
    amounts = [
        hold
        for hold in held.amounts
        if hold.external_subscription_id == name and hold.currency == used.currency and not is_narrowed(options)
    ]
    added: Counter[str] = Counter()
    if events:
        added = reader.tried(lambda trial: _added(trial, used, events, external_customer_id, options))

    def held_by(usage: ChargeUsage) -> int:
        metric_id = usage.charge.billable_metric_id
        own = [hold.amount_cents for hold in amounts if hold.billable_metric_id == metric_id]
        return added[usage.charge.id] + (round_cents(total(own)) if charges[metric_id] == 1 else 0)

    return replace(
        used,
        held_amount_cents=added.total() + round_cents(total(hold.amount_cents for hold in amounts)),
        charges=tuple(replace(usage, held_amount_cents=held_by(usage)) for usage in used.charges),
    )


def _added(
    trial: Work, used: CurrentUsage, events: list[EventOfUsage], external_customer_id: str, options: UsageOptions
) -> Counter[str]:
    """The cents that the events add to each charge, by its id. For dry runs."""
    use(trial, events)
    whole = current_usage.current(trial, external_customer_id, options)
    return Counter(
        {
            after.charge.id: _cents(after) - _cents(before)
            for before, after in zip(used.charges, whole.charges, strict=True)
        }
    )


def _cents(usage: ChargeUsage) -> int:
    return sum(result.amounts.amount_cents for result in usage.results)
