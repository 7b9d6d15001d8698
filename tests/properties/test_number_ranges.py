"""What is accepted at the edges of the ranges can be billed: shown, previewed, invoiced, printed, voided and ended."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, Inexact, localcontext
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, strategies as st
from pypdf import PdfReader

from tests.examples import examples
from tests.scenarios import FRENCH_SELLER, Scenario, charge_on, fixed_charge_on, plan_fields
from usagebill.core import limits
from usagebill.core.limits import Range
from usagebill.core.numbers import add, subtract

# The reference's shapes do not know the dinar of three decimals.
pytestmark = [pytest.mark.slow, pytest.mark.beyond_reference]

# What draws a number of a range: an edge of it, something close to one, or a plain one.
Edge = Callable[[Range], Decimal]


def _edges(limit: Range) -> list[Decimal]:
    step = Decimal((0, (1,), -limit.decimals))
    inside = [subtract(limit.most, step), add(limit.least, step)]
    candidates = [limit.least, limit.most, *inside, Decimal(1), Decimal(7)]
    return [number for number in candidates if limit.holds(number)]


def _text(number: Decimal) -> str:
    return format(number, "f")


def _prices(edge: Edge) -> dict[str, dict[str, Any]]:
    """The properties of each charge model."""

    def amount() -> str:
        return _text(edge(limits.CHARGE_AMOUNT))

    def rate() -> str:
        return _text(edge(limits.CHARGE_RATE))

    def tiers(unit: str, price: Callable[[], str]) -> list[dict[str, Any]]:
        bound = max(1, int(edge(limits.RANGE_BOUND)))
        return [
            {"from_value": 0, "to_value": bound, unit: price(), "flat_amount": amount()},
            {"from_value": bound + 1, "to_value": None, unit: price(), "flat_amount": amount()},
        ]

    least, most = sorted((edge(limits.CHARGE_AMOUNT), edge(limits.CHARGE_AMOUNT)))
    return {
        "standard": {"amount": amount()},
        "package": {
            "amount": amount(),
            "package_size": int(edge(limits.PACKAGE_SIZE)),
            "free_units": int(edge(limits.FREE_UNITS)),
        },
        "percentage": {
            "rate": rate(),
            "fixed_amount": amount(),
            "free_units_per_events": int(edge(limits.FREE_EVENTS)),
            "free_units_per_total_aggregation": _text(edge(limits.FREE_UNITS)),
            "per_transaction_min_amount": _text(least),
            "per_transaction_max_amount": _text(most),
        },
        "graduated": {"graduated_ranges": tiers("per_unit_amount", amount)},
        "volume": {"volume_ranges": tiers("per_unit_amount", amount)},
        "graduated_percentage": {"graduated_percentage_ranges": tiers("rate", rate)},
    }


def _sold(box: Scenario, edge: Edge, currency: str) -> None:
    """A price list, a customer who subscribes to it, and a coupon, with numbers of the edges."""
    days = {"invoice_grace_period": min(3, int(edge(limits.GRACE_PERIOD)))}
    seller: dict[str, Any] = {**FRENCH_SELLER, "billing_configuration": days}
    box.entity(net_payment_term=int(edge(limits.PAYMENT_TERM)), **seller)
    box.customer(name="Acme", country="FR", currency=currency)
    box.tax(_text(edge(limits.TAX_RATE)))
    precision = int(edge(limits.ROUNDING_PRECISION))
    metrics = [box.metric("used"), box.metric("cut", rounding_function="round", rounding_precision=precision)]
    box.billing.pricing_units.create(name="Credits", code="credits", short_name="CR")
    unit = {"code": "credits", "conversion_rate": _text(edge(limits.CONVERSION_RATE))}
    charges = [
        charge_on(metrics[0], model, code=model, properties=properties) for model, properties in _prices(edge).items()
    ]
    more = {"min_amount_cents": int(edge(limits.CHARGE_MINIMUM))}
    charges += [
        charge_on(metrics[1], code="minimum", **more, properties=_prices(edge)["standard"]),
        charge_on(metrics[0], code="credits", applied_pricing_unit=unit, properties=_prices(edge)["standard"]),
        charge_on(metrics[0], code="ahead", pay_in_advance=True, properties=_prices(edge)["standard"]),
    ]
    price = int(edge(limits.ADD_ON_PRICE))
    seat = box.add_on("seat", price, amount_currency=currency)
    units = _text(edge(limits.FIXED_UNITS))
    box.plan(
        *charges,
        amount_cents=int(edge(limits.PLAN_FEE)),
        amount_currency=currency,
        trial_period=_text(min(Decimal(3), edge(limits.TRIAL))),
        minimum_commitment={"amount_cents": int(edge(limits.COMMITMENT))},
        usage_thresholds=[{"amount_cents": int(edge(limits.THRESHOLD))}],
        fixed_charges=[fixed_charge_on(seat, code="seat", units=units, properties=_prices(edge)["standard"])],
    )
    coupon: dict[str, Any] = {"coupon_type": "percentage", "percentage_rate": _text(edge(limits.COUPON_RATE))}
    times: dict[str, Any] = {"frequency": "recurring", "frequency_duration": int(edge(limits.COUPON_PERIODS))}
    box.coupon(1, code="share", **coupon, **times)
    box.coupon(int(edge(limits.COUPON_AMOUNT)), code="sum", amount_currency=currency, **times)
    box.subscribe()


def _printed(box: Scenario, invoice: Any) -> None:
    pdf = box.billing.invoices.pdf(invoice["svc_id"])
    assert PdfReader(BytesIO(pdf)).pages
    assert ElementTree.fromstring(box.billing.invoices.xml(invoice["svc_id"])).tag.endswith("Invoice")


def _live(edge: Edge, currency: str) -> None:
    with localcontext() as bare, Scenario(now="2024-03-01T00:00:00Z") as box:
        # Nothing is computed with the operators of decimals, which cut at 28 digits.
        bare.traps[Inexact] = True
        _sold(box, edge, currency)
        for value in ("3", "0.25", "1" + "0" * 40):
            box.event("used", value=value)
            box.event("cut", value=value)
        assert box.usage()["amount_cents"] >= 0
        request = {"customer": {"external_id": "acme"}, "subscriptions": {"external_ids": ["sub"]}}
        assert box.ask("POST", "/invoices/preview", request)["invoice"]["total_amount_cents"] >= 0
        box.travel_to("2024-04-05T00:00:00Z")
        line = {"add_on_code": "seat", "units": _text(min(Decimal(10), edge(limits.LINE_UNITS)))}
        box.post("/invoices", invoice={"external_customer_id": "acme", "currency": currency, "fees": [line]})
        for draft in box.get("/invoices?status=draft")["invoices"]:
            fee = box.invoice(draft["svc_id"])["fees"][0]
            adjusted = {
                "units": _text(edge(limits.LINE_UNITS)),
                "unit_precise_amount": _text(edge(limits.LINE_UNIT_PRICE)),
            }
            box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=fee["svc_id"], **adjusted)
            box.put(f"/invoices/{draft['svc_id']}/finalize")
        issued = [invoice for invoice in box.invoices() if invoice["status"] == "finalized"]
        assert issued
        for invoice in issued:
            assert invoice["total_amount_cents"] >= 0
            _printed(box, invoice)
        assert [str(finding) for finding in box.billing.audit().findings] == []
        for invoice in issued[::2]:
            if invoice["payment_status"] != "succeeded":
                box.post(f"/invoices/{invoice['svc_id']}/void")
        box.unsubscribe()
        box.travel_to("2024-05-05T00:00:00Z")
        assert [invoice["status"] for invoice in box.invoices() if invoice["status"] == "failed"] == []
        assert box.billing.store.read(None, lambda tx: tx.jobs.failures()) == []
        for invoice in box.invoices():
            if invoice["status"] == "finalized":
                _printed(box, invoice)
        assert [str(finding) for finding in box.billing.audit().findings] == []


def test_a_currency_that_the_interface_does_not_have_is_refused() -> None:
    """The dinar of Tunisia is none of its currencies; the one of Kuwait has three decimals as well."""
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        customer = {"external_id": "acme", "currency": "TND"}
        plan = plan_fields(code="p", amount_currency="TND")
        for path, body in (("customers", {"customer": customer}), ("plans", {"plan": plan})):
            status, answer = box.request("POST", f"/api/v1/{path}", json=body)
            assert status == 422
            assert list(answer["error_details"].values()) == [["value_is_invalid"]]


@examples(20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(["EUR", "JPY", "KWD"]))
def test_what_is_accepted_at_the_edges_is_billed_to_the_end(data: st.DataObject, currency: str) -> None:
    _live(lambda limit: data.draw(st.sampled_from(_edges(limit)), label=limit.label), currency)


@pytest.mark.parametrize("currency", ["EUR", "JPY", "KWD"])
@pytest.mark.parametrize("least", [True, False])
def test_everything_at_once_at_its_edge_is_billed_to_the_end(currency: str, least: bool) -> None:
    _live(lambda limit: limit.least if least else limit.most, currency)
