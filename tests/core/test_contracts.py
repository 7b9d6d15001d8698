"""Contracts: what a subscription's plan, customer and billing entities decide together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.core.builders import contract, parties
from tests.core.documents.builders import period

from usagebill.core.periods import Succession

MIDNIGHT = datetime(2024, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("customer", "entity", "zone", "grace_period", "sends_empty"),
    [
        ({}, {}, "UTC", 0, True),
        ({}, {"timezone": "Asia/Tokyo", "invoice_grace_period": 3}, "Asia/Tokyo", 3, True),
        ({"timezone": "Europe/Paris"}, {"timezone": "Asia/Tokyo"}, "Europe/Paris", 0, True),
        ({"invoice_grace_period": 5}, {"invoice_grace_period": 3}, "UTC", 5, True),
        ({}, {"finalize_zero_amount_invoice": False}, "UTC", 0, False),
        ({"finalize_zero_amount_invoice": "finalize"}, {"finalize_zero_amount_invoice": False}, "UTC", 0, True),
        ({"finalize_zero_amount_invoice": "skip"}, {}, "UTC", 0, False),
    ],
)
def test_a_customer_inherits_from_its_own_billing_entity_whoever_invoices(
    customer: dict[str, Any], entity: dict[str, Any], zone: str, grace_period: int, sends_empty: bool
) -> None:
    for issuer in ("entity", "another"):
        invoiced = parties(issuer=issuer, entity=entity, **customer)
        assert invoiced.issuer.id == issuer
        assert invoiced.timezone == zone
        assert invoiced.dating.grace_period == grace_period
        assert invoiced.sends_empty is sends_empty


def test_periods_follow_the_plan_the_zone_and_the_change_of_plan_before_and_after() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    signed = contract(plan={"interval": "yearly", "pay_in_advance": True, "bill_charges_monthly": True})
    periods = signed.cycle()
    assert (periods.interval, periods.pay_in_advance, periods.bill_charges_monthly) == ("yearly", True, True)
    assert (periods.tz, periods.started_at) == (UTC, signed.subscription.started_at)
    assert (periods.succession, periods.terminated_at) == (None, None)
    assert signed.cycle(tokyo).tz is tokyo
    downgraded = contract(billed_from=MIDNIGHT, succession="upgrade", terminated_at=MIDNIGHT).cycle()
    assert (downgraded.started_at, downgraded.succession) == (MIDNIGHT, Succession.UPGRADE)


def test_a_changed_subscription_keeps_its_plan_and_parties() -> None:
    signed = contract(issuer="another")
    ended = signed.of(contract(status="terminated").subscription)
    assert ended.subscription.status == "terminated"
    assert (ended.plan, ended.parties, ended.zone) == (signed.plan, signed.parties, signed.zone)


@pytest.mark.parametrize(
    ("fields", "plan", "is_overdue"),
    [
        ({}, {}, False),
        ({"ending_at": datetime(2024, 2, 29, 23, tzinfo=UTC)}, {}, True),
        ({"ending_at": datetime(2024, 3, 1, 23, tzinfo=UTC)}, {}, False),
        ({"ending_at": datetime.max.replace(tzinfo=UTC)}, {}, False),
        ({}, {"deleted_at": MIDNIGHT}, True),
    ],
)
def test_an_end_is_overdue_once_its_instant_has_passed(
    fields: dict[str, Any], plan: dict[str, Any], is_overdue: bool
) -> None:
    assert contract(plan=plan, **fields).has_overdue_end(MIDNIGHT) is is_overdue


UTC_ZONE, LOS_ANGELES = ZoneInfo("UTC"), ZoneInfo("America/Los_Angeles")


@pytest.mark.parametrize(
    ("at", "has_run", "run_tz", "zone"),
    [
        (None, True, UTC_ZONE, LOS_ANGELES),
        (datetime(2024, 3, 1, 0, 30, tzinfo=UTC), False, None, LOS_ANGELES),
        (datetime(2024, 3, 1, 0, 30, tzinfo=UTC), True, LOS_ANGELES, LOS_ANGELES),
        # In Los Angeles it is still February, which the run has closed.
        (datetime(2024, 3, 1, 0, 30, tzinfo=UTC), True, UTC_ZONE, UTC_ZONE),
        (datetime(2024, 3, 1, 8, tzinfo=UTC), True, UTC_ZONE, LOS_ANGELES),
    ],
)
def test_hours_of_a_closed_month_belong_to_the_period_that_the_run_opened(
    at: datetime | None, has_run: bool, run_tz: ZoneInfo | None, zone: ZoneInfo
) -> None:
    run_at = datetime(2024, 3, 1, 0, 10, tzinfo=UTC)
    run = period("subscription", run_at, timestamp=run_at)
    signed = replace(contract(), zone=LOS_ANGELES, last_run=run if has_run else None)
    assert signed.cycle_at(at, run_tz=run_tz).tz == zone
