"""Credit notes: what may be credited, what a note comes to, how its cents add up, how its balance is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import NOW, changed, contract, coupon, fee, fees, ids, item, note, settle, tax
from tests.money import gross, percent, share

from usagebill.core.credit_notes import (
    Credited,
    CreditNote,
    CreditNoteItem,
    Parts,
    adjusted_parts,
    after_use,
    creditable_fee,
    creditable_invoice,
    credited,
    estimated,
    fitted_to,
    gross_total,
    proportional_items,
    refundable_invoice,
    surplus_items,
    validation_errors,
)
from usagebill.core.invoices.totals import InvoiceInProgress
from usagebill.core.numbers import divide, multiply, round_cents, round_to, subtract, total
from usagebill.core.periods import Period
from usagebill.core.subscription_fees import unused_time_credit
from usagebill.core.taxes import Tax, net_of_coupons
from usagebill.core.unused_time import plan_amount_of, refundable_of_fee, termination_parts, used_amount


def _with_coupons(amounts: Sequence[tuple[int, str]], taxes: Sequence[Tax]) -> InvoiceInProgress:
    """An invoice of fees (cents, share of coupons), each with `taxes`."""
    lines = [
        fee(cents, id=f"f{place}", precise_coupons_amount_cents=Decimal(share))
        for place, (cents, share) in enumerate(amounts)
    ]
    return settle(lines, taxes)


def _credited(draft: InvoiceInProgress, *items: tuple[str, str], excess: Decimal | None = None) -> Credited:
    by_id = {line.id: line for line in draft.fees}
    return credited(
        [(by_id[id], Decimal(amount)) for id, amount in items],
        draft.invoice.applied_taxes,
        last_note_excess=excess,
        currency="EUR",
        now=NOW,
        new_id=ids(),
    )


def _left(draft: InvoiceInProgress, items: Sequence[CreditNoteItem] = ()) -> Decimal:
    invoice = draft.invoice
    reductions = invoice.coupons_amount_cents + invoice.progressive_billing_credit_amount_cents
    return creditable_invoice(draft.fees, items, reductions, invoice.fees_amount_cents)


def test_two_items_with_coupons() -> None:
    draft = _with_coupons([(10, "5"), (10, "5")], [tax("20")])
    result = _credited(draft, ("f0", "10"), ("f1", "5"))
    assert (result.coupons_adjustment_precise, result.coupons_adjustment_cents) == (Decimal("7.5"), 8)
    assert (result.sub_total_cents, result.taxes_precise, result.taxes_cents) == (8, Decimal("1.5"), 2)
    estimate = estimated(result, 9)
    assert (estimate.max_creditable_cents, estimate.max_refundable_cents, estimate.taxes_cents) == (9, 9, 1)
    assert adjusted_parts(Parts(credit=6, refund=3), result) == Parts(credit=7, refund=3)


def test_items_of_fees_with_one_and_two_taxes() -> None:
    ten, other = tax("10"), tax("10", "other")
    lines = [fee(17900, id="f0"), fee(39900, id="f1", precise_coupons_amount_cents=Decimal(25000))]
    draft = settle(lines, {"f0": [ten], "f1": [ten, other]})
    draft = replace(draft, invoice=replace(draft.invoice, coupons_amount_cents=25000))
    assert draft.invoice.taxes_amount_cents == 1790 + 2980
    result = _credited(draft, ("f0", "17900"), ("f1", "39900"))
    net = 17900 + 39900 - 25000
    assert (result.sub_total_cents, result.taxes_cents, result.coupons_adjustment_cents) == (net, 1790 + 2980, 25000)
    assert result.taxes_rate == Decimal("14.54268")
    assert estimated(result, 1200).max_creditable_cents == net + 1790 + 2980
    assert estimated(result, 1200).max_refundable_cents == 1200
    result = _credited(draft, ("f1", "26260"))
    coupon_cents = share(25000, 26260, 39900)
    assert result.coupons_adjustment_precise == Decimal("16453.63409")
    assert result.coupons_adjustment_cents == coupon_cents
    net = 26260 - coupon_cents
    assert (result.sub_total_cents, result.taxes_cents, result.taxes_rate) == (net, percent(net, 20), 20)
    assert estimated(result, 0).max_creditable_cents == gross(net, 20)
    assert adjusted_parts(Parts(refund=gross(net, 20)), result) == Parts(refund=gross(net, 20))


def test_five_items_of_a_hundred() -> None:
    shares = ["9.66216", "1448.93772", "15.12884", "31.2244", "15.12884"]
    amounts = [1999, 299770, 3130, 6460, 3130]
    draft = _with_coupons(list(zip(amounts, shares, strict=True)), [tax("10")])
    result = _credited(draft, *[(f"f{place}", "100") for place in range(5)])
    estimate = estimated(result, 40)
    # The coupon took 0.48335 % off each fee: 2.42 of five items of 100. A tenth of the 497.58 left is 49.758,
    # which the estimate cuts and the note rounds.
    assert (result.coupons_adjustment_cents, result.sub_total_cents) == (2, 500 - 2)
    assert (estimate.taxes_cents, estimate.max_creditable_cents, estimate.max_refundable_cents) == (49, 498 + 49, 40)
    assert adjusted_parts(Parts(credit=498 + 49), result) == Parts(credit=498 + 50)
    assert result.taxes_cents == 50


def test_the_last_note_makes_the_taxes_of_all_notes_add_up() -> None:
    draft = settle(fees(6833, 6833), [tax("20")])
    first = _credited(draft, ("f0", "6833"))
    assert (first.taxes_precise, first.taxes_cents, first.total_cents) == (Decimal("1366.6"), 1367, 6833 + 1367)
    excess = subtract(Decimal(first.taxes_cents), first.taxes_precise)
    last = _credited(draft, ("f1", "6833"), excess=excess)
    # Less the 0.4 that the first one was rounded up by.
    assert (last.taxes_precise, last.taxes_cents, last.total_cents) == (Decimal("1366.2"), 1366, 6833 + 1366)
    assert draft.invoice.total_amount_cents == first.total_cents + last.total_cents


def test_four_fees_credited_bit_by_bit() -> None:
    draft = settle(fees(*[6833] * 4), [tax("20")])
    items = [item(f"f{place}", "6833") for place in range(3)]
    assert _left(draft, items) == 8200
    totals = [8200] * 3
    for amount, taxes, whole, left in [("1367", 273, 1640, 6559), ("2233", 447, 2680, 3880)]:
        result = _credited(draft, ("f3", amount))
        assert (result.taxes_cents, result.total_cents) == (taxes, whole)
        items.append(item("f3", amount))
        assert _left(draft, items) == left
        totals.append(whole)
    # 3233 of the fourth fee and 20 % are left, but the payment of 30000 leaves 30000 - 3 * 8200 - 1640 - 2680.
    assert refundable_invoice(_left(draft, items), 30000, sum(totals)) == 30000 - sum(totals) == 1080
    items.append(item("f3", "3233"))
    assert _left(draft, items) == 0
    excess = Decimal("0.4") * 3 + (273 - Decimal("273.4")) + (447 - Decimal("446.6"))
    last = _credited(draft, ("f3", "3233"), excess=excess)
    assert (last.taxes_precise, last.taxes_cents, last.total_cents) == (Decimal("645.4"), 645, 3233 + 645)
    assert sum(totals) + last.total_cents == draft.invoice.total_amount_cents


def test_three_fees_with_a_coupon() -> None:
    draft = settle(fees(1999, 6833, 20033), [tax("20")], coupons=[coupon(cents=1000)])
    assert draft.invoice.total_amount_cents == gross(1999 + 6833 + 20033 - 1000, 20)
    first = _credited(draft, ("f0", "1999"))
    assert (first.coupons_adjustment_precise, first.taxes_precise) == (Decimal("69.25342"), Decimal("385.94932"))
    assert (first.taxes_cents, first.total_cents) == (386, 1999 - 69 + 386)
    items = [item("f0", "1999")]
    assert abs(_left(draft, items) - Decimal("31122.2534")) < Decimal("0.0001")
    second = _credited(draft, ("f1", "6833"))
    assert (second.coupons_adjustment_precise, second.taxes_precise) == (Decimal("236.72267"), Decimal("1319.25547"))
    assert adjusted_parts(Parts(credit=7916), second) == Parts(credit=6833 - 237 + 1319)
    assert estimated(second, 0).max_creditable_cents == 6833 - 237 + 1319
    items.append(item("f1", "6833"))
    assert abs(_left(draft, items) - Decimal("23206.97610")) < Decimal("0.0001")
    excess = total(Decimal(note.taxes_cents) - note.taxes_precise for note in (first, second))
    last = _credited(draft, ("f2", "20033"), excess=excess)
    assert (last.taxes_precise, last.total_cents) == (Decimal("3868.00001"), 20033 - 694 + 3868)
    assert _left(draft, [*items, item("f2", "20033")]) == 0


def test_a_request_of_a_cent_too_much_is_stored_a_cent_lower() -> None:
    result = _credited(settle(fees(76900), [tax("20")]), ("f0", "72686"))
    assert (result.sub_total_cents, result.taxes_cents) == (72686, percent(72686, 20))
    assert adjusted_parts(Parts(credit=gross(72686, 20) + 1), result).total == gross(72686, 20)


def test_taxes_of_a_note_over_fees_with_different_taxes() -> None:
    twelve, eight = tax("12"), tax("8")
    lines = [
        fee(100, id="f0", precise_coupons_amount_cents=Decimal("16.66667")),
        fee(20, id="f1", precise_coupons_amount_cents=Decimal("3.33333")),
    ]
    draft = settle(lines, {"f0": [twelve], "f1": [twelve, eight]})
    result = _credited(draft, ("f0", "20"), ("f1", "50"))
    assert result.coupons_adjustment_cents == 12
    assert [line.amount_cents for line in result.lines] == [7, 3]
    assert (result.taxes_cents, result.taxes_rate) == (10, Decimal("17.71429"))


@pytest.mark.parametrize(
    ("plan", "rate", "unused", "precise"),
    [
        (20000, "25", (29, 30), "19333.33333"),
        (16000, "25", (29, 30), "15466.66666"),
        (2999, "23.33", (6, 7), "2570.57142"),
        (5000, "20", (20, 28), "3571.42857"),
        (3100, "20", (16, 31), "1600"),
        (3100, "20", (17, 31), "1700"),
        (999, None, (15, 30), "499.5"),
    ],
)
def test_the_unused_days_of_a_fee_paid_in_advance(
    plan: int, rate: str | None, unused: tuple[int, int], precise: str
) -> None:
    cents = share(plan, *unused)
    taxes = percent(cents, rate or 0)
    draft = settle(fees(plan), [] if rate is None else [tax(rate)])
    left = unused_time_credit(plan, *unused, fee_amount_cents=plan)
    assert left == Decimal(precise)
    result = _credited(draft, ("f0", precise))
    assert (result.sub_total_cents, result.taxes_cents) == (cents, taxes)
    assert adjusted_parts(Parts(credit=result.total_cents), result).total == cents + taxes


@pytest.mark.parametrize(
    ("share", "credited_before", "taxes", "whole"),
    # 1600 are left for 16 of 31 days: less what was credited, or less the coupon's 1000 * 16 / 31.
    [
        ("0", 1000, percent(1600 - 1000, 20), gross(1600 - 1000, 20)),
        ("1000", 0, 217, 1600 - share(1000, 16, 31) + 217),
        ("3100", 0, 0, 0),
    ],
)
def test_unused_days_of_a_fee_with_a_coupon_or_credited_before(
    share: str, credited_before: int, taxes: int, whole: int
) -> None:
    draft = _with_coupons([(3100, share)], [tax("20")])
    left = unused_time_credit(3100, 16, 31, fee_amount_cents=3100, credited_cents=Decimal(credited_before))
    result = _credited(draft, ("f0", str(left)))
    assert (result.taxes_cents, result.total_cents) == (taxes, whole)


@pytest.mark.parametrize(
    ("paid", "share", "before", "parts"),
    [
        (7440, "0", 0, Parts(refund=1920)),
        (5580, "0", 0, Parts(refund=990, credit=930)),
        (930, "0", 0, Parts(credit=1920)),
        (5580, "0", 200, Parts(refund=990, credit=690)),
        (5580, "500", 200, Parts(refund=1035, credit=374)),
    ],
)
def test_what_is_paid_back_of_a_fee_that_was_not_used_up(paid: int, share: str, before: int, parts: Parts) -> None:
    draft = _with_coupons([(3100, share), (3100, "0")], [tax("20")])
    invoice_cents = 7440 - round_cents(Decimal(share) * Decimal("1.2"))
    left = unused_time_credit(3100, 16, 31, fee_amount_cents=3100, credited_cents=Decimal(before))
    whole = _credited(draft, ("f0", str(left))).total_cents
    used = _credited(draft, ("f0", "1500"))
    refund = refundable_of_fee(
        draft.fees[0], used.total_cents, paid_cents=paid, invoice_cents=invoice_cents, total_cents=whole
    )
    assert termination_parts("refund", whole, refund, 0) == parts
    offset = termination_parts("offset", whole, refund, whole)
    assert (offset.refund, offset.offset, offset.credit) == (parts.refund, parts.credit, 0)
    assert termination_parts("credit", whole, refund, whole) == Parts(credit=whole)


def test_notes_pay_for_an_invoice_oldest_first() -> None:
    draft = settle(fees(60, 40), notes=[note("b", 50, at=1), note("a", 20)])
    assert [(line.item_id, line.amount_cents) for line in draft.invoice.credits] == [("a", 20), ("b", 50)]
    assert [(used.credit_status, used.balance_amount_cents) for used in changed(draft, CreditNote)] == [
        ("consumed", 0)
    ] * 2
    assert (draft.invoice.credit_notes_amount_cents, draft.invoice.total_amount_cents) == (70, 30)
    assert [line.precise_credit_notes_amount_cents for line in draft.fees] == [42, 28]


def test_a_note_is_used_no_further_than_the_total() -> None:
    draft = settle(fees(10), notes=[note("a", 20), note("b", 50, at=1)])
    used = changed(draft, CreditNote)[0]
    assert (used.credit_status, used.balance_amount_cents, len(draft.changed)) == ("available", 10, 1)
    assert (draft.invoice.total_amount_cents, draft.invoice.payment_status) == (0, "succeeded")


def test_notes_of_another_currency_or_of_the_invoice_itself_pay_nothing() -> None:
    draft = settle(fees(100), notes=[note("a", 20, currency="USD"), note("b", 20, invoice_id="invoice")])
    assert draft.changed == ()


def test_credits_of_every_kind_in_their_order() -> None:
    amounts = [("subscription", 10000), ("fixed_charge", 10000), *[("charge", 1000 * n) for n in range(1, 5)]]
    lines = [
        fee(cents, id=f"f{place}", fee_type=kind, billable_metric_id=f"m{place}")
        for place, (kind, cents) in enumerate(amounts)
    ]
    lines[4] = replace(lines[4], precise_coupons_amount_cents=Decimal(3000))
    coupons = [coupon("half", rate="50", metrics=["m2"]), coupon("all", cents=1000)]
    draft = settle(lines, [tax("10")], coupons=coupons, notes=[note("n", 1000)])
    assert [line.amount_cents for line in draft.invoice.credits] == [1000 // 2, 1000, 1000]


@pytest.mark.parametrize(
    ("amounts", "error"), [((100, 22), True), ((100, 21), False)], ids=["two cents over", "one cent over"]
)
def test_the_ceiling_is_the_fees_with_taxes_less_other_notes(amounts: tuple[int, int], error: bool) -> None:
    credit, offset = amounts
    draft = settle(fees(100), [tax("20")])
    codes = _errors(draft, Parts(credit=credit), others=Parts(offset=offset), item_amount="83")
    assert ("credit_amount_cents" in codes) == error


@pytest.mark.parametrize(("credit", "error"), [(241, False), (250, True)])
def test_one_cent_over_the_ceiling_is_forgiven(credit: int, error: bool) -> None:
    codes = _errors(settle(fees(200), [tax("20")]), Parts(credit=credit), item_amount="200")
    assert ("credit_amount_cents" in codes) == error


def _errors(
    draft: InvoiceInProgress,
    parts: Parts,
    *,
    others: Parts | None = None,
    item_amount: str = "100",
    paid: int = 0,
    succeeded: bool = False,
    top_up: bool = False,
) -> dict[str, list[str]]:
    return validation_errors(
        parts,
        _credited(draft, ("f0", item_amount)),
        gross_cents=gross_total(draft.fees),
        total_cents=draft.invoice.total_amount_cents,
        paid_cents=paid,
        payment_succeeded=succeeded,
        of_other_notes=others or Parts(),
        top_up=top_up,
    )


def test_what_a_note_may_not_be() -> None:
    draft = settle(fees(100), [tax("20")])
    cannot_refund = "cannot_refund_unpaid_invoice"
    too_high = "higher_than_remaining_invoice_amount"
    assert _errors(draft, Parts(refund=120))["refund_amount_cents"] == [cannot_refund, too_high]
    assert _errors(draft, Parts(refund=120), paid=120)["refund_amount_cents"] == [cannot_refund]
    assert _errors(draft, Parts(refund=120), paid=120, succeeded=True) == {}
    assert _errors(draft, Parts(refund=50, credit=70), paid=50) == {}
    assert _errors(draft, Parts(refund=51, credit=69), paid=50)["refund_amount_cents"] == [too_high]
    assert _errors(draft, Parts(credit=10, refund=5, offset=8), paid=100, succeeded=True, item_amount="19") == {}
    assert _errors(draft, Parts(offset=21), paid=100)["offset_amount_cents"] == [too_high]
    assert _errors(draft, Parts(credit=118))["base"] == ["does_not_match_item_amounts"]
    assert _errors(draft, Parts(credit=119)) == {}
    assert _errors(draft, Parts(credit=240, refund=-120))["refund_amount_cents"] == ["invalid_value"]
    assert _errors(draft, Parts(credit=-120, offset=240))["credit_amount_cents"] == ["invalid_value"]
    assert _errors(draft, Parts(), item_amount="0")["base"] == ["total_amount_must_be_positive"]
    assert _errors(draft, Parts(credit=120), others=Parts(refund=3))["base"] == [too_high]


def test_all_notes_of_an_invoice_give_its_gross_total_and_a_cent_of_rounding_at_most() -> None:
    draft = settle(fees(100), [tax("20")])
    before = Parts(refund=60)
    assert _errors(draft, Parts(credit=60), paid=60, others=before, item_amount="50") == {}
    assert _errors(draft, Parts(credit=61), paid=60, others=before, item_amount="50") == {}
    beyond = _errors(draft, Parts(credit=62), paid=60, others=before, item_amount="51")
    assert beyond == {"base": ["higher_than_remaining_invoice_amount"]}


def test_a_top_up_is_only_refunded_or_settled_as_a_whole() -> None:
    draft = settle(fees(1500))
    assert _errors(draft, Parts(credit=1500), item_amount="1500", top_up=True) == {
        "credit_amount_cents": ["cannot_credit_invoice"]
    }
    assert _errors(draft, Parts(offset=1500), item_amount="1500", top_up=True) == {}
    assert _errors(draft, Parts(offset=10), item_amount="10", top_up=True) == {
        "offset_amount_cents": ["not_equal_to_total_amount"]
    }
    codes = _errors(draft, Parts(offset=1500), item_amount="1500", top_up=True, paid=1500, succeeded=True)
    assert codes["offset_amount_cents"] == ["cannot_apply_to_paid_invoice", "higher_than_remaining_invoice_amount"]


def test_a_void_that_gives_back_a_part_takes_it_from_all_fees() -> None:
    draft = settle(fees(1000, 333), [tax("20")])
    items = proportional_items({"f0": 1000, "f1": 333}, 500, 1600)
    assert items == {"f0": Decimal("312.5"), "f1": Decimal("104.0625")}
    result = _credited(draft, *[(id, str(amount)) for id, amount in items.items()])
    assert (result.taxes_precise, result.taxes_cents) == (Decimal("83.3125"), 83)
    # 312.5 + 104.0625 is 416.5625
    assert (result.sub_total_cents, result.total_cents) == (417, 417 + 83)


@given(
    left=st.dictionaries(st.sampled_from(["f0", "f1", "f2"]), st.integers(0, 10**9), min_size=1),
    base=st.integers(1, 10**9),
    data=st.data(),
)
def test_shares_of_fees_are_kept_as_they_are_worked_out(left: dict[str, int], base: int, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, base))
    items = proportional_items(left, wanted, base)
    assert set(items) == {id for id, cents in left.items() if cents > 0}
    for id, amount in items.items():
        assert 0 <= amount <= left[id]
        assert abs(Fraction(amount) - Fraction(left[id] * wanted, base)) <= Fraction(1, 200_000)
        assert amount == round_to(amount, 5)


def test_a_progressive_credit_lowers_what_may_be_credited() -> None:
    draft = settle(fees(400))
    draft = replace(draft, invoice=replace(draft.invoice, progressive_billing_credit_amount_cents=200))
    assert _left(draft) == 200


_rates = st.lists(st.sampled_from(["0", "5.5", "10", "19", "20", "23.33"]), max_size=2, unique=True)
_currencies = st.sampled_from(["JPY", "USD", "KWD"])


@st.composite
def _invoices(draw: st.DrawFn) -> InvoiceInProgress:
    amounts = draw(st.lists(st.integers(1, 10**9), min_size=1, max_size=5))
    taxes = [tax(rate) for rate in draw(_rates)]
    currency = draw(_currencies)
    lines = [
        fee(cents, id=f"f{place}", billable_metric_id=f"m{place}", currency=currency)
        for place, cents in enumerate(amounts)
    ]
    # Some coupons are for the first fee only, and some fees are not taxed.
    metrics = draw(st.sampled_from([None, ["m0"]]))
    off = draw(st.integers(0, sum(amounts)))
    coupons = [coupon(cents=off, currency=currency, metrics=metrics)] if off else []
    by_fee = {line.id: draw(st.sampled_from([taxes, []])) for line in lines}
    return settle(lines, by_fee, coupons=coupons, currency=currency)


@given(_invoices(), st.data())
def test_notes_over_a_whole_invoice_come_to_its_total(draft: InvoiceInProgress, data: st.DataObject) -> None:
    """Every fee is cut into items at random, and each item is credited by a note of its own."""
    cuts = []
    for line in draft.fees:
        cut = data.draw(st.integers(0, line.amount_cents))
        cuts += [(line, cut), (line, line.amount_cents - cut)]
    pieces = [(line, cents) for line, cents in data.draw(st.permutations(cuts)) if cents]
    made: list[Credited] = []
    for place, (line, cents) in enumerate(pieces):
        excess = None
        if place == len(pieces) - 1:
            excess = total(subtract(Decimal(note.taxes_cents), note.taxes_precise) for note in made)
        made.append(_credited(draft, (line.id, str(cents)), excess=excess))
    assert abs(sum(note.taxes_cents for note in made) - draft.invoice.taxes_amount_cents) <= 1
    nets = total(subtract(note.items_precise, note.coupons_adjustment_precise) for note in made)
    assert abs(nets - draft.invoice.sub_total_excluding_taxes_amount_cents) < Decimal("0.0005")


@given(_invoices(), st.data())
def test_the_parts_of_a_stored_note_are_its_subtotal_and_taxes(draft: InvoiceInProgress, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(draft.fees))
    cents = data.draw(st.integers(1, line.amount_cents))
    result = _credited(draft, (line.id, str(cents)))
    credit = data.draw(st.integers(0, result.total_cents))
    refund = data.draw(st.integers(0, result.total_cents - credit))
    requested = Parts(credit=credit, refund=refund, offset=result.total_cents - credit - refund)
    stored = adjusted_parts(requested, result)
    assert stored.credit + stored.refund + stored.offset == stored.total
    assert abs(stored.total - requested.total) <= 2
    assert stored.total == result.sub_total_cents + result.taxes_cents


@given(_invoices(), st.data())
def test_rounding_never_raises_a_part_beyond_what_it_may_be(draft: InvoiceInProgress, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(draft.fees))
    cents = data.draw(st.decimals(1, line.amount_cents, places=1))
    result = _credited(draft, (line.id, str(cents)))
    whole = max(1, result.total_cents + data.draw(st.integers(-1, 1)))
    refund = data.draw(st.integers(0, whole))
    offset = data.draw(st.integers(0, whole - refund))
    requested = Parts(credit=whole - refund - offset, refund=refund, offset=offset)
    stored = adjusted_parts(requested, result, requested)
    assert 0 <= stored.refund <= refund
    assert 0 <= stored.offset <= offset
    assert 0 <= stored.credit <= requested.credit
    fitted = fitted_to(stored, result)
    assert fitted.sub_total_cents + fitted.taxes_cents == stored.total
    assert abs(fitted.sub_total_cents - result.sub_total_cents) <= 2


@given(_invoices(), st.data())
def test_crediting_more_leaves_less_and_never_less_than_nothing(draft: InvoiceInProgress, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(draft.fees))
    cents = data.draw(st.integers(0, line.amount_cents))
    more = data.draw(st.integers(cents, line.amount_cents))
    some, rest = [item(line.id, str(cents))], [item(line.id, str(more))]
    assert creditable_fee(line, some) >= creditable_fee(line, rest) >= 0
    assert _left(draft) >= _left(draft, some) - 1 >= _left(draft, rest) - 2
    assert _left(draft, [item(fee.id, str(fee.amount_cents)) for fee in draft.fees]) == 0
    assert abs(_left(draft) - draft.invoice.total_amount_cents) <= 1


_balances = st.lists(st.integers(1, 10**9), max_size=5)


@given(_invoices(), _balances)
def test_no_note_is_used_beyond_its_balance(draft: InvoiceInProgress, balances: list[int]) -> None:
    invoice = draft.invoice
    notes = [note(f"n{place}", balance, at=place, currency=invoice.currency) for place, balance in enumerate(balances)]
    lines = [replace(line, applied_taxes=(), precise_coupons_amount_cents=Decimal(0)) for line in draft.fees]
    paid = settle(lines, [tax("20")], notes=notes, currency=invoice.currency)
    used = sum(line.amount_cents for line in paid.invoice.credits)
    assert used == paid.invoice.credit_notes_amount_cents
    assert used == min(sum(balances), paid.invoice.sub_total_including_taxes_amount_cents)
    assert paid.invoice.total_amount_cents == paid.invoice.sub_total_including_taxes_amount_cents - used
    held = {note.id: note for note in notes}
    for after, line in zip(changed(paid, CreditNote), paid.invoice.credits, strict=True):
        assert after.balance_amount_cents == held[after.id].balance_amount_cents - line.amount_cents >= 0
        assert (after.credit_status == "consumed") == (after.balance_amount_cents == 0)
    shares = total(line.precise_credit_notes_amount_cents for line in paid.fees)
    assert abs(shares - used) <= len(lines)


@given(st.integers(1, 10**9), st.data())
def test_a_balance_cannot_be_overdrawn(balance: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, balance))
    after = after_use(note("n", balance), first, NOW)
    assert after.balance_amount_cents == balance - first
    with pytest.raises(ValueError, match="of a balance of"):
        after_use(after, balance - first + 1, NOW)


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(-10, 10**9),
    st.sampled_from(["credit", "refund", "offset"]),
)
def test_an_end_gives_back_all_of_the_note(whole: int, refundable: int, due: int, option: str) -> None:
    parts = termination_parts(option, whole, min(refundable, whole), due)
    assert parts.offset <= max(0, due)
    assert parts.total == whole
    assert min(parts.credit, parts.refund, parts.offset) >= 0


@given(_invoices(), st.data())
def test_what_is_left_to_credit_is_what_the_invoice_came_to(draft: InvoiceInProgress, data: st.DataObject) -> None:
    """Whichever fees its coupons took from: to the cent, and the same after some of it has been credited in full."""
    assert abs(_left(draft, []) - draft.invoice.sub_total_including_taxes_amount_cents) < 1
    gone = data.draw(st.sampled_from(draft.fees))
    left = _left(draft, [item(gone.id, str(gone.amount_cents))])
    rest = [line for line in draft.fees if line.id != gone.id]
    if rest:
        whole = _credited(draft, *((line.id, str(line.amount_cents)) for line in rest))
        assert abs(left - whole.total_cents) <= 1


@pytest.mark.parametrize(("metrics", "whole"), [(["m0"], 1600), (["m1"], 1700)])
def test_a_coupon_for_some_fees_is_not_spread_over_the_others(metrics: list[str], whole: int) -> None:
    taxed, untaxed = (fee(1000, id=f"f{place}", billable_metric_id=f"m{place}") for place in (0, 1))
    draft = settle([taxed, untaxed], {"f0": [tax("20")]}, coupons=[coupon(cents=500, metrics=metrics)])
    assert draft.invoice.total_amount_cents == whole
    assert _left(draft, []) == whole


@given(_invoices(), st.data())
def test_items_of_a_surplus_come_to_it_and_to_no_more_than_is_left(
    draft: InvoiceInProgress, data: st.DataObject
) -> None:
    left = {line.id: data.draw(st.integers(0, line.amount_cents)) for line in draft.fees}
    cents = data.draw(st.integers(0, sum(left.values())))
    items = surplus_items(draft.fees, left, cents)
    taken = sum(cents_of_item for _, _, cents_of_item in items)
    assert taken <= cents
    for line, amount, cents_of_item in items:
        assert 0 < amount <= left[line.id]
        net = multiply(amount, divide(net_of_coupons(line), Decimal(line.amount_cents)))
        assert abs(subtract(net, Decimal(cents_of_item))) < Decimal("0.00001")
    if taken < cents:
        # All that coupons and credits leave of the fees is taken, but for fractions of a cent.
        worth = total(
            divide(multiply(net_of_coupons(line), Decimal(left[line.id])), Decimal(line.amount_cents))
            for line in draft.fees
        )
        assert subtract(worth, Decimal(taken)) < len(draft.fees)


@pytest.mark.parametrize(
    ("ended_day", "days"),
    # The day of the end is used, and no day before the start of the period is.
    [(1, 1), (16, 16), (31, 31)],
)
def test_what_the_used_days_of_a_fee_come_to(ended_day: int, days: int) -> None:
    january = Period(start=date(2024, 1, 1), end=date(2024, 1, 31))
    paid = replace(
        fees(3100)[0],
        from_datetime=datetime(2024, 1, 1, tzinfo=UTC),
        to_datetime=datetime(2024, 1, 31, 23, 59, 59, tzinfo=UTC),
    )
    ended_at = datetime(2024, 1, ended_day, 12, tzinfo=UTC)
    assert used_amount(3100, january, paid, ended_at, UTC, None) == 3100 * days // 31
    # A trial that went on to the 11th cost nothing.
    trial_end = datetime(2024, 1, 11, tzinfo=UTC)
    assert used_amount(3100, january, paid, ended_at, UTC, trial_end) == 3100 * max(0, days - 10) // 31


def test_the_plan_amount_of_a_fee_is_the_one_that_it_was_computed_from() -> None:
    plan = contract(plan={"amount_cents": 5000}).plan
    (noted,) = fees(3100, amount_details={"plan_amount_cents": 3100})
    (unnoted,) = fees(3100)
    assert (plan_amount_of(noted, plan), plan_amount_of(unnoted, plan)) == (3100, 5000)
