"""Helpers that set up a scene in a sandbox: a price list, customers, subscriptions and usage.

    with Scenario(now="2024-03-01T00:00:00Z") as box:
        box.customer()
        box.plan(charge_on(box.metric("calls"), amount="0.5"), amount_cents=3100)
        box.subscribe()
        box.event("calls", value=12)
        box.travel_to("2024-04-01T01:00:00Z")
        (invoice,) = box.invoices()

Everything goes over HTTP, as from a client, and every helper takes further fields of the request. The defaults are the
simplest possible: the customer `acme`, the plan `basic`, the subscription `sub`; euros, months, arrears.
`tests.builders` puts records straight into a store.
"""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Any, get_type_hints

from usagebill.operations.plans.inputs import ChargeInput, FixedChargeInput
from usagebill.testing import Sandbox

API = "/api/v1"
# Filter keys of a metric, and the values of each.
REGION_AND_CLOUD = [{"key": "region", "values": ["us", "eu", "asia"]}, {"key": "cloud", "values": ["aws", "gcp"]}]
# Billing entities with all seller fields that e-invoices require.
FRENCH_SELLER: dict[str, Any] = {"country": "FR", "einvoicing": True, "tax_identification_number": "FR40303265045"}
GERMAN_SELLER: dict[str, Any] = {
    "country": "DE",
    "einvoicing": True,
    "tax_identification_number": "DE123456789",
    "address_line1": "Allee 1",
    "zipcode": "10115",
    "city": "Berlin",
    "email": "billing@lumen.example",
    "phone": "+49 30 1234567",
}
_CHARGE_FIELDS = frozenset(get_type_hints(ChargeInput))
_FIXED_CHARGE_FIELDS = frozenset(get_type_hints(FixedChargeInput))


def plan_fields(*charges: dict[str, Any], code: str = "basic", **fields: Any) -> dict[str, Any]:
    """A monthly plan in euros and in arrears, with no price but those of its charges."""
    return {
        "name": code.capitalize(),
        "code": code,
        "interval": "monthly",
        "amount_cents": 0,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        **({"charges": list(charges)} if charges else {}),
        **fields,
    }


def charge_on(metric_id: str, model: str = "standard", /, **fields: Any) -> dict[str, Any]:
    """A charge of a plan; arguments that are not fields of charges are its properties: `charge_on(id, amount="5")`."""
    return {"billable_metric_id": metric_id, "charge_model": model, **_priced(_CHARGE_FIELDS, fields)}


def charge_in_advance_on(metric_id: str, model: str = "standard", /, **fields: Any) -> dict[str, Any]:
    """A charge that is paid in advance, event by event, without an invoice of its own."""
    return charge_on(metric_id, model, **{"pay_in_advance": True, "invoiceable": False, **fields})


def fixed_charge_on(add_on_id: str, model: str = "standard", /, **fields: Any) -> dict[str, Any]:
    """A fixed charge of a plan; arguments that are not fields of fixed charges are its properties."""
    return {"add_on_id": add_on_id, "charge_model": model, **_priced(_FIXED_CHARGE_FIELDS, fields)}


def filter_on(values: dict[str, list[str]], /, **fields: Any) -> dict[str, Any]:
    """A filter of a charge: its values and its price."""
    return {"values": values, **_priced(frozenset({"invoice_display_name"}), fields)}


def _priced(names: frozenset[str], fields: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in fields.items() if name in names}
    properties = {name: value for name, value in fields.items() if name not in names}
    return {**known, "properties": {**known.get("properties", {}), **properties}}


def price_ranges(*rows: tuple[int, int | None, str, str], unit: str = "per_unit_amount") -> list[dict[str, Any]]:
    """Ranges of a price: from, to, price of a unit (or `unit="rate"`) and flat amount of each."""
    return [
        {"from_value": start, "to_value": end, unit: price, "flat_amount": flat} for start, end, price, flat in rows
    ]


def fees_of(invoice: Any, item_type: str) -> list[Any]:
    """The fees of an invoice with items of a type: `subscription`, `charge`, `fixed_charge`, `add_on`, ..."""
    return [fee for fee in invoice["fees"] if fee["item"]["type"] == item_type]


def fee_of(invoice: Any, item_type: str) -> Any:
    """The only fee of an invoice with an item of a type."""
    (fee,) = fees_of(invoice, item_type)
    return fee


def windows(invoice: Any) -> list[tuple[str, str]]:
    """The subscription windows that an invoice bills."""
    return [
        (period["subscription_from_datetime"], period["subscription_to_datetime"])
        for period in invoice["billing_periods"]
    ]


