"""Random lives of a price list: usage of every kind is sent, prices change, lines are adjusted, invoices voided.

A step may be refused (an adjustment without a draft, a void of nothing): then it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.properties.strategies import ZONES
from tests.scenarios import Scenario, fixed_charge_on, price_ranges
from usagebill.core.errors import BillingError
from usagebill.fields import RegeneratedFeeFields

EXTERNAL_ID = "sub"
# A second subscription, which continues whatever happens to the first.
OTHER_ID = "other"

_GRADUATED = price_ranges((0, 10, "0.5", "1"), (11, None, "0.25", "0"))
_SHARES = price_ranges((0, 10, "1", "2"), (11, None, "2.5", "0"), unit="rate")
# The metrics: code -> aggregation and field.
METRICS: Mapping[str, Mapping[str, object]] = {
    "sum": {"aggregation_type": "sum_agg", "filters": [{"key": "region", "values": ["eu", "us"]}]},
    "count": {"aggregation_type": "count_agg", "field_name": None},
    "max": {"aggregation_type": "max_agg"},
    "latest": {"aggregation_type": "latest_agg"},
    "unique": {"aggregation_type": "unique_count_agg", "recurring": True},
    "stock": {"aggregation_type": "sum_agg", "recurring": True},
    "time": {"aggregation_type": "weighted_sum_agg", "recurring": True, "weighted_interval": "seconds"},
    "rounded": {"aggregation_type": "sum_agg", "rounding_function": "ceil", "rounding_precision": 0},
    "formula": {"aggregation_type": "sum_agg", "expression": "event.properties.value * 3"},
    "priced": {"aggregation_type": "sum_agg"},
}
_STANDARD = {"charge_model": "standard", "properties": {"amount": "2.5"}}
_TIERS = {"charge_model": "graduated", "properties": {"graduated_ranges": _GRADUATED}}
_AHEAD = {"pay_in_advance": True}
_EU = {"values": {"region": ["eu"]}, "properties": {"amount": "4"}}
# The charges that a plan may have: the metric, then the terms.
CHARGES: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("sum", {**_STANDARD, "filters": [_EU]}),
    ("sum", {**_STANDARD, "filters": [_EU], "properties": {"amount": "2", "pricing_group_keys": ["team"]}}),
    ("sum", {**_TIERS, "min_amount_cents": 2000}),
    ("sum", {**_TIERS, **_AHEAD}),
    ("sum", {**_STANDARD, **_AHEAD, "invoiceable": False, "regroup_paid_fees": "invoice", "filters": [_EU]}),
    ("sum", {"charge_model": "volume", "properties": {"volume_ranges": _GRADUATED}}),
    ("sum", {"charge_model": "package", "properties": {"amount": "5", "free_units": 3, "package_size": 4}}),
    ("sum", {"charge_model": "percentage", "properties": {"rate": "2", "fixed_amount": "0.1",
                                                          "free_units_per_events": 1,
                                                          "per_transaction_max_amount": "3"}}),
    ("sum", {"charge_model": "graduated_percentage", "properties": {"graduated_percentage_ranges": _SHARES}}),
    ("sum", {"charge_model": "percentage", **_AHEAD, "properties": {"rate": "2", "fixed_amount": "0.1"}}),
    ("count", {"charge_model": "package", "properties": {"amount": "1", "free_units": 1, "package_size": 2}}),
    ("count", {**_STANDARD, **_AHEAD}),
    ("max", _TIERS),
    ("latest", _STANDARD),
    ("unique", _TIERS),
    ("unique", {**_STANDARD, "prorated": True}),
    ("unique", {**_STANDARD, **_AHEAD, "prorated": True}),
    ("unique", {**_TIERS, **_AHEAD, "invoiceable": False}),
    ("stock", {**_STANDARD, "prorated": True}),
    ("stock", {**_TIERS, **_AHEAD}),
    ("stock", {"charge_model": "standard", "properties": {"amount": "1", "pricing_group_keys": ["team"]}}),
    ("time", _STANDARD),
    ("time", {"charge_model": "standard", "properties": {"amount": "3", "pricing_group_keys": ["team"]}}),
    ("rounded", {**_STANDARD, "min_amount_cents": 1500}),
    ("formula", _TIERS),
    ("priced", {"charge_model": "dynamic", "properties": {}}),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPlan:
    """A plan: some of `CHARGES`, and its own terms."""

    charges: tuple[int, ...]
    amount_cents: int
    interval: str
    pay_in_advance: bool
    fixed_in_advance: bool
    fixed_prorated: bool
    trial_days: int
    commitment: int
    threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action (`what`), `wait` after the previous one; `number` is its amount or its target."""

    wait: timedelta
    what: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedLife:
    """Two plans, a customer, and what happens."""

    zone: str
    grace_days: int
    anniversary: bool
    plans: tuple[PricedPlan, PricedPlan]
    steps: tuple[Step, ...]


