"""Totals: the steps in their order, and what progressive billing has billed before."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import example, given, strategies as st
from tests.core.builders import changed, coupon, fee, note, settle, tax
from tests.money import gross

from usagebill.core.copies import replace
from usagebill.core.credit_notes import CreditNote
from usagebill.core.fees import Fee
from usagebill.core.invoices.totals import InvoiceInProgress, ProgressiveBilled
from usagebill.core.progressive_billing import ProgressiveFee
from usagebill.core.taxes import Tax


def _billed(amounts: dict[str, int], left: int | None = None, *, taxes: Sequence[Tax] = ()) -> ProgressiveBilled:
    """A progressive billing invoice of fees of these charges, of which `left` is not credited yet."""
    keys = frozenset((line.code, line.rate) for line in taxes)
    return ProgressiveBilled(
        invoice_id="earlier",
        number="earlier",
        subscription_id="s",
        left_cents=sum(amounts.values()) if left is None else left,
        fees=tuple(
            ProgressiveFee(
                charge_id=charge,
                charge_filter_id=None,
                grouped_by={},
                amount_cents=cents,
                net_cents=Decimal(cents),
                taxes=keys,
            )
            for charge, cents in amounts.items()
        ),
    )


def _surplus(draft: InvoiceInProgress) -> int:
    return sum(surplus.cents for surplus in draft.surpluses)


def _usage(**amounts: int) -> list[Fee]:
    return [fee(cents, id=f"f-{charge}", charge_id=charge, subscription_id="s") for charge, cents in amounts.items()]


def _base(cents: int) -> Fee:
    return fee(cents, id="base", fee_type="subscription", subscription_id="s")


def test_what_was_billed_before_is_taken_off_the_same_usage() -> None:
    draft = settle([_base(3100), *_usage(calls=40000)], progressive=[_billed({"calls": 20000})])
    invoice = draft.invoice
    assert invoice.fees_amount_cents == 3100 + 40000
    assert invoice.progressive_billing_credit_amount_cents == 20000
    assert invoice.total_amount_cents == 3100 + 40000 - 20000
    assert [line.precise_coupons_amount_cents for line in draft.fees] == [0, 20000]
    assert (invoice.credits[0].item_type, invoice.credits[0].before_taxes) == ("invoice", True)


@pytest.mark.parametrize(
    ("billed", "usage", "credit", "excess"), [(2000, 500, 500, 1500), (20, 19, 19, 1), (200, 200, 200, 0)]
)
def test_what_was_billed_above_the_usage_is_left_over(billed: int, usage: int, credit: int, excess: int) -> None:
    draft = settle(_usage(calls=usage), progressive=[_billed({"calls": billed})])
    assert draft.invoice.progressive_billing_credit_amount_cents == credit
    assert _surplus(draft) == excess


def test_only_charges_that_were_billed_before_count() -> None:
    draft = settle(_usage(calls=100, seats=900), progressive=[_billed({"calls": 300})])
    assert draft.invoice.progressive_billing_credit_amount_cents == 100
    assert _surplus(draft) == 200
    assert [line.precise_coupons_amount_cents for line in draft.fees] == [100, 0]


def test_another_subscriptions_usage_does_not_count() -> None:
    other = fee(900, id="other", charge_id="calls", subscription_id="t")
    draft = settle([other], progressive=[_billed({"calls": 300})])
    assert (draft.invoice.credits, _surplus(draft)) == ((), 300)


def test_every_kind_of_credit_in_the_order_of_the_steps() -> None:
    lines = [
        fee(10000, id="base", fee_type="subscription", subscription_id="s"),
        fee(10000, id="fixed", fee_type="fixed_charge", subscription_id="s"),
        *[
            fee(1000 * n, id=f"c{n}", charge_id=f"c{n}", billable_metric_id=f"m{n}", subscription_id="s")
            for n in range(1, 5)
        ],
    ]
    draft = settle(
        lines,
        [tax("10")],
        progressive=[_billed({"c3": 3000})],
        coupons=[coupon("half", rate="50", metrics=["m1"]), coupon("all", cents=1000)],
        notes=[note("n", 1000)],
    )
    invoice = draft.invoice
    fees_cents, coupons_cents = 2 * 10000 + 1000 * (1 + 2 + 3 + 4), 1000 // 2 + 1000
    net = fees_cents - 3000 - coupons_cents
    assert invoice.fees_amount_cents == fees_cents
    assert invoice.progressive_billing_credit_amount_cents == 3000
    assert invoice.coupons_amount_cents == coupons_cents
    assert invoice.sub_total_excluding_taxes_amount_cents == net
    assert (invoice.taxes_amount_cents, invoice.sub_total_including_taxes_amount_cents) == (net // 10, net + net // 10)
    assert (invoice.credit_notes_amount_cents, invoice.total_amount_cents) == (1000, net + net // 10 - 1000)
    # What prepaid credits limited to usage may still pay: the charge fees with taxes, less their share of the note.
    open_cents = [
        line.amount_cents
        - line.precise_coupons_amount_cents
        + line.taxes_amount_cents
        - line.precise_credit_notes_amount_cents
        for line in draft.fees
        if line.fee_type == "charge"
    ]
    assert abs(sum(open_cents) - Decimal("6634.9")) < Decimal("0.6")


@pytest.mark.parametrize(
    ("fees", "taxes", "total"),
    [
        ([*[(0, "0.4")] * 6, *[(1, "1")] * 2], 1, 3),
        ([(1, "1.4")] * 8, 3, 11),
    ],
)
def test_fractions_of_cents_are_taxed_on_the_cents_that_are_billed(
    fees: list[tuple[int, str]], taxes: int, total: int
) -> None:
    lines = [fee(cents, id=f"f{place}", precise=precise) for place, (cents, precise) in enumerate(fees)]
    draft = settle(lines, [tax("40")])
    assert {line.taxes_amount_cents for line in draft.fees} == {0}
    assert (draft.invoice.taxes_amount_cents, draft.invoice.total_amount_cents) == (taxes, total)


def test_two_large_fees_and_their_taxes() -> None:
    lines = [fee(50000, id="a"), fee(50000, id="b")]
    draft = settle(lines, [tax("6.8254")])
    assert [line.taxes_precise_amount_cents for line in draft.fees] == [Decimal("3412.7")] * 2
    # Rounded once over both: 6825.4 is 6825, while each fee's own tax of 3412.7 is 3413.
    assert draft.invoice.total_amount_cents == gross(2 * 50000, "6.8254")


_currencies = st.sampled_from(["JPY", "USD", "KWD"])


@example({"a": 0, "b": 2, "c": 1}, {"a": 1, "b": 1}, 1, 0, "JPY")
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**9), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**9), min_size=1),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    _currencies,
)
def test_all_credits_and_taxes_make_up_the_total(
    usage: dict[str, int], billed: dict[str, int], off: int, balance: int, currency: str
) -> None:
    lines = [
        fee(cents, id=f"f-{key}", charge_id=key, subscription_id="s", currency=currency) for key, cents in usage.items()
    ]
    rates = [tax("20"), tax("7.7")]
    draft = settle(
        lines,
        rates,
        progressive=[_billed(billed, taxes=rates)],
        coupons=[coupon(cents=off, currency=currency)] if off else [],
        notes=[note("n", balance, currency=currency)] if balance else [],
        currency=currency,
    )
    invoice = draft.invoice
    assert invoice.total_amount_cents >= 0
    assert invoice.total_amount_cents == (
        invoice.fees_amount_cents
        - invoice.progressive_billing_credit_amount_cents
        - invoice.coupons_amount_cents
        + invoice.taxes_amount_cents
        - invoice.credit_notes_amount_cents
    )
    matched = sum(cents for key, cents in usage.items() if key in billed)
    # A coupon is shared over all fees, so usage that was billed before may be worth less than that by what it takes.
    most_cents = min(sum(billed.values()), matched)
    assert most_cents - off <= invoice.progressive_billing_credit_amount_cents <= most_cents
    assert invoice.progressive_billing_credit_amount_cents + _surplus(draft) == sum(billed.values())
    assert sum(line.amount_cents for line in invoice.credits) == (
        invoice.progressive_billing_credit_amount_cents
        + invoice.coupons_amount_cents
        + invoice.credit_notes_amount_cents
    )


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=5), st.integers(1, 10**9), _currencies)
def test_computing_an_invoice_again_changes_nothing(amounts: list[int], off: int, currency: str) -> None:
    lines = [fee(cents, id=f"f{place}", currency=currency) for place, cents in enumerate(amounts)]
    coupons = [coupon(cents=off, currency=currency)]
    once = settle(lines, [tax("20")], coupons=coupons, currency=currency)
    again = settle(lines, [tax("20")], coupons=coupons, currency=currency)
    assert once == again


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**9), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**9)),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
)
def test_waiting_for_its_taxes_changes_no_invoice(
    usage: dict[str, int], billed: dict[str, int], off: int, balance: int
) -> None:
    rates = [tax("20"), tax("7.7")]

    def made(*, waiting: bool) -> InvoiceInProgress:
        return settle(
            [_base(3100), *_usage(**usage)],
            rates,
            progressive=[_billed(billed, taxes=rates)] if billed else [],
            coupons=[coupon(cents=off)] if off else [],
            notes=[note("n", balance)] if balance else [],
            waiting=waiting,
        )

    # While taxes are unknown, it is not known either which of them lie on a surplus.
    waited, known = made(waiting=True), made(waiting=False)
    assert _surplus(waited) == _surplus(known)
    assert replace(waited, surpluses=()) == replace(known, surpluses=())


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=5), st.integers(1, 10**9))
def test_while_it_waits_an_invoice_comes_to_its_fees_less_its_coupons(amounts: list[int], off: int) -> None:
    lines = [fee(cents, id=f"f{place}") for place, cents in enumerate(amounts)]
    draft = settle(lines, [tax("20")], coupons=[coupon(cents=off)], notes=[note("n", 100)], tax_status="pending")
    invoice = draft.invoice
    assert invoice.total_amount_cents == sum(amounts) - invoice.coupons_amount_cents
    assert invoice.sub_total_including_taxes_amount_cents == invoice.sub_total_excluding_taxes_amount_cents
    assert (invoice.taxes_amount_cents, invoice.applied_taxes, invoice.credit_notes_amount_cents) == (0, (), 0)
    assert (changed(draft, CreditNote), [line.applied_taxes for line in draft.fees]) == ([], [()] * len(amounts))
