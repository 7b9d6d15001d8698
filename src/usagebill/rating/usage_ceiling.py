"""An upper bound of a subscription's usage in the running period, without recounting its events.

`usage_count` counts everything and keeps the result part by part; `usage_ceiling` bounds the amount from that and the
events received since (`core.usage_ceiling`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from usagebill.core.aggregation import Window, lower_bound
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart, charge_parts, parsed_properties
from usagebill.core.events import Event
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.subscriptions import Subscription
from usagebill.core.usage_ceiling import (
    ChargeCount,
    TermsOfPart,
    UsageCount,
    ceiling_cents,
    charge_count,
    grown,
    is_volatile,
)
from usagebill.process.json_text import encode_json
from usagebill.queries.plans import find_plan
from usagebill.queries.subscriptions import definition_for
from usagebill.rating.charge_scope import ChargeScope
from usagebill.rating.current_usage import running_window
from usagebill.rating.handover import own_events
from usagebill.rating.usage import charge_results
from usagebill.runtime.work import Reader
from usagebill.storage.event_queries import EventQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCeiling:
    """The most each charge can come to in the running period, in cents of the plan's currency, before taxes.

    `count` is the count it was computed from, grown by the new events.
    """

    count: UsageCount
    cents_by_charge: Mapping[str, int]

    @property
    def cents(self) -> int:
        """The most all charges together can come to."""
        return sum(self.cents_by_charge.values())


def usage_count(reader: Reader, subscription: Subscription) -> UsageCount:
    """Count all usage of the running charges period that is known.

    Raises `NotAllowed` for a subscription that has no such period.
    """
    window = running_window(reader, subscription)
    definition = definition_for(reader, subscription, window.start)
    scope = ChargeScope(
        subscription=subscription,
        currency=definition.plan.amount_currency,
        window=window,
        known_at=reader.known_at,
        current=True,
    )
    counted = []
    amount = 0
    for charge in definition.charges:
        metric = definition.metrics[charge.billable_metric_id]
        results = charge_results(reader, charge, metric, scope)
        amount += sum(result.amounts.amount_cents for result in results)
        counted.append(charge_count(charge, _terms(charge, metric, definition), results))
    return UsageCount(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        subscription_id=subscription.id,
        fingerprint=_fingerprint(reader, subscription, definition, window),
        amount_cents=amount,
        is_volatile=any(
            is_volatile(charge, definition.metrics[charge.billable_metric_id]) for charge in definition.charges
        ),
        charges=tuple(counted),
        created_at=reader.now,
        updated_at=reader.now,
    )


def usage_ceiling(
    reader: Reader, subscription: Subscription, count: UsageCount, events: Iterable[Event]
) -> UsageCeiling | None:
    """The most the running period can come to, given the last `count` and the `events` received since.

    None if there is no bound: the count is of another period, plan or prices, or there is an event of a charge with
    unbounded increases.
    """
    if count.is_volatile:
        return None
    window = running_window(reader, subscription)
    definition = definition_for(reader, subscription, window.start)
    if count.fingerprint != _fingerprint(reader, subscription, definition, window):
        return None
    by_code: dict[str, list[Event]] = {}
    for event in events:
        by_code.setdefault(event.code, []).append(event)
    kept = {charge.charge_id: charge for charge in count.charges}
    cents = {}
    for charge in definition.charges:
        metric = definition.metrics[charge.billable_metric_id]
        new, counted = by_code.get(metric.code, ()), kept[charge.id]
        if new and not counted.has_ceiling:
            return None
        cents[charge.id], kept[charge.id] = _charge_ceiling(charge, metric, definition, counted, new, window)
    return UsageCeiling(count=replace(count, charges=tuple(kept.values())), cents_by_charge=cents)


def _charge_ceiling(
    charge: Charge,
    metric: BillableMetric,
    definition: PlanDefinition,
    counted: ChargeCount,
    events: Sequence[Event],
    window: Window,
) -> tuple[int, ChargeCount]:
    has_grown = any(part.growth.events for part in counted.parts)
    if not events and not has_grown:
        return ceiling_cents(counted, {}), counted
    parts = charge_parts(charge, metric)
    index = parts[0].filters
    terms: dict[int, TermsOfPart] = {}
    for event in events:
        for position in index.of_event(event):
            if position not in terms:
                terms[position] = _terms_of(charge, parts[position], metric, definition)
            counted = grown(counted, position, terms[position], event, window)
    for part in counted.parts:
        if part.growth.events and part.position not in terms:
            terms[part.position] = _terms_of(charge, parts[part.position], metric, definition)
    return ceiling_cents(counted, terms), counted


def _terms(charge: Charge, metric: BillableMetric, definition: PlanDefinition) -> list[TermsOfPart]:
    return [_terms_of(charge, part, metric, definition) for part in charge_parts(charge, metric)]


def _terms_of(charge: Charge, part: ChargePart, metric: BillableMetric, definition: PlanDefinition) -> TermsOfPart:
    currency = definition.plan.amount_currency
    return TermsOfPart(
        charge=charge, metric=metric, properties=parsed_properties(charge, part, currency), currency=currency
    )


def _fingerprint(reader: Reader, subscription: Subscription, definition: PlanDefinition, window: Window) -> str:
    """A digest of everything a count depends on except the events: the period, the prices, the subscription's events.

    It changes with the subscription and its plans too, because new events are ignored while there are no thresholds.
    """
    parent_id = definition.plan.parent_id
    handovers = []
    for metric in definition.metrics.values():
        question = EventQuery(
            code=metric.code,
            external_subscription_id=subscription.external_id,
            earliest=lower_bound(metric.aggregation_type, recurring=metric.recurring, start=window.start),
            latest=window.end,
        )
        handover = own_events(reader, subscription, metric, question)
        handovers.append((handover.code, handover.earliest, handover.latest, handover.excluded, handover.until))
    parts = (
        (window.start, window.end, window.period_days, str(window.tz)),
        subscription,
        definition.plan,
        None if parent_id is None else find_plan(reader, parent_id),
        definition.charges,
        tuple(definition.metrics.values()),
        handovers,
    )
    return hashlib.sha256(encode_json(parts)).hexdigest()
