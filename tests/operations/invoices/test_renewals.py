"""What is carried over in advance is billed again for each period; what was paid one by one is put on an invoice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.scenarios import Scenario, charge_in_advance_on, charge_on

pytestmark = [pytest.mark.now("2024-06-05T10:00:00Z"), pytest.mark.usefixtures("acme")]


def seats(metric: str, **fields: Any) -> dict[str, Any]:
    """Seats at 30.00 a month, paid in advance for the days left of it."""
    return charge_in_advance_on(metric, **{"amount": "30", "prorated": True, **fields})


def fees(box: Scenario, **wanted: Any) -> list[dict[str, Any]]:
    return [fee for fee in box.usage_fees() if all(fee[key] == value for key, value in wanted.items())]


def renewals(box: Scenario) -> list[dict[str, Any]]:
    return fees(box, event_transaction_id=None)


def pay(box: Scenario, *wanted: dict[str, Any]) -> None:
    for fee in wanted:
        box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})


def grouped(box: Scenario) -> list[dict[str, Any]]:
    invoices = box.get("/invoices?invoice_type=advance_charges")["invoices"]
    return [box.invoice(invoice["svc_id"]) for invoice in invoices]


def metric(box: Scenario, **fields: Any) -> str:
    return box.metric("seats", "unique_count_agg", recurring=True, **fields)


def test_the_whole_quantity_is_renewed_at_the_full_price(box: Scenario) -> None:
    box.plan(seats(metric(box)))
    box.subscribe()
    for seat in "abc":
        box.event("seats", value=seat)
    box.event("seats", value="c", operation_type="remove")
    box.travel_to("2024-07-01T12:00:00Z")
    (fee,) = renewals(box)
    assert (fee["units"], fee["amount_cents"], fee["svc_invoice_id"]) == ("2.0", 2 * 3000, None)
    assert (fee["pay_in_advance"], fee["invoiceable"]) == (True, False)
    assert (fee["from_date"], fee["to_date"]) == ("2024-07-01T00:00:00+00:00", "2024-07-31T23:59:59+00:00")
    fee_messages = [message for message in box.webhooks if message["webhook_type"] == "fee.created"]
    assert {**fee_messages[-1]["fee"], "applied_taxes": []} == fee


def test_nothing_is_renewed_too_where_no_invoice_holds_it(box: Scenario) -> None:
    seat = metric(box)
    box.plan(seats(seat), seats(seat, invoiceable=True))
    box.subscribe()
    box.travel_to("2024-07-01T12:00:00Z")
    assert [(fee["units"], fee["amount_cents"], fee["svc_invoice_id"]) for fee in renewals(box)] == [("0.0", 0, None)]


def test_an_invoiceable_charge_is_renewed_on_the_invoice_with_the_other_usage(box: Scenario) -> None:
    seat, calls = metric(box), box.metric("calls", "count_agg")
    arrears = charge_on(calls, amount="1")
    box.plan(arrears, seats(seat, invoiceable=True))
    box.subscribe()
    box.event("seats", value="a")
    box.event("calls")
    box.travel_to("2024-07-01T12:00:00Z")
    (invoice,) = [invoice for invoice in box.get("/invoices")["invoices"] if invoice["issuing_date"] == "2024-07-01"]
    lines = box.invoice(invoice["svc_id"])["fees"]
    assert [(fee["item"]["code"], fee["amount_cents"]) for fee in lines if fee["item"]["type"] == "charge"] == [
        ("calls", 100),
        ("seats", 3000),
    ]
    (renewal,) = [fee for fee in lines if fee["item"]["code"] == "seats"]
    assert (renewal["pay_in_advance"], renewal["event_transaction_id"]) == (False, None)
    assert (renewal["from_date"], renewal["to_date"]) == ("2024-07-01T00:00:00+00:00", "2024-07-31T23:59:59+00:00")


def test_an_event_of_the_new_period_is_not_renewed_with_the_old_one(box: Scenario) -> None:
    box.plan(seats(metric(box)))
    box.subscribe()
    box.event("seats", value="a")
    box.jump_to("2024-07-01T00:01:00Z")
    box.event("seats", value="b")
    box.event("seats", value="a", operation_type="remove")
    box.run_due()
    box.travel_to("2024-07-01T12:00:00Z")
    assert [(fee["units"], fee["amount_cents"]) for fee in renewals(box)] == [("1.0", 3000)]
    assert [fee["amount_cents"] for fee in fees(box, event_transaction_id="t2")] == [3000]


def test_an_end_renews_nothing(box: Scenario) -> None:
    seat = metric(box)
    box.plan(seats(seat), seats(seat, invoiceable=True))
    box.subscribe()
    box.event("seats", value="a")
    box.jump_to("2024-06-20T10:00:00Z")
    box.delete("/subscriptions/sub")
    assert renewals(box) == []


def test_paid_fees_are_put_on_one_invoice_when_the_period_is_over(box: Scenario) -> None:
    box.tax("19.9")
    box.plan(seats(metric(box), amount="30.11", regroup_paid_fees="invoice"))
    box.subscribe()
    for seat in "abcd":
        box.event("seats", value=seat)
    first = fees(box)
    pay(box, *first[:3])
    box.travel_to("2024-07-01T12:00:00Z")
    (invoice,) = grouped(box)
    assert [fee["svc_id"] for fee in invoice["fees"]] == [fee["svc_id"] for fee in first[:3]]
    assert invoice["fees_amount_cents"] == sum(fee["amount_cents"] for fee in first[:3])
    assert invoice["taxes_amount_cents"] == sum(fee["taxes_amount_cents"] for fee in first[:3])
    assert invoice["total_amount_cents"] == sum(fee["total_amount_cents"] for fee in first[:3])
    (tax,) = invoice["applied_taxes"]
    assert (tax["amount_cents"], tax["fees_amount_cents"]) == (
        invoice["taxes_amount_cents"],
        invoice["fees_amount_cents"],
    )
    assert (invoice["status"], invoice["payment_status"], invoice["total_due_amount_cents"]) == (
        "finalized",
        "succeeded",
        0,
    )
    assert [period["invoicing_reason"] for period in invoice["billing_periods"]] == ["in_advance_charge_periodic"]
    status, answer = box.send("PUT", f"/fees/{first[0]['svc_id']}", {"fee": {"payment_status": "failed"}})
    assert (status, answer["code"]) == (405, "invoiced_fee")
    box.travel_to("2024-08-01T12:00:00Z")
    assert len(grouped(box)) == 1


def test_a_tax_that_came_later_is_not_added(box: Scenario) -> None:
    box.plan(seats(metric(box), regroup_paid_fees="invoice"))
    box.subscribe()
    box.event("seats", value="a")
    pay(box, *fees(box))
    box.tax()
    box.travel_to("2024-07-01T12:00:00Z")
    (invoice,) = grouped(box)
    assert invoice["taxes_amount_cents"] == 0
    assert invoice["total_amount_cents"] == invoice["fees_amount_cents"]


def test_paid_fees_of_all_charges_go_along_where_one_asks_for_it(box: Scenario) -> None:
    calls = box.metric("calls", "count_agg")
    box.plan(seats(metric(box), regroup_paid_fees="invoice"), seats(calls, amount="1", prorated=False))
    box.subscribe()
    box.event("calls")
    box.event("calls")
    pay(box, fees(box)[0])
    box.travel_to("2024-07-01T12:00:00Z")
    assert [len(invoice["fees"]) for invoice in grouped(box)] == [1]


def test_without_the_option_paid_fees_stay_alone(box: Scenario) -> None:
    box.plan(seats(metric(box)))
    box.subscribe()
    box.event("seats", value="a")
    pay(box, *fees(box))
    box.travel_to("2024-07-01T12:00:00Z")
    assert grouped(box) == []


def test_a_fee_of_the_new_period_waits_unless_the_subscription_ends(box: Scenario) -> None:
    box.plan(seats(metric(box), regroup_paid_fees="invoice"))
    box.subscribe()
    box.jump_to("2024-07-01T00:01:00Z")
    box.event("seats", value="a")
    pay(box, *fees(box))
    box.travel_to("2024-07-02T00:00:00Z")
    assert grouped(box) == []
    box.delete("/subscriptions/sub")
    (invoice,) = grouped(box)
    assert [fee["event_transaction_id"] for fee in invoice["fees"]] == ["t1"]


def test_an_upgrade_groups_what_was_paid_and_later_ones_take_the_rest(box: Scenario) -> None:
    seat = metric(box)
    box.plan(seats(seat, regroup_paid_fees="invoice"))
    box.plan(seats(seat, regroup_paid_fees="invoice"), code="bigger", amount_cents=500)
    box.subscribe()
    box.event("seats", value="a")
    box.event("seats", value="b")
    first, second = fees(box)
    pay(box, first)
    box.jump_to("2024-06-15T10:00:00Z")
    box.subscribe("bigger")
    assert [[fee["svc_id"] for fee in invoice["fees"]] for invoice in grouped(box)] == [[first["svc_id"]]]
    pay(box, second)
    box.travel_to("2024-07-01T12:00:00Z")
    assert sorted(len(invoice["fees"]) for invoice in grouped(box)) == [1, 1]
    (renewal,) = renewals(box)
    assert renewal["units"] == "2.0"


def test_a_late_run_renews_no_more_than_one_on_time() -> None:
    def lived(move: Callable[[Scenario, str], None]) -> list[list[int]]:
        with Scenario("2024-01-01T00:00:00Z") as box:
            box.customer()
            box.plan(
                charge_on(box.metric("seats", "unique_count_agg", recurring=True), amount="31", pay_in_advance=True)
            )
            box.subscribe()
            box.event("seats", value="a")
            # A seat of January, sent at the very instant of the run: it is of the period after, where it is renewed.
            move(box, "2024-02-01T00:10:00Z")
            box.events("seats", {"at": datetime(2024, 1, 31, 11, tzinfo=UTC).timestamp(), "value": "b"})
            box.travel_to("2024-03-02T00:00:00Z")
            paid = [[fee["amount_cents"] for fee in invoice["fees"]] for invoice in box.invoices()]
            return [[cents for cents in fees if cents] for fees in paid]

    assert lived(Scenario.travel_to) == lived(Scenario.jump_to) == [[3100], [3100], [3100], [6200]]
