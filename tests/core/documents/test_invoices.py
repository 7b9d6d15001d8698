"""What invoices say to people: titles, parties, layouts, totals in their order, notes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.core.documents.builders import NOW, credit, entity, fee, period, source, tax

from usagebill.core.coupons import AppliedCoupon, CouponStatus
from usagebill.core.documents.content import Content
from usagebill.core.documents.electronic import invoice_document
from usagebill.core.documents.invoices import invoice_content
from usagebill.core.documents.sources import InvoiceSource
from usagebill.core.invoices.records import AppliedCustomSection, AppliedThreshold, BilledPlan
from usagebill.core.vat import REVERSE_CHARGE, TAX_EXEMPT


def totals(of: InvoiceSource, page: int = 0) -> list[tuple[str, str]]:
    return [(total.label, total.amount) for total in invoice_content(of).pages[page].totals]


def names(content: Content, page: int = 0) -> list[list[str]]:
    return [[row.name for row in table.rows] for table in content.pages[page].tables]


@pytest.mark.parametrize(
    ("kind", "country", "self_billed", "title"),
    [
        ("subscription", "FR", False, "Invoice"),
        ("one_off", "FR", False, "Invoice"),
        ("subscription", "AU", False, "Tax invoice"),
        ("progressive_billing", "SG", False, "Tax invoice"),
        ("advance_charges", "FR", False, "Paid invoice"),
        ("advance_charges", "NZ", False, "Paid tax invoice"),
        ("credit", "AE", False, "Advance invoice"),
        ("subscription", "ID", True, "Self-billing invoice"),
    ],
)
def test_title_says_the_kind_of_invoice(kind: str, country: str, self_billed: bool, title: str) -> None:
    of = source((fee("a", 100),), invoice_type=kind, self_billed=self_billed, entity=entity(country=country))
    assert invoice_content(of).title == title


def test_head_says_who_what_and_when() -> None:
    content = invoice_content(source((fee("a", 100),), purchase_order_number="PO-9", total_amount_cents=120))
    assert content.facts == (
        ("Invoice number", "LUM-001-001"),
        ("Purchase order number", "PO-9"),
        ("Issue date", "Feb 1, 2024"),
        ("Payment term", "30 days"),
    )
    assert content.metadata == (("Project", "Apollo"), ("Cost centre", "77"))
    assert (content.issuer.heading, content.issuer.name) == ("From", "Lumen SAS")
    assert content.issuer.lines == (
        "1 rue de la Paix",
        "75002 Paris",
        "France",
        "billing@lumen.example",
        "Tax ID: FR123456789",
    )
    assert (content.recipient.heading, content.recipient.name) == ("Bill to", "Acme GmbH - Ada Byron")
    assert content.recipient.lines == (
        "HRB 7",
        "Allee 1",
        "10115 Berlin",
        "Germany",
        "ada@acme.example, bob@acme.example",
        "Tax ID: DE999",
    )
    assert (content.amount, content.about) == ("€1.20", ("Due Mar 2, 2024",))
    assert content.footer == "Thank you"


@pytest.mark.parametrize(
    ("ends", "day"),
    [
        (datetime(2024, 1, 31, 23, 30, tzinfo=UTC), "Feb 1, 2024"),
        (datetime(2024, 2, 9, 23, 30, tzinfo=UTC), "Feb 1, 2024 – Feb 10, 2024"),
    ],
)
def test_a_one_off_names_the_day_of_supply(ends: datetime, day: str) -> None:
    """In the customer's time zone, on the page and in the XML alike."""
    supplied: dict[str, Any] = {"from_datetime": datetime(2024, 1, 31, 23, 15, tzinfo=UTC), "to_datetime": ends}
    of = source((fee("a", 100, **supplied),), invoice_type="one_off", zone=ZoneInfo("Europe/Paris"))
    assert dict(invoice_content(of).facts)["Date of supply"] == day
    assert invoice_document(of).delivered == date(2024, 2, 1)
    assert "Date of supply" not in dict(
        invoice_content(source((fee("a", 100, **supplied),), invoice_type="credit")).facts
    )


