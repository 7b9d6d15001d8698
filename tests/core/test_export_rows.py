"""What rows of exports say of fees and taxes, in tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.core.builders import NOW, fee, invoice, note, subscription

from usagebill.core.export_rows import FOCUS_COLUMNS, TAX_COLUMNS, Categories, Parties, focus_rows, tax_rows
from usagebill.core.fees import AppliedTax, Fee, FeeType

MONTH_END = datetime.fromisoformat("2024-05-31T23:59:59.999999+00:00")
JUNE = datetime.fromisoformat("2024-06-01T00:00:00+00:00")
APRIL = datetime.fromisoformat("2024-04-01T00:00:00+00:00")


def rows_of(line: Fee) -> list[dict[str, Any]]:
    return [dict(row) for row in focus_rows(line, invoice(), None, subscription(name="Plan of Acme"), "Ours Ltd")]


def test_a_fee_is_a_row_and_its_taxes_are_another() -> None:
    line = fee(
        1000, precise_coupons_amount_cents=Decimal(250), taxes_precise_amount_cents=Decimal(150), units=Decimal(10)
    )
    charged, taxed = rows_of(line)
    assert [*charged] == [*taxed] == [*FOCUS_COLUMNS]
    # What coupons take off is off the bill, not off the list.
    assert (charged["ListCost"], charged["BilledCost"]) == (Decimal(10), Decimal("7.5"))
    assert (charged["ChargeCategory"], charged["ConsumedQuantity"]) == ("Usage", 10)
    assert {taxed[name] for name in ("ListCost", "ContractedCost", "BilledCost", "EffectiveCost")} == {Decimal("1.5")}
    assert (taxed["ChargeCategory"], taxed["PricingQuantity"], taxed["SkuId"]) == ("Tax", None, None)
    assert [row["ChargeCategory"] for row in rows_of(replace(line, taxes_precise_amount_cents=Decimal(0)))] == ["Usage"]


@pytest.mark.parametrize(
    ("fee_type", "category", "frequency", "consumed"),
    [
        (FeeType.CHARGE, "Usage", "Usage-Based", 1),
        (FeeType.SUBSCRIPTION, "Purchase", "Recurring", None),
        (FeeType.FIXED_CHARGE, "Purchase", "Recurring", None),
        (FeeType.COMMITMENT, "Purchase", "Recurring", None),
        (FeeType.ADD_ON, "Purchase", "One-Time", None),
        (FeeType.CREDIT, "Purchase", "One-Time", None),
    ],
)
def test_only_usage_is_consumed(fee_type: FeeType, category: str, frequency: str, consumed: int | None) -> None:
    [row] = rows_of(fee(1000, fee_type=fee_type))
    assert (row["ChargeCategory"], row["ChargeFrequency"], row["ConsumedQuantity"]) == (category, frequency, consumed)


@pytest.mark.parametrize(
    ("fields", "billed", "charged"),
    [
        # Ends are exclusive, and no instant has fractions of seconds.
        ({"from_datetime": NOW, "to_datetime": MONTH_END}, (NOW, JUNE), (NOW, JUNE)),
        # Usage in arrears is that of another period than the one that the fee is in.
        (
            {
                "from_datetime": NOW,
                "to_datetime": MONTH_END,
                "charges_from_datetime": APRIL,
                "charges_to_datetime": NOW - timedelta(microseconds=1),
            },
            (NOW, JUNE),
            (APRIL, NOW),
        ),
        ({}, (NOW, NOW + timedelta(seconds=1)), (NOW, NOW + timedelta(seconds=1))),
    ],
)
def test_periods_end_where_the_next_begin(
    fields: dict[str, Any], billed: tuple[datetime, datetime], charged: tuple[datetime, datetime]
) -> None:
    [row] = rows_of(fee(1000, **fields))
    assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == billed
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == charged


def test_what_a_credit_note_takes_back_of_taxes_is_negative() -> None:
    vat = AppliedTax(
        id="applied",
        tax_id="vat",
        name="VAT",
        code="vat",
        rate=Decimal(20),
        description=None,
        amount_cents=200,
        amount_currency="EUR",
        created_at=NOW,
        base_amount_cents=1000,
    )
    parties = Parties(billing_entity="ours", external_customer_id="acme")
    of = Categories(of_taxes={vat.key: "S"}, untaxed={})
    [billed] = tax_rows(invoice(status="finalized", applied_taxes=(vat,)), parties, of)
    [returned] = tax_rows(note("note", 1200, applied_taxes=(vat,)), parties, of)
    assert {*billed} == {*returned} == {*TAX_COLUMNS}
    amounts = ("document_type", "base_amount_cents", "tax_amount_cents", "tax_amount")
    assert [billed[name] for name in amounts] == ["invoice", 1000, 200, Decimal(2)]
    assert [returned[name] for name in amounts] == ["credit_note", -1000, -200, Decimal(-2)]
