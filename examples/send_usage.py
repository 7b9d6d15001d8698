"""Usage over HTTP: starts a service, sends a day of events in batches, twice, and sees each counted once."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import httpx

EVENTS = 1000
BATCH = 100


def events() -> list[dict[str, Any]]:
    now = int(datetime.now(UTC).timestamp())
    return [
        {
            "transaction_id": f"call-{number}",
            "code": "calls",
            "external_subscription_id": "acme-main",
            "timestamp": now,
            "properties": {"region": ("eu", "us")[number % 2]},
        }
        for number in range(EVENTS)
    ]


def send(client: httpx.Client, batch: list[dict[str, Any]]) -> int:
    """How many of the batch were new. What is refused as known is left out, and the rest sent again."""
    answer = client.post("/events/batch", json={"events": batch})
    if answer.status_code == 200:
        return len(batch)
    refused = answer.json()["error_details"]
    assert all(problem == {"transaction_id": ["value_already_exist"]} for problem in refused.values()), refused
    new = [event for position, event in enumerate(batch) if str(position) not in refused]
    return send(client, new) if new else 0


def main() -> None:
    command = [sys.executable, "-m", "usagebill", "serve", "--db", "usage.db", "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    text = ""
    while not text.endswith("\n}\n"):
        text += server.stdout.readline()
    shown = json.loads(text)
    headers = {"Authorization": f"Bearer {shown['api_key']}"}
    try:
        with httpx.Client(base_url=shown["url"] + "/api/v1", headers=headers) as client:
            metric = {"name": "Calls", "code": "calls", "aggregation_type": "count_agg"}
            client.post("/billable_metrics", json={"billable_metric": metric})
            charge = {"billable_metric_code": "calls", "charge_model": "standard", "properties": {"amount": "0.01"}}
            plan = {"name": "Basic", "code": "basic", "interval": "monthly", "amount_cents": 0, "pay_in_advance": False}
            client.post("/plans", json={"plan": {**plan, "amount_currency": "EUR", "charges": [charge]}})
            client.post("/customers", json={"customer": {"external_id": "acme", "currency": "EUR"}})
            subscription = {"external_customer_id": "acme", "plan_code": "basic", "external_id": "acme-main"}
            client.post("/subscriptions", json={"subscription": subscription})
            for attempt in ("first", "second"):
                new = sum(send(client, events()[start : start + BATCH]) for start in range(0, EVENTS, BATCH))
                print(f"{attempt} time: {new} events were new")
            usage = client.get("/customers/acme/current_usage?external_subscription_id=acme-main").json()
            print("usage so far:", usage["customer_usage"]["amount_cents"], "cents")
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


if __name__ == "__main__":
    main()
