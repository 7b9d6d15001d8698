"""E-invoices before the official rules: the schemas, EN 16931, Factur-X, and XRechnung for German sellers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.documents.builders import CUSTOMER, entity, fee, note_source, source, tax
from tests.core.documents.test_electronic import credit_note, taxed
from tests.examples import examples, mostly_slow
from tests.official_rules import breaches_of, errors_of

from usagebill.core.countries import COUNTRIES
from usagebill.core.currencies import CURRENCIES
from usagebill.core.documents.electronic import credit_note_document, gaps, invoice_document
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource
from usagebill.core.documents.ubl import ubl_text
from usagebill.core.numbers import round_cents, total
from usagebill.core.vat import GOODS_EXPORT, REVERSE_CHARGE, TAX_EXEMPT

GERMAN = entity(country="DE", tax_identification_number="DE123456789")
SELLERS = (entity(), GERMAN)


def errors(of: InvoiceSource | CreditNoteSource) -> list[str]:
    return errors_of(invoice_document(of) if isinstance(of, InvoiceSource) else credit_note_document(of))


def test_a_broken_sum_is_found() -> None:
    """So that the other tests mean something."""
    broken = taxed(sub_total_including_taxes_amount_cents=1)
    right = ubl_text(invoice_document(broken))
    wrong = right.replace(
        '<cbc:TaxInclusiveAmount currencyID="EUR">153.00', '<cbc:TaxInclusiveAmount currencyID="EUR">9'
    )
    assert wrong != right
    assert any("BR-CO-15" in line for line in breaches_of(wrong))


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
@pytest.mark.parametrize(
    "fields",
    mostly_slow(
        [
            {},
            {"invoice_type": "subscription"},
            {"prepaid_credit_amount_cents": 14_200, "total_amount_cents": 0},
            {"self_billed": True},
            {"purchase_order_number": None},
        ],
        {},
    ),
)
def test_invoices(seller: Any, fields: dict[str, Any]) -> None:
    assert errors(taxed(entity=seller, **fields)) == []


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
def test_top_ups(seller: Any) -> None:
    amounts: dict[str, Any] = dict.fromkeys(
        ("total_amount_cents", "sub_total_excluding_taxes_amount_cents", "sub_total_including_taxes_amount_cents"), 1000
    )
    of = source((fee("a", 1000, "0", fee_type="credit"),), entity=seller, invoice_type="credit", **amounts)
    assert errors(of) == []
    assert errors(note_source(of, {"a": 400}, total_amount_cents=400)) == []


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
def test_credit_notes(seller: Any) -> None:
    note = credit_note().note
    assert errors(CreditNoteSource(note=note, invoice=taxed(entity=seller))) == []


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
@pytest.mark.parametrize(("code", "category"), [(REVERSE_CHARGE, "AE"), (TAX_EXEMPT, "E")])
def test_what_carries_no_tax_says_why(seller: Any, code: str, category: str) -> None:
    untaxed = fee("a", 1000, "0", applied_taxes=(tax("0", 1000, 0, code=code),))
    of = source((untaxed, fee("b", 500)), entity=seller, taxes_amount_cents=100, total_amount_cents=1600)
    document = invoice_document(of)
    assert {(group.category, bool(group.reason)) for group in document.groups} == {("S", False), (category, True)}
    assert errors(of) == []


ABROAD = {**CUSTOMER, "country": "US", "tax_identification_number": None}


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
@pytest.mark.parametrize(
    ("codes", "categories"),
    [
        # Services abroad lie outside the scope of the tax, whether or not a tax says so.
        (((TAX_EXEMPT, "0"), (TAX_EXEMPT, "0")), {"O"}),
        ((("vat_zero", "0"), (TAX_EXEMPT, "0")), {"O"}),
        (((GOODS_EXPORT, "0"), (GOODS_EXPORT, "0")), {"G"}),
        # Nothing may stand beside O.
        (((GOODS_EXPORT, "0"), (TAX_EXEMPT, "0")), {"G", "E"}),
        (((TAX_EXEMPT, "0"), ("vat", "20")), {"E", "S"}),
    ],
)
def test_sales_that_leave_the_eu(seller: Any, codes: tuple[tuple[str, str], ...], categories: set[str]) -> None:
    fees = tuple(
        fee(str(place), 1000, rate, applied_taxes=(tax(rate, 1000, 10 * int(rate), code=code),))
        for place, (code, rate) in enumerate(codes)
    )
    cents = sum(10 * int(rate) for _, rate in codes)
    of = source(fees, entity=seller, customer=ABROAD, taxes_amount_cents=cents, total_amount_cents=2000 + cents)
    document = invoice_document(of)
    assert {group.category for group in document.groups} == categories
    assert all(group.reason or group.category in "SG" for group in document.groups)
    assert errors(of) == []
    assert errors(note_source(of, {"0": 400}, total_amount_cents=400)) == []


def test_an_untaxed_sale_within_the_eu_is_at_the_zero_rate() -> None:
    of = source((fee("a", 1000, "0"),), customer={**CUSTOMER, "country": "IT"}, total_amount_cents=1000)
    assert {group.category for group in invoice_document(of).groups} == {"Z"}


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
@pytest.mark.parametrize("lost", [("city",), ("zipcode", "city"), ("email",), ("address_line1", "legal_name", "name")])
def test_a_buyer_of_whom_little_is_known_gets_a_plain_e_invoice(seller: Any, lost: tuple[str, ...]) -> None:
    of = taxed(entity=seller, customer={key: value for key, value in CUSTOMER.items() if key not in lost})
    assert errors(of) == []
    is_xrechnung = seller is GERMAN and lost[0] == "address_line1"
    assert ("xrechnung" in ubl_text(invoice_document(of))) is is_xrechnung


def test_an_invoice_of_nothing_has_a_line() -> None:
    assert errors(source(())) == []


@pytest.mark.slow
def test_only_known_countries_and_currencies_are_left_out() -> None:
    for country in COUNTRIES:
        of = taxed(customer={**CUSTOMER, "country": country, "tax_identification_number": f"{country}123"})
        assert bool(gaps(of)) is (country == "SS"), country
        if not gaps(of):
            assert errors(of) == []
    for currency in CURRENCIES:
        of = taxed(currency=currency)
        assert bool(gaps(of)) is bool(errors(of)), currency


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
@examples(15, deadline=None)
@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), data=st.data())
@pytest.mark.slow
def test_any_name(seller: Any, name: str, data: st.DataObject) -> None:
    texts = ("name", "legal_name", "external_id", "city", "zipcode", "address_line1", "state", "phone", "firstname")
    customer = {**CUSTOMER, **dict.fromkeys(data.draw(st.sets(st.sampled_from(texts))), name)}
    of = taxed(entity=seller, customer=customer)
    line = fee("a", 100)
    assert errors(of) == []
    named = fee("a", 100, item=line.item.__class__(type=line.item.type, item_type="AddOn", id="a", code="a", name=name))
    assert errors(source((named,), entity=seller, taxes_amount_cents=20, total_amount_cents=120)) == []


_rates = st.sampled_from(["0", "5.5", "8.875", "19", "20", "33.33333"])
_lines = st.tuples(
    st.one_of(st.decimals("0", "9", places=6), st.decimals("0", "10000000", places=5)),
    st.decimals("0", "100000", places=3),
    _rates,
)


@pytest.mark.parametrize("seller", SELLERS, ids=["FR", "DE"])
@examples(40, deadline=None)
@given(
    lines=st.lists(_lines, max_size=8),
    times=st.sampled_from([1, 1, 1, 150]),
    percent=st.integers(0, 100),
    currency=st.sampled_from(["EUR", "EUR", "JPY", "KWD", "CLF"]),
    prepaid=st.integers(0, 100),
    credited=st.integers(0, 100),
)
@pytest.mark.slow
def test_any_figures(
    seller: Any,
    lines: list[tuple[Decimal, Decimal, str]],
    times: int,
    percent: int,
    currency: str,
    prepaid: int,
    credited: int,
) -> None:
    """Fractions of cents, taxed precisely and shown rounded; any reductions, prepaid credits and credit notes."""
    fees = tuple(
        fee(
            f"{at}-{again}",
            round_cents(precise),
            rate,
            coupons=str(precise * percent / 100),
            currency=currency,
            precise_amount_cents=precise,
            units=units,
            precise_unit_amount=precise / units if units else Decimal(0),
            taxes_precise_amount_cents=(precise - precise * percent / 100) * Decimal(rate) / 100,
        )
        for at, (precise, units, rate) in enumerate(lines)
        for again in range(times if len(lines) == 1 else 1)
    )
    gross = sum(line.amount_cents for line in fees)
    reduced = min(gross, round_cents(total(line.precise_coupons_amount_cents for line in fees)))
    taxes = round_cents(total(line.taxes_precise_amount_cents for line in fees))
    inclusive = gross - reduced + taxes
    paid = inclusive * prepaid // 100
    noted = (inclusive - paid) * credited // 100
    of = source(
        fees,
        entity=seller,
        currency=currency,
        coupons_amount_cents=reduced,
        taxes_amount_cents=taxes,
        sub_total_excluding_taxes_amount_cents=gross - reduced,
        sub_total_including_taxes_amount_cents=inclusive,
        prepaid_credit_amount_cents=paid,
        credit_notes_amount_cents=noted,
        total_amount_cents=inclusive - paid - noted,
    )
    assert errors(of) == []
    document = invoice_document(of)
    if currency == "EUR" and times == 1:
        # What machines read is what people read.
        stated = (document.tax_exclusive, document.taxes, document.tax_inclusive, document.payable, document.rounding)
        shown = (gross - reduced, taxes, inclusive, inclusive - paid - noted, 0)
        assert stated == tuple(Decimal(cents) / 100 for cents in shown)
    if fees:
        items = {line.id: line.amount_cents * prepaid // 100 for line in fees}
        back = sum(items.values())
        note = note_source(
            of,
            items,
            currency=currency,
            coupons_adjustment_amount_cents=back * percent // 100,
            taxes_amount_cents=back * taxes // gross if gross else 0,
            total_amount_cents=back - back * percent // 100 + (back * taxes // gross if gross else 0),
        )
        assert errors(note) == []
