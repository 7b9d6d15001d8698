"""Lines of drafts adjusted by hand, and voided invoices regenerated."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.scenarios import Scenario, fee_of, fees_of, price_ranges

from usagebill.core.errors import Forbidden, Invalid, NotFound
from usagebill.fields import RegeneratedFeeFields
from usagebill.operations.audit import audit

pytestmark = pytest.mark.now("2024-02-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.customer(billing_configuration={"invoice_grace_period": 3})
    return box


def drafted(box: Scenario, **charge: Any) -> Any:
    """The draft of February: a fee of 129.00 and a charge of 5.00 a unit, without an event."""
    metric = box.metric("gb")
    fields = {"charge_model": "standard", "properties": {"amount": "5"}, **charge}
    box.plan({"billable_metric_id": metric, **fields}, amount_cents=12_900)
    box.subscribe()
    box.travel_to("2024-03-01T01:00:00Z")
    (invoice,) = box.get("/invoices")["invoices"]
    return box.invoice(invoice["svc_id"])


def test_units_multiply_the_base_fee_or_stand_at_a_price_of_their_own(box: Scenario) -> None:
    draft = drafted(box)
    base = fee_of(draft, "subscription")["svc_id"]
    box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=base, units=3)
    assert box.invoice(draft["svc_id"])["fees_amount_cents"] == 3 * 12_900
    again = fee_of(box.invoice(draft["svc_id"]), "subscription")["svc_id"]
    box.billing.invoices.reset_fee(draft["svc_id"], again)
    assert box.invoice(draft["svc_id"])["fees_amount_cents"] == 12_900
    base = fee_of(box.invoice(draft["svc_id"]), "subscription")["svc_id"]
    box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=base, units=1000, unit_precise_amount="0.001")
    assert box.invoice(draft["svc_id"])["fees_amount_cents"] == 100


def test_a_line_that_usage_gives_none_of_can_be_added(box: Scenario) -> None:
    draft = drafted(box)
    subscription = fee_of(draft, "subscription")["svc_subscription_id"]
    charge = box.get("/plans/basic")["plan"]["charges"][0]["svc_id"]
    line = {"subscription_id": subscription, "charge_id": charge, "units": 3}
    estimate = box.billing.invoices.estimate_adjusted_fee(draft["svc_id"], **line)
    assert estimate.amount_cents == 3 * 500
    assert box.invoice(draft["svc_id"])["fees_amount_cents"] == 12_900
    box.billing.invoices.adjust_fee(draft["svc_id"], **line)
    assert box.invoice(draft["svc_id"])["fees_amount_cents"] == 12_900 + 3 * 500
    with pytest.raises(Invalid):
        box.billing.invoices.adjust_fee(draft["svc_id"], **line)


def test_a_line_whose_charge_has_gone_cannot_be_adjusted(box: Scenario) -> None:
    draft = drafted(box, code="gb", properties={"amount": "5"}, min_amount_cents=500)
    line = fees_of(draft, "charge")[0]["svc_id"]
    box.delete("/plans/basic/charges/gb")
    with pytest.raises(NotFound):
        box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=line, units=3)
    assert box.invoice(draft["svc_id"])["fees_amount_cents"] == 12_900 + 500


def test_adjustments_survive_refresh_and_finalization(box: Scenario) -> None:
    draft = drafted(box)
    base = fee_of(draft, "subscription")["svc_id"]
    box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=base, units=2, invoice_display_name="Twice")
    box.billing.invoices.refresh(draft["svc_id"])
    box.travel_to("2024-03-05T00:00:00Z")
    final = box.invoice(draft["svc_id"])
    assert (final["status"], final["fees_amount_cents"]) == ("finalized", 2 * 12_900)
    assert fee_of(final, "subscription")["item"]["invoice_display_name"] == "Twice"
    with pytest.raises(Forbidden):
        box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=fee_of(final, "subscription")["svc_id"], units=1)


def test_what_cannot_be_adjusted(box: Scenario) -> None:
    draft = drafted(box, charge_model="percentage", properties={"rate": "1"})
    subscription = fee_of(draft, "subscription")["svc_subscription_id"]
    charge = box.get("/plans/basic")["plan"]["charges"][0]["svc_id"]
    invoices = box.billing.invoices
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


RANGES = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "2"))


def used(box: Scenario, **charge: Any) -> Any:
    """The draft of February over 12 units, 4 of them in eu, which has a price of its own."""
    metric = box.metric("gb", filters=[{"key": "region", "values": ["eu"]}])
    filters = [{"values": {"region": ["eu"]}, "properties": {"graduated_ranges": RANGES}}]
    fields = {"charge_model": "graduated", "properties": {"graduated_ranges": RANGES}, "filters": filters, **charge}
    box.plan({"billable_metric_id": metric, **fields})
    box.subscribe()
    box.event("gb", value=12)
    box.event("gb", value=4, region="eu")
    box.travel_to("2024-03-01T01:00:00Z")
    (invoice,) = box.get("/invoices")["invoices"]
    return box.invoice(invoice["svc_id"])


def lines(invoice: dict[str, Any]) -> list[tuple[str, int]]:
    return [(line["units"], line["amount_cents"]) for line in fees_of(invoice, "charge")]


def explained(box: Scenario, id: str) -> list[list[str]]:
    fees = box.get(f"/invoices/{id}/explain")["invoice_explanation"]["fees"]
    return [fee["arithmetic"] for fee in fees if fee["type"] == "charge"]


def test_a_minimum_is_what_adjusted_lines_leave_of_it(box: Scenario) -> None:
    draft = used(box, min_amount_cents=2000)
    assert lines(draft) == [("4.0", 400), ("12.0", 1300), ("1.0", 300)]
    invoices, id = box.billing.invoices, draft["svc_id"]

    def line(units: str) -> str:
        charges = (fee for fee in box.invoice(id)["fees"] if fee["item"]["type"] == "charge")
        charge = next(fee for fee in charges if fee["units"] == units)
        return str(charge["svc_id"])

    true_up = line("1.0")
    with pytest.raises(Invalid, match="adjusted_fee"):
        invoices.adjust_fee(id, fee_id=true_up, units=1)
    invoices.adjust_fee(id, fee_id=line("12.0"), units=20)
    assert lines(box.invoice(id)) == [("4.0", 400), ("20.0", 1700)]
    assert explained(box, id)[1][1].startswith("10.0 units from 11 and above x 0.5 = 5.0")
    invoices.adjust_fee(id, fee_id=line("4.0"), units=0)
    invoices.refresh(id)
    assert lines(box.invoice(id)) == [("0.0", 0), ("20.0", 1700), ("1.0", 300)]
    invoices.reset_fee(id, line("20.0"))
    box.travel_to("2024-03-05T00:00:00Z")
    final = box.invoice(id)
    assert (final["status"], lines(final)) == ("finalized", [("0.0", 0), ("12.0", 1300), ("1.0", 700)])
    assert box.billing.reading(audit).findings == ()


def test_a_minimum_whose_lines_are_all_filtered_hangs_on_a_line_of_nothing(box: Scenario) -> None:
    metric = box.metric("gb", filters=[{"key": "region", "values": ["eu"]}])
    filters = [{"values": {"region": ["eu"]}, "properties": {"amount": "5"}}]
    charge = {"charge_model": "standard", "properties": {"amount": "1"}, "min_amount_cents": 1000, "filters": filters}
    box.plan({"billable_metric_id": metric, **charge})
    box.subscribe()
    box.event("gb", value=4, region="eu")
    box.travel_to("2024-03-01T01:00:00Z")
    (invoice,) = box.get("/invoices")["invoices"]
    (eu,) = (line for line in box.invoice(invoice["svc_id"])["fees"] if line["item"]["type"] == "charge")
    box.billing.invoices.adjust_fee(invoice["svc_id"], fee_id=eu["svc_id"], units=1)
    charges = [line for line in box.invoice(invoice["svc_id"])["fees"] if line["item"]["type"] == "charge"]
    assert sorted((line["units"], line["amount_cents"]) for line in charges) == [("0.0", 0), ("1.0", 500), ("1.0", 500)]
    (added,) = (line for line in charges if line["svc_true_up_parent_fee_id"])
    (nothing,) = (line for line in charges if line["units"] == "0.0")
    assert (added["svc_true_up_parent_fee_id"], nothing["svc_true_up_fee_id"]) == (nothing["svc_id"], added["svc_id"])


def test_an_adjusted_line_whose_filter_goes_is_let_go(box: Scenario) -> None:
    draft = used(box)
    invoices, id = box.billing.invoices, draft["svc_id"]
    invoices.adjust_fee(id, fee_id=draft["fees"][1]["svc_id"], units=9, invoice_display_name="Europe")
    (charge,) = box.get("/plans/basic")["plan"]["charges"]
    kept = {"id": charge["svc_id"], "charge_model": "graduated", "properties": charge["properties"], "filters": []}
    kept["billable_metric_id"] = charge["svc_billable_metric_id"]
    box.put("/plans/basic", plan={"charges": [kept]})
    box.travel_to("2024-03-05T00:00:00Z")
    final = box.invoice(id)
    assert (final["status"], lines(final)) == ("finalized", [("16.0", 1500)])


@pytest.mark.parametrize("adjustment", [{"units": -1}, {"units": 1, "unit_precise_amount": "-0.01"}])
def test_a_line_is_not_adjusted_below_zero(box: Scenario, adjustment: dict[str, Any]) -> None:
    draft = drafted(box)
    with pytest.raises(Invalid, match="value_is_out_of_range"):
        box.billing.invoices.adjust_fee(draft["svc_id"], fee_id=draft["fees"][0]["svc_id"], **adjustment)


def test_what_brings_a_charge_up_to_its_minimum_stays_with_its_line(box: Scenario) -> None:
    draft = used(box, min_amount_cents=2000)
    box.travel_to("2024-03-05T00:00:00Z")
    voided = box.invoice(draft["svc_id"])
    invoices = box.billing.invoices
    invoices.void(voided["svc_id"])
    made = invoices.regenerate(voided["svc_id"], fees=[{"id": line["svc_id"]} for line in voided["fees"]])
    _, _, parent, added = box.invoice(made.id)["fees"]
    assert (parent["svc_true_up_fee_id"], added["svc_true_up_parent_fee_id"]) == (added["svc_id"], parent["svc_id"])
    assert box.billing.reading(audit).findings == ()
    invoices.void(made.id)
    again = invoices.regenerate(voided["svc_id"], fees=[{"id": voided["fees"][-1]["svc_id"]}])
    (alone,) = box.invoice(again.id)["fees"]
    assert (alone["amount_cents"], alone["svc_true_up_parent_fee_id"]) == (300, None)


def test_lines_are_regenerated_once(box: Scenario) -> None:
    draft = drafted(box)
    box.travel_to("2024-03-05T00:00:00Z")
    invoices = box.billing.invoices
    invoices.void(draft["svc_id"])
    line: RegeneratedFeeFields = {"id": fee_of(box.invoice(draft["svc_id"]), "subscription")["svc_id"]}
    with pytest.raises(Invalid, match="duplicated_values"):
        invoices.regenerate(draft["svc_id"], fees=[line, line])
    made = invoices.regenerate(draft["svc_id"], fees=[line])
    with pytest.raises(Forbidden):
        invoices.regenerate(draft["svc_id"], fees=[line])
    invoices.void(made.id)
    assert invoices.regenerate(draft["svc_id"], fees=[line]).fees_amount_cents == 12_900


def test_lines_of_deleted_charges_are_regenerated_too(box: Scenario) -> None:
    draft = used(box)
    box.travel_to("2024-03-05T00:00:00Z")
    voided = box.invoice(draft["svc_id"])
    box.put("/plans/basic", plan={"charges": []})
    box.post(f"/invoices/{voided['svc_id']}/void")
    kept: list[RegeneratedFeeFields] = [{"id": line["svc_id"], "units": 20} for line in fees_of(voided, "charge")]
    made = box.billing.invoices.regenerate(voided["svc_id"], fees=kept)
    assert lines(box.invoice(made.id)) == [("20.0", 1700), ("20.0", 1700)]


def test_a_voided_invoice_is_regenerated_with_the_lines_of_the_request(box: Scenario) -> None:
    draft = drafted(box)
    box.travel_to("2024-03-05T00:00:00Z")
    invoices = box.billing.invoices
    with pytest.raises(Forbidden):
        invoices.regenerate(draft["svc_id"], fees=[])
    invoices.void(draft["svc_id"])
    voided = box.invoice(draft["svc_id"])
    base = fee_of(voided, "subscription")
    charge = box.get("/plans/basic")["plan"]["charges"][0]["svc_id"]
    made = invoices.regenerate(
        voided["svc_id"],
        fees=[
            {"id": base["svc_id"], "units": 10, "unit_amount": "50.50"},
            {"subscription_id": base["svc_subscription_id"], "charge_id": charge, "units": 4},
        ],
    )
    invoice = box.invoice(made.id)
    assert (invoice["status"], invoice["fees_amount_cents"]) == ("finalized", 50_500 + 2000)
    assert invoice["number"] != voided["number"]
    assert fee_of(invoice, "subscription")["svc_original_fee_id"] == base["svc_id"]
    assert made.voided_invoice_id == voided["svc_id"]
    assert box.invoice(voided["svc_id"])["status"] == "voided"
    assert fee_of(invoice, "charge")["units"] == "4.0"
    assert Decimal(fee_of(invoice, "subscription")["precise_unit_amount"]) == Decimal("50.5")
