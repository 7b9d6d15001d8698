"""Credit notes over parts of an invoice: however it is split, they add up to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.scenarios import Scenario, charge_on
from tests.tax_lines import agree_on_taxes

from usagebill.core.credit_notes import CreditNote
from usagebill.operations.audit import audit
from usagebill.runtime.work import Work

START = "2024-03-01T00:00:00Z"


def billed(box: Scenario, cents: list[int], rates: list[list[str]], coupon: dict[str, Any] | None) -> Any:
    """The invoice of March with a line of each amount, its taxes in percent, and a coupon."""
    box.customer()
    for rate in sorted({rate for taxes in rates for rate in taxes}):
        box.tax(rate, code=f"vat{rate}", applied_to_organization=False)
    charges = [
        charge_on(box.metric(f"m{number}"), amount="0.01", tax_codes=[f"vat{rate}" for rate in taxes])
        for number, taxes in enumerate(rates)
    ]
    box.plan(*charges)
    box.subscribe()
    if coupon is not None:
        body = {"name": "off", "code": "off", "frequency": "once", "expiration": "no_expiration", **coupon}
        box.post("/coupons", coupon=body)
        box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    for number, amount in enumerate(cents):
        box.event(f"m{number}", value=amount)
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    return invoice


def credit(box: Scenario, invoice: Any, parts: list[tuple[str, int]]) -> list[Any]:
    """A note over each part (fee, cents before taxes and coupons), of as much as its estimate says.

    A part that is worth less than half a cent is refused by itself, and goes on the next note.
    """
    notes = []
    items: list[dict[str, Any]] = []
    for fee_id, cents in parts:
        items = [*items, {"fee_id": fee_id, "amount_cents": cents}]
        body = {"invoice_id": invoice["svc_id"], "items": items}
        estimate = box.post("/credit_notes/estimate", credit_note=body)["estimated_credit_note"]
        most = estimate["max_creditable_amount_cents"]
        if most > 0:
            made = box.post("/credit_notes", credit_note={**body, "credit_amount_cents": most})["credit_note"]
            assert abs(made["total_amount_cents"] - most) <= 1
            notes.append(made)
            items = []
    return notes


def add_up(box: Scenario, invoice: Any, notes: list[Any]) -> None:
    assert sum(note["total_amount_cents"] for note in notes) == invoice["sub_total_including_taxes_amount_cents"]
    net = sum(note["sub_total_excluding_taxes_amount_cents"] for note in notes)
    assert net == invoice["sub_total_excluding_taxes_amount_cents"]
    assert sum(note["taxes_amount_cents"] for note in notes) == invoice["taxes_amount_cents"]
    lines: dict[str, int] = defaultdict(int)
    bases: dict[str, int] = defaultdict(int)
    for note in notes:
        assert min(note["taxes_amount_cents"], note["sub_total_excluding_taxes_amount_cents"]) >= 0
        for line in note["applied_taxes"]:
            assert line["amount_cents"] >= 0
            lines[line["tax_code"]] += line["amount_cents"]
            bases[line["tax_code"]] += line["base_amount_cents"]
    taxed = {line["tax_code"]: line["amount_cents"] for line in invoice["applied_taxes"]}
    assert {code: cents for code, cents in lines.items() if cents} == {
        code: cents for code, cents in taxed.items() if cents
    }
    taxable = {line["tax_code"]: line["fees_amount_cents"] for line in invoice["applied_taxes"]}
    # The last cents of a fee, if they are worth nothing, are on no note.
    items = [item for note in notes for item in note["items"]]
    uncredited = sum(fee["amount_cents"] for fee in invoice["fees"]) - sum(item["amount_cents"] for item in items)
    assert bases.keys() <= taxable.keys()
    assert all(0 <= cents - bases[code] <= uncredited for code, cents in taxable.items())
    assert [str(finding) for finding in box.billing.reading(audit).findings] == []
    box.billing.reading(agree_on_taxes)


@pytest.mark.now(START)
def test_three_lines_in_three_parts_each_come_to_the_invoice(box: Scenario) -> None:
    rate = {"coupon_type": "percentage", "percentage_rate": "33.33"}
    invoice = billed(box, [1001, 777, 333], [["20"], ["20"], ["20"]], rate)
    # 21.11 less 7.04 is 14.07, with 20 % 16.88; the notes rounded one by one came to 16.89.
    assert invoice["total_amount_cents"] == 1688
    parts = [
        (fee["svc_id"], cents)
        for fee in invoice["fees"]
        if fee["amount_cents"]
        for cents in (
            fee["amount_cents"] // 3,
            fee["amount_cents"] // 3,
            fee["amount_cents"] - fee["amount_cents"] // 3 * 2,
        )
    ]
    add_up(box, invoice, credit(box, invoice, parts))


@pytest.mark.now(START)
def test_the_note_that_uses_up_the_taxes_uses_up_each_tax(box: Scenario) -> None:
    rate = {"coupon_type": "percentage", "percentage_rate": "33.33"}
    invoice = billed(box, [200, 7, 566], [["23.33"], ["20"], ["20"]], rate)
    # 2.00 less a third with 23.33 % of it, and 5.73 less a third with 20 % of it.
    assert sorted(line["amount_cents"] for line in invoice["applied_taxes"]) == [31, 76]
    large, small, middle = (
        next(fee["svc_id"] for fee in invoice["fees"] if fee["amount_cents"] == cents) for cents in (566, 7, 200)
    )
    split = {middle: [166, 11, 10, 6, 3, 4], small: [3, 2, 2], large: [155, 328, 47, 25, 9, 1, 1]}
    # The last cents are worth nothing by themselves: no note takes what is left.
    parts = [(fee_id, cents) for fee_id, several in split.items() for cents in several]
    add_up(box, invoice, credit(box, invoice, parts))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.now(START)
def test_the_note_over_all_that_a_tax_applies_to_takes_all_of_that_tax(box: Scenario, first: int) -> None:
    invoice = billed(box, [1002, 1002], [["19"], ["7"]], None)
    # 1.9038 and 0.7014 are 2.6052: the cent is on the line that is closer to the next one.
    assert invoice["taxes_amount_cents"] == 261
    taxes = {line["tax_code"]: line["amount_cents"] for line in invoice["applied_taxes"]}
    assert taxes == {"vat19": 191, "vat7": 70}
    fees = [fee["svc_id"] for fee in invoice["fees"] if fee["amount_cents"]]
    notes = credit(box, invoice, [(fees[first], 1002), (fees[1 - first], 1002)])
    shares = [{line["tax_code"]: line["amount_cents"] for line in note["applied_taxes"]} for note in notes]
    assert sorted(shares, key=str) == [{"vat19": 191}, {"vat7": 70}]
    add_up(box, invoice, notes)


@pytest.mark.now(START)
def test_a_note_takes_no_cent_of_a_tax_that_has_none_left(box: Scenario) -> None:
    invoice = billed(box, [5, 5, 5], [["10"], ["10.0001"], ["10.0002"]], None)
    # 0.5 each are 1.5, so 2 cents: the first tax has none, though half a cent alone is one.
    assert [line["amount_cents"] for line in invoice["applied_taxes"]] == [0, 1, 1]
    fees = [fee["svc_id"] for fee in invoice["fees"] if fee["amount_cents"]]
    add_up(box, invoice, credit(box, invoice, [(fee_id, 5) for fee_id in fees]))


A, B, C = 669, 269, 952  # the lines, by their cents


@pytest.mark.parametrize(
    "parts",
    [
        "A479 A100 C1 A11 A15 A9 A5 A6 A1 B211 B43 B3 B3 B8 B1 C495 C164 C188 C50 C43 C4 C5 C1 A43 C1",
        "A100 A479 A43 B211 A15 B3 A9 A11 B8 C188 A1 B3 C495 A6 C164 A5 B1 C3 C4 C43 B43 C50 C5",
    ],
)
@pytest.mark.now(START)
def test_roundings_of_many_notes_are_made_good_by_the_last_of_them(box: Scenario, parts: str) -> None:
    rates = [["20"], ["23.33", "7"], []]
    invoice = billed(box, [A, B, C], rates, {"coupon_type": "percentage", "percentage_rate": "10"})
    ids = {fee["amount_cents"]: fee["svc_id"] for fee in invoice["fees"]}
    of_letter = {"A": ids[A], "B": ids[B], "C": ids[C]}
    add_up(box, invoice, credit(box, invoice, [(of_letter[part[0]], int(part[1:])) for part in parts.split()]))


@given(
    st.lists(
        st.tuples(st.integers(1, 2000), st.lists(st.sampled_from(["20", "7", "23.33"]), max_size=2, unique=True)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([None, ("33.33", None), ("10", None), (None, 299)]),
    st.data(),
)
@examples(25)
def test_any_split_in_any_order_comes_to_the_invoice(
    lines: list[tuple[int, list[str]]], off: tuple[str | None, int | None] | None, data: st.DataObject
) -> None:
    coupon: dict[str, Any] | None = None
    if off is not None:
        rate, cents = off
        coupon = {"coupon_type": "percentage", "percentage_rate": rate}
        if cents is not None:
            coupon = {"coupon_type": "fixed_amount", "amount_cents": cents, "amount_currency": "EUR"}
    with Scenario(now=START) as box:
        invoice = billed(box, [cents for cents, _ in lines], [rates for _, rates in lines], coupon)
        parts = []
        for fee in invoice["fees"]:
            left = fee["amount_cents"]
            while left > 0:
                part = data.draw(st.integers(max(1, left // 4), left))
                parts.append((fee["svc_id"], part))
                left -= part
        notes = credit(box, invoice, data.draw(st.permutations(parts)))
        add_up(box, invoice, notes)


@pytest.mark.now(START)
def test_the_audit_finds_a_note_of_a_cent_too_much(box: Scenario) -> None:
    invoice = billed(box, [1000], [["20"]], {"coupon_type": "percentage", "percentage_rate": "10"})
    notes = credit(
        box, invoice, [(fee["svc_id"], cents) for fee in invoice["fees"] if fee["amount_cents"] for cents in (400, 600)]
    )
    add_up(box, invoice, notes)

    def plant(work: Work) -> None:
        note = work.tx.get(CreditNote, notes[-1]["svc_id"])
        assert note is not None
        work.tx.replace(
            replace(
                note,
                total_amount_cents=note.total_amount_cents + 1,
                credit_amount_cents=note.credit_amount_cents + 1,
                balance_amount_cents=note.balance_amount_cents + 1,
                sub_total_excluding_taxes_amount_cents=note.sub_total_excluding_taxes_amount_cents + 1,
            )
        )

    box.billing.writing(plant)
    found, ledger = [str(finding) for finding in box.billing.reading(audit).findings]
    assert "ledger" in ledger
    # 10.00 less 10 % and with 20 %.
    assert found.endswith("credited in all: expected at most 1080, found 1081")
