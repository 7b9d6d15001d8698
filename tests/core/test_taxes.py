"""Taxes: side by side on the same base, rounded once for the invoice."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, fee, fees, ids, settle, tax
from tests.money import percent

from usagebill.core.numbers import add, divide, multiply, round_cents, total
from usagebill.core.taxes import (
    chosen_taxes,
    invoice_taxes,
    lines_in_cents,
    net_of_coupons,
    tax_problems,
    taxed_fee,
    usage_taxes_cents,
)


def test_taxes_stand_side_by_side() -> None:
    taxed = taxed_fee(fee(1000), [tax("10"), tax("12")], NOW, ids())
    assert [line.amount_cents for line in taxed.applied_taxes] == [percent(1000, 10), percent(1000, 12)]
    assert (taxed.taxes_amount_cents, taxed.taxes_rate) == (percent(1000, 10 + 12), 10 + 12)


def test_a_fee_is_taxed_on_what_coupons_leave() -> None:
    taxed = taxed_fee(fee(1000, precise_coupons_amount_cents=Decimal(100)), [tax("5")], NOW, ids())
    assert taxed.taxes_amount_cents == 45


@pytest.mark.parametrize(
    ("amount", "rates", "lines", "whole"), [(333, ("1.15", "1.35"), [4, 4], 8), (50, ("1", "1.0"), [1, 0], 1)]
)
def test_a_fees_taxes_are_rounded_once(amount: int, rates: tuple[str, ...], lines: list[int], whole: int) -> None:
    taxed = taxed_fee(fee(amount), [tax(rate) for rate in rates], NOW, ids())
    assert [line.amount_cents for line in taxed.applied_taxes] == lines
    assert taxed.taxes_amount_cents == whole


def test_a_fee_that_is_taxed_is_not_taxed_again() -> None:
    taxed = taxed_fee(fee(1000), [tax("10")], NOW, ids())
    assert taxed_fee(taxed, [tax("20")], NOW, ids()) == taxed


def test_the_first_source_with_any_tax_is_taken_whole() -> None:
    assert chosen_taxes([], [tax("1"), tax("2")], [tax("3")]) == (tax("1"), tax("2"))
    assert chosen_taxes([], []) == ()


def test_two_taxes_on_two_fees_with_a_coupon() -> None:
    draft = settle(fees(151, 379), [tax("10"), tax("20")], coupons=[])
    assert [fee.taxes_amount_cents for fee in draft.fees] == [percent(151, 30), percent(379, 30)]
    part = [fee(151, id="f0"), fee(379, id="f1", precise_coupons_amount_cents=Decimal(100))]
    taxed = [taxed_fee(line, [tax("10"), tax("20")], NOW, ids()) for line in part]
    assert [line.taxes_amount_cents for line in taxed] == [percent(151, 30), percent(379 - 100, 30)]
    assert invoice_taxes(taxed, 430, "EUR", NOW, ids()).amount_cents == percent(430, 30)


def test_the_average_rate_weighs_what_each_tax_applies_to() -> None:
    taxes = {"f0": [tax("10")], "f1": [tax("10"), tax("12")]}
    draft = settle(fees(1000, 2000), taxes)
    lines = draft.invoice.applied_taxes
    assert [(line.amount_cents, line.base_amount_cents) for line in lines] == [
        (percent(3000, 10), 1000 + 2000),
        (percent(2000, 12), 2000),
    ]
    assert (draft.invoice.taxes_amount_cents, draft.invoice.taxes_rate) == (percent(3000, 10) + percent(2000, 12), 18)


def test_an_invoice_of_nothing_weighs_its_fees_by_number() -> None:
    draft = settle(fees(0, 0), {"f0": [tax("10")], "f1": [tax("10"), tax("12")]})
    assert (draft.invoice.taxes_amount_cents, draft.invoice.taxes_rate) == (0, 16)


@pytest.mark.parametrize("number", [2, 4])
def test_the_invoices_tax_is_not_the_sum_of_its_fees_taxes(number: int) -> None:
    draft = settle(fees(*[6833] * number), [tax("20")])
    assert {fee.taxes_amount_cents for fee in draft.fees} == {percent(6833, 20)}
    taxes = percent(number * 6833, 20)
    assert taxes < number * percent(6833, 20)
    assert (draft.invoice.taxes_amount_cents, draft.invoice.total_amount_cents) == (taxes, number * 6833 + taxes)


def test_fees_that_were_taxed_one_by_one_are_only_added_up() -> None:
    paid = [
        fee(amount, id=f"f{place}", taxes_amount_cents=taxes)
        for place, (amount, taxes) in enumerate([(200, 9), (50, 1), (120, 23)])
    ]
    draft = settle(paid, invoice_type="advance_charges")
    assert (draft.invoice.taxes_amount_cents, draft.invoice.total_amount_cents) == (
        9 + 1 + 23,
        (200 + 9) + (50 + 1) + (120 + 23),
    )
    assert draft.invoice.payment_status == "succeeded"


def test_paid_fees_keep_the_taxes_that_were_paid_with_them() -> None:
    amounts = [15060, 1707, 1606]
    paid = [
        taxed_fee(fee(amount, id=f"f{place}"), [tax("20", "vat")], NOW, ids()) for place, amount in enumerate(amounts)
    ]
    draft = settle(paid, invoice_type="advance_charges")
    taxes = sum(percent(amount, 20) for amount in amounts)
    assert draft.invoice.fees_amount_cents == sum(amounts)
    assert draft.invoice.taxes_amount_cents == taxes
    assert draft.invoice.total_amount_cents == sum(amounts) + taxes
    line = draft.invoice.applied_taxes[0]
    assert (line.amount_cents, line.base_amount_cents) == (taxes, sum(amounts))
    assert draft.invoice.taxes_rate == Decimal("20.00")


def test_usage_is_taxed_once_over_all_of_it() -> None:
    assert usage_taxes_cents([(2, [tax("20")]), (1, [tax("20"), tax("5")])]) == 1


amounts = st.lists(st.integers(0, 10**12), min_size=1, max_size=6)
rates = st.lists(st.decimals(0, 100, places=3).map(str), max_size=3, unique=True)


@given(amounts, rates)
def test_the_total_is_fees_and_taxes_and_nothing_else(amounts: list[int], rates: list[str]) -> None:
    invoice = settle(fees(*amounts), [tax(rate) for rate in rates]).invoice
    assert invoice.total_amount_cents == sum(amounts) + invoice.taxes_amount_cents
    exact = divide(multiply(Decimal(sum(amounts)), total(Decimal(rate) for rate in rates)), Decimal(100))
    assert invoice.taxes_amount_cents == round_cents(exact)


@given(amounts, rates)
def test_the_order_of_fees_and_taxes_changes_nothing(amounts: list[int], rates: list[str]) -> None:
    forth = settle(fees(*amounts), [tax(rate) for rate in rates]).invoice
    back = settle(fees(*reversed(amounts)), [tax(rate) for rate in reversed(rates)]).invoice
    assert forth.total_amount_cents == back.total_amount_cents
    assert forth.taxes_rate == back.taxes_rate


@given(st.integers(1, 10**12), st.integers(1, 10**12), rates)
def test_one_fee_split_in_two_is_taxed_alike(first: int, second: int, rates: list[str]) -> None:
    whole = settle(fees(first + second), [tax(rate) for rate in rates]).invoice
    parts = settle(fees(first, second), [tax(rate) for rate in rates]).invoice
    assert whole.taxes_amount_cents == parts.taxes_amount_cents


@given(amounts, st.integers(1, 10**9), rates)
def test_more_to_pay_is_never_taxed_less(amounts: list[int], more: int, rates: list[str]) -> None:
    taxes = [tax(rate) for rate in rates]
    before = settle(fees(*amounts), taxes).invoice.taxes_amount_cents
    after = settle(fees(amounts[0] + more, *amounts[1:]), taxes).invoice.taxes_amount_cents
    assert after >= before


@pytest.mark.parametrize(
    ("exact", "cents", "lines"),
    [
        ([], 0, []),
        (["190.38"], 190, [190]),
        # 10.02 at 19 % and 10.02 at 7 %: the first is closer to the next cent.
        (["190.38", "70.14"], 261, [191, 70]),
        (["70.14", "190.38"], 261, [70, 191]),
        (["0.5", "0.5", "0.5"], 2, [1, 1, 0]),
        (["0.4", "0.4", "0"], 1, [1, 0, 0]),
        (["0.6", "0.7", "0.8"], 2, [0, 1, 1]),
        (["-190.38", "-70.14"], -261, [-191, -70]),
    ],
)
def test_lines_of_tax_add_up_to_it(exact: list[str], cents: int, lines: list[int]) -> None:
    assert lines_in_cents([Decimal(part) for part in exact], cents) == lines


@pytest.mark.parametrize(
    ("exact", "cents", "most", "lines"),
    [
        (["190.38", "70.14"], 260, [191, 70], [190, 70]),
        # The second has no cent left.
        (["190.38", "70.14"], 261, [300, 60], [201, 60]),
        (["0.5", "0.5"], 0, [5, 5], [0, 0]),
        (["100", "3"], 1, [100, 3], [1, 0]),
    ],
)
def test_lines_of_tax_take_what_is_left_at_most(
    exact: list[str], cents: int, most: list[int], lines: list[int]
) -> None:
    assert lines_in_cents([Decimal(part) for part in exact], cents, most) == lines


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["19", "7", "5.5", "0", "33.333"])), max_size=6))
def test_lines_of_an_invoice_add_up_to_its_taxes(sold: list[tuple[int, str]]) -> None:
    lines = fees(*(cents for cents, _ in sold))
    invoice = settle(lines, {line.id: [tax(rate)] for line, (_, rate) in zip(lines, sold, strict=True)}).invoice
    assert sum(line.amount_cents for line in invoice.applied_taxes) == invoice.taxes_amount_cents
    for line in invoice.applied_taxes:
        assert abs(line.amount_cents - line.precise_amount_cents) < 1
        assert line.rate or not line.amount_cents


@given(amounts, rates)
def test_lines_of_a_fee_add_up_to_its_taxes(amounts: list[int], rates: list[str]) -> None:
    for settled_fee in settle(fees(*amounts), [tax(rate) for rate in rates]).fees:
        lines = sum(line.amount_cents for line in settled_fee.applied_taxes)
        assert lines == settled_fee.taxes_amount_cents
        precise = total(line.precise_amount_cents for line in settled_fee.applied_taxes)
        assert abs(precise - settled_fee.taxes_precise_amount_cents) < Decimal("1e-14")
        assert add(net_of_coupons(settled_fee), settled_fee.precise_coupons_amount_cents) == settled_fee.amount_cents


MISSING, TAKEN, OUT_OF_RANGE = ["value_is_mandatory"], ["value_already_exist"], ["value_is_out_of_range"]


@pytest.mark.parametrize(
    ("name", "code", "rate", "code_is_taken", "problems"),
    [
        ("VAT", "vat", Decimal(20), False, {}),
        ("VAT", "vat", Decimal(0), False, {}),
        ("VAT", "vat", Decimal(20), True, {"code": TAKEN}),
        ("VAT", "vat", Decimal(-1), False, {"rate": OUT_OF_RANGE}),
        (None, None, None, False, {"name": MISSING, "code": MISSING, "rate": MISSING}),
        ("", "", Decimal(20), False, {"name": MISSING, "code": MISSING}),
    ],
)
def test_what_is_wrong_with_a_tax(
    name: str | None, code: str | None, rate: Decimal | None, code_is_taken: bool, problems: dict[str, list[str]]
) -> None:
    assert tax_problems(name, code, rate, code_is_taken=code_is_taken) == problems
