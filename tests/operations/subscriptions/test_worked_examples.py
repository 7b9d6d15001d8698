"""Lives with known amounts: plan changes, trials and new starts, to the cent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios import add_plan, ask, invoices_of, subscribe, windows

from usagebill.testing import Sandbox


def fee_cents(invoice: Any, kind: str = "subscription") -> list[int]:
    return [fee["amount_cents"] for fee in invoice["fees"] if fee["item"]["type"] == kind]


def test_a_downgrade_to_a_longer_interval_starts_with_the_next_period() -> None:
    with Sandbox(now="2023-07-19T12:12:00Z") as box:
        add_plan(box, amount_cents=12_900, pay_in_advance=True)
        add_plan(box, "yearly", amount_cents=118_800, interval="yearly", pay_in_advance=True)
        subscribe(box, billing_time="anniversary")
        box.travel_to("2023-11-09T00:00:00Z")
        assert subscribe(box, "yearly")["plan_code"] == "basic"
        box.travel_to("2023-11-19T00:10:00Z")
        change = invoices_of(box)[-1]
        assert fee_cents(change) == [78_875]
        assert ("2023-11-19T00:00:00Z", "2024-07-18T23:59:59Z") in windows(change)


@pytest.mark.parametrize(
    ("billing_time", "fees"), [("calendar", [871, 968, 1_226]), ("anniversary", [1_000, 1_161, 1_471])]
)
def test_two_upgrades_on_one_day(billing_time: str, fees: list[int]) -> None:
    with Sandbox(now="2024-03-05T00:00:00Z") as box:
        for code, amount in (("basic", 1000), ("pro", 1500), ("max", 1900)):
            add_plan(box, code, amount_cents=amount, pay_in_advance=True)
        subscribe(box, billing_time=billing_time)
        box.travel_to("2024-03-12T12:12:00Z")
        subscribe(box, "pro")
        box.travel_to("2024-03-12T13:12:00Z")
        subscribe(box, "max")
        assert [sum(fee_cents(invoice)) for invoice in invoices_of(box)] == fees


@pytest.mark.parametrize(
    ("start", "billing_time"), [("2024-05-20T00:00:00Z", "calendar"), ("2024-01-15T00:00:00Z", "anniversary")]
)
def test_a_quarter_that_ends_early(start: str, billing_time: str) -> None:
    with Sandbox(now=start) as box:
        add_plan(box, "free", amount_cents=0)
        add_plan(box, interval="quarterly", amount_cents=91_000)
        if billing_time == "anniversary":
            subscribe(box, "free", billing_time=billing_time)
            box.travel_to("2024-05-20T00:00:00Z")
        subscribe(box, billing_time=billing_time)
        box.travel_to("2024-06-20T10:00:00Z")
        ask(box, "DELETE", "/subscriptions/sub")
        assert fee_cents(invoices_of(box)[-1]) == [32_000]


def test_a_subscription_taken_anew_keeps_its_anniversary_and_bills_nothing_twice() -> None:
    with Sandbox(now="2025-03-15T00:00:00Z") as box:
        add_plan(box, interval="yearly", amount_cents=36_500)
        subscribe(box, billing_time="anniversary")
        box.travel_to("2026-03-13T10:00:00Z")
        ask(box, "DELETE", "/subscriptions/sub")
        again = subscribe(box, billing_time="anniversary", subscription_at="2025-03-15T00:00:00Z")
        assert again["started_at"] == "2026-03-13T10:00:00.000Z"
        box.travel_to("2026-03-15T00:10:00Z")
        last = invoices_of(box)[-1]
        assert last["billing_periods"][0]["charges_from_datetime"] == "2026-03-13T10:00:00Z"
        assert windows(last) == [("2026-03-13T00:00:00Z", "2026-03-14T23:59:59Z")]


def test_an_upgrade_during_a_trial_is_billed_when_the_trial_ends() -> None:
    with Sandbox(now="2024-03-05T12:12:00Z") as box:
        add_plan(box, amount_cents=5_000_000, pay_in_advance=True, trial_period=10)
        add_plan(box, "pro", amount_cents=10_000_000, pay_in_advance=True, trial_period=13)
        subscribe(box)
        box.travel_to("2024-03-10T00:00:00Z")
        subscribe(box, "pro")
        box.travel_to("2024-03-18T13:00:00Z")
        change, end_of_trial = invoices_of(box)
        assert fee_cents(change) == []
        assert fee_cents(end_of_trial) == [4_516_129]


def test_a_trial_over_a_renewal() -> None:
    with Sandbox(now="2024-03-05T00:00:00Z") as box:
        add_plan(box, amount_cents=5_000_000, pay_in_advance=True, trial_period=45)
        subscribe(box)
        box.travel_to("2024-04-02T00:00:00Z")
        assert [fee_cents(invoice) for invoice in invoices_of(box)] == [[]]
        box.travel_to("2024-04-20T00:00:00Z")
        assert fee_cents(invoices_of(box)[-1]) == [2_000_000]
        box.travel_to("2024-05-01T00:10:00Z")
        assert fee_cents(invoices_of(box)[-1]) == [5_000_000]


@pytest.mark.parametrize(
    ("zone", "start", "run", "first", "second"),
    [
        ("Europe/Paris", "2024-03-22T01:12:00Z", "2024-03-31T22:10:00Z", [5_000_000], None),
        ("Asia/Tokyo", "2024-03-22T18:12:00Z", "2024-03-31T15:10:00Z", [], [4_833_333]),
    ],
)
def test_a_trial_that_ends_on_the_local_day_of_a_renewal_or_the_next(
    zone: str, start: str, run: str, first: list[int], second: list[int] | None
) -> None:
    with Sandbox(now=start) as box:
        ask(box, "POST", "/customers", {"customer": {"external_id": "acme", "timezone": zone}})
        add_plan(box, amount_cents=5_000_000, pay_in_advance=True, trial_period=10)
        subscribe(box)
        box.travel_to(run)
        assert [fee_cents(invoice) for invoice in invoices_of(box)] == [first]
        box.travel_to("2024-04-02T00:00:00Z")
        found = [fee_cents(invoice) for invoice in invoices_of(box)]
        assert found == ([first] if second is None else [first, second])
        assert ask(box, "GET", "/subscriptions/sub")["subscription"]["trial_ended_at"] is not None


def test_a_commitment_in_advance_is_settled_a_period_later() -> None:
    from datetime import UTC, datetime

    from usagebill.core.plans import MinimumCommitment

    at = datetime(2023, 2, 1, tzinfo=UTC)
    commitment = MinimumCommitment(
        id="0186097e-5c00-7000-8000-000000000000", amount_cents=1_000_000, created_at=at, updated_at=at
    )
    with Sandbox(now="2023-02-01T00:00:00Z") as box:
        add_plan(box, interval="weekly", amount_cents=100_000, pay_in_advance=True, minimum_commitment=commitment)
        subscribe(box)
        box.travel_to("2023-02-15T10:00:00Z")
        ask(box, "DELETE", "/subscriptions/sub")
        assert [fee_cents(invoice, "commitment") for invoice in invoices_of(box)] == [
            [],
            [642_857],
            [900_000],
            [328_571],
        ]


def test_a_week_begun_on_a_wednesday_is_five_sevenths() -> None:
    with Sandbox(now="2022-06-22T00:00:00Z") as box:
        add_plan(box, interval="weekly", amount_cents=100, pay_in_advance=True)
        subscribe(box)
        (invoice,) = invoices_of(box)
        (fee,) = invoice["fees"]
        assert (fee["amount_cents"], fee["precise_amount"][:12], fee["units"]) == (71, "0.7142857142", "1.0")
        assert fee["amount_details"] == {"plan_amount_cents": 100}
        assert fee["from_date"] == "2022-06-22T00:00:00+00:00"
        assert fee["to_date"] == "2022-06-26T23:59:59+00:00"