@pytest.mark.parametrize(
    ("country", "lines"),
    [("US", ["Austin, TX 73301"]), ("GB", ["Austin", "TX", "73301"]), ("IT", ["73301 Austin", "TX"])],
)
def test_addresses_are_written_as_in_their_country(country: str, lines: list[str]) -> None:
    address = {"name": "Acme", "city": "Austin", "state": "TX", "zipcode": "73301", "country": country}
    recipient = invoice_content(source((fee("a", 1),), customer=address)).recipient
    assert list(recipient.lines) == [*lines, country]


def test_self_billed_invoices_swap_the_parties_and_keep_no_logo() -> None:
    issuer = entity(logo_url="data:image/png;base64,AA==")
    content = invoice_content(source((fee("a", 100),), self_billed=True, entity=issuer))
    assert (content.issuer.name, content.recipient.name) == ("Acme GmbH - Ada Byron", "Lumen SAS")
    assert content.logo is None
    assert content.footer is not None
    assert "consent" in content.footer
    assert invoice_content(source((fee("a", 100),), entity=issuer)).logo == issuer.logo_url


def applied(id: str, **fields: Any) -> AppliedCoupon:
    return AppliedCoupon(
        id=id,
        organization_id="o",
        coupon_id="k",
        customer_id="c",
        status=CouponStatus.ACTIVE,
        frequency="once",
        created_at=NOW,
        updated_at=NOW,
        **fields,
    )


FULL: dict[str, Any] = {
    "invoice_type": "subscription",
    "progressive_billing_credit_amount_cents": 500,
    "coupons_amount_cents": 1500,
    "sub_total_excluding_taxes_amount_cents": 8000,
    "taxes_amount_cents": 1000,
    "sub_total_including_taxes_amount_cents": 9000,
    "credit_notes_amount_cents": 700,
    "prepaid_credit_amount_cents": 300,
    "total_amount_cents": 8000,
    "applied_taxes": (tax("5.5", 4000, 220), tax("20", 4000, 780)),
    "credits": (
        credit("invoice", "LUM-001-000", 500),
        credit("coupon", "Spring", 1000, source_id="a1"),
        credit("coupon", "Ten", 500, source_id="a2"),
        credit("credit_note", "CN", 700),
    ),
    "coupons": {
        "a1": applied("a1", amount_cents=1000, amount_currency="EUR"),
        "a2": applied("a2", percentage_rate=Decimal(10)),
    },
}
BEFORE_PREPAID = [
    ("Usage already billed", "-€5.00"),
    ("Spring (€10.00)", "-€10.00"),
    ("Ten (10.00%)", "-€5.00"),
    ("Subtotal (excl. tax)", "€80.00"),
    ("VAT (20% on €40.00)", "€7.80"),
    ("VAT (5.5% on €40.00)", "€2.20"),
    ("Subtotal (incl. tax)", "€90.00"),
    ("Credit notes", "-€7.00"),
]


def test_totals_stand_in_the_order_in_which_they_apply() -> None:
    fees = (fee("a", 10_000, fee_type="charge"),)
    assert totals(source(fees, **FULL)) == [*BEFORE_PREPAID, ("Prepaid credits", "-€3.00"), ("Total", "€80.00")]


def test_prepaid_credits_are_split_where_it_is_known_what_was_free() -> None:
    split = {"prepaid_granted_credit_amount_cents": 100, "prepaid_purchased_credit_amount_cents": 200}
    shown = totals(source((fee("a", 10_000, fee_type="charge"),), **{**FULL, **split}))
    assert shown[len(BEFORE_PREPAID) :] == [
        ("Free credits", "-€1.00"),
        ("Prepaid credits", "-€2.00"),
        ("Total", "€80.00"),
    ]


def test_what_a_provider_taxes_in_part_is_shown_with_that_part() -> None:
    part = tax("10", 3000, 200, precise_amount_cents=Decimal(200))
    shown = totals(source((fee("a", 3000, fee_type="charge"),), taxes_amount_cents=200, applied_taxes=(part,)))
    assert ("VAT (10% on €20.00)", "€2.00") in shown


def test_untaxed_invoices_say_so() -> None:
    untaxed = source((fee("a", 100, "0"),), sub_total_excluding_taxes_amount_cents=100, total_amount_cents=100)
    assert ("Tax (0%)", "€0.00") in totals(untaxed)