_plans = st.builds(
    PricedPlan,
    charges=st.lists(st.integers(0, len(CHARGES) - 1), min_size=1, max_size=5, unique=True).map(tuple),
    amount_cents=st.sampled_from((0, 3100, 9999)),
    interval=st.sampled_from(("weekly", "monthly", "monthly", "quarterly", "yearly")),
    pay_in_advance=st.booleans(),
    fixed_in_advance=st.booleans(),
    fixed_prorated=st.booleans(),
    trial_days=st.sampled_from((0, 0, 0, 20)),
    commitment=st.sampled_from((0, 0, 20_000)),
    threshold=st.sampled_from((0, 0, 3000)),
)
_RARE = ("price", "price of a plan", "charge", "filter", "units", "override", "plan", "end", "begin", "zone")
_HAND = ("adjust", "finalize", "refresh", "void", "again", "delete fee", "pay")
_steps = st.builds(
    Step,
    wait=st.one_of(
        st.sampled_from((timedelta(0), timedelta(seconds=1))),
        st.integers(1, 600).map(lambda minutes: timedelta(minutes=minutes)),
        st.integers(1, 25 * 24).map(lambda hours: timedelta(hours=hours)),
        st.integers(1, 40).map(lambda days: timedelta(days=days)),
    ),
    what=st.sampled_from(("usage",) * 14 + ("late",) * 4 + ("batch",) * 2 + _RARE + _HAND),
    number=st.integers(0, 40),
)


def priced_lives(steps: int = 25) -> st.SearchStrategy[PricedLife]:
    """Lives of at most this many steps."""
    return st.builds(
        PricedLife,
        zone=st.sampled_from(ZONES),
        grace_days=st.sampled_from((0, 0, 5)),
        anniversary=st.booleans(),
        plans=st.tuples(_plans, _plans),
        steps=st.lists(_steps, min_size=3, max_size=steps).map(tuple),
    )


def live(box: Scenario, life: PricedLife, *, jump: bool = False) -> None:
    """Play `life` in a sandbox, and continue until its last drafts are issued.

    Every job runs at its own instant, or with `jump` only when a request needs the backlog.
    """
    _Living(box, life).play(box.jump_to if jump else box.travel_to)


