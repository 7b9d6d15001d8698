"""Invoices refreshed, finalized, deleted, voided and changed, as a caller of the API sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.json_asserts import missing, refused
from tests.money import gross, share
from tests.scenarios import Scenario, charge_on

from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import Invoice
from usagebill.core.statuses import TaxStatus
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2023-01-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.tax()
    return box


def draft(box: Scenario, **fields: Any) -> Any:
    """A draft of 10.00 and 20 % VAT, for three days."""
    configuration = {"invoice_grace_period": 3}
    box.customer(billing_configuration=configuration)
    box.plan(amount_cents=1000, pay_in_advance=True, **fields)
    box.subscribe()
    (invoice,) = box.invoices()
    assert (invoice["status"], invoice["total_amount_cents"]) == ("draft", 1200)
    return invoice


def issued(box: Scenario, **fields: Any) -> Any:
    """An issued invoice of 10.00 and 20 % VAT."""
    box.customer()
    box.plan(amount_cents=1000, pay_in_advance=True, **fields)
    box.subscribe()
    (invoice,) = box.invoices()
    return invoice


def test_a_draft_takes_coupons_only_when_it_is_finalized(box: Scenario) -> None:
    invoice = draft(box)
    box.coupon(1000)
    path = f"/invoices/{invoice['svc_id']}"
    assert box.put(f"{path}/refresh")["invoice"]["coupons_amount_cents"] == 0
    final = box.put(f"{path}/finalize")["invoice"]
    assert (final["status"], final["coupons_amount_cents"], final["total_amount_cents"]) == ("finalized", 1000, 0)
    assert final["number"].endswith("-001-001")
    assert box.webhook_types()[-1] == "invoice.created"
    assert missing(box.send("PUT", f"{path}/finalize")) == "invoice"


def test_refreshing_keeps_the_invoice_and_recomputes_its_fees(box: Scenario) -> None:
    invoice = draft(box)
    refreshed = box.put(f"/invoices/{invoice['svc_id']}/refresh")["invoice"]
    assert refreshed["svc_id"] == invoice["svc_id"]
    assert refreshed["fees"][0]["svc_id"] != invoice["fees"][0]["svc_id"]
    assert refreshed["total_amount_cents"] == invoice["total_amount_cents"]


def test_an_issued_invoice_is_not_refreshed(box: Scenario) -> None:
    invoice = issued(box)
    same = box.put(f"/invoices/{invoice['svc_id']}/refresh")["invoice"]
    assert same["fees"][0]["svc_id"] == invoice["fees"][0]["svc_id"]


def test_a_changed_tax_reaches_the_draft_within_five_minutes(box: Scenario) -> None:
    invoice = draft(box)
    box.travel_to("2023-01-01T10:02:00Z")
    box.put("/taxes/vat", tax={"rate": 10})
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == gross(1000, 20)
    box.travel_to("2023-01-01T10:05:00Z")
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == gross(1000, 10)


def test_a_deleted_draft_is_gone(box: Scenario) -> None:
    invoice = draft(box)
    path = f"/invoices/{invoice['svc_id']}"
    assert box.delete(path)["invoice"]["status"] == "deleted"
    assert missing(box.send("GET", path)) == "invoice"
    assert missing(box.send("DELETE", path)) == "invoice"
    assert box.webhook_types()[-1] == "invoice.deleted"
    box.travel_to("2023-01-10T00:00:00Z")
    assert [other["svc_id"] for other in box.invoices() if other["svc_id"] == invoice["svc_id"]] == []


def test_the_period_of_a_deleted_draft_is_not_billed_again(box: Scenario) -> None:
    invoice = draft(box)
    box.delete(f"/invoices/{invoice['svc_id']}")
    box.delete("/subscriptions/sub")
    (last,) = box.invoices()
    (period,) = box.invoice(last["svc_id"])["billing_periods"]
    assert period["invoicing_reason"] == "subscription_terminating"


def test_a_draft_shows_what_is_and_an_issued_invoice_what_was(box: Scenario) -> None:
    invoice = draft(box)
    path = f"/invoices/{invoice['svc_id']}"

    def rename(name: str) -> tuple[str, str]:
        box.put("/subscriptions/sub", subscription={"name": name})
        box.customer(name=name)
        shown = box.get(path)["invoice"]
        return shown["subscriptions"][0]["name"], shown["customer"]["name"]

    assert rename("first") == ("first", "first")
    box.put(f"{path}/finalize")
    assert rename("second") == ("first", "first")


def test_an_issued_invoice_cannot_be_deleted(box: Scenario) -> None:
    status, body = box.send("DELETE", f"/invoices/{issued(box)['svc_id']}")
    assert (status, body["code"]) == (405, "not_deletable")


def test_the_end_of_a_subscription_credits_its_draft() -> None:
    """548 for 17 days, with tax 658; ended after 6 days, 11 of them are given back."""
    configuration = {"invoice_grace_period": 10}
    with Scenario(now="2022-12-15T00:00:00Z") as early:
        early.tax()
        early.customer(billing_configuration=configuration)
        metric_id = early.metric("calls", "count_agg")
        early.plan(charge_on(metric_id, amount="3"), amount_cents=1000, pay_in_advance=True)
        early.subscribe()
        for number in (1, 2):
            event = {"transaction_id": str(number), "code": "calls", "external_subscription_id": "sub"}
            early.post("/events", event=event)
        early.travel_to("2022-12-20T12:00:00Z")
        early.delete("/subscriptions/sub")
        first, last = early.invoices()
        paid = gross(share(1000, 17, 31), 20)
        assert (first["total_amount_cents"], last["total_amount_cents"]) == (paid, gross(2 * 300, 20))
        assert early.get("/credit_notes")["credit_notes"] == []
        first = early.put(f"/invoices/{first['svc_id']}/finalize")["invoice"]
        (note,) = early.get("/credit_notes")["credit_notes"]
        assert (note["total_amount_cents"], note["number"]) == (share(paid, 11, 17), f"{first['number']}-CN001")
        assert early.webhook_types()[-2:] == ["invoice.created", "credit_note.created"]
        last = early.put(f"/invoices/{last['svc_id']}/finalize")["invoice"]
        assert (first["total_amount_cents"], last["total_amount_cents"]) == (
            paid,
            gross(2 * 300, 20) - share(paid, 11, 17),
        )
        assert last["credits"][0]["item"]["type"] == "credit_note"
        (note,) = early.get("/credit_notes")["credit_notes"]
        assert (note["credit_status"], note["balance_amount_cents"]) == ("consumed", 0)


def test_a_deleted_draft_takes_its_credit_note_along(box: Scenario) -> None:
    invoice = draft(box)
    box.travel_to("2023-01-02T00:00:00Z")
    box.delete("/subscriptions/sub")
    box.delete(f"/invoices/{invoice['svc_id']}")
    box.travel_to("2023-02-10T00:00:00Z")
    assert box.get("/credit_notes")["credit_notes"] == []


def void(box: Scenario, invoice: Any, **body: Any) -> tuple[int, Any]:
    return box.send("POST", f"/invoices/{invoice['svc_id']}/void", body or None)


def test_a_voided_invoice_keeps_its_number_and_owes_nothing(box: Scenario) -> None:
    invoice = issued(box)
    _, body = void(box, invoice)
    voided = body["invoice"]
    assert (voided["status"], voided["number"]) == ("voided", invoice["number"])
    assert (voided["total_due_amount_cents"], voided["voided_at"]) == (0, "2023-01-01T00:00:00Z")
    assert box.webhook_types()[-1] == "invoice.voided"
    status, body = void(box, invoice)
    assert (status, body["code"]) == (405, "not_voidable")
    assert box.get("/credit_notes")["credit_notes"] == []


def test_a_paid_invoice_is_voided_only_with_a_credit_note(box: Scenario) -> None:
    invoice = issued(box)
    box.put(f"/invoices/{invoice['svc_id']}", invoice={"payment_status": "succeeded"})
    status, body = void(box, invoice)
    assert (status, body["code"]) == (405, "not_voidable")
    assert void(box, invoice, generate_credit_note=True, credit_amount=1200)[0] == 200
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert (note["total_amount_cents"], note["credit_status"]) == (1200, "available")
    assert note["description"] == f"Credit note created due to voided invoice {invoice['svc_id']}"


def test_the_note_for_the_rest_of_a_voided_invoice_has_no_balance(box: Scenario) -> None:
    assert void(box, issued(box), generate_credit_note=True, credit_amount=300)[0] == 200
    announced_notes = [
        message["credit_note"] for message in box.webhooks if message["webhook_type"] == "credit_note.created"
    ]
    shown = [
        (note["total_amount_cents"], note["credit_status"], note["balance_amount_cents"]) for note in announced_notes
    ]
    assert shown == [(300, "available", 300), (900, "voided", 0)]


def test_a_draft_is_not_voided(box: Scenario) -> None:
    status, body = void(box, draft(box))
    assert (status, body["code"]) == (405, "not_voidable")


@pytest.mark.parametrize(
    "amounts", [{"credit_amount": 1201}, {"refund_amount": 1}, {"credit_amount": -1}], ids=["credit", "refund", "less"]
)
def test_no_more_is_given_back_than_there_is(box: Scenario, amounts: dict[str, int]) -> None:
    answer = void(box, issued(box), generate_credit_note=True, **amounts)
    assert refused(answer) == {"credit_refund_amount": ["total_amount_exceeds_invoice_amount"]}


def test_what_a_void_does_not_give_back_is_noted_and_voided(box: Scenario) -> None:
    invoice = issued(box)
    void(box, invoice, generate_credit_note=True, credit_amount=300)
    notes = box.get("/credit_notes")["credit_notes"]
    shown = sorted((note["credit_status"], note["total_amount_cents"], note["balance_amount_cents"]) for note in notes)
    assert shown == [("available", 300, 300), ("voided", 900, 0)]
    assert len({note["number"] for note in notes}) == 2


def test_a_void_gives_back_coupons(box: Scenario) -> None:
    box.customer()
    box.coupon(500)
    invoice = issued(box)
    assert invoice["coupons_amount_cents"] == 500
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert (applied["status"], applied["amount_cents_remaining"]) == ("terminated", 0)
    void(box, invoice)
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert (applied["status"], applied["amount_cents_remaining"], applied["terminated_at"]) == ("active", 500, None)
    box.travel_to("2023-02-01T00:10:00Z")
    assert box.invoices()[-1]["coupons_amount_cents"] == 500


def test_payment_status_is_set_by_hand_and_announced_once(box: Scenario) -> None:
    invoice = issued(box)
    path = f"/invoices/{invoice['svc_id']}"
    changed = box.put(path, invoice={"payment_status": "succeeded"})["invoice"]
    assert changed["payment_status"] == "succeeded"
    assert changed["fees"][0]["payment_status"] == "succeeded"
    box.put(path, invoice={"payment_status": "succeeded"})
    assert box.webhook_types().count("invoice.payment_status_updated") == 1
    answer = box.send("PUT", path, {"invoice": {"payment_status": "paid"}})
    assert refused(answer) == {"payment_status": ["value_is_invalid"]}


def test_an_overdue_invoice_that_is_paid_is_no_longer_overdue(box: Scenario) -> None:
    invoice = issued(box)
    box.travel_to("2023-01-02T00:25:00Z")
    assert box.invoice(invoice["svc_id"])["payment_overdue"] is True
    path = f"/invoices/{invoice['svc_id']}"
    assert box.put(path, invoice={"payment_status": "succeeded"})["invoice"]["payment_overdue"] is False


def test_metadata_is_replaced_as_a_whole(box: Scenario) -> None:
    invoice = issued(box)
    path = f"/invoices/{invoice['svc_id']}"

    def put(*items: dict[str, Any]) -> Any:
        return box.put(path, invoice={"metadata": list(items)})["invoice"]["metadata"]

    first, _ = put({"key": "team", "value": "red"}, {"key": "code", "value": "7"})
    kept = put({"id": first["svc_id"], "key": "team", "value": "blue"})
    assert [(item["svc_id"], item["value"]) for item in kept] == [(first["svc_id"], "blue")]
    assert put() == []


@pytest.mark.parametrize(
    ("items", "details"),
    [
        ([{"key": str(n), "value": "x"} for n in range(6)], {"metadata": ["invalid_count"]}),
        ([{"key": "", "value": "x"}], {"key": ["value_is_mandatory"]}),
        ([{"key": "k" * 21, "value": "x"}], {"key": ["value_is_too_long"]}),
        ([{"key": "k", "value": ""}], {"value": ["value_is_mandatory"]}),
        ([{"key": "k", "value": "v" * 141}], {"value": ["value_is_too_long"]}),
        ([{"key": "k", "value": "1"}, {"key": "k", "value": "2"}], {"key": ["value_already_exist"]}),
    ],
)
def test_metadata_has_limits(box: Scenario, items: list[Any], details: dict[str, Any]) -> None:
    path = f"/api/v1/invoices/{issued(box)['svc_id']}"
    assert refused(box.request("PUT", path, json={"invoice": {"metadata": items}})) == details


def test_drafts_and_voided_invoices_are_not_changed_by_hand(box: Scenario) -> None:
    invoice = draft(box)
    path = f"/api/v1/invoices/{invoice['svc_id']}"
    for change, code in (
        ({"metadata": [{"key": "k", "value": "v"}]}, "metadata_on_draft_invoice"),
        ({"payment_status": "succeeded"}, "payment_status_update_on_draft_invoice"),
    ):
        status, body = box.request("PUT", path, json={"invoice": change})
        assert (status, body["code"]) == (405, code)
    box.put(f"/invoices/{invoice['svc_id']}/finalize")
    void(box, invoice)
    status, body = box.request("PUT", path, json={"invoice": {"payment_status": "failed"}})
    assert (status, body["code"]) == (405, "update_on_voided_invoice")


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_lost_dispute_is_noted_once(box: Scenario, method: str) -> None:
    invoice = issued(box)
    path = f"/invoices/{invoice['svc_id']}/lose_dispute"
    lost = box.ask(method, path)["invoice"]["payment_dispute_lost_at"]
    assert lost == "2023-01-01T00:00:00.000Z"
    box.jump_to("2023-01-01T05:00:00Z")
    assert box.post(path)["invoice"]["payment_dispute_lost_at"] == lost
    (message,) = (sent for sent in box.webhooks if sent["webhook_type"] == "invoice.payment_dispute_lost")
    assert message["payment_dispute_lost"]["invoice"]["svc_id"] == invoice["svc_id"]
    box.travel_to("2023-01-05T00:00:00Z")
    assert box.invoice(invoice["svc_id"])["payment_overdue"] is False


def test_a_draft_has_no_dispute(box: Scenario) -> None:
    status, body = box.send("POST", f"/invoices/{draft(box)['svc_id']}/lose_dispute")
    assert (status, body["code"]) == (405, "not_disputable")


def test_only_a_failed_invoice_is_tried_again(box: Scenario) -> None:
    status, body = box.send("POST", f"/invoices/{issued(box)['svc_id']}/retry")
    assert (status, body["code"]) == (405, "invalid_status")


def test_a_failed_invoice_is_finalized_when_it_is_tried_again(box: Scenario) -> None:
    invoice = draft(box)

    def fail(work: Work) -> None:
        record = work.tx.get(Invoice, invoice["svc_id"])
        assert record is not None
        work.tx.replace(replace(record, status=InvoiceStatus.FAILED, tax_status=TaxStatus.FAILED))

    box.billing.writing(fail)
    again = box.post(f"/invoices/{invoice['svc_id']}/retry")["invoice"]
    assert (again["status"], again["tax_status"]) == ("pending", "pending")
    shown = box.invoice(invoice["svc_id"])
    assert (shown["status"], shown["tax_status"], shown["total_amount_cents"]) == ("finalized", "succeeded", 1200)


def test_another_try_at_collecting_fails_without_a_provider(box: Scenario) -> None:
    invoice = issued(box)
    path = f"/invoices/{invoice['svc_id']}/retry_payment"
    method = {"payment_method": {"payment_method_type": "provider", "payment_method_id": invoice["svc_id"]}}
    for body in (None, {}, method):
        box.webhooks.clear()
        assert box.ask("POST", path, body) is None
        (message,) = box.webhooks
        assert (message["webhook_type"], message["object_type"]) == (
            "invoice.payment_failure",
            "payment_provider_invoice_payment_error",
        )
        assert message["payment_provider_invoice_payment_error"] == {
            "svc_invoice_id": invoice["svc_id"],
            "svc_customer_id": invoice["customer"]["svc_id"],
            "external_customer_id": "acme",
            "provider_customer_id": None,
            "payment_provider": None,
            "payment_provider_code": None,
            "provider_error": None,
            "error_details": {"code": "customer_must_have_payment_provider"},
        }
    assert box.invoice(invoice["svc_id"]) == invoice
    box.put(f"/invoices/{invoice['svc_id']}", invoice={"payment_status": "failed"})
    box.post(path)


def test_what_is_paid_or_void_is_not_collected_again(box: Scenario) -> None:
    invoice = issued(box)
    path = f"/invoices/{invoice['svc_id']}"
    box.put(path, invoice={"payment_status": "succeeded"})
    box.webhooks.clear()
    assert box.post(f"{path}/retry_payment", status=405)["code"] == "invalid_status"
    box.put(path, invoice={"payment_status": "pending"})
    void(box, invoice)
    assert box.post(f"{path}/retry_payment", status=405)["code"] == "invalid_status"
    assert "invoice.payment_failure" not in box.webhook_types()
    assert missing(box.send("POST", "/invoices/none/retry_payment")) == "invoice"


def test_a_draft_is_not_collected(box: Scenario) -> None:
    path = f"/invoices/{draft(box)['svc_id']}"
    assert box.post(f"{path}/retry_payment", status=405)["code"] == "invalid_status"
    assert refused(box.send("POST", f"{path}/payment_url")) == {"base": ["no_linked_payment_provider"]}


def test_there_is_no_page_to_pay_at_without_a_provider(box: Scenario) -> None:
    path = f"/api/v1/invoices/{issued(box)['svc_id']}/payment_url"
    assert refused(box.request("POST", path)) == {"base": ["no_linked_payment_provider"]}
    assert missing(box.send("POST", "/invoices/none/payment_url")) == "invoice"


def test_a_draft_of_the_period_before_an_upgrade_keeps_its_last_day() -> None:
    with Scenario(now="2024-04-05T10:00:00Z") as box:
        box.customer(invoice_grace_period=3)
        box.plan(amount_cents=3100)
        box.plan(code="pro", amount_cents=6000)
        box.subscribe()
        # May is over, and its run has yet to come.
        box.travel_to("2024-06-01T00:04:00Z")
        box.subscribe("pro")
        box.travel_to("2024-06-05T00:00:00Z")
        fees = [[fee["amount_cents"] for fee in invoice["fees"]] for invoice in box.invoices()]
        assert sorted(fees)[-1] == [3100]


def test_a_draft_in_advance_keeps_its_fee_when_the_subscription_ends_in_the_same_instant() -> None:
    with Scenario(now="2024-04-05T10:00:00Z") as box:
        box.customer(invoice_grace_period=3)
        box.plan(amount_cents=3000, pay_in_advance=True)
        box.subscribe()
        box.delete("/subscriptions/sub")
        box.travel_to("2024-04-09T00:00:00Z")
        assert [fee["amount_cents"] for invoice in box.invoices() for fee in invoice["fees"]] == [share(3000, 26, 30)]
        (note,) = box.get("/credit_notes?external_customer_id=acme")["credit_notes"]
        assert note["credit_amount_cents"] == share(3000, 25, 30)
