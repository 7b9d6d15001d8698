"""A price list over HTTP in a few words, for tests that are about something else."""

from __future__ import annotations

from itertools import count
from typing import Any

from usagebill.testing import Sandbox

__all__ = ["PriceList"]


class PriceList:
    """One customer `acme` in EUR, metrics and plans by code, one subscription; events numbered by themselves."""

    def __init__(self, box: Sandbox, **customer: Any) -> None:
        self.box = box
        self._events = count(1)
        self.post("/customers", customer={"external_id": "acme", "currency": "EUR", **customer})

    def post(self, path: str, **body: Any) -> Any:
        status, answer = self.box.request("POST", f"/api/v1{path}", json=body)
        assert status == 200, answer
        return answer

    def get(self, path: str) -> Any:
        status, answer = self.box.request("GET", f"/api/v1{path}")
        assert status == 200, answer
        return answer

    def metric(self, code: str, aggregation_type: str = "sum_agg", **fields: Any) -> str:
        """The id of a new billable metric; its field is `value` unless it counts."""
        if aggregation_type != "count_agg":
            fields = {"field_name": "value", **fields}
        body = {"name": code.title(), "code": code, "aggregation_type": aggregation_type, **fields}
        return str(self.post("/billable_metrics", billable_metric=body)["billable_metric"]["svc_id"])

    def plan(self, *charges: dict[str, Any], code: str = "plan", **fields: Any) -> Any:
        body = {
            "name": code,
            "code": code,
            "interval": "monthly",
            "amount_cents": 0,
            "amount_currency": "EUR",
            "pay_in_advance": False,
            "charges": list(charges),
            **fields,
        }
        return self.post("/plans", plan=body)["plan"]

    def subscribe(self, plan: str = "plan", external_id: str = "sub", **fields: Any) -> Any:
        body = {"external_customer_id": "acme", "external_id": external_id, "plan_code": plan, **fields}
        return self.post("/subscriptions", subscription=body)["subscription"]

    def event(self, code: str, external_id: str = "sub", cents: str | None = None, **properties: Any) -> Any:
        body = {
            "transaction_id": f"t{next(self._events)}",
            "code": code,
            "external_subscription_id": external_id,
            "precise_total_amount_cents": cents,
            "timestamp": self.box.now.timestamp(),
            "properties": properties,
        }
        return self.post("/events", event=body)["event"]

    def usage(self, query: str = "", external_id: str = "sub") -> Any:
        path = f"/customers/acme/current_usage?external_subscription_id={external_id}{query}"
        return self.get(path)["customer_usage"]
