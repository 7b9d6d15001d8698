"""Lives of subscriptions with and without thresholds: these change when usage is paid, not what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, strategies as st

from tests.examples import examples
from tests.scenarios import Scenario, charge_on
from usagebill.operations.audit import audit


@dataclass(frozen=True)
class Life:
    """Usage (day of March and April, metric, units), and everything that decides what it costs."""

    thresholds: tuple[dict[str, Any], ...]
    used: tuple[tuple[int, int, int], ...]
    coupons: tuple[dict[str, Any], ...] = ()
    rates: tuple[str | None, ...] = (None, None, None)
    fee_cents: int = 0
    advance: bool = False
    end: str = "go on"
    end_day: int = 20


_kinds = st.one_of(
    st.builds(lambda cents: {"amount_cents": cents, "frequency": "once"}, st.integers(1, 4000)),
    st.builds(lambda cents: {"amount_cents": cents, "frequency": "forever"}, st.integers(1, 3000)),
    st.builds(lambda rate: {"percentage_rate": rate, "frequency": "forever"}, st.sampled_from(["10", "33.33", "50"])),
    st.builds(
        lambda cents, times: {"amount_cents": cents, "frequency": "recurring", "frequency_duration": times},
        st.integers(1, 3000),
        st.integers(1, 2),
    ),
    st.builds(
        lambda rate, times: {"percentage_rate": rate, "frequency": "recurring", "frequency_duration": times},
        st.sampled_from(["10", "33.33", "50"]),
        st.integers(1, 2),
    ),
)
_limits = st.sampled_from([{}, {}, {"billable_metric_codes": ["m0"]}, {"plan_codes": ["basic"]}])


@st.composite
def _lives(draw: st.DrawFn) -> Life:
    fixed = draw(st.lists(st.integers(1, 6000), max_size=3, unique=True))
    thresholds = [{"amount_cents": cents} for cents in fixed]
    if not fixed or draw(st.booleans()):
        thresholds.append({"amount_cents": draw(st.integers(300, 3000)), "recurring": True})
    used = draw(
        st.lists(
            st.tuples(
                st.integers(2, 59).filter(lambda day: day not in (31, 32)), st.integers(0, 1), st.integers(-1500, 4000)
            ),
            min_size=1,
            max_size=6,
        )
    )
    coupons: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 2))):
        limit = draw(_limits)
        if limit and any(coupon["applies_to"] for coupon in coupons):
            limit = {}
        coupons.append({**draw(_kinds), "code": f"c{number}", "applies_to": limit})
    rates: tuple[str | None, ...] = draw(
        st.sampled_from(
            [(None, None, None), ("20", "20", "20"), ("20", "7", "20"), ("20", "7", None), ("20", None, "7")]
        )
    )
    return Life(
        thresholds=tuple(thresholds),
        used=tuple(sorted(used)),
        coupons=tuple(coupons),
        rates=rates,
        fee_cents=draw(st.sampled_from([0, 0, 3000])),
        advance=draw(st.booleans()),
        end=draw(st.sampled_from(["go on", "terminate", "upgrade", "downgrade"])),
        end_day=draw(st.integers(5, 50)),
    )


def _instant(day: int) -> str:
    return f"2024-03-{day:02d}T12:00:00Z" if day <= 31 else f"2024-04-{day - 31:02d}T12:00:00Z"


def _set_up(box: Scenario, life: Life, thresholds: tuple[dict[str, Any], ...]) -> None:
    box.customer()
    for rate in sorted({rate for rate in life.rates if rate is not None}):
        box.tax(rate, code=f"vat{rate}", applied_to_organization=False)
    codes = [[] if rate is None else [f"vat{rate}"] for rate in life.rates]
    metrics = [box.metric("m0"), box.metric("m1")]
    for code, fee_cents in (("basic", life.fee_cents), ("large", life.fee_cents + 1000), ("small", 0)):
        charges = [
            charge_on(metric, amount="0.01", tax_codes=tax) for metric, tax in zip(metrics, codes[:2], strict=True)
        ]
        box.plan(
            *charges,
            code=code,
            amount_cents=fee_cents,
            pay_in_advance=life.advance,
            tax_codes=codes[2],
            usage_thresholds=list(thresholds),
        )
    for number, coupon in enumerate(life.coupons):
        box.travel_to(f"2024-03-01T00:0{number}:00Z")
        kind = "percentage" if "percentage_rate" in coupon else "fixed_amount"
        body = {"name": coupon["code"], "coupon_type": kind, "amount_currency": "EUR", "expiration": "no_expiration"}
        if kind == "percentage":
            del body["amount_currency"]
        box.post("/coupons", coupon={**body, **coupon})
        box.post("/applied_coupons", applied_coupon={"external_customer_id": "acme", "coupon_code": coupon["code"]})
    box.travel_to("2024-03-01T00:10:00Z")
    box.subscribe()


@dataclass
class Sums:
    """What a life costs: all invoices, and what notes take off them, by month's end; and the documents it takes."""

    cents: int = 0
    documents: int = 0
    stages: int = 0
    findings: list[str] = field(default_factory=list)
    negative: list[str] = field(default_factory=list)