def test_top_ups_have_a_total_only() -> None:
    item = replace(fee("a", 1000).item, name="credit", invoice_display_name=None)
    top_up = replace(fee("a", 1000, "0", fee_type="credit"), item=item, units=Decimal(10))
    of = source((top_up,), invoice_type="credit", total_amount_cents=1000)
    assert totals(of) == [("Total", "€10.00")]
    [table] = invoice_content(of).pages[0].tables
    assert [(row.name, row.units, row.amount) for row in table.rows] == [("Prepaid credits", "10", "€10.00")]


def test_paid_invoices_end_with_what_was_paid_and_say_when() -> None:
    early = fee("a", 100, fee_type="charge", invoiceable=False, succeeded_at=datetime(2024, 1, 5, tzinfo=UTC))
    late = fee("b", 200, fee_type="charge", invoiceable=False, succeeded_at=datetime(2024, 1, 9, tzinfo=UTC))
    of = source((late, early), invoice_type="advance_charges", total_amount_cents=360)
    [table] = invoice_content(of).pages[0].tables
    assert [(row.name, row.notes) for row in table.rows] == [
        ("Shown a", ("Paid on Jan 5, 2024",)),
        ("Shown b", ("Paid on Jan 9, 2024",)),
    ]
    assert totals(of)[-1] == ("Already paid", "€3.60")


def plan(name: str) -> BilledPlan:
    return BilledPlan(name=name, interval="monthly")


JANUARY: dict[str, Any] = {
    "from_datetime": datetime(2024, 1, 1, tzinfo=UTC),
    "to_datetime": datetime(2024, 1, 31, 23, 59, 59, tzinfo=UTC),
}
FEBRUARY: dict[str, Any] = {
    "from_datetime": datetime(2024, 2, 1, tzinfo=UTC),
    "to_datetime": datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
}


def test_a_subscription_has_a_table_for_each_period_of_its_fees() -> None:
    fees = (
        fee("base", 100, fee_type="subscription", subscription_id="s1", **FEBRUARY),
        fee("usage", 100, fee_type="charge", subscription_id="s1", **JANUARY),
    )
    of = source(fees, invoice_type="subscription", subscription_names={"s1": "Main"}, plans={"s1": plan("Basic")})
    [page] = invoice_content(of).pages
    assert page.heading == "Main details"
    assert [table.columns[0] for table in page.tables] == [
        "Fees from Jan 1, 2024 to Jan 31, 2024",
        "Fees from Feb 1, 2024 to Feb 29, 2024",
    ]
    assert page.tables[0].columns[1:] == ("Units", "Unit price", "Tax rate", "Amount")
    assert names(invoice_content(of)) == [["Shown usage"], ["Shown base"]]


def test_several_subscriptions_are_summed_up_first_then_each_has_its_page() -> None:
    fees = (
        fee("b1", 300, fee_type="charge", subscription_id="s2", **JANUARY),
        fee("min", 50, fee_type="commitment", subscription_id="s2", **JANUARY),
        fee("a1", 200, fee_type="charge", subscription_id="s1", **JANUARY),
    )
    of = source(
        fees,
        invoice_type="subscription",
        subscription_names={"s1": "Alpha", "s2": "Beta"},
        periods=(period("s2", NOW), period("s1", NOW)),
        credits=(credit("invoice", "P-1", 40, subscription_id="s2"),),
        total_amount_cents=510,
    )
    content = invoice_content(of)
    [summary] = content.pages[0].tables
    assert summary.columns == ("Item", "Amount")
    assert [(row.name, row.amount) for row in summary.rows] == [
        ("Alpha", "€2.00"),
        ("Beta", "€3.00"),
        ("Beta - Shown min", "€0.50"),
    ]
    assert [page.heading for page in content.pages[1:]] == ["Alpha details", "Beta details"]
    assert totals(of, 1) == [("Total", "€2.00")]
    assert totals(of, 2) == [("Usage already billed", "-€0.40"), ("Total", "€3.10")]
    assert totals(of)[-1] == ("Total", "€5.10")