class Scenario(Sandbox):
    """A sandbox with helpers for tests; their requests must succeed, unless the test names another status."""

    def __init__(self, now: str | datetime, **rest: Any) -> None:
        super().__init__(now, **rest)
        self._transactions = count(1)

    # Requests

    def send(self, method: str, path: str, json: object = None) -> tuple[int, Any]:
        """The status and the body of an answer; paths begin below `/api/v1`."""
        return self.request(method, API + path, json=json)

    def ask(self, method: str, path: str, json: object = None, status: int = 200) -> Any:
        """The body of an answer that has `status`."""
        answered, body = self.send(method, path, json)
        assert answered == status, f"{method} {path}: {answered} {body}"
        return body

    def get(self, path: str, /, status: int = 200) -> Any:
        return self.ask("GET", path, status=status)

    def post(self, path: str, /, status: int = 200, **body: Any) -> Any:
        return self.ask("POST", path, body or None, status)

    def put(self, path: str, /, status: int = 200, **body: Any) -> Any:
        return self.ask("PUT", path, body or None, status)

    def delete(self, path: str, /, status: int = 200) -> Any:
        return self.ask("DELETE", path, status=status)

    # The price list

    def metric(self, code: str, aggregation_type: str = "sum_agg", **fields: Any) -> str:
        """The id of a new billable metric; its field is `value` unless it counts."""
        body = {"name": code.title(), "code": code, "aggregation_type": aggregation_type}
        field = {} if aggregation_type == "count_agg" else {"field_name": "value"}
        return str(
            self.post("/billable_metrics", billable_metric={**body, **field, **fields})["billable_metric"]["svc_id"]
        )

    def add_on(self, code: str = "setup", amount_cents: int = 100, **fields: Any) -> str:
        """The id of a new add-on."""
        body = {"name": code.title(), "code": code, "amount_cents": amount_cents, "amount_currency": "EUR", **fields}
        return str(self.post("/add_ons", add_on=body)["add_on"]["svc_id"])

    def plan(self, *charges: dict[str, Any], **fields: Any) -> Any:
        """A new plan, as `plan_fields` describes it."""
        return self.post("/plans", plan=plan_fields(*charges, **fields))["plan"]

    def tax(self, rate: object = 20, code: str = "vat", **fields: Any) -> Any:
        """A new tax of `rate` percent, on everything that the organization sells."""
        body = {"name": code.upper(), "code": code, "rate": rate, "applied_to_organization": True, **fields}
        return self.post("/taxes", tax=body)["tax"]

    def coupon(self, amount_cents: int, customer: str = "acme", code: str = "off", **fields: Any) -> Any:
        """A one-time coupon of this many cents, applied to the customer."""
        kind = {"coupon_type": "fixed_amount", "amount_cents": amount_cents, "amount_currency": "EUR"}
        body = {"name": code, "code": code, **kind, "frequency": "once", "expiration": "no_expiration", **fields}
        self.post("/coupons", coupon=body)
        applied = {"external_customer_id": customer, "coupon_code": code}
        return self.post("/applied_coupons", applied_coupon=applied)["applied_coupon"]

    # Customers and what they use

    def customer(self, external_id: str = "acme", **fields: Any) -> Any:
        """Create or change a customer, who pays in euros."""
        body = {"external_id": external_id, "currency": "EUR", **fields}
        return self.post("/customers", customer=body)["customer"]

    def entity(self, code: str = "default", **fields: Any) -> Any:
        """Change a billing entity."""
        return self.put(f"/billing_entities/{code}", billing_entity=fields)["billing_entity"]

    def subscribe(self, plan: str = "basic", external_id: str = "sub", customer: str = "acme", **fields: Any) -> Any:
        """Subscribe a customer, or change its plan; the subscription of the answer."""
        body = {"external_customer_id": customer, "external_id": external_id, "plan_code": plan, **fields}
        return self.post("/subscriptions", subscription=body)["subscription"]

    def unsubscribe(self, external_id: str = "sub") -> Any:
        """End a subscription now."""
        return self.delete(f"/subscriptions/{external_id}")["subscription"]

    def event(self, code: str, external_id: str = "sub", cents: str | None = None, **properties: Any) -> Any:
        """Send an event of now; its transaction id is the next of t1, t2, ..."""
        return self.post("/events", event=self._event(code, external_id, properties, cents=cents))["event"]

    def events(self, code: str, *events: dict[str, Any], external_id: str = "sub") -> Any:
        """Send events in one batch; `at` of each is its timestamp, everything else its properties."""
        return self.post("/events/batch", events=[self._event(code, external_id, event) for event in events])["events"]

    def _event(
        self, code: str, external_id: str, properties: dict[str, Any], *, cents: str | None = None
    ) -> dict[str, Any]:
        return {
            "transaction_id": f"t{next(self._transactions)}",
            "code": code,
            "external_subscription_id": external_id,
            "precise_total_amount_cents": cents,
            "timestamp": properties.get("at", self.now.timestamp()),
            "properties": {name: value for name, value in properties.items() if name != "at"},
        }

    # Results

    def usage(self, query: str = "", external_id: str = "sub") -> Any:
        """The current usage of a subscription of acme."""
        return self.get(f"/customers/acme/current_usage?external_subscription_id={external_id}{query}")[
            "customer_usage"
        ]

    def invoice(self, id: str) -> Any:
        """An invoice in full."""
        return self.get(f"/invoices/{id}")["invoice"]

    def invoices(self, customer: str = "acme") -> list[Any]:
        """The customer's invoices in full, oldest first."""
        listed = self.get(f"/invoices?external_customer_id={customer}&per_page=1000")["invoices"]
        invoices = [self.invoice(invoice["svc_id"]) for invoice in listed]
        return sorted(invoices, key=lambda invoice: (invoice["created_at"], invoice["svc_id"]))

    def usage_fees(self, query: str = "") -> list[Any]:
        """The fees of charges, newest first, on invoices or not."""
        return list(self.get(f"/fees?fee_type=charge&per_page=1000{query}")["fees"])

    def webhook_types(self, *prefixes: str) -> list[str]:
        """The types of the webhook messages so far, oldest first; with prefixes, only those that start with one."""
        types = [str(message["webhook_type"]) for message in self.webhooks]
        return [webhook_type for webhook_type in types if webhook_type.startswith(prefixes or ("",))]