def _lived(life: Life, thresholds: tuple[dict[str, Any], ...]) -> Sums:
    sums = Sums()
    with Scenario(now="2024-03-01T00:00:00Z") as box:
        _set_up(box, life, thresholds)
        ended = life.end == "go on"
        for day, metric, units in (*life.used, (60, 0, 0)):
            if not ended and day >= life.end_day:
                ended = True
                box.travel_to(_instant(life.end_day))
                if life.end == "terminate":
                    box.unsubscribe()
                else:
                    box.subscribe("large" if life.end == "upgrade" else "small")
            if ended and life.end == "terminate":
                break
            if units:
                box.travel_to(_instant(day))
                box.event(f"m{metric}", value=units)
        for month in (4, 5, 6):
            box.travel_to(f"2024-{month:02d}-01T03:00:00Z") if box.now.month < month else None
        if life.advance and life.end != "terminate":
            box.unsubscribe()
        for invoice in box.invoices():
            sums.documents += 1
            sums.stages += invoice["invoice_type"] == "progressive_billing"
            sums.cents += invoice["total_amount_cents"] + invoice["credit_notes_amount_cents"]
            if invoice["total_amount_cents"] < 0:
                sums.negative.append(invoice["number"])
        for note in box.get("/credit_notes?per_page=100")["credit_notes"]:
            sums.documents += 1
            sums.cents -= note["total_amount_cents"]
        sums.findings = [str(finding) for finding in box.billing.reading(audit).findings]
    return sums


# A fee that is given back after the coupon lay on usage billed ahead: without thresholds, a part of it lies on the fee.
_GIVEN_BACK = Life(
    thresholds=({"amount_cents": 147}, {"amount_cents": 416}, {"amount_cents": 363, "recurring": True}),
    used=((12, 1, 456), (13, 0, 1222), (18, 0, 1520), (37, 1, 295), (52, 1, 3891)),
    coupons=({"amount_cents": 2281, "frequency": "forever", "code": "c0", "applies_to": {}},),
    rates=("20", "20", "20"),
    fee_cents=3000,
    advance=True,
    end="upgrade",
    end_day=33,
)

# A coupon took all of what was billed ahead, so that the other one, which found nothing left there, was on no stage.
_FIRST_TAKES_ALL = Life(
    thresholds=({"amount_cents": 300, "recurring": True},),
    used=((2, 0, 590),),
    coupons=(
        {"percentage_rate": "33.33", "frequency": "forever", "code": "c0", "applies_to": {}},
        {"amount_cents": 1060, "frequency": "forever", "code": "c1", "applies_to": {"plan_codes": ["basic"]}},
    ),
    rates=("20", None, "7"),
    fee_cents=3000,
    advance=True,
    end="downgrade",
    end_day=45,
)

# Usage without a coupon falls by 0.22 and usage with one rises by 0.23: 0.08 come off that, not nothing off 0.01.
_FELL_WITHOUT_COUPON = Life(
    thresholds=({"amount_cents": 1627},),
    used=((2, 0, 1626), (2, 1, 22), (3, 0, 23), (3, 1, -22)),
    coupons=(
        {
            "percentage_rate": "33.33",
            "frequency": "forever",
            "code": "c0",
            "applies_to": {"billable_metric_codes": ["m0"]},
        },
    ),
    end_day=5,
)


@given(_lives())
@example(_GIVEN_BACK)
@example(_FIRST_TAKES_ALL)
@example(_FELL_WITHOUT_COUPON)
@examples(60)
def test_thresholds_never_change_what_a_life_costs(life: Life) -> None:
    plain = _lived(life, ())
    staged = _lived(life, life.thresholds)
    assert staged.findings == []
    assert plain.findings == []
    assert not staged.negative
    assert abs(staged.cents - plain.cents) <= staged.documents + plain.documents
