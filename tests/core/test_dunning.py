"""When a campaign asks, in which currencies, how often, and when it has asked for the last time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import invoice, parties

from usagebill.core.dunning import (
    DunningCampaign,
    DunningProgress,
    DunningThreshold,
    applicable_campaign_id,
    attempted,
    campaign_errors,
    currencies_to_attempt,
    is_finished,
    next_run_at,
    reaches_a_threshold,
    requested_together,
    reset,
)
from usagebill.core.invoices.records import Invoice

NOW = datetime(2025, 1, 3, 10, 45, tzinfo=UTC)
DAY = timedelta(days=1)


def campaign(*thresholds: tuple[int, str], **fields: Any) -> DunningCampaign:
    values: dict[str, Any] = {
        "id": "c",
        "organization_id": "o",
        "code": "standard",
        "name": "Standard",
        "created_at": NOW,
        "updated_at": NOW,
        "thresholds": tuple(DunningThreshold(amount_cents=cents, currency=code) for cents, code in thresholds),
        **fields,
    }
    return DunningCampaign(**values)


def progress(**fields: Any) -> DunningProgress:
    return DunningProgress(id="p", organization_id="o", customer_id="c", created_at=NOW, updated_at=NOW, **fields)


def test_a_threshold_is_reached_by_the_amount_itself() -> None:
    assert currencies_to_attempt(campaign((9900, "EUR")), {}, {"EUR": 9900}) == ["EUR"]
    assert currencies_to_attempt(campaign((9901, "EUR")), {}, {"EUR": 9900}) == []
    assert currencies_to_attempt(campaign((0, "EUR")), {}, {"USD": 9900}) == []
    assert reaches_a_threshold(campaign((9900, "EUR"), (1, "USD")), {"EUR": 9900})
    assert not reaches_a_threshold(campaign((9901, "EUR"), (1, "USD")), {"EUR": 9900})


@pytest.mark.parametrize(
    ("ago", "due"),
    [(timedelta(days=3), False), (timedelta(days=4), False), (timedelta(days=4, seconds=1), True)],
)
def test_more_than_the_days_between_must_have_passed(ago: timedelta, due: bool) -> None:
    four_days = campaign((1, "EUR"), days_between_attempts=4)
    known = progress(attempts={"EUR": 1}, last_attempt_at=NOW - ago)
    assert (next_run_at(four_days, known, NOW) == NOW) == due


def test_runs_are_at_minute_45() -> None:
    daily = campaign((1, "EUR"))
    for now, run in (("10:44:59", "10:45"), ("10:45:00", "10:45"), ("10:45:01", "11:45"), ("23:50:00", "00:45")):
        hour, minute, second = map(int, now.split(":"))
        at = next_run_at(daily, None, NOW.replace(hour=hour, minute=minute, second=second))
        assert at.strftime("%H:%M") == run
    # An attempt that a run made is followed by one an hour later in the day, once the days have passed.
    again = next_run_at(daily, progress(attempts={"EUR": 1}, last_attempt_at=NOW), NOW)
    assert again == NOW + DAY + timedelta(hours=1)


def test_two_currencies_share_a_clock_and_have_attempts_of_their_own() -> None:
    both = campaign((15_000, "EUR"), (10_000, "USD"), max_attempts=2, days_between_attempts=2)
    balances = {"EUR": 14_900, "USD": 12_000}
    known = progress()
    history: list[dict[str, int]] = []
    finished = []
    for day in (3, 6, 9, 12):
        if day == 6:
            balances["EUR"] += 1_000
        currencies = currencies_to_attempt(both, known.attempts, balances)
        if currencies:
            known = attempted(known, currencies, NOW + day * DAY)
            if is_finished(both, known.attempts, balances):
                finished.append(day)
        history.append(dict(known.attempts))
    assert history == [{"USD": 1}, {"USD": 2, "EUR": 1}, {"USD": 2, "EUR": 2}, {"USD": 2, "EUR": 2}]
    assert finished == [9]


def test_what_is_paid_counts_afresh_and_does_not_keep_a_campaign_from_ending() -> None:
    known = progress(attempts={"EUR": 2, "USD": 1}, last_attempt_at=NOW)
    paid = reset(known, "USD", NOW + DAY)
    assert (paid.attempts, paid.last_attempt_at) == ({"EUR": 2, "USD": 0}, NOW)
    assert is_finished(campaign((1, "EUR"), (1, "USD"), max_attempts=2), paid.attempts, {"EUR": 500})
    assert not is_finished(campaign((1, "EUR"), max_attempts=2), {"EUR": 1}, {"EUR": 500})
    both = reset(paid, "EUR", NOW + DAY)
    assert (both.attempts, both.last_attempt_at) == ({"EUR": 0, "USD": 0}, None)


@given(
    st.dictionaries(st.sampled_from(["EUR", "USD", "GBP"]), st.integers(0, 200), max_size=3),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_nobody_is_asked_more_often_than_the_campaign_says(balances: dict[str, int], most: int, days: int) -> None:
    all_three = campaign((0, "EUR"), (50, "USD"), (100, "GBP"), max_attempts=most, days_between_attempts=days)
    known, now, attempts, finished = progress(), NOW, 0, 0
    for _ in range(most * 3 + 2):
        now = next_run_at(all_three, known, now)
        if currencies := currencies_to_attempt(all_three, known.attempts, balances):
            assert known.last_attempt_at is None or now - known.last_attempt_at > days * DAY
            known = attempted(known, currencies, now)
            attempts += len(currencies)
            finished += is_finished(all_three, known.attempts, balances)
        now += timedelta(minutes=1)
    wanted = [code for code, least in (("EUR", 0), ("USD", 50), ("GBP", 100)) if balances.get(code, -1) >= least]
    assert known.attempts == dict.fromkeys(wanted, most)
    assert attempts == most * len(wanted)
    assert finished == bool(wanted)


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"name": " "}, {"name": ["value_is_mandatory"]}),
        ({"code": ""}, {"code": ["value_is_mandatory"]}),
        ({"thresholds": ()}, {"thresholds": ["can't be blank"]}),
        ({"days_between_attempts": 0}, {"days_between_attempts": ["value_is_out_of_range"]}),
        ({"max_attempts": 0}, {"max_attempts": ["value_is_out_of_range"]}),
        (
            {"bcc_emails": ("a@b.example", "nobody", "a@b.example,c@d.example")},
            {"bcc_emails": ["invalid_email_format[1,nobody]", "invalid_email_format[2,a@b.example,c@d.example]"]},
        ),
        (
            {
                "thresholds": (
                    DunningThreshold(amount_cents=1, currency="EUR"),
                    DunningThreshold(amount_cents=-1, currency="XXXX"),
                    DunningThreshold(amount_cents=2, currency="EUR"),
                )
            },
            {
                "thresholds": {
                    "1": {"amount_cents": ["value_is_out_of_range"], "currency": ["value_is_invalid"]},
                    "2": {"currency": ["value_already_exist"]},
                }
            },
        ),
    ],
)
def test_what_is_wrong_with_a_campaign_is_named(fields: dict[str, Any], errors: dict[str, object]) -> None:
    assert (
        campaign_errors(campaign((1, "EUR"), **fields) if "thresholds" not in fields else campaign(**fields)) == errors
    )


def overdue(cents: int, *, currency: str = "EUR", entity: str = "entity", ready: bool = True) -> Invoice:
    return invoice(
        total_amount_cents=cents, currency=currency, billing_entity_id=entity, ready_for_payment_processing=ready
    )


@pytest.mark.parametrize(
    ("invoices", "requested"),
    [
        ([overdue(600), overdue(400)], {"entity": [600, 400]}),
        ([overdue(600), overdue(400, entity="other")], {"entity": [600], "other": [400]}),
        # Together they do not come to the threshold, some because they are being paid, or in another currency.
        ([overdue(600), overdue(399)], {}),
        ([overdue(600), overdue(400, ready=False)], {}),
        ([overdue(600), overdue(400, currency="USD")], {}),
        ([overdue(1000), overdue(400, ready=False)], {"entity": [1000]}),
        ([], {}),
    ],
)
def test_one_request_to_each_billing_entity_if_enough_can_be_paid_now(
    invoices: list[Invoice], requested: dict[str, list[int]]
) -> None:
    by_entity = requested_together(campaign((1000, "EUR")), "EUR", invoices)
    assert {
        entity: [of_entity.total_amount_cents for of_entity in together] for entity, together in by_entity.items()
    } == requested


def test_nobody_is_asked_in_a_currency_that_the_campaign_leaves_out() -> None:
    assert requested_together(campaign((1, "EUR")), "USD", [overdue(100, currency="USD")]) == {}


@pytest.mark.parametrize(
    ("customer", "entity", "campaign_id"),
    [
        ({}, {}, None),
        ({}, {"applied_dunning_campaign_id": "entity's"}, "entity's"),
        ({"applied_dunning_campaign_id": "own"}, {"applied_dunning_campaign_id": "entity's"}, "own"),
        ({"exclude_from_dunning_campaign": True}, {"applied_dunning_campaign_id": "entity's"}, None),
        ({"account_type": "partner", "applied_dunning_campaign_id": "own"}, {}, None),
        ({"deleted_at": NOW, "applied_dunning_campaign_id": "own"}, {}, None),
    ],
)
def test_a_customer_is_dunned_by_its_own_campaign_or_its_entitys(
    customer: dict[str, Any], entity: dict[str, Any], campaign_id: str | None
) -> None:
    invoiced = parties(entity=entity, **customer)
    assert applicable_campaign_id(invoiced.customer, invoiced.entity) == campaign_id
