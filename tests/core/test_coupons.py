"""Coupons: what they take off, in which order, how it is shared, when they are used up."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, changed, coupon, fee, fees, settle, tax
from tests.money import gross, percent, share

from usagebill.core.coupon_rules import overlaps
from usagebill.core.coupons import (
    AppliedCoupon,
    Coupon,
    CouponStatus,
    applied_to,
    expires_at,
    given_back,
    remaining_amount,
    used,
)
from usagebill.core.invoices.totals import AvailableCoupon, InvoiceInProgress
from usagebill.core.numbers import total


def _shares(draft: InvoiceInProgress) -> list[Decimal]:
    return [fee.precise_coupons_amount_cents for fee in draft.fees]


def _credits(draft: InvoiceInProgress) -> list[int]:
    return [credit.amount_cents for credit in draft.invoice.credits]


def test_a_fixed_coupon_is_shared_in_proportion_and_ends_when_used_up() -> None:
    draft = settle(fees(200, 100), coupons=[coupon(cents=12)])
    assert (_credits(draft), _shares(draft)) == ([12], [8, 4])
    assert changed(draft, AppliedCoupon)[0].status == "terminated"


def test_what_a_fixed_coupon_is_not_needed_for_stays() -> None:
    draft = settle(fees(4, 2), coupons=[coupon(cents=12)])
    assert (_credits(draft), _shares(draft)) == ([6], [4, 2])
    left = changed(draft, AppliedCoupon)[0]
    assert (left.status, remaining_amount(left, 6)) == ("active", 6)
    draft = settle(fees(200, 100), coupons=[coupon(cents=12, left=6)])
    assert (_credits(draft), _shares(draft)) == ([6], [4, 2])
    assert changed(draft, AppliedCoupon)[0].status == "terminated"


@pytest.mark.parametrize(
    ("frequency", "duration", "status", "left"),
    [("once", None, "terminated", None), ("recurring", 3, "active", 2), ("recurring", 1, "terminated", 0)],
)
def test_a_percentage_coupon(frequency: str, duration: int | None, status: str, left: int | None) -> None:
    draft = settle(fees(200, 100), coupons=[coupon(rate="20", frequency=frequency, duration=duration)])
    assert (_credits(draft), _shares(draft)) == ([60], [40, 20])
    after = changed(draft, AppliedCoupon)[0]
    assert (after.status, after.frequency_duration_remaining) == (status, left)


@pytest.mark.parametrize(
    ("amount", "coupons", "credits", "subtotal"),
    [
        (100, [coupon("a", cents=10), coupon("b", rate="20", at=1)], [10, 18], 72),
        (100, [coupon("a", rate="15"), coupon("b", rate="20", at=1)], [15, 17], 68),
        (5, [coupon("a", cents=10), coupon("b", rate="20", at=1)], [5], 0),
        (100, [coupon("a", rate="250")], [100], 0),
    ],
)
def test_each_coupon_takes_from_what_the_ones_before_it_left(
    amount: int, coupons: list[AvailableCoupon], credits: list[int], subtotal: int
) -> None:
    draft = settle(fees(amount), coupons=coupons)
    assert _credits(draft) == credits
    assert draft.invoice.sub_total_excluding_taxes_amount_cents == subtotal
    assert len(draft.changed) == len(credits)


def test_a_fee_below_zero_takes_its_part_of_a_coupon_too() -> None:
    draft = settle(fees(1000, -500), coupons=[coupon(cents=100)], taxes=[tax("20")])
    assert (_credits(draft), _shares(draft)) == ([100], [200, -100])
    net = 1000 - 500 - 100
    assert (draft.invoice.taxes_amount_cents, draft.invoice.total_amount_cents) == (percent(net, 20), gross(net, 20))


def test_a_percentage_is_computed_exactly() -> None:
    assert _credits(settle(fees(50), coupons=[coupon(rate="29")])) == [15]


def test_a_coupon_limited_to_metrics_takes_from_what_is_left_of_their_fees() -> None:
    lines = [
        fee(50, id="a", billable_metric_id="m", precise_coupons_amount_cents=Decimal(15)),
        fee(150, id="b", billable_metric_id="m", precise_coupons_amount_cents=Decimal(45)),
        fee(900, id="c", billable_metric_id="other"),
        fee(900, id="d", fee_type="fixed_charge", billable_metric_id="m"),
    ]
    draft = settle(lines, coupons=[coupon(cents=12, metrics=["m"])])
    assert (_shares(draft), _credits(draft)) == ([18, 54, 0, 0], [12])


def _two_plans() -> tuple[list[AvailableCoupon], InvoiceInProgress]:
    metrics = ["m1", "m2", "m3", "m4"]
    lines = [
        fee(amount, id=f"{plan}-{metric}", billable_metric_id=f"{plan}-{metric}", subscription_id=f"on-{plan}")
        for plan in ("p1", "p2")
        for metric, amount in zip(metrics, (1000, 2000, 3000, 4000), strict=True)
    ]
    taxes = {line.id: [tax("20") if line.id.endswith("m2") else tax("10")] for line in lines}
    coupons = [
        coupon("c", cents=500, at=0),
        coupon("b", cents=1000, plans=["p2"], at=1),
        coupon("a", cents=2000, metrics=["p1-m1", "p1-m2"], at=2),
    ]
    return coupons, settle(lines, taxes, coupons=coupons, plan_of={"on-p1": "p1", "on-p2": "p2"})


def test_coupons_of_three_kinds_over_two_plans() -> None:
    _, draft = _two_plans()
    shares = "676.47059 1352.94117 88.23529 117.64706 126.47059 252.94118 379.41176 505.88235"
    assert _shares(draft) == [Decimal(share) for share in shares.split()]
    taxes = [fee.taxes_amount_cents for fee in draft.fees]
    # 10 % (20 % for m2) of each amount less its share: 10 % of 323.52941, 20 % of 647.05883 and so on.
    assert taxes == [32, 129, 291, 388, 87, 349, 262, 349]
    invoice = draft.invoice
    assert (invoice.fees_amount_cents, invoice.coupons_amount_cents) == (20000, 500 + 1000 + 2000)
    net = 20000 - (500 + 1000 + 2000)
    assert invoice.sub_total_excluding_taxes_amount_cents == net
    # 10 or 20 percent of each fee less its shares; the invoice's taxes are rounded once for each rate.
    assert (sum(taxes), invoice.taxes_amount_cents, invoice.total_amount_cents) == (1887, 1889, net + 1889)


def test_the_limited_coupons_come_first_whatever_their_age() -> None:
    coupons, draft = _two_plans()
    assert [credit.item_code for credit in draft.invoice.credits] == ["a", "b", "c"]
    assert [held.coupon.code for held in coupons] == ["c", "b", "a"]


def test_a_coupon_over_mixed_taxes_and_a_true_up() -> None:
    lines = fees(10000, 5000, 3000, 2000)
    rates = {"f0": "10", "f1": "0", "f2": "20", "f3": "20"}
    draft = settle(lines, {id: [tax(rate)] for id, rate in rates.items()}, coupons=[coupon(cents=1000)])
    assert _shares(draft) == [500, 250, 150, 100]
    assert [fee.taxes_amount_cents for fee in draft.fees] == [950, 0, 570, 380]
    invoice = draft.invoice
    assert (invoice.taxes_amount_cents, invoice.sub_total_excluding_taxes_amount_cents) == (
        950 + 570 + 380,
        20000 - 1000,
    )
    assert invoice.total_amount_cents == 20000 - 1000 + 950 + 570 + 380


def test_coupons_over_the_fees_leave_no_tax_but_its_rate() -> None:
    draft = settle(fees(10000), [tax("10")], coupons=[coupon("a", cents=1000), coupon("b", cents=11000, at=1)])
    assert _shares(draft) == [10000]
    assert draft.fees[0].taxes_amount_cents == 0
    assert draft.fees[0].taxes_rate == 10
    assert draft.invoice.payment_status == "succeeded"


def test_the_second_of_two_coupons_is_used_for_what_is_left() -> None:
    coupons = [coupon("a", cents=10000), coupon("b", cents=10000, at=1)]
    draft = settle(fees(10000, 5000), [tax("10")], coupons=coupons)
    assert _credits(draft) == [10000, 5000]
    assert _shares(draft) == [10000, 5000]
    assert [used.status for used in changed(draft, AppliedCoupon)] == ["terminated", "active"]
    assert [fee.taxes_amount_cents for fee in draft.fees] == [0, 0]


def test_a_limited_coupon_is_worth_at_most_its_own_fees() -> None:
    lines = [
        fee(75, id="a", subscription_id="s"),
        fee(12, id="b", billable_metric_id="m", subscription_id="other"),
        fee(13, id="c", subscription_id="other"),
    ]
    coupons = [coupon("plan", cents=82, plans=["p"]), coupon("metric", cents=5, metrics=["m"], at=1)]
    draft = settle(lines, coupons=coupons, plan_of={"s": "p"})
    assert [(credit.item_code, credit.amount_cents) for credit in draft.invoice.credits] == [
        ("metric", 5),
        ("plan", 75),
    ]
    assert draft.invoice.sub_total_excluding_taxes_amount_cents == 20


def test_thirds_of_a_coupon_miss_a_hundred_thousandth() -> None:
    draft = settle(fees(1000, 1000, 1000), [tax("20")], coupons=[coupon(cents=1000)])
    assert _shares(draft) == [Decimal("333.33333")] * 3
    assert [fee.taxes_amount_cents for fee in draft.fees] == [percent(1000 - 333, 20)] * 3
    assert (draft.invoice.coupons_amount_cents, draft.invoice.taxes_amount_cents) == (
        1000,
        percent(3 * 1000 - 1000, 20),
    )


def test_taxed_bases_are_cut_and_the_rate_still_averages() -> None:
    taxes = {"f0": [tax("10")], "f1": [tax("10"), tax("12")]}
    second = share(2000, 2000, 3000)  # two thirds of the fees less the coupon
    draft = settle(fees(1000, 2000), taxes, coupons=[coupon(cents=1000)])
    lines = draft.invoice.applied_taxes
    assert [(line.amount_cents, line.base_amount_cents) for line in lines] == [
        (percent(3000 - 1000, 10), 3000 - 1000),
        (percent(second, 12), second),
    ]
    assert (draft.invoice.taxes_amount_cents, draft.invoice.taxes_rate) == (percent(2000, 10) + percent(second, 12), 18)


@pytest.mark.parametrize(
    "held",
    [
        coupon(cents=10, currency="USD", frequency="recurring", duration=2),
        coupon(cents=10, metrics=["unknown"], frequency="recurring", duration=2),
        coupon(rate="10", plans=["unknown"], frequency="recurring", duration=2),
    ],
)
def test_a_coupon_that_does_not_apply_is_not_used(held: AvailableCoupon) -> None:
    draft = settle(fees(100), coupons=[held])
    assert (draft.changed, draft.invoice.credits) == ((), ())


def test_a_coupon_of_a_free_metric_burns_a_period_without_a_credit() -> None:
    lines = [fee(0, id="a", billable_metric_id="m"), fee(100, id="b")]
    draft = settle(lines, coupons=[coupon(cents=10, metrics=["m"], frequency="recurring", duration=2)])
    assert _credits(draft) == [0]
    assert changed(draft, AppliedCoupon)[0].frequency_duration_remaining == 1


COUPON = coupon(cents=1000).coupon


def test_what_a_void_gives_back() -> None:
    once = used(coupon(cents=1000).applied, 1000, 1000, NOW)
    assert (once.status, once.terminated_at) == ("terminated", NOW)
    back = given_back(once, COUPON, NOW, taken_cents=1000)
    assert (back.status, back.terminated_at, remaining_amount(back, 0)) == ("active", None, 1000)
    recurring = used(coupon(cents=1000, frequency="recurring", duration=1).applied, 1000, 1000, NOW)
    assert (recurring.status, recurring.frequency_duration_remaining) == ("terminated", 0)
    back = given_back(recurring, COUPON, NOW, taken_cents=1000)
    assert (back.status, back.frequency_duration_remaining) == ("active", 1)
    assert given_back(recurring, COUPON, NOW, taken_cents=1000, is_used=True) == recurring
    assert given_back(once, COUPON, NOW, taken_cents=1000, is_used=True).status == "active"
    rate = used(coupon(rate="50").applied, 1000, 0, NOW)
    assert given_back(rate, COUPON, NOW, taken_cents=1000, is_used=True).status == "terminated"
    forever = used(coupon(cents=1000, frequency="forever").applied, 1000, 1000, NOW)
    assert given_back(forever, COUPON, NOW, taken_cents=1000) == forever


@pytest.mark.parametrize("over", [{"status": CouponStatus.TERMINATED}, {"deleted_at": NOW}])
def test_an_ended_coupon_is_not_given_back(over: dict[str, Any]) -> None:
    once = used(coupon(cents=1000).applied, 1000, 1000, NOW)
    assert given_back(once, replace(COUPON, **over), NOW, taken_cents=1000).status == "terminated"


@pytest.mark.parametrize(("frequency", "duration", "left"), [("once", None, None), ("recurring", 3, 3)])
def test_a_coupon_ended_by_hand_is_not_given_back(frequency: str, duration: int | None, left: int | None) -> None:
    held = used(coupon(cents=1000, frequency=frequency, duration=duration).applied, 400, 1000, NOW)
    ended = replace(held, status=CouponStatus.TERMINATED, terminated_at=NOW)
    back = given_back(ended, COUPON, NOW, taken_cents=400)
    assert (back.status, back.terminated_at, back.frequency_duration_remaining) == ("terminated", NOW, left)


_cents = st.integers(0, 10**10)
_rates = st.decimals(0, 150, places=2).map(str)
_currencies = st.sampled_from(["JPY", "USD", "KWD"])


@st.composite
def _at_hand(draw: st.DrawFn) -> AvailableCoupon:
    frequency = draw(st.sampled_from(["once", "recurring", "forever"]))
    limits: dict[str, Any] = draw(st.sampled_from([{}, {"metrics": ["m0", "m1"]}, {"plans": ["p0"]}]))
    fixed = draw(st.booleans())
    return coupon(
        f"c{draw(st.integers(0, 10**6))}",
        cents=draw(st.integers(1, 10**10)) if fixed else None,
        rate=None if fixed else draw(_rates),
        currency=draw(_currencies),
        frequency=frequency,
        duration=draw(st.integers(1, 4)) if frequency == "recurring" else None,
        at=draw(st.integers(0, 1000)),
        **limits,
    )


_lines = st.lists(st.tuples(_cents, st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6)
_coupons = st.lists(_at_hand(), max_size=5, unique_by=lambda held: held.applied.id)


def _settled(lines: list[tuple[int, int, int]], coupons: list[AvailableCoupon], currency: str) -> InvoiceInProgress:
    charged = [
        fee(cents, id=f"f{place}", billable_metric_id=f"m{metric}", subscription_id=f"s{plan}", currency=currency)
        for place, (cents, metric, plan) in enumerate(lines)
    ]
    return settle(
        charged, [tax("20"), tax("5.5")], coupons=coupons, plan_of={"s0": "p0", "s1": "p1"}, currency=currency
    )


@given(_lines, _coupons, _currencies)
def test_nothing_is_lost_between_fees_coupons_taxes_and_total(
    lines: list[tuple[int, int, int]], coupons: list[AvailableCoupon], currency: str
) -> None:
    draft = _settled(lines, coupons, currency)
    invoice = draft.invoice
    assert invoice.total_amount_cents == (
        invoice.fees_amount_cents - invoice.coupons_amount_cents + invoice.taxes_amount_cents
    )
    assert invoice.coupons_amount_cents == sum(_credits(draft)) <= invoice.fees_amount_cents
    shared = total(_shares(draft))
    assert abs(shared - invoice.coupons_amount_cents) <= Decimal("0.00001") * len(lines) * max(1, len(coupons))
    assert all(0 <= fee.precise_coupons_amount_cents <= fee.amount_cents for fee in draft.fees)


@given(_lines, _coupons, _currencies)
def test_no_coupon_is_used_beyond_what_it_has(
    lines: list[tuple[int, int, int]], coupons: list[AvailableCoupon], currency: str
) -> None:
    draft = _settled(lines, coupons, currency)
    held = {coupon.applied.id: coupon for coupon in coupons}
    assert len(draft.changed) == len(draft.invoice.credits)
    for after, line in zip(changed(draft, AppliedCoupon), draft.invoice.credits, strict=True):
        before = held[after.id]
        assert line.source_id == after.id
        assert line.amount_cents >= 0
        if before.applied.percentage_rate is None:
            assert line.amount_cents <= (before.applied.amount_cents or 0)
            assert before.applied.amount_currency == currency


@given(_lines, _coupons, _currencies, st.data())
def test_the_order_in_which_coupons_are_found_changes_nothing(
    lines: list[tuple[int, int, int]], coupons: list[AvailableCoupon], currency: str, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(coupons))
    assert _settled(lines, coupons, currency) == _settled(lines, shuffled, currency)


@given(_at_hand(), _cents)
def test_using_a_coupon_and_giving_it_back_returns_to_the_start(held: AvailableCoupon, credit: int) -> None:
    credit = min(credit, held.remaining_cents)
    after = used(held.applied, credit, held.remaining_cents, NOW)
    taken = (held.applied.amount_cents or 0) - held.remaining_cents + credit
    back = given_back(after, COUPON, held.applied.updated_at, taken_cents=taken)
    assert back == held.applied


@given(_lines, _at_hand(), _currencies)
def test_a_coupon_never_makes_an_invoice_dearer(
    lines: list[tuple[int, int, int]], held: AvailableCoupon, currency: str
) -> None:
    with_it, without = _settled(lines, [held], currency), _settled(lines, [], currency)
    assert with_it.invoice.total_amount_cents <= without.invoice.total_amount_cents
    assert with_it.invoice.total_amount_cents >= 0


# The plan `basic` charges calls, `large` charges storage.
CHARGED = [("basic", "calls"), ("large", "storage")]


@pytest.mark.parametrize(
    ("plans", "metrics", "other_plans", "other_metrics", "expected"),
    [
        ((), (), ("basic",), (), False),
        (("basic",), (), ("basic",), (), True),
        (("basic",), (), ("large",), (), False),
        (("basic",), (), (), ("calls",), True),
        (("basic",), (), (), ("storage",), False),
        ((), ("calls",), ("basic",), (), True),
        ((), ("calls",), ("large",), (), False),
        ((), ("calls",), (), ("calls",), True),
        ((), ("calls",), (), (), False),
    ],
)
def test_which_coupons_of_a_customer_overlap(
    plans: tuple[str, ...],
    metrics: tuple[str, ...],
    other_plans: tuple[str, ...],
    other_metrics: tuple[str, ...],
    expected: bool,
) -> None:
    def limited(plan_ids: tuple[str, ...], metric_ids: tuple[str, ...]) -> Coupon:
        return replace(
            coupon(cents=100).coupon,
            plan_ids=plan_ids,
            limited_plans=bool(plan_ids),
            billable_metric_ids=metric_ids,
            limited_billable_metrics=bool(metric_ids),
        )

    held = limited(other_plans, other_metrics)
    assert overlaps(limited(plans, metrics), CHARGED, [held]) is expected


@pytest.mark.parametrize(
    ("fields", "sent", "amount", "rate"),
    [
        ({"coupon_type": "fixed_amount", "amount_cents": 500}, {}, (500, "EUR"), None),
        ({"coupon_type": "fixed_amount", "amount_cents": 500}, {"amount_cents": 300}, (300, "EUR"), None),
        ({"coupon_type": "fixed_amount", "amount_cents": 500}, {"amount_currency": "USD"}, (500, "USD"), None),
        # What is not of its type counts for nothing, whoever says it.
        ({"coupon_type": "fixed_amount", "amount_cents": 500, "percentage_rate": Decimal(10)}, {}, (500, "EUR"), None),
        ({"coupon_type": "fixed_amount", "amount_cents": 500}, {"percentage_rate": Decimal(10)}, (500, "EUR"), None),
        ({"coupon_type": "percentage", "percentage_rate": Decimal(10)}, {"amount_cents": 1}, (None, None), 10),
        (
            {"coupon_type": "percentage", "percentage_rate": Decimal(10)},
            {"percentage_rate": Decimal(5)},
            (None, None),
            5,
        ),
    ],
)
def test_what_a_customer_gets_of_a_coupon(
    fields: dict[str, Any], sent: dict[str, Any], amount: tuple[int | None, str | None], rate: int | None
) -> None:
    of = replace(coupon(cents=1).coupon, amount_currency="EUR", **fields)
    applied = applied_to(of, "customer", id="applied", now=NOW, **sent)
    assert (applied.amount_cents, applied.amount_currency) == amount
    assert applied.percentage_rate == rate


def test_a_customer_gets_a_coupon_for_as_many_invoices_as_it_says() -> None:
    of = replace(coupon(rate="10", frequency="recurring").coupon, frequency_duration=3)
    applied = applied_to(of, "customer", id="applied", now=NOW)
    assert (applied.frequency, applied.frequency_duration, applied.frequency_duration_remaining) == ("recurring", 3, 3)
    longer = applied_to(of, "customer", id="applied", now=NOW, frequency_duration=6)
    assert (longer.frequency_duration, longer.frequency_duration_remaining) == (6, 6)


@pytest.mark.parametrize(
    ("fields", "expires"),
    [
        ({"expiration": "time_limit", "expiration_at": NOW}, NOW),
        ({"expiration": "no_expiration", "expiration_at": NOW}, None),
        ({"expiration": "time_limit", "expiration_at": NOW, "status": CouponStatus.TERMINATED}, None),
        ({"expiration": "time_limit"}, None),
    ],
)
def test_when_a_coupon_expires(fields: dict[str, Any], expires: object) -> None:
    assert expires_at(replace(coupon(cents=1).coupon, **fields)) == expires
