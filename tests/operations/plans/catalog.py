"""A small catalog to build plans on: what the tests of plans ask for over HTTP, and subscriptions as records."""

from __future__ import annotations

from typing import Any

from tests.json_asserts import accepted

from usagebill.core.subscriptions import Subscription
from usagebill.testing import Sandbox
from usagebill.work import Work

__all__ = ["add_on", "metric", "plan", "send", "subscribed", "tax"]


def send(box: Sandbox, method: str, path: str, json: object = None) -> tuple[int, Any]:
    return box.request(method, f"/api/v1{path}", json=json)


def metric(box: Sandbox, code: str = "storage", **fields: object) -> str:
    """The id of a new counting metric with the filter keys region and cloud."""
    filters = [{"key": "region", "values": ["us", "eu", "asia"]}, {"key": "cloud", "values": ["aws", "gcp"]}]
    body = {"name": code, "code": code, "aggregation_type": "count_agg", "filters": filters, **fields}
    answer = send(box, "POST", "/billable_metrics", {"billable_metric": body})
    return str(accepted(answer, "billable_metric")["svc_id"])


def add_on(box: Sandbox, code: str = "seats") -> str:
    body = {"name": code, "code": code, "amount_cents": 200, "amount_currency": "EUR"}
    return str(accepted(send(box, "POST", "/add_ons", {"add_on": body}), "add_on")["svc_id"])


def tax(box: Sandbox, code: str = "vat") -> None:
    accepted(send(box, "POST", "/taxes", {"tax": {"name": code, "code": code, "rate": "20"}}), "tax")


def plan(box: Sandbox, **fields: object) -> tuple[int, Any]:
    """The answer to a new monthly plan of 10.00 euros in arrears."""
    body = {
        "name": "Basic",
        "code": "basic",
        "interval": "monthly",
        "amount_cents": 1000,
        "amount_currency": "EUR",
        "pay_in_advance": False,
        **fields,
    }
    return send(box, "POST", "/plans", {"plan": body})


def subscribed(box: Sandbox, plan_id: str, **fields: Any) -> Subscription:
    """A customer of its own on the plan since now: the record alone, nothing is billed."""
    external_id = str(fields.get("external_id", "sub1"))
    answer = send(box, "POST", "/customers", {"customer": {"external_id": f"customer of {external_id}"}})
    customer_id = accepted(answer, "customer")["svc_id"]

    def write(work: Work) -> Subscription:
        subscription = Subscription(
            **{
                "id": work.new_id(),
                "organization_id": work.organization.id,
                "external_id": external_id,
                "customer_id": customer_id,
                "plan_id": plan_id,
                "status": "active",
                "billing_time": "calendar",
                "subscription_at": work.now,
                "started_at": work.now,
                "created_at": work.now,
                "updated_at": work.now,
                **fields,
            }
        )
        work.tx.insert(subscription)
        return subscription

    return box.billing.writing(write)
