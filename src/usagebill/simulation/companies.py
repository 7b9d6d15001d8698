"""A company of a seed: its price list, its customers, and what each of them does, as plain JSON.

Nothing here knows the engine: steps are calls of the library with their arguments, and some of them will be refused.
Where a step needs a document that does not exist yet, it says which to pick: the `nth` of a customer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

Step = dict[str, Any]

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Los_Angeles",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Pacific/Auckland",
    "America/Sao_Paulo",
    "Africa/Cairo",
)
# Each with how many minor units make one.
CURRENCIES = {"EUR": 100, "USD": 100, "GBP": 100, "JPY": 1, "KWD": 1000}
METRICS: Mapping[str, Mapping[str, Any]] = {
    "calls": {"aggregation_type": "count_agg"},
    "gb": {
        "aggregation_type": "sum_agg",
        "filters": [{"key": "region", "values": ["eu", "us", "ap"]}, {"key": "tier", "values": ["pro", "free"]}],
    },
    "tokens": {"aggregation_type": "sum_agg", "rounding_function": "ceil", "rounding_precision": 0},
    "peak": {"aggregation_type": "max_agg"},
    "level": {"aggregation_type": "latest_agg"},
    "users": {"aggregation_type": "unique_count_agg"},
    "load": {"aggregation_type": "weighted_sum_agg", "weighted_interval": "seconds"},
    "stock": {"aggregation_type": "sum_agg", "recurring": True},
    "seats": {"aggregation_type": "unique_count_agg", "recurring": True},
    "disk": {"aggregation_type": "weighted_sum_agg", "recurring": True, "weighted_interval": "seconds"},
}
_ADDITIVE = ("calls", "gb", "tokens")
_CARRIED = ("stock", "seats")
_MONTHS = {"weekly": 0, "monthly": 1, "quarterly": 3, "semiannual": 6, "yearly": 12}
# What a company may have, each with its chance: with few at a time, each combination is tried.
FEATURES: Mapping[str, float] = {
    "filters": 0.5,
    "groups": 0.4,
    "minimum": 0.25,
    "advance plans": 0.5,
    "charges in advance": 0.3,
    "split": 0.3,
    "fixed": 0.4,
    "commitment": 0.25,
    "trial": 0.2,
    "thresholds": 0.2,
    "taxes": 0.7,
    "coupons": 0.6,
    "wallets": 0.5,
    "grace": 0.3,
    "changes": 0.6,
    "ends": 0.4,
    "prices": 0.35,
    "payments": 0.6,
    "notes": 0.4,
    "voids": 0.25,
    "late": 0.4,
    "wrong": 0.4,
    "one-off": 0.3,
    "entitlements": 0.3,
    "alerts": 0.3,
    "deletions": 0.15,
}
# What is done by hand, for which feature, and how often a month.
ACTS: Mapping[str, tuple[str, float]] = {
    "payments.create": ("payments", 0.8),
    "credit_notes.create": ("notes", 0.3),
    "invoices.void": ("voids", 0.12),
    "applied_coupons.apply": ("coupons", 0.25),
    "applied_coupons.terminate": ("coupons", 0.05),
    "wallet_transactions.create": ("wallets", 0.25),
    "invoices.create_one_off": ("one-off", 0.1),
    "alerts.create": ("alerts", 0.1),
    "plans.update_charge": ("prices", 0.08),
    "taxes.update": ("taxes", 0.03),
    "customers.delete": ("deletions", 0.02),
}


@dataclass(frozen=True, slots=True)
class Company:
    """All that happens to a company from `start` to `end`; `steps` are in the order of their instants."""

    start: datetime
    end: datetime
    steps: tuple[Step, ...]

    @property
    def years(self) -> float:
        """How long it lives."""
        return (self.end - self.start) / timedelta(days=365)


def to_json(company: Company) -> str:
    """The company as text that `from_json` reads: a step per line."""
    steps = ",\n  ".join(json.dumps(step, sort_keys=True) for step in company.steps)
    return f'{{"start": "{text_of(company.start)}", "end": "{text_of(company.end)}", "steps": [\n  {steps}\n]}}\n'


def from_json(text: str) -> Company:
    """The company of a text of `to_json`."""
    read = json.loads(text)
    return Company(instant_of(read["start"]), instant_of(read["end"]), tuple(read["steps"]))


def text_of(instant: datetime) -> str:
    """An instant as the library reads it."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def instant_of(text: str) -> datetime:
    """The instant of a text of `text_of`."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def company_of(seed: int, years: float = 1) -> Company:
    """The company of a seed, always the same."""
    return _Maker(Random(seed), years).company()


class _Maker:
    def __init__(self, chance: Random, years: float) -> None:
        self.chance = chance
        self.has = {name for name, odds in FEATURES.items() if chance.random() < odds}
        self.start = datetime(2023, chance.randint(1, 12), chance.randint(1, 28), 6, tzinfo=UTC)
        self.end = self.start + timedelta(days=365 * years)
        self.steps: list[Step] = []
        self.plans: dict[str, list[dict[str, Any]]] = {}
        self.sent = 0

    def company(self) -> Company:
        self._price_list()
        customers = [self._customer(number) for number in range(1, self.chance.randint(2, 4))]
        for customer, zone, currency in customers:
            self._live(customer, zone, currency)
        ordered = sorted(self.steps, key=lambda step: str(step["at"]))
        return Company(self.start, self.end, tuple(ordered))

    def _do(self, at: datetime, call: str, /, **more: Any) -> None:
        if at < self.end:
            self.steps.append({"at": text_of(at), "call": call, **more})

    def _odds(self, chance: float) -> bool:
        return self.chance.random() < chance

    # The price list

    def _price_list(self) -> None:
        chance, at = self.chance, self.start
        if "taxes" in self.has:
            for code, everybody in (("vat", True), ("city", False), ("eco", False)):
                rate = chance.choice((20, 19, 7.7, 8.25, 5))
                self._do(at, "taxes.create", **{"with": {"name": code, "code": code, "rate": rate,
                                                         "applied_to_organization": everybody}})  # fmt: skip
        self.metrics = sorted(chance.sample(sorted(METRICS), chance.randint(2, 6)))
        for code in self.metrics:
            field = {} if code == "calls" else {"field_name": "value"}
            self._do(at, "billable_metrics.create", **{"with": {"name": code, "code": code, **field, **METRICS[code]}})
        if "fixed" in self.has or "one-off" in self.has:
            self._do(at, "add_ons.create", **{"with": {"name": "Setup", "code": "setup", "amount_cents": 1000,
                                                       "amount_currency": "EUR"}})  # fmt: skip
        if "entitlements" in self.has:
            privileges = [{"code": "max", "value_type": "integer"}]
            self._do(at, "features.create", **{"with": {"code": "export", "name": "Export", "privileges": privileges}})
        self.currencies = chance.sample(sorted(CURRENCIES), chance.randint(1, 2))
        for currency in self.currencies:
            for place in range(chance.randint(2, 3)):
                self._plan(f"{currency.lower()}{place}", currency)
        if "coupons" in self.has:
            for currency in self.currencies:
                self._coupons(currency)

    def _plan(self, code: str, currency: str) -> None:
        chance, has, unit = self.chance, self.has, CURRENCIES[currency]
        interval = chance.choice(("weekly", "monthly", "monthly", "monthly", "quarterly", "yearly"))
        odd = chance.choice((0, 7))
        charges = [self._charge(metric, place) for place, metric in enumerate(self._some_metrics())]
        body: dict[str, Any] = {
            "name": code,
            "code": code,
            "interval": interval,
            "amount_cents": chance.choice((0, 10, 31, 62, 99)) * unit * (_MONTHS[interval] or 1) + odd,
            "amount_currency": currency,
            "pay_in_advance": "advance plans" in has and self._odds(0.5),
            "charges": charges,
        }  # fmt: skip
        if "split" in has and interval == "yearly":
            body["bill_charges_monthly"] = True
        if "trial" in has and self._odds(0.6):
            body["trial_period"] = chance.choice((5, 14, 31))
        if "commitment" in has and self._odds(0.6):
            body["minimum_commitment"] = {"amount_cents": chance.choice((100, 310)) * unit}
        if "fixed" in has and self._odds(0.7):
            body["fixed_charges"] = [self._fixed()]
        if "taxes" in has and self._odds(0.3):
            body["tax_codes"] = ["city"]
        if "thresholds" in has and self._odds(0.6):
            body["usage_thresholds"] = [{"amount_cents": cents * unit} for cents in (20, 60)]
        self.plans.setdefault(currency, []).append(body)
        self._do(self.start, "plans.create", **{"with": body})
        if "entitlements" in has and self._odds(0.5):
            self._do(
                self.start,
                "entitlements.merge_of_plan",
                to=[code],
                **{"with": {"entitlements": {"export": {"max": 5}}}},
            )

    def _some_metrics(self) -> list[str]:
        return [self.chance.choice(self.metrics) for _ in range(self.chance.randint(1, 3))]

    def _fixed(self) -> dict[str, Any]:
        model = self.chance.choice(("standard", "standard", "volume", "graduated"))
        ahead = self._odds(0.4) and model == "standard"
        return {
            "add_on_code": "setup",
            "code": "setup",
            "charge_model": model,
            "units": self.chance.choice((1, 3, 12)),
            "pay_in_advance": ahead,
            "prorated": self._odds(0.5),
            "properties": self._properties(model, "stock"),
        }

    def _charge(self, metric: str, place: int) -> dict[str, Any]:
        chance, has = self.chance, self.has
        model = chance.choice(_models(metric))
        charge: dict[str, Any] = {"billable_metric_code": metric, "code": f"{metric}-{place}", "charge_model": model}
        ahead = (
            "charges in advance" in has
            and self._odds(0.5)
            and metric in (*_ADDITIVE, "users")
            and model in ("standard", "graduated", "package", "percentage")
        )
        if ahead:
            charge["pay_in_advance"] = True
        if metric in _CARRIED and model in ("standard", "graduated", "volume") and self._odds(0.5):
            charge["prorated"] = True
        if "minimum" in has and not ahead and self._odds(0.5):
            charge["min_amount_cents"] = chance.choice((1000, 5001))
        charge["properties"] = self._properties(model, metric)
        if "filters" in has and metric == "gb" and not ahead and self._odds(0.8):
            narrow: list[dict[str, list[str]]] = [{"region": ["eu"]}, {"region": ["eu"], "tier": ["pro"]}]
            wide: list[dict[str, list[str]]] = [{"region": ["us", "ap"]}, {"region": ["__ALL_FILTER_VALUES__"]}]
            values = [*chance.sample(narrow, chance.randint(1, 2)), *chance.sample(wide, chance.randint(0, 1))]
            charge["filters"] = [{"values": each, "properties": self._properties(model, metric)} for each in values]
        if "taxes" in has and self._odds(0.2):
            charge["tax_codes"] = ["eco"]
        return charge

    def _amount(self) -> str:
        return self.chance.choice(("0.01", "0.5", "1", "2.25", "0.0137", "10", "0.333"))

    def _properties(self, model: str, metric: str) -> dict[str, Any]:
        chance = self.chance
        grouped = {}
        if "groups" in self.has and metric not in ("disk", "load") and self._odds(0.4):
            grouped = {"pricing_group_keys": ["team"]}
        if model in ("graduated", "volume"):
            return {f"{model}_ranges": self._ranges("per_unit_amount"), **grouped}
        if model == "graduated_percentage":
            return {"graduated_percentage_ranges": self._ranges("rate"), **grouped}
        if model == "package":
            free = chance.choice((0, 0, 5))
            return {"amount": self._amount(), "package_size": chance.choice((1, 10, 12)), "free_units": free, **grouped}
        if model == "percentage":
            body: dict[str, Any] = {"rate": chance.choice(("1.3", "10", "0.25"))}
            if self._odds(0.5):
                body["fixed_amount"] = self._amount()
            if self._odds(0.3):
                body["free_units_per_events"] = chance.choice((1, 3))
            if self._odds(0.3):
                body["free_units_per_total_aggregation"] = chance.choice(("10", "25.5"))
            if self._odds(0.2):
                body |= {"per_transaction_min_amount": "0.5", "per_transaction_max_amount": "3"}
            return {**body, **grouped}
        if model == "dynamic":
            return grouped
        return {"amount": self._amount(), **grouped}

    def _ranges(self, price: str) -> list[dict[str, Any]]:
        bounds = self.chance.choice(((10,), (10, 100), (3, 20, 50)))
        ranges, start = [], 0
        for end in (*bounds, None):
            flat = self.chance.choice(("0", "0", "1", "2.5"))
            ranges.append({"from_value": start, "to_value": end, price: self._amount(), "flat_amount": flat})
            start = (end or 0) + 1
        return ranges

    def _coupons(self, currency: str) -> None:
        unit, name = CURRENCIES[currency], currency.lower()
        fixed: dict[str, Any] = {"coupon_type": "fixed_amount", "amount_currency": currency}
        percent: dict[str, Any] = {"coupon_type": "percentage"}
        kinds: list[dict[str, Any]] = [
            {**fixed, "amount_cents": 5 * unit + 3, "frequency": "once"},
            {**fixed, "amount_cents": 300 * unit, "frequency": "once"},
            {**fixed, "amount_cents": 4 * unit, "frequency": "recurring", "frequency_duration": 3},
            {**fixed, "amount_cents": 2 * unit, "frequency": "forever"},
            {**percent, "percentage_rate": "50", "frequency": "once"},
            {**percent, "percentage_rate": "33.33", "frequency": "recurring", "frequency_duration": 2},
            {**percent, "percentage_rate": "12.5", "frequency": "forever"},
        ]
        for place, kind in enumerate(self.chance.sample(kinds, self.chance.randint(1, 3))):
            body = {"name": "c", "code": f"{name}-off{place}", "expiration": "no_expiration", **kind}
            if self._odds(0.3):
                metric = self.chance.choice(self.metrics)
                body["applies_to"] = {"billable_metric_codes": [metric]}
            elif self._odds(0.2):
                body["applies_to"] = {"plan_codes": [f"{name}0"]}
            self._do(self.start, "coupons.create", **{"with": body})

    # Customers

    def _customer(self, number: int) -> tuple[str, str, str]:
        chance, id = self.chance, f"c{number}"
        zone, currency = chance.choice(ZONES), chance.choice(self.currencies)
        body: dict[str, Any] = {"external_id": id, "name": id.upper(), "currency": currency, "timezone": zone}
        if "grace" in self.has and self._odds(0.6):
            body["billing_configuration"] = {"invoice_grace_period": chance.choice((1, 3, 5))}
        if "taxes" in self.has and self._odds(0.3):
            body["tax_codes"] = ["city", "vat"]
        self._do(self.start, "customers.upsert", **{"with": body})
        if "wallets" in self.has and self._odds(0.8):
            for place in range(chance.randint(1, 2)):
                wallet: dict[str, Any] = {
                    "external_customer_id": id,
                    "name": f"w{place}",
                    "rate_amount": chance.choice(("1", "1", "0.5")),
                    "currency": currency,
                    "granted_credits": str(chance.choice((10, 50, 400))),
                    "priority": chance.choice((1, 10, 50)),
                }
                if self._odds(0.3):
                    wallet["applies_to"] = {"fee_types": ["charge"]}
                self._do(self.start + timedelta(minutes=place), "wallets.create", **{"with": wallet})
        return id, zone, currency

    def _live(self, customer: str, zone: str, currency: str) -> None:
        """What a customer does: subscriptions, each with its usage and changes, and papers by hand."""
        chance = self.chance
        for number in range(1, chance.choice((2, 2, 3))):
            begin = self._by_day(zone, self.start + timedelta(days=chance.randint(0, 60), hours=1))
            self._subscription(customer, f"{customer}-s{number}", zone, currency, begin)
        months = max((self.end - self.start).days // 30, 1)
        for call, (feature, a_month) in ACTS.items():
            for _ in range(sum(self._odds(a_month) for _ in range(months)) if feature in self.has else 0):
                at = self._by_day(zone, self.start + (self.end - self.start) * chance.random())
                self._do(at, call, **self._act(call, customer, currency))

    def _subscription(self, customer: str, id: str, zone: str, currency: str, begin: datetime) -> None:
        chance, plans = self.chance, self.plans[currency]
        plan = chance.choice(plans)
        time = chance.choice(("calendar", "anniversary"))
        body = {"external_customer_id": customer, "plan_code": plan["code"], "external_id": id, "billing_time": time}
        self._do(begin, "subscriptions.create", **{"with": body})
        at, used = begin, {charge["billable_metric_code"]: charge for charge in plan["charges"]}
        while at < self.end:
            following = self._by_day(zone, at + timedelta(days=chance.randint(20, 150)))
            self._usage(id, used, at, min(following, self.end))
            at = following
            if "changes" in self.has and self._odds(0.6) and len(plans) > 1:
                plan = chance.choice([other for other in plans if other is not plan])
                used |= {charge["billable_metric_code"]: charge for charge in plan["charges"]}
                self._do(at, "subscriptions.create", **{"with": {**body, "plan_code": plan["code"]}})
            elif "ends" in self.has and self._odds(0.5):
                self._do(at, "subscriptions.terminate", to=[id])
                at = self._by_day(zone, at + timedelta(days=chance.choice((1, 3, 40))))
                if self._odds(0.5):
                    return
                self._do(at, "subscriptions.create", **{"with": {**body, "plan_code": plan["code"]}})

    def _by_day(self, zone: str, at: datetime) -> datetime:
        """An instant of that day on which nobody is billed: from 03:00 to 22:00 of the place."""
        local = at.astimezone(ZoneInfo(zone))
        seconds = self.chance.randint(3 * 3600, 22 * 3600)
        day = local.replace(hour=0, minute=0, second=0, microsecond=0)
        chosen = (day.replace(hour=seconds // 3600, minute=seconds // 60 % 60, second=seconds % 60)).astimezone(UTC)
        return max(chosen, self.start + timedelta(hours=1))

    # Usage

    def _usage(self, id: str, used: Mapping[str, Mapping[str, Any]], since: datetime, until: datetime) -> None:
        chance = self.chance
        days = max((until - since).days, 1)
        for metric, charge in used.items():
            for _ in range(max(1, int(days * chance.choice((0.05, 0.1, 0.3))))):
                at = (since + (until - since) * chance.random()).replace(microsecond=0)
                self._event(at, id, metric, charge["charge_model"] == "dynamic")

    def _event(self, at: datetime, id: str, metric: str, priced: bool) -> None:
        chance = self.chance
        self.sent += 1
        properties: dict[str, Any] = {"value": self._value(metric)}
        if metric in ("users", "seats"):
            properties["operation_type"] = chance.choice(("add", "add", "add", "remove"))
        for key, values in (("region", ("eu", "us", "ap", "xx")), ("tier", ("pro", "free")), ("team", ("a", "b", ""))):
            if self._odds(0.8):
                properties[key] = chance.choice(values)
        event: dict[str, Any] = {
            "transaction_id": f"t{self.sent}",
            "code": metric,
            "external_subscription_id": id,
            "properties": properties,
        }
        if priced:
            event["precise_total_amount_cents"] = chance.choice(("100", "12.5", "0.333"))
        if "late" in self.has and self._odds(0.15):
            event["timestamp"] = (at - timedelta(seconds=chance.randint(60, 20 * 86400))).timestamp()
        elif "late" in self.has and self._odds(0.05):
            event["timestamp"] = (at + timedelta(seconds=chance.randint(60, 20 * 3600))).timestamp()
        else:
            event["timestamp"] = at.timestamp()
        if "wrong" in self.has and self._odds(0.08):
            wrong = chance.choice(("value", "code", "twice", "missing", "stamp", "nobody"))
            if wrong == "value":
                properties["value"] = chance.choice(("abc", "1e3", "", None))
            elif wrong == "code":
                event["code"] = "unheard"
            elif wrong == "missing":
                del properties["value"]
            elif wrong == "stamp":
                event["timestamp"] = "yesterday"
            elif wrong == "nobody":
                event["external_subscription_id"] = "nobody"
            else:
                self._do(at, "events.create", **{"with": {**event, "properties": dict(properties)}})
        self._do(at, "events.create", **{"with": event})

    def _value(self, metric: str) -> Any:
        chance = self.chance
        if metric in ("users", "seats"):
            return f"u{chance.randint(1, 6)}"
        if metric in ("stock", "disk", "load"):
            return chance.choice((1, 2, 5, 10, -1, -2))
        return chance.choice((1, 3, 12, "7", "0.5", "2.25", 40))

    # Papers

    def _act(self, call: str, customer: str, currency: str) -> Step:
        """The arguments of something that is done by hand."""
        chance = self.chance
        if call == "applied_coupons.apply":
            code = f"{currency.lower()}-off{chance.randint(0, 2)}"
            return {"with": {"external_customer_id": customer, "coupon_code": code}}
        if call == "invoices.create_one_off":
            fees = [{"add_on_code": "setup", "units": chance.randint(1, 3), "unit_amount_cents": 333}]
            return {"with": {"external_customer_id": customer, "currency": currency, "fees": fees}}
        if call == "alerts.create":
            thresholds = [{"value": str(chance.choice((100, 1000)))}]
            alert = {"alert_type": "current_usage_amount", "code": f"a{chance.randint(0, 9)}", "thresholds": thresholds}
            return {"to": [f"{customer}-s1"], "with": alert}
        if call == "plans.update_charge":
            return self._new_price(currency)
        if call == "taxes.update":
            return {"to": ["vat"], "with": {"rate": chance.choice((10, 21))}}
        if call == "customers.delete":
            return {"to": [customer]}
        picked: Step = {"of": customer, "nth": chance.randint(0, 5)}
        if call == "payments.create":
            picked["part"] = chance.choice(("whole", "whole", "half"))
        elif call == "credit_notes.create":
            picked["kind"] = chance.choice(("credit", "credit", "offset", "refund"))
            picked["part"] = chance.choice(("whole", "half", "third", "first"))
        elif call == "wallet_transactions.create":
            picked["with"] = {chance.choice(("granted_credits", "granted_credits", "paid_credits")): "25"}
        return picked

    def _new_price(self, currency: str) -> Step:
        plan = self.chance.choice(self.plans[currency])
        charge = self.chance.choice(plan["charges"])
        properties = self._properties(charge["charge_model"], charge["billable_metric_code"])
        if "pricing_group_keys" in charge["properties"]:
            properties["pricing_group_keys"] = ["team"]
        else:
            properties.pop("pricing_group_keys", None)
        return {"to": [plan["code"], charge["code"]], "with": {"properties": properties}}


def _models(metric: str) -> Sequence[str]:
    if metric in _ADDITIVE:
        models = ("standard", "graduated", "volume", "package", "percentage", "graduated_percentage")
        return models if metric == "calls" else (*models, "dynamic")
    if metric in ("load", "disk", "stock", "seats"):
        return ("standard", "standard", "graduated", "volume")
    if metric == "users":
        return ("standard", "graduated", "volume", "package", "percentage")
    return ("standard", "graduated", "volume", "package")
