"""What providers keep of payments, where they tell, is on the payment and in the books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.payment_providers.test_lives import Life, living
from tests.payment_servers.flutterwave import FlutterwaveServer
from tests.payment_servers.stripe import StripeServer
from tests.scenarios import Scenario

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


@pytest.fixture
def stripe(box: Scenario) -> StripeServer:
    return StripeServer(now=lambda: box.now)


@pytest.fixture
def life(box: Scenario, stripe: StripeServer) -> Iterator[Life]:
    """A customer with a card at Stripe."""
    with living(box, stripe) as life:
        life.notice(stripe.card_added("cus_1", "pm_1"))
        yield life


def fee_of(life: Life) -> tuple[int | None, str | None]:
    (payment,) = life.payments()
    return payment["provider_fee_amount_cents"], payment["provider_fee_currency"]


def posted(life: Life, **filters: str) -> dict[tuple[str, str], int]:
    """The balances by account and currency."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    sums: Counter[tuple[str, str]] = Counter()
    for one in life.box.get(f"/ledger?per_page=100&{query}")["movements"]:
        sums[one["account"], one["amount_currency"]] += one["amount_cents"]
    return {place: cents for place, cents in sums.items() if cents}


def assert_sound(life: Life) -> None:
    assert life.box.billing.audit().findings == ()
    assert life.unhandled() == []


@pytest.mark.parametrize("times", [1, 2])
def test_the_fee_of_a_charge_is_booked_once_it_is_known(life: Life, stripe: StripeServer, times: int) -> None:
    invoice = life.invoice()
    (intent,) = stripe.intents
    life.notice(stripe.charge_event("succeeded", intent, None))
    assert fee_of(life) == (None, None)
    for _ in range(times):
        life.notice(stripe.charge_event("updated", intent, 45))
    assert fee_of(life) == (45, "EUR")
    assert posted(life, document_type="provider_fee") == {("provider_fees", "EUR"): 45, ("cash", "EUR"): -45}
    assert posted(life)["cash", "EUR"] == 1005
    life.assert_paid(invoice)
    assert_sound(life)


def test_a_fee_is_in_the_currency_in_which_the_provider_pays_out(life: Life, stripe: StripeServer) -> None:
    life.invoice()
    (intent,) = stripe.intents
    life.notice(stripe.charge_event("succeeded", intent, 51, "usd"))
    assert fee_of(life) == (51, "USD")
    assert posted(life, account="cash") == {("cash", "EUR"): 1050, ("cash", "USD"): -51}
    assert posted(life, account="provider_fees") == {("provider_fees", "USD"): 51}
    assert_sound(life)


def test_a_fee_that_is_told_before_its_payment_waits_for_it(life: Life, stripe: StripeServer) -> None:
    stripe.outcomes.append("declined")
    page = life.page(life.invoice())
    paid = stripe.page_paid(page.rpartition("/")[2])
    intent = list(stripe.intents)[-1]
    early = stripe.charge_event("updated", intent, 45)
    life.notice(early)
    life.notice(paid)
    life.box.travel_to("2024-03-05T14:00:00Z")
    told = [payment["provider_fee_amount_cents"] for payment in life.payments()]
    assert sorted(told, key=str) == [45, None]
    assert_sound(life)


def test_the_fee_stays_when_the_money_goes_back(life: Life, stripe: StripeServer) -> None:
    invoice = life.invoice()
    (intent,) = stripe.intents
    life.notice(stripe.charge_event("updated", intent, 45))
    life.credit_note(invoice, 400)
    life.notice(stripe.dispute_closed(intent))
    assert posted(life)["provider_fees", "EUR"] == 45
    assert posted(life)["cash", "EUR"] == -45
    assert_sound(life)


def test_a_charge_that_is_not_ours_has_no_fee_here(life: Life, stripe: StripeServer) -> None:
    life.invoice()
    (intent,) = stripe.intents
    stripe.intents["pi_other"] = {**stripe.intents[intent], "metadata": {}}
    life.notice(stripe.charge_event("updated", "pi_other", 45))
    assert fee_of(life) == (None, None)
    assert_sound(life)


def test_a_fee_in_a_closed_month_is_posted_on_the_first_open_day(life: Life, stripe: StripeServer) -> None:
    life.invoice()
    (intent,) = stripe.intents
    life.box.travel_to("2024-04-02T08:00:00Z")
    life.box.billing.ledger.close(month="2024-03")
    life.notice(stripe.charge_event("updated", intent, 45))
    days = {one["posting_date"] for one in life.box.get("/ledger?document_type=provider_fee")["movements"]}
    assert days == {"2024-04-02"}
    assert_sound(life)


@pytest.mark.parametrize(
    ("told", "fee"),
    [
        ({"app_fee": 1.4, "charged_amount": 10.5, "amount_settled": 9.1}, (140, "NGN")),
        ({"app_fee": 0.155, "charged_amount": 10.5}, (16, "NGN")),
        # The customer has paid it on top.
        ({"app_fee": 1.4, "charged_amount": 11.9}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_flutterwave_tells_its_fee_with_the_transaction(box: Scenario, told: Any, fee: Any) -> None:
    flutterwave = FlutterwaveServer(now=lambda: box.now)
    with living(box, flutterwave, "NGN") as life:
        invoice = life.invoice()
        life.page(invoice)
        (reference,) = flutterwave.pages
        paid = flutterwave.page_paid(reference, **told)
        for _ in range(2):
            life.notice(paid)
        life.assert_paid(invoice)
        assert fee_of(life) == fee
        assert posted(life, account="provider_fees") == ({("provider_fees", "NGN"): fee[0]} if fee[0] else {})
        assert_sound(life)
