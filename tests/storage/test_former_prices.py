"""Prices that wait, in files of a time when a plan could have one such change alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.postgresql import server_url
from tests.storage.former_versions import make_former

from usagebill import Billing
from usagebill.runtime.clock import ManualClock
from usagebill.storage.postgresql.databases import temporary_database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    with temporary_database(server_url()) as url:
        yield url


def test_prices_that_wait_in_a_former_database_still_wait(database: str) -> None:
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    with Billing(database, clock=clock, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", name="Acme", currency="EUR")
        plan: dict[str, Any] = {
            "name": "Basic",
            "interval": "monthly",
            "amount_currency": "EUR",
            "pay_in_advance": False,
        }
        billing.plans.create(code="basic", amount_cents=1000, **plan)
        billing.plans.create(code="other", amount_cents=1000, **plan)
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        clock.set(datetime(2024, 1, 10, tzinfo=UTC))
        billing.plans.update("basic", amount_cents=2000, effective="next_period")
        (step,) = billing.plans.get("basic").price_steps
    for former in (
        "ALTER TABLE plans ADD COLUMN prices_from TEXT",
        "ALTER TABLE plans ADD COLUMN prices_before INTEGER",
        f"UPDATE plans SET prices_from = '{step.starts.isoformat()}', prices_before = {step.before}"
        " WHERE code = 'basic'",
        "UPDATE plans SET price_steps = '[]'",
    ):
        make_former(database, 82, former)
    with Billing(database, clock=clock, deliver=False) as billing:
        assert billing.plans.get("basic").price_steps == (step,)
        assert billing.plans.get("other").price_steps == ()
        march = datetime(2024, 3, 1, 3, tzinfo=UTC)
        while (due := billing.next_due()) is not None and due <= march:
            clock.set(max(due, clock.now()))
            billing.run_due(strict=True)
        assert sorted(invoice.total_amount_cents for invoice in billing.invoices.list().items) == [1000, 2000]
