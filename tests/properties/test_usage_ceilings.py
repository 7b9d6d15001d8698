"""A usage ceiling is never below what a count gives, and nobody can tell from invoices that usage was not counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.scenarios import plan_fields, price_ranges
from usagebill import Billing
from usagebill.core.errors import BillingError
from usagebill.core.subscriptions import Subscription
from usagebill.core.usage_ceiling import UsageCount
from usagebill.fields import EventFields
from usagebill.rating.current_usage import usage_so_far
from usagebill.rating.usage_ceiling import usage_ceiling, usage_count
from usagebill.runtime.clock import ManualClock
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq

START = datetime(2024, 3, 1, tzinfo=UTC)

_FILTERS = [{"key": "region", "values": ["eu", "us"]}]
METRICS: Mapping[str, Mapping[str, Any]] = {
    "sum": {"aggregation_type": "sum_agg", "filters": _FILTERS},
    "count": {"aggregation_type": "count_agg", "field_name": None, "filters": _FILTERS},
    "max": {"aggregation_type": "max_agg"},
    "latest": {"aggregation_type": "latest_agg"},
    "unique": {"aggregation_type": "unique_count_agg", "filters": _FILTERS},
    "seats": {"aggregation_type": "unique_count_agg", "recurring": True},
    "stock": {"aggregation_type": "sum_agg", "recurring": True},
    "time": {"aggregation_type": "weighted_sum_agg", "weighted_interval": "seconds"},
    "level": {"aggregation_type": "weighted_sum_agg", "recurring": True, "weighted_interval": "seconds"},
    "ceiled": {"aggregation_type": "sum_agg", "rounding_function": "ceil", "rounding_precision": 0},
    "rounded": {"aggregation_type": "sum_agg", "rounding_function": "round", "rounding_precision": -1},
    "floored": {"aggregation_type": "count_agg", "field_name": None, "rounding_function": "ceil",
                "rounding_precision": -1},
    "formula": {"aggregation_type": "sum_agg", "expression": "event.properties.value * 3"},
}  # fmt: skip
_TIERS = price_ranges((0, 3, "1", "7"), (4, 10, "0.003", "0"), (11, None, "2.5", "3"))
_SHARES = price_ranges((0, 5, "10", "2"), (6, None, "25", "1"), unit="rate")
MODELS: tuple[Mapping[str, object], ...] = (
    {"charge_model": "standard", "properties": {"amount": "1.337"}},
    {"charge_model": "graduated", "properties": {"graduated_ranges": _TIERS}},
    {"charge_model": "volume", "properties": {"volume_ranges": _TIERS}},
    {"charge_model": "package", "properties": {"amount": "5", "free_units": 3, "package_size": 4}},
    {"charge_model": "graduated_percentage", "properties": {"graduated_percentage_ranges": _SHARES}},
    {"charge_model": "dynamic", "properties": {}},
    *(
        {"charge_model": "percentage", "properties": {"rate": "12.5", **terms}}
        for terms in (
            {},
            {"fixed_amount": "0.7"},
            {"free_units_per_events": 3},
            {"free_units_per_total_aggregation": "4.5"},
            {"fixed_amount": "0.7", "free_units_per_events": 2},
            {"fixed_amount": "0.7", "free_units_per_total_aggregation": "6"},
            {"fixed_amount": "0.7", "free_units_per_events": 5, "free_units_per_total_aggregation": "2"},
            {"fixed_amount": "0.7", "per_transaction_min_amount": "0.5", "per_transaction_max_amount": "2"},
            {"per_transaction_max_amount": "2", "free_units_per_events": 1},
        )
    ),
)
_EXTRAS: tuple[Mapping[str, object], ...] = (
    {}, {}, {},
    {"groups": True}, {"groups": True},
    {"filters": True},
    {"filters": True, "groups": True},
    {"pay_in_advance": True},
    {"prorated": True},
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeOf:
    """A charge of a random plan; `extra` says what else it has."""

    metric: str
    model: Mapping[str, Any]
    extra: Mapping[str, object]

    def fields(self, metric_id: str) -> dict[str, Any]:
        properties = dict(self.model["properties"])
        if self.extra.get("groups"):
            properties["pricing_group_keys"] = ["team"]
        fields = {**self.model, "billable_metric_id": metric_id, "properties": properties}
        if self.extra.get("filters") and METRICS[self.metric].get("filters"):
            fields["filters"] = [{"values": {"region": ["eu"]}, "properties": properties}]
        fields.update((key, self.extra[key]) for key in ("pay_in_advance", "prorated") if key in self.extra)
        return fields


# `place` says which charge an event is for; it is for none of them now and then.
_events: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    place=st.integers(0, 8),
    value=st.sampled_from((0, 1, 2, 3, 5, 8, 20, "0.25", "12.5", -1, -3, -12, "none")),
    region=st.sampled_from(("eu", "us", "asia", None)),
    team=st.sampled_from(("a", "b", None)),
    cents=st.sampled_from(("33.3", "250", "-40", None)),
    operation=st.sampled_from(("add", "add", "add", "remove", "else")),
    hours=st.sampled_from((0, 0, 0, -3, -40, 30, 900)),
)
_charges = st.builds(
    ChargeOf, metric=st.sampled_from(tuple(METRICS)), model=st.sampled_from(MODELS), extra=st.sampled_from(_EXTRAS)
)


class Shop:
    """Billing in memory with a customer, all metrics, and the subscription `sub` to a plan of some charges."""

    def __init__(self, charges: Sequence[ChargeOf], thresholds: Sequence[Mapping[str, object]] = ()) -> None:
        self.clock = ManualClock(START)
        self.billing = Billing(":memory:", clock=self.clock, deliver=False)
        self._names = count()
        self.billing.customers.upsert(external_id="acme", currency="EUR")
        metrics = {
            code: self.billing.billable_metrics.create(**{"name": code, "code": code, "field_name": "value", **fields})
            for code, fields in METRICS.items()
        }
        accepted: list[dict[str, Any]] = []
        self.codes: list[str] = []
        for charge in charges:
            fields = charge.fields(metrics[charge.metric].id)
            try:
                self.billing.plans.create(**plan_fields(fields, code=f"try-{len(accepted)}-{next(self._names)}"))
            except BillingError:
                continue  # no charge can be like this
            accepted.append(fields)
            self.codes.append(charge.metric)
        self.charges = accepted
        self.billing.plans.create(**plan_fields(*accepted, usage_thresholds=list(thresholds)))
        self.billing.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code="basic")
        self.billing.run_due(strict=True)

    def __enter__(self) -> Shop:
        return self

    def __exit__(self, *_: object) -> None:
        self.billing.close()

    def send(self, events: Sequence[Mapping[str, Any]]) -> list[str]:
        """Take events in, without doing what follows; their transaction ids."""
        names = []
        rows: list[EventFields] = []
        for event in events:
            names.append(f"event-{next(self._names)}")
            code = event.get("code") or self._code(event["place"])
            properties = {"value": event["value"], "operation_type": event["operation"]}
            properties.update((key, event[key]) for key in ("region", "team") if event[key] is not None)
            if code == "formula" and event["value"] == "none":
                properties["value"] = 1
            row: EventFields = {
                "transaction_id": names[-1],
                "external_subscription_id": "sub",
                "code": code,
                "timestamp": (self.clock.now() + timedelta(hours=event["hours"])).timestamp(),
                "properties": properties,
            }
            if event["cents"] is not None:
                row["precise_total_amount_cents"] = event["cents"]
            rows.append(row)
        self.billing.events.ingest(rows)
        return names

    def _code(self, place: int) -> str:
        return "none" if place == 8 or not self.codes else self.codes[place % len(self.codes)]

    def forget(self) -> None:
        """Have the next check count everything, as if nobody had ever counted."""
        self.billing.writing(lambda work: work.tx.delete(*work.tx.find(UsageCount)))

    def invoices(self) -> list[object]:
        """What progressive billing has made so far: amounts, thresholds, and what was used and invoiced then."""
        listed = self.billing.invoices.list(invoice_type="progressive_billing", per_page=1000).items
        return [
            (
                invoice.fees_amount_cents,
                invoice.total_amount_cents,
                str(invoice.status),
                [
                    (applied.amount_cents, applied.lifetime_usage_amount_cents, applied.current_usage_amount_cents)
                    for applied in invoice.applied_usage_thresholds
                ],
            )
            for invoice in listed
        ]


def amount_so_far(reader: Reader, subscription: Subscription) -> int:
    """The cost of all usage so far in the running charges period, in cents without taxes."""
    _, usages = usage_so_far(reader, subscription)
    return sum(result.amounts.amount_cents for usage in usages for result in usage.results)


def _subscription(reader: Reader) -> Subscription:
    subscription = reader.tx.first(Subscription, eq("external_id", "sub"), eq("status", "active"))
    assert subscription is not None
    return subscription


@pytest.mark.slow
@given(charges=st.lists(_charges, min_size=1, max_size=4), batches=st.lists(st.lists(_events, max_size=4), max_size=6))
@examples(120, suppress_health_check=[HealthCheck.too_slow])
def test_a_ceiling_is_never_below_the_count(charges: list[ChargeOf], batches: list[list[dict[str, Any]]]) -> None:
    with Shop(charges) as shop:
        first: UsageCount | None = None
        step: UsageCount | None = None
        names: list[str] = []
        for events in ([], *batches):
            shop.clock.set(shop.clock.now() + timedelta(hours=1))
            new = shop.send(events) if events else []
            shop.billing.run_due(strict=True)

            def compared(
                work: Reader,
                first: UsageCount | None = first,
                step: UsageCount | None = step,
                names: Sequence[str] = (*names, *new),
                new: Sequence[str] = tuple(new),
            ) -> tuple[UsageCount, UsageCount | None]:
                subscription = _subscription(work)
                exact = amount_so_far(work, subscription)
                counted = usage_count(work, subscription)
                assert counted.amount_cents == exact
                # From the first count on, all at once, and event by event.
                for known, since in ((first, names), (step, new)):
                    if known is None:
                        continue
                    ceiling = usage_ceiling(work, subscription, known, work.tx.events.named("sub", since))
                    assert ceiling is None or ceiling.cents >= exact, (ceiling.cents, exact)
                    if known is step:
                        step = None if ceiling is None else ceiling.count
                return counted, step

            counted, step = shop.billing.reading(compared)
            step = step or counted
            if first is None:
                first = counted
            else:
                names += new


@pytest.mark.slow
@given(
    charges=st.lists(_charges, min_size=1, max_size=4),
    thresholds=st.lists(
        st.tuples(st.sampled_from((100, 1000, 2500, 10_000)), st.just(False)), min_size=1, max_size=3, unique=True
    ),
    recurring=st.sampled_from((None, None, 700, 5000)),
    steps=st.lists(
        st.one_of(
            st.lists(_events, min_size=1, max_size=4),
            st.lists(_events, min_size=1, max_size=4),
            st.sampled_from(("price", "charge", "off", "on", "historical", "void", "month", "day")),
        ),
        min_size=1,
        max_size=14,
    ),
)
@examples(60, suppress_health_check=[HealthCheck.too_slow])
def test_thresholds_are_passed_at_the_same_events_as_if_all_were_counted_each_time(
    charges: list[ChargeOf],
    thresholds: list[tuple[int, bool]],
    recurring: int | None,
    steps: list[Any],
) -> None:
    wanted = [{"amount_cents": amount, "recurring": False} for amount, _ in thresholds]
    if recurring is not None:
        wanted.append({"amount_cents": recurring, "recurring": True})
    with Shop(charges, wanted) as watching, Shop(charges, wanted) as counting:
        for step in steps:
            for shop in (watching, counting):
                shop.clock.set(shop.clock.now() + timedelta(hours=1))
                _take(shop, step)
                if shop is counting:
                    shop.forget()
                shop.billing.run_due(strict=True)
            assert watching.invoices() == counting.invoices()


def _take(shop: Shop, step: Any) -> None:
    billing = shop.billing
    if isinstance(step, list):
        shop.send(step)
        return
    try:
        if step == "price" and shop.charges:
            shop.charges = [
                {**charge, "properties": {**charge["properties"], "amount": "9.99"}}
                if "amount" in charge["properties"]
                else charge
                for charge in shop.charges
            ]
            billing.plans.update("basic", charges=_with_ids(shop))
        elif step == "charge" and shop.charges:
            shop.charges = shop.charges[1:]
            billing.plans.update("basic", charges=_with_ids(shop, dropped=1))
        elif step in ("off", "on"):
            billing.subscriptions.update("sub", progressive_billing_disabled=step == "off")
        elif step == "historical":
            billing.subscriptions.set_lifetime_usage("sub", external_historical_usage_amount_cents=1800)
        elif step == "void":
            listed = billing.invoices.list(invoice_type="progressive_billing", per_page=1).items
            if listed:
                billing.invoices.void(listed[0].id)
        elif step == "month":
            shop.clock.set(shop.clock.now() + timedelta(days=31))
        elif step == "day":
            shop.clock.set(shop.clock.now() + timedelta(days=1))
    except BillingError:
        return  # refused: nothing has changed


def _with_ids(shop: Shop, dropped: int = 0) -> list[Any]:
    plan = shop.billing.plans.get("basic")
    ids = shop.billing.view(plan)["charges"][dropped:]
    return [{**charge, "id": known["svc_id"]} for charge, known in zip(shop.charges, ids, strict=True)]


def test_most_charges_have_a_ceiling() -> None:
    """Without this, a ceiling that is never known would pass every other test."""
    charges = [ChargeOf(metric=metric, model=model, extra={}) for metric in _COMMON for model in MODELS]
    with Shop(charges) as shop:
        plan = shop.billing.plans.get("basic")
        described = {
            charge["svc_id"]: (charge["billable_metric_code"], charge["properties"])
            for charge in shop.billing.view(plan)["charges"]
        }
        count = shop.billing.reading(lambda work: usage_count(work, _subscription(work)))
    bounds = {"per_transaction_min_amount", "per_transaction_max_amount"}
    without = [described[charge.charge_id] for charge in count.charges if not charge.has_ceiling]
    partly_free = [(code, terms) for code, terms in without if "free_units_per_events" in terms]
    assert [code for code, _ in partly_free] == list(_COMMON)
    assert [code for code, terms in without if (code, terms) not in partly_free] == ["max"]
    assert all(bounds & terms.keys() for _, terms in without)


_COMMON = ("sum", "count", "max", "unique", "time")


def test_the_ceiling_of_plain_usage_is_what_it_comes_to() -> None:
    plain = [model for model in MODELS if model["charge_model"] in ("standard", "graduated", "package")]
    charges = [ChargeOf(metric=metric, model=model, extra={}) for metric in ("sum", "count") for model in plain]
    with Shop(charges) as shop:
        count = shop.billing.reading(lambda work: usage_count(work, _subscription(work)))
        names = []
        for value in (1, "0.25", 8, 2):
            for code in ("sum", "count"):
                event = {"code": code, "value": value, "operation": "add", "hours": 0}
                names += shop.send([{**event, "region": "eu", "team": None, "cents": None}])

        def compared(work: Reader) -> tuple[int, int]:
            subscription = _subscription(work)
            ceiling = usage_ceiling(work, subscription, count, work.tx.events.named("sub", names))
            assert ceiling is not None
            return ceiling.cents, amount_so_far(work, subscription)

        ceiling, exact = shop.billing.reading(compared)
        assert ceiling == exact > count.amount_cents
