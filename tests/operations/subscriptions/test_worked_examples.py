"""Lives with known amounts: plan changes, trials and new starts, to the cent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.money import share
from tests.scenarios import Scenario, fees_of, windows


def fee_cents(invoice: Any, kind: str = "subscription") -> list[int]:
    return [fee["amount_cents"] for fee in fees_of(invoice, kind)]


def test_a_downgrade_to_a_longer_interval_starts_with_the_next_period() -> None:
    with Scenario(now="2023-07-19T12:12:00Z") as box:
        box.plan(amount_cents=12_900, pay_in_advance=True)
        box.plan(code="yearly", amount_cents=118_800, interval="yearly", pay_in_advance=True)
        box.subscribe(billing_time="anniversary")
        box.travel_to("2023-11-09T00:00:00Z")
        assert box.subscribe("yearly")["plan_code"] == "basic"
        box.travel_to("2023-11-19T00:10:00Z")
        change = box.invoices()[-1]
        assert fee_cents(change) == [share(118_800, 243, 366)]
        assert ("2023-11-19T00:00:00Z", "2024-07-18T23:59:59Z") in windows(change)


@pytest.mark.parametrize(
    ("billing_time", "fees"),
    [
        ("calendar", [share(1_000, 27, 31), share(1_500, 20, 31), share(1_900, 20, 31)]),
        ("anniversary", [1_000, share(1_500, 24, 31), share(1_900, 24, 31)]),
    ],
)
def test_two_upgrades_on_one_day(billing_time: str, fees: list[int]) -> None:
    with Scenario(now="2024-03-05T00:00:00Z") as box:
        for code, amount in (("basic", 1000), ("pro", 1500), ("max", 1900)):
            box.plan(code=code, amount_cents=amount, pay_in_advance=True)
        box.subscribe(billing_time=billing_time)
        box.travel_to("2024-03-12T12:12:00Z")
        box.subscribe("pro")
        box.travel_to("2024-03-12T13:12:00Z")
        box.subscribe("max")
        assert [sum(fee_cents(invoice)) for invoice in box.invoices()] == fees


@pytest.mark.parametrize(
    ("start", "billing_time"), [("2024-05-20T00:00:00Z", "calendar"), ("2024-01-15T00:00:00Z", "anniversary")]
)
def test_a_quarter_that_ends_early(start: str, billing_time: str) -> None:
    with Scenario(now=start) as box:
        box.plan(code="free", amount_cents=0)
        box.plan(interval="quarterly", amount_cents=91_000)
        if billing_time == "anniversary":
            box.subscribe("free", billing_time=billing_time)
            box.travel_to("2024-05-20T00:00:00Z")
        box.subscribe(billing_time=billing_time)
        box.travel_to("2024-06-20T10:00:00Z")
        box.delete("/subscriptions/sub")
        assert fee_cents(box.invoices()[-1]) == [share(91_000, 32, 91)]


def test_a_renewed_subscription_keeps_its_anniversary_and_bills_nothing_twice() -> None:
    with Scenario(now="2025-03-15T00:00:00Z") as box:
        box.plan(interval="yearly", amount_cents=36_500)
        box.subscribe(billing_time="anniversary")
        box.travel_to("2026-03-13T10:00:00Z")
        box.delete("/subscriptions/sub")
        again = box.subscribe(billing_time="anniversary", subscription_at="2025-03-15T00:00:00Z")
        assert again["started_at"] == "2026-03-13T10:00:00.000Z"
        box.travel_to("2026-03-15T00:10:00Z")
        last = box.invoices()[-1]
        assert last["billing_periods"][0]["charges_from_datetime"] == "2026-03-13T10:00:00Z"
        assert windows(last) == [("2026-03-13T00:00:00Z", "2026-03-14T23:59:59Z")]


def test_an_upgrade_during_a_trial_is_billed_when_the_trial_ends() -> None:
    with Scenario(now="2024-03-05T12:12:00Z") as box:
        box.plan(amount_cents=5_000_000, pay_in_advance=True, trial_period=10)
        box.plan(code="pro", amount_cents=10_000_000, pay_in_advance=True, trial_period=13)
        box.subscribe()
        box.travel_to("2024-03-10T00:00:00Z")
        box.subscribe("pro")
        box.travel_to("2024-03-18T13:00:00Z")
        change, end_of_trial = box.invoices()
        assert fee_cents(change) == []
        assert fee_cents(end_of_trial) == [share(10_000_000, 14, 31)]


def test_a_trial_over_a_renewal() -> None:
    with Scenario(now="2024-03-05T00:00:00Z") as box:
        box.plan(amount_cents=5_000_000, pay_in_advance=True, trial_period=45)
        box.subscribe()
        box.travel_to("2024-04-02T00:00:00Z")
        assert [fee_cents(invoice) for invoice in box.invoices()] == [[]]
        box.travel_to("2024-04-20T00:00:00Z")
        assert fee_cents(box.invoices()[-1]) == [share(5_000_000, 12, 30)]
        box.travel_to("2024-05-01T00:10:00Z")
        assert fee_cents(box.invoices()[-1]) == [5_000_000]


@pytest.mark.parametrize(
    ("zone", "start", "run", "first", "second"),
    [
        ("Europe/Paris", "2024-03-22T01:12:00Z", "2024-03-31T22:10:00Z", [5_000_000], None),
        ("Asia/Tokyo", "2024-03-22T18:12:00Z", "2024-03-31T15:10:00Z", [], [share(5_000_000, 29, 30)]),
    ],
)
def test_a_trial_that_ends_on_the_local_day_of_a_renewal_or_the_next(
    zone: str, start: str, run: str, first: list[int], second: list[int] | None
) -> None:
    with Scenario(now=start) as box:
        box.customer(timezone=zone)
        box.plan(amount_cents=5_000_000, pay_in_advance=True, trial_period=10)
        box.subscribe()
        box.travel_to(run)
        assert [fee_cents(invoice) for invoice in box.invoices()] == [first]
        box.travel_to("2024-04-02T00:00:00Z")
        cents = [fee_cents(invoice) for invoice in box.invoices()]
        assert cents == ([first] if second is None else [first, second])
        assert box.get("/subscriptions/sub")["subscription"]["trial_ended_at"] is not None


def test_a_commitment_in_advance_is_settled_a_period_later() -> None:
    with Scenario(now="2023-02-01T00:00:00Z") as box:
        box.plan(
            interval="weekly", amount_cents=100_000, pay_in_advance=True, minimum_commitment={"amount_cents": 1_000_000}
        )
        box.subscribe()
        box.travel_to("2023-02-15T10:00:00Z")
        box.delete("/subscriptions/sub")
        assert [fee_cents(invoice, "commitment") for invoice in box.invoices()] == [
            [],
            [share(1_000_000, 5, 7) - share(100_000, 5, 7)],
            [1_000_000 - 100_000],
            # Of the last fee, the part for the days after the end was credited.
            [share(1_000_000, 3, 7) - share(100_000, 3, 7)],
        ]


def test_a_week_begun_on_a_wednesday_is_five_sevenths() -> None:
    with Scenario(now="2022-06-22T00:00:00Z") as box:
        box.plan(interval="weekly", amount_cents=100, pay_in_advance=True)
        box.subscribe()
        (invoice,) = box.invoices()
        (fee,) = invoice["fees"]
        assert (fee["amount_cents"], fee["precise_amount"][:12], fee["units"]) == (
            share(100, 5, 7),
            "0.7142857142",
            "1.0",
        )
        assert fee["amount_details"] == {"plan_amount_cents": 100}
        assert fee["from_date"] == "2022-06-22T00:00:00+00:00"
        assert fee["to_date"] == "2022-06-26T23:59:59+00:00"
