"""Lines of drafts adjusted by hand, and voided invoices made anew."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from tests.price_list import PriceList

from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.testing import Sandbox


@pytest.fixture
def list_() -> Iterator[PriceList]:
    with Sandbox(now="2024-02-01T00:00:00Z") as box:
        yield PriceList(box, billing_configuration={"invoice_grace_period": 3})


def drafted(list_: PriceList, **charge: Any) -> dict[str, Any]:
    """The draft of February: a fee of 129.00 and a charge of 5.00 a unit, without an event."""
    metric = list_.metric("gb")
    fields = {"charge_model": "standard", "properties": {"amount": "5"}, **charge}
    list_.plan({"billable_metric_id": metric, **fields}, amount_cents=12_900)
    list_.subscribe()
    list_.box.travel_to("2024-03-01T01:00:00Z")
    (invoice,) = list_.get("/invoices")["invoices"]
    return shown(list_, invoice["svc_id"])


def shown(list_: PriceList, id: str) -> dict[str, Any]:
    invoice: dict[str, Any] = list_.get(f"/invoices/{id}")["invoice"]
    return invoice


def fee(invoice: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(fee for fee in invoice["fees"] if fee["item"]["type"] == kind)
    return found


def test_units_multiply_the_base_fee_or_stand_at_a_price_of_their_own(list_: PriceList) -> None:
    draft = drafted(list_)
    base = fee(draft, "subscription")["svc_id"]
    list_.box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=base, units=3)
    assert shown(list_, draft["svc_id"])["fees_amount_cents"] == 38_700
    again = fee(shown(list_, draft["svc_id"]), "subscription")["svc_id"]
    list_.box.billing.invoices.reset_fee(draft["svc_id"], again)
    assert shown(list_, draft["svc_id"])["fees_amount_cents"] == 12_900
    base = fee(shown(list_, draft["svc_id"]), "subscription")["svc_id"]
    list_.box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=base, units=1000, unit_precise_amount="0.001")
    assert shown(list_, draft["svc_id"])["fees_amount_cents"] == 100


def test_a_line_that_usage_gives_none_of_can_be_added(list_: PriceList) -> None:
    draft = drafted(list_)
    subscription = fee(draft, "subscription")["svc_subscription_id"]
    charge = list_.get("/plans/plan")["plan"]["charges"][0]["svc_id"]
    line = {"subscription_id": subscription, "charge_id": charge, "units": 3}
    estimate = list_.box.billing.invoices.estimate_adjusted_fee(draft["svc_id"], **line)
    assert estimate.amount_cents == 1500
    assert shown(list_, draft["svc_id"])["fees_amount_cents"] == 12_900
    list_.box.billing.invoices.adjust_fee(draft["svc_id"], **line)
    assert shown(list_, draft["svc_id"])["fees_amount_cents"] == 14_400
    with pytest.raises(Invalid):
        list_.box.billing.invoices.adjust_fee(draft["svc_id"], **line)


def test_adjustments_survive_refresh_and_finalization(list_: PriceList) -> None:
    draft = drafted(list_)
    base = fee(draft, "subscription")["svc_id"]
    list_.box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=base, units=2, invoice_display_name="Twice")
    list_.box.billing.invoices.refresh(draft["svc_id"])
    list_.box.travel_to("2024-03-05T00:00:00Z")
    final = shown(list_, draft["svc_id"])
    assert (final["status"], final["fees_amount_cents"]) == ("finalized", 25_800)
    assert fee(final, "subscription")["item"]["invoice_display_name"] == "Twice"
    with pytest.raises(Forbidden):
        list_.box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=fee(final, "subscription")["svc_id"], units=1)


def test_what_cannot_be_adjusted(list_: PriceList) -> None:
    draft = drafted(list_, charge_model="percentage", properties={"rate": "1"})
    subscription = fee(draft, "subscription")["svc_subscription_id"]
    charge = list_.get("/plans/plan")["plan"]["charges"][0]["svc_id"]
    invoices = list_.box.billing.invoices
    with pytest.raises(Invalid, match="invalid_charge_model"):
        invoices.adjust_fee(draft["svc_id"], subscription_id=subscription, charge_id=charge, units=3)
    for field, line in {
        "fee": {"fee_id": "none"},
        "subscription": {"subscription_id": "none", "charge_id": charge},
        "charge": {"subscription_id": subscription, "charge_id": "none"},
        "charge_filter": {"subscription_id": subscription, "charge_id": charge, "charge_filter_id": "none"},
        "fixed_charge": {"subscription_id": subscription, "fixed_charge_id": "none"},
    }.items():
        with pytest.raises(NotFound, match=f"{field}_not_found"):
            invoices.adjust_fee(draft["svc_id"], units=1, **line)


def test_a_voided_invoice_is_made_anew_with_the_lines_given(list_: PriceList) -> None:
    draft = drafted(list_)
    list_.box.travel_to("2024-03-05T00:00:00Z")
    invoices = list_.box.billing.invoices
    with pytest.raises(Forbidden):
        invoices.regenerate(draft["svc_id"], fees=[])
    invoices.void(draft["svc_id"])
    voided = shown(list_, draft["svc_id"])
    base = fee(voided, "subscription")
    charge = list_.get("/plans/plan")["plan"]["charges"][0]["svc_id"]
    made = invoices.regenerate(
        voided["svc_id"],
        fees=[
            {"id": base["svc_id"], "units": 10, "unit_amount": "50.50"},
            {"subscription_id": base["svc_subscription_id"], "charge_id": charge, "units": 4},
        ],
    )
    invoice = shown(list_, made.id)
    assert (invoice["status"], invoice["fees_amount_cents"]) == ("finalized", 50_500 + 2000)
    assert invoice["number"] != voided["number"]
    assert fee(invoice, "subscription")["svc_original_fee_id"] == base["svc_id"]
    assert made.voided_invoice_id == voided["svc_id"]
    assert shown(list_, voided["svc_id"])["status"] == "voided"
    assert fee(invoice, "charge")["units"] == "4.0"
    assert Decimal(fee(invoice, "subscription")["precise_unit_amount"]) == Decimal("50.5")
