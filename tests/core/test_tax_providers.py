"""Taxes that a provider gives: the rates and the part of a fee that they mean, and what does not follow from them."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, fee, ids

from usagebill.core.credit_notes import credited
from usagebill.core.fees import Fee
from usagebill.core.numbers import divide, multiply, round_cents, total
from usagebill.core.tax_providers import (
    BreakdownLine,
    FailureKind,
    ItemTaxes,
    ProviderFailure,
    ProviderTaxes,
    Purpose,
    fee_items,
    issuing_date_told,
    items_taxes_cents,
    provider_taxed,
    retry_delay,
    withdrawal_after,
    withdrawn,
)
from usagebill.core.taxes import invoice_taxes


def line(
    rate: str | None, cents: int | None, name: str = "GST/HST", type: str | None = "tax_exclusive"
) -> BreakdownLine:
    return BreakdownLine(name=name, rate=None if rate is None else Decimal(rate), amount_cents=cents, type=type)


def answered_taxes(cents: int, *lines: BreakdownLine, asked: int = 1000) -> ItemTaxes:
    return ItemTaxes(item_id="f0", requested_cents=asked, amount_cents=cents, lines=lines)


def taxed(cents: int, *lines: BreakdownLine, amount: int = 1000) -> Fee:
    return provider_taxed(fee(amount, id="f0"), answered_taxes(cents, *lines, asked=amount), NOW, ids())


def test_two_lines_of_one_fee_stand_side_by_side() -> None:
    taxes = taxed(170, line("0.12", 120, "State"), line("0.05", 50, "City"))
    assert (taxes.taxes_amount_cents, taxes.taxes_rate, taxes.taxes_base_rate) == (170, 17, 1)
    assert [(tax.code, tax.rate, tax.amount_cents) for tax in taxes.applied_taxes] == [
        ("state", 12, 120),
        ("city", 5, 50),
    ]


def test_lines_are_named_by_the_provider_and_belong_to_no_tax_of_the_organization() -> None:
    (applied,) = taxed(100, line("0.1", 100)).applied_taxes
    assert (applied.name, applied.code, applied.description) == ("GST/HST", "gst_hst", "tax_exclusive")
    assert applied.tax_id is None


def test_a_part_of_the_fee_is_taxed_where_the_first_line_comes_to_less_than_its_rate() -> None:
    taxes = taxed(75, line("0.1", 50, "State"), line("0.05", 25, "City"))
    assert taxes.taxes_base_rate == Decimal("0.5")
    assert [tax.amount_cents for tax in taxes.applied_taxes] == [50, 25]
    assert (taxes.taxes_amount_cents, taxes.taxes_rate) == (75, 15)


def test_more_than_the_rate_of_the_whole_fee_taxes_the_whole_fee() -> None:
    taxes = taxed(101, line("0.1", 101))
    assert (taxes.taxes_base_rate, taxes.taxes_amount_cents) == (1, 100)


def test_a_line_that_does_not_say_its_amount_taxes_the_whole_fee() -> None:
    taxes = taxed(100, line("0.1", None))
    assert (taxes.taxes_base_rate, taxes.taxes_amount_cents) == (1, 100)
    assert [(tax.amount_cents, tax.base_amount_cents) for tax in taxes.applied_taxes] == [(100, 1000)]
    (borne,) = taxed(0, line("0.1", None)).applied_taxes
    assert (borne.rate, borne.amount_cents) == (0, 0)


def test_a_part_with_endless_decimals_still_gives_the_providers_tax() -> None:
    taxes = taxed(10, line("0.1", 10), line("0.005", 1, "City"), amount=300)
    assert taxes.taxes_base_rate < 1
    assert [tax.amount_cents for tax in taxes.applied_taxes] == [10, 1]
    assert taxes.taxes_precise_amount_cents == Decimal("10.5")
    assert taxes.taxes_amount_cents == 11


@pytest.mark.parametrize(
    ("type", "name", "code"),
    [
        ("exempt", "Exempt", "exempt"),
        ("notCollecting", "Not collecting", "not_collecting"),
        ("productNotTaxed", "Product not taxed", "product_not_taxed"),
        ("jurisNotTaxed", "Juris not taxed", "juris_not_taxed"),
        ("jurisHasNoTax", "Juris has no tax", "juris_has_no_tax"),
    ],
)
def test_reasons_for_no_tax_are_lines_of_nothing(type: str, name: str, code: str) -> None:
    taxes = taxed(0, line("0.1", 0, "State", type))
    (applied,) = taxes.applied_taxes
    assert (applied.name, applied.code, applied.rate, applied.amount_cents) == (name, code, 0, 0)
    assert (taxes.taxes_amount_cents, taxes.taxes_rate) == (0, 0)


def test_a_reason_that_comes_first_does_not_untax_the_lines_after_it() -> None:
    taxes = taxed(20, line("0.06", 0, "State", "exempt"), line("0.02", 20, "City"))
    assert [(tax.code, tax.rate, tax.amount_cents) for tax in taxes.applied_taxes] == [
        ("exempt", 0, 0),
        ("city", 2, 20),
    ]
    assert (taxes.taxes_amount_cents, taxes.taxes_base_rate) == (20, 1)


def test_a_fee_below_zero_is_taxed_as_one_above_it() -> None:
    credited, owed = taxed(-25, line("0.1", -25), amount=-500), taxed(25, line("0.1", 25), amount=500)
    assert (credited.taxes_amount_cents, credited.taxes_base_rate) == (-25, owed.taxes_base_rate)
    assert owed.taxes_amount_cents == 25


def test_a_line_without_a_rate_is_one_of_unknown_taxation() -> None:
    (applied,) = taxed(0, line(None, 0, "Whatever", None)).applied_taxes
    assert (applied.name, applied.code, applied.rate) == ("Unknown taxation", "unknown_taxation", 0)


def test_what_the_seller_bears_is_not_asked_of_the_customer() -> None:
    taxes = taxed(0, line("0.1", 100))
    (applied,) = taxes.applied_taxes
    assert (applied.name, applied.code, applied.rate, applied.amount_cents) == ("Tax", "tax", 0, 0)
    assert taxes.taxes_amount_cents == 0


def test_lines_of_one_code_are_one_line() -> None:
    taxes = taxed(70, line("0.06", 60, "Sales tax"), line("0.01", 10, "Sales Tax"))
    assert [(tax.code, tax.rate, tax.amount_cents) for tax in taxes.applied_taxes] == [("sales_tax", 7, 70)]


def test_no_lines_no_taxes() -> None:
    taxes = taxed(0)
    assert (taxes.applied_taxes, taxes.taxes_amount_cents, taxes.taxes_base_rate) == ((), 0, 1)


def test_one_code_with_two_rates_is_two_lines_of_the_invoice() -> None:
    full = provider_taxed(fee(1000, id="f0"), answered_taxes(200, line("0.2", 200, "VAT")), NOW, ids())
    reduced = provider_taxed(fee(1000, id="f1"), answered_taxes(50, line("0.05", 50, "VAT")), NOW, ids())
    taxes = invoice_taxes([full, reduced], 2000, "EUR", NOW, ids())
    assert [(tax_line.code, tax_line.rate, tax_line.amount_cents) for tax_line in taxes.lines] == [
        ("vat", 20, 200),
        ("vat", 5, 50),
    ]
    assert (taxes.amount_cents, taxes.rate) == (200 + 50, Decimal("12.5"))


def test_an_item_is_sent_in_whole_cents_after_its_coupons_under_the_providers_code() -> None:
    reduced = fee(1000, id="f0", precise_coupons_amount_cents=Decimal("99.99999"))
    (item,) = fee_items([reduced], {reduced.item.code: "SW054000"}, named_by=lambda line: line.id)
    assert (item.id, item.code, item.amount_cents) == ("f0", "SW054000", 1000 - 100)


def test_a_date_far_ahead_is_brought_nearer_for_anrok_alone() -> None:
    today = date(2024, 1, 1)
    far = today + timedelta(days=60)
    assert issuing_date_told("anrok", far, today) == date(2024, 1, 31)
    assert issuing_date_told("avalara", far, today) == far
    assert issuing_date_told("anrok", date(2023, 12, 1), today) == date(2023, 12, 1)


def test_how_often_a_question_is_asked_again() -> None:
    def attempts_after(kind: FailureKind) -> int:
        failure = ProviderFailure(code="x", message="", kind=kind)
        return next(times for times in range(1, 100) if retry_delay(failure, times) is None)

    assert (
        attempts_after(FailureKind.REFUSED),
        attempts_after(FailureKind.UNREACHABLE),
        attempts_after(FailureKind.THROTTLED),
    ) == (1, 6, 25)
    throttled = ProviderFailure(code="x", message="", kind=FailureKind.THROTTLED)
    waits = [retry_delay(throttled, attempts) for attempts in (1, 2, 3, 24)]
    assert waits == [timedelta(seconds=15), timedelta(seconds=30), timedelta(minutes=1), timedelta(minutes=15)]


def test_what_is_frozen_is_negated_and_what_is_locked_returned() -> None:
    frozen = ProviderFailure(code="transactionFrozenForFiling", message="")
    locked = ProviderFailure(code="CannotModifyLockedTransaction", message="")
    assert withdrawal_after(Purpose.VOID, frozen) is Purpose.NEGATE
    assert withdrawal_after(Purpose.VOID, locked) is Purpose.RETURN
    assert withdrawal_after(Purpose.NEGATE, frozen) is None
    assert withdrawal_after(Purpose.VOID, ProviderFailure(code="other", message="")) is None


RATES = st.decimals("0.0001", "0.3", places=4, allow_nan=False)


@given(amount=st.integers(1, 10_000_000), rate=RATES, part=st.integers(0, 100))
def test_the_first_line_is_what_the_provider_says_as_long_as_it_is_not_above_the_rate(
    amount: int, rate: Decimal, part: int
) -> None:
    cents = round_cents(divide(multiply(Decimal(amount * part), rate), Decimal(100)))
    taxes = taxed(max(cents, 1), line(str(rate), cents), amount=amount)
    whole = multiply(Decimal(amount), rate)
    assert taxes.taxes_amount_cents == (cents if cents < whole else round_cents(whole))
    assert 0 <= taxes.taxes_base_rate <= 1


@given(amounts=st.lists(st.integers(1, 1_000_000), min_size=1, max_size=5), rate=RATES, share=st.integers(1, 100))
def test_a_note_of_the_whole_invoice_takes_back_all_its_taxes(amounts: list[int], rate: Decimal, share: int) -> None:
    taxed_fees = []
    for position, amount in enumerate(amounts):
        cents = int(amount * rate * share / 100)
        answer = answered_taxes(cents, line(str(rate), cents), asked=amount)
        taxed_fees.append(provider_taxed(fee(amount, id=f"f{position}"), answer, NOW, ids()))
    taxes = invoice_taxes(taxed_fees, sum(amounts), "EUR", NOW, ids())
    items = [(fee, Decimal(fee.amount_cents)) for fee in taxed_fees]
    note = credited(items, taxes.lines, last_note_excess=None, currency="EUR", now=NOW, new_id=ids())
    assert note.taxes_cents == taxes.amount_cents
    assert abs(note.taxes_precise - total(fee.taxes_precise_amount_cents for fee in taxed_fees)) < Decimal("0.0001")


@given(amount=st.integers(1, 1_000_000), rate=RATES, cents=st.integers(0, 100_000))
def test_usage_is_taxed_as_an_invoice_of_it_would_be(amount: int, rate: Decimal, cents: int) -> None:
    answer = answered_taxes(cents, line(str(rate), cents), asked=amount)
    billed = provider_taxed(fee(amount, id="f0"), answer, NOW, ids())
    estimated = items_taxes_cents({"f0": Decimal(amount)}, ProviderTaxes(items=(answer,)))
    assert estimated == billed.taxes_amount_cents


def test_usage_that_went_on_is_taxed_with_the_part_that_was_told_of_what_was_asked() -> None:
    answer = answered_taxes(50, line("0.1", 50), asked=1000)
    assert items_taxes_cents({"f0": Decimal(2000)}, ProviderTaxes(items=(answer,))) == 100


def test_what_is_withdrawn_is_what_was_reported_the_other_way_round() -> None:
    items = fee_items([fee(1000), fee(-200, id="credit")], {}, named_by=lambda line: line.id)
    assert [item.amount_cents for item in withdrawn(items)] == [-1000, 200]
    assert withdrawn(withdrawn(items)) == items