class _Living:
    def __init__(self, box: Scenario, life: PricedLife) -> None:
        self.box = box
        self.life = life
        self.metrics: dict[str, str] = {}
        self._events = count(1)
        self._made_again: set[str] = set()
        self.acts: Mapping[str, Callable[[int], None]] = {
            "usage": self._usage,
            "late": self._late,
            "batch": self._batch,
            "price": self._price,
            "price of a plan": self._plan_price,
            "charge": self._charge,
            "filter": self._filter,
            "units": self._units,
            "override": self._override,
            "plan": self._plan,
            "end": lambda _: self._try("DELETE", f"/subscriptions/{EXTERNAL_ID}"),
            "begin": self._plan,
            "zone": self._move,
            "adjust": self._adjust,
            "finalize": lambda number: self._of_draft("finalize", number),
            "refresh": lambda number: self._of_draft("refresh", number),
            "void": self._void,
            "again": self._again,
            "delete fee": self._delete_fee,
            "pay": self._pay,
        }

    def play(self, move: Callable[[datetime], object]) -> None:
        self._prepare()
        self._plan(0)
        self._plan(1, external_id=OTHER_ID)
        for step in self.life.steps:
            move(self.box.clock.last_set + step.wait)
            self.acts[step.what](step.number)
        self.box.travel_to(self.box.now + timedelta(days=45))

    def _try(self, method: str, path: str, body: object = None) -> Any:
        """The answer, None if it is refused."""
        status, answer = self.box.request(method, "/api/v1" + path, json=body)
        return answer if status == 200 else None

    def _prepare(self) -> None:
        self.box.customer(timezone=self.life.zone, billing_configuration={"invoice_grace_period": self.life.grace_days})
        for code, fields in METRICS.items():
            metric = {"name": code, "code": code, "field_name": "value", **fields}
            made = self.box.post("/billable_metrics", billable_metric=metric)
            self.metrics[code] = made["billable_metric"]["svc_id"]
        seats = self.box.add_on("seat", 100)
        for place, plan in enumerate(self.life.plans):
            fixed = fixed_charge_on(
                seats,
                amount="3",
                code="seats",
                units=2,
                pay_in_advance=plan.fixed_in_advance,
                prorated=plan.fixed_prorated,
            )
            body: dict[str, object] = {
                "name": f"Plan {place}",
                "code": f"plan-{place}",
                "interval": plan.interval,
                "amount_cents": plan.amount_cents,
                "amount_currency": "EUR",
                "pay_in_advance": plan.pay_in_advance,
                "trial_period": plan.trial_days,
                "bill_charges_monthly": plan.interval == "yearly",
                "charges": [self._terms(number) for number in plan.charges],
                "fixed_charges": [fixed],
            }
            if plan.commitment:
                body["minimum_commitment"] = {"amount_cents": plan.commitment}
            if plan.threshold:
                body["usage_thresholds"] = [
                    {"amount_cents": plan.threshold},
                    {"amount_cents": plan.threshold, "recurring": True},
                ]
            self.box.post("/plans", plan=body)

    def _terms(self, number: int) -> dict[str, object]:
        code, terms = CHARGES[number % len(CHARGES)]
        return {"billable_metric_id": self.metrics[code], "code": f"charge-{number}", **terms}

    # Usage

    def _sent(self, number: int, at: datetime) -> dict[str, object]:
        code = list(METRICS)[number % len(METRICS)]
        properties: dict[str, object] = {"value": (number * 7) % 23 + (0.5 if number % 3 == 0 else 0)}
        if code == "unique":
            properties["operation_type"] = "remove" if number % 5 == 4 else "add"
            properties["value"] = f"v{number % 4}"
        for key, values in (("region", ("eu", "us", None)), ("team", ("red", "blue", None))):
            value = values[(number // 3 + len(key)) % 3]
            if value is not None:
                properties[key] = value
        return {
            "transaction_id": f"t{next(self._events)}",
            "code": code,
            "external_subscription_id": OTHER_ID if number % 4 == 1 else EXTERNAL_ID,
            "timestamp": str(at.timestamp()),
            "precise_total_amount_cents": str(Decimal(number * 13) / 8),
            "properties": properties,
        }

    def _wanted(self, number: int) -> int:
        """The number of an event that one of the plans' charges counts, mostly."""
        charges = [charge for plan in self.life.plans for charge in plan.charges]
        code = CHARGES[charges[number % len(charges)]][0]
        return list(METRICS).index(code) + len(METRICS) * (number % 7)

    def _usage(self, number: int) -> None:
        self._try("POST", "/events", {"event": self._sent(self._wanted(number), self.box.now)})

    def _late(self, number: int) -> None:
        at = self.box.now - timedelta(hours=5 ** (number % 5))
        self._try("POST", "/events", {"event": self._sent(self._wanted(number), at)})

    def _batch(self, number: int) -> None:
        events = [self._sent(self._wanted(number + more), self.box.now) for more in range(4)]
        self._try("POST", "/events/batch", {"events": events})

    # The price list

    def _any_charge(self, number: int) -> tuple[str, str]:
        place = number % 2
        charges = self.life.plans[place].charges
        return f"plan-{place}", f"charge-{charges[number // 2 % len(charges)]}"

    def _price(self, number: int) -> None:
        plan, code = self._any_charge(number)
        charge = self._try("GET", f"/plans/{plan}/charges/{code}")
        if charge is not None and "amount" in charge["charge"]["properties"]:
            properties = {**charge["charge"]["properties"], "amount": str(number + 1)}
            body = {"charge": {"properties": properties, "cascade_updates": True}}
            self._try("PUT", f"/plans/{plan}/charges/{code}", body)

    def _plan_price(self, number: int) -> None:
        self._try("PUT", f"/plans/plan-{number % 2}", {"plan": {"amount_cents": 100 * number}})

    def _charge(self, number: int) -> None:
        plan, code = self._any_charge(number)
        if number % 3:
            self._try("POST", f"/plans/{plan}/charges", {"charge": self._terms(number)})
        else:
            self._try("DELETE", f"/plans/{plan}/charges/{code}")

    def _filter(self, number: int) -> None:
        plan, code = self._any_charge(number)
        listed = self._try("GET", f"/plans/{plan}/charges/{code}/filters")
        for charge_filter in (listed or {}).get("filters", []):
            self._try("DELETE", f"/plans/{plan}/charges/{code}/filters/{charge_filter['svc_id']}")

    def _units(self, number: int) -> None:
        body = {"fixed_charge": {"units": number % 9, "apply_units_immediately": number % 2 == 0}}
        self._try("PUT", f"/plans/plan-{number // 2 % 2}/fixed_charges/seats", body)

    # Subscriptions

    def _plan(self, number: int, external_id: str = EXTERNAL_ID) -> None:
        subscription = {
            "external_customer_id": "acme",
            "external_id": external_id,
            "plan_code": f"plan-{number % 2}",
            "billing_time": "anniversary" if self.life.anniversary else "calendar",
        }
        self._try("POST", "/subscriptions", {"subscription": subscription})

    def _override(self, number: int) -> None:
        body = {"subscription": {"plan_overrides": {"amount_cents": 111 * number}}}
        self._try("PUT", f"/subscriptions/{EXTERNAL_ID}", body)

    def _move(self, number: int) -> None:
        zone = ZONES[number % len(ZONES)]
        self._try("POST", "/customers", {"customer": {"external_id": "acme", "timezone": zone}})

    # Invoices

    def _invoices(self, status: str) -> list[Any]:
        listed = self._try("GET", f"/invoices?status={status}&per_page=50")
        return list((listed or {}).get("invoices", []))

    def _of_draft(self, act: str, number: int) -> None:
        drafts = self._invoices("draft")
        if drafts:
            self._try("PUT", f"/invoices/{drafts[number % len(drafts)]['svc_id']}/{act}")

    def _adjust(self, number: int) -> None:
        for draft in self._invoices("draft")[:1]:
            fees = self._try("GET", f"/invoices/{draft['svc_id']}")["invoice"]["fees"]
            if not fees:
                continue
            fee_id = fees[number % len(fees)]["svc_id"]
            price = {"unit_precise_amount": Decimal("1.5")} if number % 2 else {}
            with_units: dict[str, Any] = {"units": Decimal(number % 7), **price}
            try:
                self.box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=fee_id, **with_units)
            except BillingError:
                continue

    def _void(self, number: int) -> None:
        issued = self._invoices("finalized")
        if issued:
            self._try("POST", f"/invoices/{issued[number % len(issued)]['svc_id']}/void")

    def _again(self, number: int) -> None:
        for voided in [invoice for invoice in self._invoices("voided") if invoice["svc_id"] not in self._made_again][
            :1
        ]:
            self._made_again.add(voided["svc_id"])
            fees = self._try("GET", f"/invoices/{voided['svc_id']}")["invoice"]["fees"]
            kept: list[RegeneratedFeeFields] = [
                {"id": fee["svc_id"]} for fee in fees if fee["item"]["type"] != "add_on"
            ]
            try:
                self.box.billing.invoices.regenerate(voided["svc_id"], fees=kept[: number + 1])
            except BillingError:
                continue

    def _delete_fee(self, number: int) -> None:
        listed = self._try("GET", "/fees?fee_type=charge&per_page=100") or {"fees": []}
        free = [fee for fee in listed["fees"] if fee["svc_invoice_id"] is None]
        if free:
            self._try("DELETE", f"/fees/{free[number % len(free)]['svc_id']}")

    def _pay(self, number: int) -> None:
        listed = self._try("GET", "/fees?fee_type=charge&per_page=100") or {"fees": []}
        free = [fee for fee in listed["fees"] if fee["svc_invoice_id"] is None]
        if free:
            path = f"/fees/{free[number % len(free)]['svc_id']}"
            self._try("PUT", path, {"fee": {"payment_status": "succeeded"}})
