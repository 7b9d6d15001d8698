"""Credit notes over parts of invoices with several tax rates, coupons and usage that thresholds have billed ahead."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from hypothesis import given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario, charge_on

RATES = {"gb": "20", "calls": "5.5", "level": "20"}
FEE_RATE = "7.7"
COUPONS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"coupon_type": "fixed_amount", "amount_currency": "EUR", "amount_cents": 777, "frequency": "once"},
    {"coupon_type": "percentage", "percentage_rate": "33.33", "frequency": "forever"},
    {"coupon_type": "percentage", "percentage_rate": "50", "frequency": "forever"},
)
USAGE = st.lists(st.tuples(st.sampled_from(sorted(RATES)), st.integers(-3, 12)), min_size=1, max_size=8)


def lived(box: Scenario, used: list[tuple[str, int]], coupon: dict[str, Any] | None, thresholds: list[int]) -> None:
    for rate in sorted({*RATES.values(), FEE_RATE}):
        box.tax(rate, code=f"vat{rate}", applied_to_organization=False)
    box.customer()
    kinds = {"level": "latest_agg"}
    box.plan(
        *(
            charge_on(box.metric(code, kinds.get(code, "sum_agg")), amount="1.01", tax_codes=[f"vat{rate}"])
            for code, rate in RATES.items()
        ),
        amount_cents=999,
        tax_codes=[f"vat{FEE_RATE}"],
        usage_thresholds=[{"amount_cents": cents} for cents in thresholds],
    )
    if coupon is not None:
        box.post("/coupons", coupon={"name": "Off", "code": "off", "expiration": "no_expiration", **coupon})
        box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": "off"})
    box.subscribe()
    for number, (code, value) in enumerate(used):
        box.travel_to(f"2024-01-{number + 2:02}T12:00:00Z")
        box.event(code, value=value)
    box.travel_to("2024-02-01T01:00:00Z")


def net_and_taxes(box: Scenario) -> Counter[str]:
    """Cents of all invoices less those of all notes: the net, and each tax."""
    cents: Counter[str] = Counter()
    for sign, papers in ((1, box.invoices()), (-1, box.get("/credit_notes?per_page=100")["credit_notes"])):
        for paper in papers:
            cents["net"] += sign * paper["sub_total_excluding_taxes_amount_cents"]
            for line in paper["applied_taxes"]:
                cents[line["tax_code"]] += sign * line["amount_cents"]
    return cents


@examples(25, few=2, deadline=None)
@given(
    used=USAGE,
    coupon=st.sampled_from(COUPONS),
    parts=st.lists(st.sampled_from([Fraction(1, 3), Fraction(1, 7), Fraction(1, 2)]), min_size=1, max_size=3),
)
def test_notes_over_parts_come_to_what_the_invoices_did(
    used: list[tuple[str, int]], coupon: dict[str, Any] | None, parts: list[Fraction]
) -> None:
    with Scenario("2024-01-01T00:00:00Z") as box:
        lived(box, used, coupon, [500, 1500])
        for invoice in box.invoices():
            fees = box.invoice(invoice["svc_id"])["fees"]
            noted = notes_of(box, invoice)
            left = {fee["svc_id"]: fee["amount_cents"] for fee in fees}
            for item in (item for note in noted for item in note["items"]):
                left[item["fee"]["svc_id"]] -= item["amount_cents"]
            for part in [*parts, Fraction(1)]:
                cents = {id: int(rest * part) for id, rest in left.items()}
                credit(box, invoice, {id: amount for id, amount in cents.items() if amount > 0})
                left = {id: rest - cents[id] for id, rest in left.items()}
        everything = net_and_taxes(box)
        assert {name: cents for name, cents in everything.items() if cents} == {}
        assert box.billing.audit().findings == ()


def notes_of(box: Scenario, invoice: Any) -> list[Any]:
    notes = box.get("/credit_notes?per_page=100")["credit_notes"]
    whole = (box.get(f"/credit_notes/{note['svc_id']}")["credit_note"] for note in notes)
    return [note for note in whole if note["svc_invoice_id"] == invoice["svc_id"]]


def credit(box: Scenario, invoice: Any, amounts: dict[str, int]) -> None:
    items = [{"fee_id": id, "amount_cents": cents} for id, cents in amounts.items()]
    if not items:
        return
    note = {"invoice_id": invoice["svc_id"], "items": items}
    shown = box.post("/credit_notes/estimate", credit_note=note)["estimated_credit_note"]
    if shown["max_creditable_amount_cents"]:
        box.post("/credit_notes", credit_note={**note, "credit_amount_cents": shown["max_creditable_amount_cents"]})
