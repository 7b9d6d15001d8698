"""Whoever asks for usage is answered from running states: an error planted in them shows everywhere, and is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.builders import add_wallet
from tests.scenarios import Scenario, charge_on, plan_fields
from tests.storage.eager_states import eager_states

from usagebill import Billing
from usagebill.cli import main
from usagebill.runtime.clock import ManualClock

pytestmark = pytest.mark.now("2024-03-10T10:00:00Z")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Few events have totals too."""
    with eager_states():
        yield


def plant(store: Any, more: int = 1000) -> None:
    """Have states say that so much more was used than was."""
    changed = store.write(
        None, lambda tx: tx._connection.execute(f"UPDATE usage_totals SET total = total + {more}").rowcount
    )
    assert changed


@pytest.fixture
def used(box: Scenario) -> Scenario:
    """A subscription whose usage so far, 10.00, is in states."""
    box.customer()
    box.plan(charge_on(box.metric("gb"), amount="1"))
    box.subscribe()
    box.event("gb", value=4)
    box.event("gb", value=6)
    assert box.usage()["amount_cents"] == 1000
    box.billing.run_due()
    return box


def test_current_and_projected_usage_are(used: Scenario) -> None:
    plant(used.billing.store)
    assert used.usage()["amount_cents"] == (4 + 6 + 1000) * 100
    projected = used.get("/customers/acme/projected_usage?external_subscription_id=sub")["customer_projected_usage"]
    assert projected["amount_cents"] == (4 + 6 + 1000) * 100


def test_the_ongoing_balance_of_wallets_is(used: Scenario) -> None:
    add_wallet(used, 5000)
    plant(used.billing.store)
    used.event("gb", value=1)
    (wallet,) = used.get("/wallets?external_customer_id=acme")["wallets"]
    assert wallet["ongoing_usage_balance_cents"] == 101_000 + 100


def test_alerts_are(used: Scenario) -> None:
    alert = {"alert_type": "current_usage_amount", "code": "watch", "thresholds": [{"value": 100_000}]}
    used.post("/subscriptions/sub/alerts", alert=alert)
    plant(used.billing.store)
    used.event("gb", value=1)
    used.travel_to("2024-03-10T10:01:00Z")
    assert used.webhook_types("alert") == ["alert.triggered"]


def test_thresholds_of_plans_are(used: Scenario) -> None:
    used.put("/plans/basic", plan={"usage_thresholds": [{"amount_cents": 100_000}]})
    plant(used.billing.store)
    used.event("gb", value=1)
    used.travel_to("2024-03-10T10:06:00Z")
    (invoice,) = used.invoices()
    assert (invoice["invoice_type"], invoice["fees_amount_cents"]) == ("progressive_billing", 101_000 + 100)


def test_bills_are_and_their_audit_finds_what_is_wrong(used: Scenario) -> None:
    assert used.billing.audit().found == 0
    plant(used.billing.store)
    used.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = used.invoices()
    assert invoice["fees_amount_cents"] == (4 + 6 + 1000) * 100
    (finding,) = (item for item in used.billing.audit().findings if item.check == "usage_states")
    assert str(finding) == (
        "usage_states: usage of sub, numbers of gb: expected what the events come to, found 2 states that differ"
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "billing.db"

    with Billing(path, clock=ManualClock(datetime(2024, 3, 1, tzinfo=UTC)), deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="value")
        billing.plans.create(**plan_fields(charge_on(metric.id, amount="1")))
        billing.subscriptions.create(external_customer_id="acme", external_id="sub", plan_code="basic")
        billing.events.ingest(
            {
                "transaction_id": f"t{number}",
                "code": "gb",
                "external_subscription_id": "sub",
                "timestamp": 1709251200 + number,
                "properties": {"value": number},
            }
            for number in range(5)
        )
        billing.usage.current("acme", external_subscription_id="sub")
        billing.run_due()
    return path


def run(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_a_planted_error_is_found_and_rebuilt_from_the_command_line(file: Path) -> None:
    assert run("audit", "--db", str(file))["organizations"][0]["found"] == 0
    with Billing(file) as billing:
        plant(billing.store)
    (report,) = run("audit", "--db", str(file), code=1)["organizations"]
    assert [finding["check"] for finding in report["findings"]] == ["usage_states"]
    (rebuilt,) = run("repair", "usage", "--db", str(file))["organizations"]
    assert rebuilt["series"] == 1
    assert run("audit", "--db", str(file))["organizations"][0]["found"] == 0
