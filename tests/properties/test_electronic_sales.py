"""Whatever is sold, its invoices and credit notes are valid e-invoices.

Sales have one-off lines and usage priced in fractions of a cent, with several taxes, coupons, prepaid credits and
credit notes, in currencies with and without decimals, also to businesses abroad, which pay no tax.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.official_rules import errors_of
from tests.registry import Registry
from tests.scenarios import FRENCH_SELLER, GERMAN_SELLER, Scenario, charge_on, price_ranges
from tests.tax_lines import agree_on_taxes
from usagebill.core.credit_notes import CreditNote
from usagebill.core.documents.electronic import credit_note_document, gaps, invoice_document
from usagebill.core.invoices.records import Invoice
from usagebill.operations.documents.sources import credit_note_source, invoice_source
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq

# The reference has no dinars of three decimals.
pytestmark = [pytest.mark.slow, pytest.mark.beyond_reference]

_BUYER = {"name": "Acme", "country": "DE", "city": "Berlin", "zipcode": "10115", "email": "ada@acme.example"}
_TIERS = price_ranges((0, 10, "0.00333", "0.5"), (11, None, "0.0007", "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sale:
    """What is sold to one customer. `lines`: cents, units and which of the taxes; `usage`: values, each of a team."""

    german: bool
    currency: str
    rates: tuple[str, ...]
    abroad: bool
    lines: tuple[tuple[int, str, int], ...]
    price: str
    usage: tuple[str, ...]
    fee: int
    percent_off: int
    cents_off: int
    wallet: int
    credited: int


_sales = st.builds(
    Sale,
    german=st.booleans(),
    currency=st.sampled_from(("EUR", "EUR", "JPY", "KWD")),
    rates=st.lists(st.sampled_from(("20", "5.5", "8.875", "0", "33.33")), min_size=1, max_size=3).map(tuple),
    abroad=st.booleans(),
    lines=st.lists(
        st.tuples(st.integers(1, 30_000), st.sampled_from(("1", "2.5", "0.333", "1000")), st.integers(0, 3)),
        min_size=1,
        max_size=4,
    ).map(tuple),
    price=st.sampled_from(("0.004", "0.0033333", "1.99", "0.5")),
    usage=st.lists(st.sampled_from(("1", "1.5", "17", "0.1", "12345")), max_size=8).map(tuple),
    fee=st.sampled_from((0, 3100)),
    percent_off=st.sampled_from((0, 0, 33, 100)),
    cents_off=st.sampled_from((0, 0, 777)),
    wallet=st.sampled_from((0, 0, 5, 10_000)),
    credited=st.integers(0, 100),
)


def _sold(box: Scenario, sale: Sale) -> None:
    seller = GERMAN_SELLER if sale.german else FRENCH_SELLER
    box.entity(**seller, eu_tax_management=sale.abroad)
    buyer = {**_BUYER, "country": "IT", "tax_identification_number": "IT12345670785"} if sale.abroad else _BUYER
    box.customer(**buyer, currency=sale.currency)
    box.travel_to("2024-01-02T00:00:00Z")
    if not sale.abroad:
        for at, rate in enumerate(sale.rates):
            box.tax(rate, code=f"tax-{at}", applied_to_organization=at == 0)
    metric = box.metric("calls")
    box.plan(
        charge_on(metric, amount=sale.price, pricing_group_keys=["team"]),
        charge_on(metric, "graduated", graduated_ranges=_TIERS),
        amount_cents=sale.fee,
        amount_currency=sale.currency,
    )
    if sale.percent_off:
        box.coupon(1, code="share", coupon_type="percentage", percentage_rate=str(sale.percent_off))
    if sale.cents_off:
        box.coupon(sale.cents_off, code="sum", amount_currency=sale.currency)
    if sale.wallet:
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": sale.currency}
        box.post("/wallets", wallet={**wallet, "paid_credits": "10", "granted_credits": str(sale.wallet)})
    box.subscribe()
    for at, value in enumerate(sale.usage):
        box.event("calls", value=value, team=f"team-{at}")
    for at, (cents, _, _) in enumerate(sale.lines):
        box.add_on(f"line-{at}", cents, amount_currency=sale.currency)
    fees = []
    for at, (_, units, tax) in enumerate(sale.lines):
        codes = [] if sale.abroad else [f"tax-{place}" for place in range(min(tax, len(sale.rates)))]
        fees.append({"add_on_code": f"line-{at}", "units": units, **({"tax_codes": codes} if codes else {})})
    box.post("/invoices", invoice={"external_customer_id": "acme", "currency": sale.currency, "fees": fees})
    box.travel_to("2024-02-05T00:00:00Z")
    for invoice in box.invoices():
        _credit(box, invoice, sale.credited)


def _credit(box: Scenario, invoice: Any, percent: int) -> None:
    """Credit so much of each fee, as far as that can be credited."""
    items = [{"fee_id": fee["svc_id"], "amount_cents": fee["amount_cents"] * percent // 100} for fee in invoice["fees"]]
    request = {"invoice_id": invoice["svc_id"], "items": items}
    status, estimate = box.send("POST", "/credit_notes/estimate", {"credit_note": request})
    most = estimate["estimated_credit_note"]["max_creditable_amount_cents"] if status == 200 else 0
    if most:
        note = {**request, "reason": "order_change", "description": "Less\nthan agreed", "credit_amount_cents": most}
        box.send("POST", "/credit_notes", {"credit_note": note})


def _checked(reader: Reader) -> int:
    """How many documents there are, all of them valid and with the amounts that people are shown."""
    invoices = reader.tx.find(Invoice, eq("status", "finalized"))
    for invoice in invoices:
        source = invoice_source(reader, invoice)
        document = invoice_document(source)
        assert gaps(source) == {}
        assert errors_of(document) == []
        if invoice.currency == "EUR":
            shown = Decimal(invoice.total_amount_cents) / 100
            assert (document.payable, document.tax_inclusive - document.prepaid + document.rounding) == (shown, shown)
    notes = reader.tx.find(CreditNote, eq("status", "finalized"))
    for note in notes:
        document = credit_note_document(credit_note_source(reader, note))
        assert errors_of(document) == []
    return len(invoices) + len(notes)


@examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_sales)
def test_whatever_is_sold_is_a_valid_e_invoice(sale: Sale) -> None:
    with Scenario(now="2024-01-01T00:00:00Z", vat_registry=Registry()) as box:
        _sold(box, sale)
        assert box.billing.reading(_checked)
        box.billing.reading(agree_on_taxes)