def test_parts_of_an_upgrade_say_their_plans_and_days() -> None:
    first: dict[str, Any] = {
        "from_datetime": datetime(2024, 1, 1, tzinfo=UTC),
        "to_datetime": datetime(2024, 1, 15, tzinfo=UTC),
    }
    later: dict[str, Any] = {
        "from_datetime": datetime(2024, 1, 16, tzinfo=UTC),
        "to_datetime": datetime(2024, 1, 31, tzinfo=UTC),
    }
    of = source(
        (
            fee("a", 200, fee_type="charge", subscription_id="s1", **first),
            fee("b", 300, fee_type="subscription", subscription_id="s2", **later),
        ),
        invoice_type="subscription",
        subscription_names={"s1": "Production", "s2": "Production"},
        plans={"s1": plan("Basic"), "s2": plan("Pro")},
        periods=(period("s1", NOW), period("s2", NOW)),
        total_amount_cents=500,
    )
    content = invoice_content(of)
    [summary] = content.pages[0].tables
    assert [(row.name, row.notes) for row in summary.rows] == [
        ("Production - Basic", ("From Jan 1, 2024 to Jan 15, 2024",)),
        ("Production - Pro", ("From Jan 16, 2024 to Jan 31, 2024",)),
    ]
    assert [page.heading for page in content.pages[1:]] == ["Production - Basic details", "Production - Pro details"]


def threshold(cents: int, *, recurring: bool, usage: int) -> AppliedThreshold:
    return AppliedThreshold(
        id=f"t{cents}",
        usage_threshold_id="u",
        amount_cents=cents,
        recurring=recurring,
        threshold_display_name=None,
        lifetime_usage_amount_cents=usage,
        created_at=NOW,
        threshold_created_at=NOW,
        threshold_updated_at=NOW,
    )


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        ((threshold(100, recurring=False, usage=350), threshold(300, recurring=False, usage=350)), "€3.00"),
        ((threshold(300, recurring=False, usage=750), threshold(200, recurring=True, usage=750)), "€6.00"),
    ],
)
def test_progressive_billing_says_which_threshold_was_passed(passed: tuple[AppliedThreshold, ...], shown: str) -> None:
    of = source(
        (fee("a", 100, fee_type="charge", subscription_id="s", **JANUARY),),
        invoice_type="progressive_billing",
        applied_usage_thresholds=passed,
    )
    content = invoice_content(of)
    [note] = content.notes
    assert f"threshold of {shown}" in note
    assert content.pages[0].tables[0].columns[0] == "Fees from Jan 1, 2024 to Feb 1, 2024"


@pytest.mark.parametrize(
    ("code", "country", "managed", "reason"),
    [
        (REVERSE_CHARGE, "DE", True, "reverse charge"),
        (TAX_EXEMPT, "DE", True, "VAT exemption"),
        (TAX_EXEMPT, "FR", True, "259-1"),
        (REVERSE_CHARGE, "DE", False, None),
        ("vat", "DE", True, None),
    ],
)
def test_sales_that_carry_no_vat_say_why(code: str, country: str, managed: bool, reason: str | None) -> None:
    issuer = entity(country=country, eu_tax_management=managed)
    notes = invoice_content(source((fee("a", 1),), entity=issuer, applied_taxes=(tax("0", 1, 0, code=code),))).notes
    assert len(notes) == (reason is not None)
    assert all(reason is not None and reason in note for note in notes)


def test_custom_sections_stand_under_their_titles() -> None:
    sections = tuple(
        AppliedCustomSection(
            id=name, code=name, name=name, details=f"{name} details", display_name=title, created_at=NOW
        )
        for name, title in (("bank", "Bank account"), ("legal", None))
    )
    shown = invoice_content(source((fee("a", 1),), applied_custom_sections=sections)).sections
    assert [(section.title, section.text) for section in shown] == [
        ("Bank account", "bank details"),
        ("legal", "legal details"),
    ]


def test_language_is_that_of_the_source() -> None:
    content = invoice_content(source((fee("a", 123_450),), locale="fr", total_amount_cents=123_450))
    assert (content.title, content.amount, content.about) == (
        "Facture",
        "1\u202f234,50\u00a0€",
        ("À payer avant le 2 mars 2024",),
    )


def test_forms_of_the_reference_are_still_to_be_had() -> None:
    content = invoice_content(source((fee("a", 123_450),), locale="fr@reference", total_amount_cents=123_450))
    assert (content.title, content.amount, content.about) == (
        "Facture",
        "1 234,50 €",
        ("À payer avant le 2 mars 2024",),
    )
    assert content.issuer.lines[1] == "75002, Paris"
