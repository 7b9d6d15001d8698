"""Estimates of fees for an event that happens now, under charges paid in advance. Nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_parts import ChargePart, parsed_properties
from usagebill.core.errors import Invalid, NotFound, placed
from usagebill.core.event_estimates import (
    evaluated,
    has_advance_charge,
    instant_charges,
    instant_units,
    is_instant,
)
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.ingestion import Received, receive
from usagebill.core.plans import Charge, PlanDefinition
from usagebill.core.pricing.estimates import InstantEstimate, instant_estimate
from usagebill.core.subscriptions import Subscription, SubscriptionStatus, active_subscription
from usagebill.core.taxes import taxed_fee
from usagebill.operations.events import EventInput, EventsInput, events_sent
from usagebill.queries.customers import customer_of
from usagebill.queries.takeovers import in_force
from usagebill.rating.current_usage import running_definition
from usagebill.rating.events import advance_charges, event_price, part_for
from usagebill.rating.fees.in_advance import advance_fee, event_billing
from usagebill.rating.provider_taxes import estimated
from usagebill.rating.settlement import fee_taxes
from usagebill.requests.inputs import changes
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantFee:
    """The price of one event under one charge, regardless of other usage."""

    subscription: Subscription
    definition: PlanDefinition
    charge: Charge
    metric: BillableMetric
    part: ChargePart
    transaction_id: str
    estimate: InstantEstimate


def estimate_fees(reader: Reader, request: EventInput) -> list[Fee]:
    """The fees, with taxes, that an event would cause now, on top of existing usage.

    The event's own timestamp is ignored, apart from its format. Raises `NotFound` (`subscription`,
    `billable_metric`) and `Invalid`.
    """
    received = _received(reader, changes(request))
    subscription = _subscription(reader, received)
    event = _event(reader, received)
    metric = reader.tx.first(BillableMetric, eq("code", received.code))
    if metric is None:
        raise NotFound("billable_metric", received.code)
    event = evaluated(event, metric)
    billing = event_billing(reader, subscription, reader.now)
    if not has_advance_charge(billing.definition, metric):
        raise Invalid(code="does_not_match_an_instant_charge")
    customer = customer_of(reader, subscription)
    fees = []
    for charge in advance_charges(billing.definition, event):
        priced = event_price(
            reader,
            charge,
            metric,
            event,
            billing.window,
            currency=billing.definition.plan.amount_currency,
            subscription=subscription,
            is_stored=False,
        )
        fee = advance_fee(reader, billing, priced, event)
        fees.append(fee)
    provided = estimated(reader, customer, fees)
    if provided is not None:
        return provided
    return [taxed_fee(fee, fee_taxes(reader, customer, fee), reader.now, reader.new_id) for fee in fees]


def estimate_instant_fees(reader: Reader, request: EventInput) -> list[InstantFee]:
    """The price of an event by itself under standard and percentage charges paid in advance.

    Earlier usage, free units and taxes are ignored.

    Raises `NotFound` (`subscription`) and `Invalid`.
    """
    received = _received(reader, changes(request))
    subscription = _subscription(reader, received)
    definition = running_definition(reader, subscription)
    event = _event(reader, received)
    fees = _instant_fees(subscription, definition, event)
    if not fees:
        raise Invalid(code="does_not_match_an_instant_charge")
    return fees


def estimate_batch_instant_fees(reader: Reader, request: EventsInput) -> list[InstantFee]:
    """Instant fees of several events, those of one external subscription id together, in the order sent.

    An event whose code no charge matches has no fee; a plan without any such charge is refused.
    """
    groups: dict[str | None, list[tuple[int, Received]]] = {}
    for position, event in enumerate(events_sent(reader, request.events)):
        received = _received(reader, _members(event))
        groups.setdefault(received.external_subscription_id, []).append((position, received))
    fees: list[InstantFee] = []
    for events in groups.values():
        subscription = _subscription(reader, events[0][1])
        definition = running_definition(reader, subscription)
        if not any(is_instant(charge) for charge in definition.charges):
            raise Invalid(code="does_not_match_an_instant_charge")
        for position, received in events:
            with placed(f"events[{position}]"):
                fees += _instant_fees(subscription, definition, _event(reader, received))
    return fees


def _members(request: object) -> Mapping[str, object]:
    """The fields of an event of a batch, also if nested under the key `event`, as in a single request."""
    if not isinstance(request, Mapping):
        return {}
    inner = request.get("event")
    return inner if isinstance(inner, Mapping) else request


def _received(reader: Reader, sent: Mapping[str, object]) -> Received:
    return receive({**sent, "transaction_id": sent.get("transaction_id") or reader.new_id()}, reader.now)


def _subscription(reader: Reader, received: Received) -> Subscription:
    external_id = received.external_subscription_id
    subscription = None
    if external_id:
        subscription = active_subscription(
            reader.tx.find(Subscription, eq("external_id", external_id), eq("status", SubscriptionStatus.ACTIVE))
        )
    if subscription is None:
        raise NotFound("subscription", external_id)
    return in_force(reader, subscription)


def _event(reader: Reader, received: Received) -> Event:
    """The event as of now. Raises `Invalid` for values that cannot be read, which would be estimated as others."""
    problems = {field: codes for field, codes in received.problems.items() if field != "code"}
    if received.unread_amount is not None:
        problems["precise_total_amount_cents"] = ["value_is_not_valid_number"]
    if problems:
        raise Invalid(problems)
    return Event(
        id=reader.new_id(),
        organization_id=reader.organization.id,
        transaction_id=received.transaction_id,
        code=received.code,
        external_subscription_id=received.external_subscription_id,
        timestamp=reader.now,
        properties=received.properties,
        precise_total_amount_cents=received.precise_total_amount_cents,
        created_at=reader.now,
    )


def _instant_fees(subscription: Subscription, definition: PlanDefinition, event: Event) -> list[InstantFee]:
    fees = []
    for charge in instant_charges(definition, event.code):
        metric = definition.metrics[charge.billable_metric_id]
        valued_event = evaluated(event, metric)
        part = part_for(charge, metric, valued_event)
        currency = definition.plan.amount_currency
        estimate = instant_estimate(
            charge.charge_model,
            parsed_properties(charge, part, currency),
            instant_units(valued_event, metric),
            currency,
        )
        if estimate is not None:
            fees.append(
                InstantFee(
                    subscription=subscription,
                    definition=definition,
                    charge=charge,
                    metric=metric,
                    part=part,
                    transaction_id=event.transaction_id,
                    estimate=estimate,
                )
            )
    return fees
