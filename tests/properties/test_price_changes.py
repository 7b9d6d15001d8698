"""Random changes of prices: whenever the work is done, the papers are the same, and the audit recounts every line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.rating.test_prices_in_time import change_prices, everything
from tests.scenarios import Scenario
from usagebill.core.fees import Fee
from usagebill.core.price_versions import Effective
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Life:
    zone: str
    billing_time: str
    grace: int
    plan: dict[str, Any]
    steps: tuple[tuple[timedelta, str], ...]


lives = st.builds(
    Life,
    zone=st.sampled_from(["UTC", "America/Los_Angeles", "Asia/Tokyo"]),
    billing_time=st.sampled_from(["calendar", "anniversary"]),
    grace=st.sampled_from([0, 4]),
    plan=st.sampled_from(
        [
            {"pay_in_advance": False},
            {"pay_in_advance": True},
            {"pay_in_advance": True, "interval": "yearly", "bill_charges_monthly": True},
            {"pay_in_advance": False, "interval": "quarterly"},
        ]
    ),
    steps=st.lists(
        st.tuples(
            st.builds(
                lambda days, minutes: timedelta(days=days, minutes=minutes), st.integers(0, 25), st.integers(1, 999)
            ),
            st.sampled_from(["use", "use", *Effective, *Effective, "subscribe", "end"]),
        ),
        min_size=2,
        max_size=7,
    ).map(tuple),
)


def live(life: Life, *, daily: bool) -> list[object]:
    """The lines of the life; day by day each job runs at its own instant, otherwise when something is asked for."""
    now = datetime(2024, 1, 10, 8, tzinfo=UTC)
    with Scenario(now=now) as box:
        box.customer(timezone=life.zone, billing_configuration={"invoice_grace_period": life.grace})
        everything(box, **life.plan)
        box.subscribe(billing_time=life.billing_time)
        alive, subscribed = ["sub"], 1
        for turn, (after, action) in enumerate([*life.steps, (timedelta(days=45), "")], start=1):
            now += after
            box.travel_to(now) if daily else box.jump_to(now)
            if action == "use":
                for name in alive:
                    for code in ("calls", "prints", "scans", "members"):
                        box.event(code, name, value=str(turn), zone="eu")
            elif action == "subscribe":
                subscribed += 1
                alive.append(f"sub{subscribed}")
                box.subscribe(external_id=alive[-1], billing_time=life.billing_time)
            elif action == "end" and alive:
                box.unsubscribe(alive.pop())
            elif action in frozenset(Effective):
                change_prices(box, turn, action)
        box.run_due()
        report = box.billing.audit()
        assert report.findings == ()
        assert report.not_recounted == ()
        return box.billing.reading(_lines)


def _lines(reader: Reader) -> list[object]:
    lines = [
        (
            fee.external_subscription_id,
            fee.fee_type,
            fee.item.code,
            fee.amount_cents,
            fee.taxes_amount_cents,
            fee.units,
            fee.from_datetime,
            fee.to_datetime,
            fee.created_at,
        )
        for fee in reader.tx.find(Fee, order=[asc("created_at"), asc("id")])
    ]
    return sorted(lines, key=repr)


@examples(20, few=2, deadline=None)
@given(lives)
def test_working_late_bills_the_same_prices(life: Life) -> None:
    assert live(life, daily=True) == live(life, daily=False)
