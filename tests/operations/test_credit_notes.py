"""Credit notes, as a caller of the API sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.json_asserts import accepted, missing, refused
from tests.money import gross, percent, share
from tests.scenarios import Scenario

from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import payment_by_hand
from usagebill.core.statuses import PaymentStatus
from usagebill.runtime.work import Work

pytestmark = pytest.mark.now("2023-10-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    box.tax()
    box.customer()
    box.add_on("setup", 10000)
    return box


def one_off(box: Scenario, *amounts: int) -> Any:
    """A one-off invoice of fees of these amounts, with 20 % VAT."""
    fees = [{"add_on_code": "setup", "unit_amount_cents": amount} for amount in amounts]
    sent = {"external_customer_id": "acme", "currency": "EUR", "fees": fees}
    return box.post("/invoices", invoice=sent)["invoice"]


def paid(box: Scenario, invoice: Any, cents: int) -> None:
    """So much of the invoice has been paid."""

    def pay(work: Work) -> None:
        record = work.tx.get(Invoice, invoice["svc_id"])
        assert record is not None
        status = PaymentStatus.SUCCEEDED if cents == record.total_amount_cents else record.payment_status
        work.tx.replace(replace(record, total_paid_amount_cents=cents, payment_status=status))
        work.tx.insert(payment_by_hand(record, cents, "bank", work.now, id=work.new_id(), now=work.now))

    box.billing.writing(pay)


def request_note(
    box: Scenario, invoice: Any, *items: tuple[int, object], path: str = "", **fields: Any
) -> tuple[int, Any]:
    """Ask for a note over items: place of the fee on the invoice, and amount."""
    sent = [{"fee_id": invoice["fees"][place]["svc_id"], "amount_cents": amount} for place, amount in items]
    note = {"invoice_id": invoice["svc_id"], "items": sent, **fields}
    return box.send("POST", f"/credit_notes{path}", {"credit_note": note})


def made(box: Scenario, invoice: Any, *items: tuple[int, object], **fields: Any) -> Any:
    return accepted(request_note(box, invoice, *items, **fields), "credit_note")


def estimate(box: Scenario, invoice: Any, *items: tuple[int, object]) -> Any:
    return accepted(request_note(box, invoice, *items, path="/estimate"), "estimated_credit_note")


def test_a_note_gives_back_part_of_a_fee_and_its_tax(box: Scenario) -> None:
    invoice = one_off(box, 10000)
    note = made(box, invoice, (0, 5000), credit_amount_cents=6000, reason="order_change", description="Half")
    assert (note["total_amount_cents"], note["taxes_amount_cents"]) == (gross(5000, 20), percent(5000, 20))
    assert (note["sub_total_excluding_taxes_amount_cents"], note["balance_amount_cents"]) == (5000, 6000)
    assert note["number"] == invoice["number"] + "-CN001"
    assert (note["credit_status"], note["refund_status"], note["reason"]) == ("available", None, "order_change")
    assert (note["items"][0]["amount_cents"], note["items"][0]["fee"]["svc_id"]) == (5000, invoice["fees"][0]["svc_id"])
    assert note["applied_taxes"][0]["base_amount_cents"] == 5000
    assert note["customer"]["external_id"] == "acme"
    assert box.get(f"/credit_notes/{note['svc_id']}")["credit_note"] == note
    assert [message["webhook_type"] for message in box.webhooks][-1] == "credit_note.created"


def test_an_amount_without_items_is_spread_over_all_fees(box: Scenario) -> None:
    invoice = one_off(box, 7001, 2999, 1)
    total = invoice["total_amount_cents"]

    def note(cents: int) -> Any:
        sent = {"invoice_id": invoice["svc_id"], "credit_amount_cents": cents}
        return accepted(box.send("POST", "/credit_notes", {"credit_note": sent}), "credit_note")

    notes = [note(cents) for cents in (1, 999, 3333)]
    assert [made["total_amount_cents"] for made in notes] == [1, 999, 3333]
    # 33.33 x 70.01 / 100.01, before 20 % taxes.
    assert notes[2]["items"][0]["amount_cents"] == round(3333 * 7001 / 10001 / 1.2)
    too_much = {"invoice_id": invoice["svc_id"], "credit_amount_cents": total - 1 - 999 - 3333 + 2}
    assert box.send("POST", "/credit_notes", {"credit_note": too_much})[0] == 422
    notes.append(note(total - 1 - 999 - 3333))
    assert sum(made["taxes_amount_cents"] for made in notes) == invoice["taxes_amount_cents"]
    assert sum(made["sub_total_excluding_taxes_amount_cents"] for made in notes) == invoice["fees_amount_cents"]
    assert box.send("POST", "/credit_notes", {"credit_note": {**too_much, "credit_amount_cents": 1}})[0] == 422


def test_the_date_is_the_customers(box: Scenario) -> None:
    box.customer(timezone="America/Los_Angeles")
    note = made(box, one_off(box, 10000), (0, 5000), credit_amount_cents=6000)
    assert note["issuing_date"] == "2023-09-30"


def test_its_balance_pays_for_later_invoices(box: Scenario) -> None:
    made(box, one_off(box, 10000), (0, 10000), credit_amount_cents=12000)
    box.plan(amount_cents=8000, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2023-11-01T00:10:00Z")
    first, second = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "subscription"]
    due = gross(8000, 20)
    assert (first["credit_notes_amount_cents"], first["total_amount_cents"]) == (due, 0)
    assert (first["payment_status"], first["credits"][0]["item"]["type"]) == ("succeeded", "credit_note")
    assert (second["credit_notes_amount_cents"], second["total_amount_cents"]) == (12000 - due, 2 * due - 12000)
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert (note["credit_status"], note["balance_amount_cents"]) == ("consumed", 0)
    status, body = box.send("PUT", f"/credit_notes/{note['svc_id']}/void")
    assert (status, body["code"]) == (405, "no_voidable_amount")


def test_notes_over_both_fees_add_up_to_the_invoice(box: Scenario) -> None:
    # With 20 % of tax, each fee of 68.33 comes to 81.996: the first note rounds up, the second has a cent less.
    invoice = one_off(box, 6833, 6833)
    first = made(box, invoice, (0, 6833), credit_amount_cents=8200)
    assert (first["taxes_amount_cents"], first["precise_taxes_amount_cents"]) == (percent(6833, 20), "1366.6")
    second = made(box, invoice, (1, 6833), credit_amount_cents=8199)
    assert (second["taxes_amount_cents"], second["total_amount_cents"]) == (
        percent(6833, 20) - 1,
        6833 + percent(6833, 20) - 1,
    )
    assert first["total_amount_cents"] + second["total_amount_cents"] == invoice["total_amount_cents"]


def test_a_request_of_a_cent_too_much_is_stored_a_cent_lower(box: Scenario) -> None:
    note = made(box, one_off(box, 76900), (0, 72686), credit_amount_cents=87224)
    assert (note["total_amount_cents"], note["credit_amount_cents"], note["balance_amount_cents"]) == (
        72686 * 120 // 100,
    ) * 3


def test_what_was_paid_can_be_refunded(box: Scenario) -> None:
    invoice = one_off(box, 10000)
    assert refused(request_note(box, invoice, (0, 5000), refund_amount_cents=6000)) == {
        "refund_amount_cents": ["cannot_refund_unpaid_invoice", "higher_than_remaining_invoice_amount"]
    }
    paid(box, invoice, 5000)
    assert refused(request_note(box, invoice, (0, 5000), refund_amount_cents=6000)) == {
        "refund_amount_cents": ["higher_than_remaining_invoice_amount"]
    }
    note = made(box, invoice, (0, 5000), refund_amount_cents=5000, credit_amount_cents=1000)
    assert (note["refund_status"], note["balance_amount_cents"]) == ("pending", 1000)
    path = f"/credit_notes/{note['svc_id']}"
    assert box.put(path, credit_note={"refund_status": "succeeded"})["credit_note"]["refund_status"] == ("succeeded")
    answer = box.send("PUT", path, {"credit_note": {"refund_status": "done"}})
    assert refused(answer) == {"refund_status": ["value_is_invalid"]}


def test_an_offset_settles_its_own_invoice(box: Scenario) -> None:
    invoice = one_off(box, 100)
    paid(box, invoice, 100)
    note = made(box, invoice, (0, "19.17"), credit_amount_cents=10, refund_amount_cents=5, offset_amount_cents=8)
    assert note["total_amount_cents"] == 23
    shown = box.invoice(invoice["svc_id"])
    assert (shown["total_offsetted_credit_note_amount_cents"], shown["total_due_amount_cents"]) == (8, 12)
    assert shown["payment_status"] == "pending"
    made(box, invoice, (0, 10), offset_amount_cents=12)
    shown = box.invoice(invoice["svc_id"])
    assert (shown["total_due_amount_cents"], shown["payment_status"]) == (0, "succeeded")
    assert "invoice.payment_status_updated" in [message["webhook_type"] for message in box.webhooks]


def test_a_note_that_only_settles_stays_one(box: Scenario) -> None:
    """4.98 and 0.50 of tax come to 5.48, asked for as 5.47."""
    rate = {"name": "Ten", "code": "vat", "rate": 10}
    box.put("/taxes/vat", tax=rate)
    note = made(box, one_off(box, 1000), (0, "497.5"), offset_amount_cents=547)
    assert (note["offset_amount_cents"], note["refund_amount_cents"]) == (note["total_amount_cents"], 0)


def test_a_fee_is_credited_no_further_than_it_goes(box: Scenario) -> None:
    invoice = one_off(box, 100)
    too_much = {"amount_cents": ["higher_than_remaining_fee_amount"]}
    assert refused(request_note(box, invoice, (0, 101), credit_amount_cents=121)) == too_much
    assert refused(request_note(box, invoice, (0, 60), (0, 41), credit_amount_cents=121)) == too_much
    assert refused(request_note(box, invoice, (0, -1), credit_amount_cents=0)) == {"amount_cents": ["invalid_value"]}
    note = made(box, invoice, (0, 60), credit_amount_cents=72)
    assert refused(request_note(box, invoice, (0, 41), credit_amount_cents=49)) == too_much
    box.put(f"/credit_notes/{note['svc_id']}/void")
    assert refused(request_note(box, invoice, (0, 41), credit_amount_cents=49)) == too_much


def test_what_cannot_be_understood_or_found(box: Scenario) -> None:
    invoice = one_off(box, 100)
    assert refused(request_note(box, invoice, items="all")) == {"items": ["must_be_an_array"]}
    assert refused(request_note(box, invoice, (0, 10), credit_amount_cents=12, reason="because")) == {
        "reason": ["value_is_invalid"]
    }
    assert missing(request_note(box, invoice, items=[{"fee_id": "none", "amount_cents": 1}])) == "fee"
    assert missing(request_note(box, {**invoice, "svc_id": "none"}, (0, 10))) == "invoice"
    assert refused(request_note(box, invoice, (0, 10), credit_amount_cents=20)) == {
        "base": ["does_not_match_item_amounts"]
    }
    assert refused(request_note(box, invoice, (0, 0))) == {"base": ["total_amount_must_be_positive"]}
    assert refused(request_note(box, invoice, (0, 10), credit_amount_cents=12, metadata={"k" * 101: "v"})).keys() == {
        "value"
    }
    assert box.get("/credit_notes")["credit_notes"] == []


def test_an_estimate_stores_nothing(box: Scenario) -> None:
    invoice = one_off(box, 6833, 6833)
    paid(box, invoice, 5000)
    shown = estimate(box, invoice, (0, 6833))
    assert (shown["max_creditable_amount_cents"], shown["max_refundable_amount_cents"]) == (gross(6833, 20), 5000)
    assert (shown["taxes_amount_cents"], shown["taxes_rate"]) == (percent(6833, 20), 20)
    assert shown["max_offsettable_amount_cents"] == gross(6833, 20)
    assert "svc_id" not in shown["applied_taxes"][0]
    assert box.get("/credit_notes")["credit_notes"] == []
    assert estimate(box, invoice, (0, 6833), (1, 6833))["max_creditable_amount_cents"] == gross(2 * 6833, 20)


def test_notes_are_listed_and_narrowed(box: Scenario) -> None:
    invoice = one_off(box, 10000)
    first = made(box, invoice, (0, 1000), credit_amount_cents=1200, reason="order_change")
    box.jump_to("2023-10-02T00:00:00Z")
    paid(box, invoice, 12000)
    second = made(box, invoice, (0, 2000), refund_amount_cents=2400)
    for query, expected in {
        "": [second, first],
        "external_customer_id=acme": [second, first],
        "external_customer_id=nobody": [],
        "issuing_date_from=2023-10-02": [second],
        "issuing_date_to=2023-10-01": [first],
        "amount_from=1201": [second],
        "amount_to=1200": [first],
        "reason=order_change": [first],
        "reason[]=order_change&reason[]=other": [second, first],
        "reason=nonsense": [second, first],
        "refund_status=pending": [second],
        "credit_status=voided": [],
        "types=refund": [second],
        "types[]=credit&types[]=refund": [second, first],
        "currency=USD": [],
        "self_billed=true": [],
        f"invoice_number={invoice['number']}": [second, first],
        "invoice_number=other": [],
        "search_term=cn002": [second],
        f"search_term={first['svc_id']}": [first],
        "search_term=ACM": [second, first],
        "billing_entity_codes[]=default": [second, first],
    }.items():
        for path in ("/credit_notes", "/customers/acme/credit_notes"):
            if "external_customer_id" in query and "customers" in path:
                continue
            shown = box.get(f"{path}?{query}")["credit_notes"]
            assert [note["svc_id"] for note in shown] == [note["svc_id"] for note in expected], query
    unreadable = box.send("GET", "/credit_notes?issuing_date_from=tomorrow&issuing_date_to=2023-13-01")
    assert refused(unreadable) == {"issuing_date_from": ["invalid_date"], "issuing_date_to": ["invalid_date"]}
    assert missing(box.send("GET", "/credit_notes?billing_entity_codes[]=none")) == "billing_entity"
    assert missing(box.send("GET", "/customers/nobody/credit_notes")) == "customer"
    assert missing(box.send("GET", "/credit_notes/none")) == "credit_note"


def test_voiding_takes_the_balance_only(box: Scenario) -> None:
    invoice = one_off(box, 10000)
    paid(box, invoice, 12000)
    note = made(box, invoice, (0, 10000), credit_amount_cents=2000, refund_amount_cents=10000)
    voided = box.put(f"/credit_notes/{note['svc_id']}/void")["credit_note"]
    assert (voided["credit_status"], voided["balance_amount_cents"]) == ("voided", 0)
    assert (voided["credit_amount_cents"], voided["refund_amount_cents"]) == (2000, 10000)


def test_metadata_is_replaced_merged_and_removed(box: Scenario) -> None:
    note = made(box, one_off(box, 100), (0, 10), credit_amount_cents=12, metadata={"a": "1"})
    assert note["metadata"] == {"a": "1"}
    path = f"/credit_notes/{note['svc_id']}/metadata"
    for verb in ("PATCH", "PUT"):
        assert box.ask(verb, path, {"metadata": {"b": None}})["metadata"] == {"a": "1", "b": None}
    assert box.delete(f"{path}/a")["metadata"] == {"b": None}
    assert box.post(path, metadata={"c": "3"})["metadata"] == {"c": "3"}
    update = {"credit_note": {"metadata": {"d": "4"}}}
    assert box.ask("PUT", f"/credit_notes/{note['svc_id']}", update)["credit_note"]["metadata"] == {"c": "3", "d": "4"}
    assert box.post(path)["metadata"] == {}
    assert box.delete(path)["metadata"] is None
    assert missing(box.send("DELETE", f"{path}/a")) == "metadata"
    assert "metadata" not in box.get(f"/credit_notes/{note['svc_id']}")["credit_note"]


def ended(box: Scenario, *, pays: int = 0, **options: Any) -> tuple[Any, list[Any]]:
    """A plan of 31.00 paid in advance for October, ended on the 15th: its invoice, and the credit notes of the end."""
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (invoice,) = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "subscription"] or [None]
    if pays:
        paid(box, invoice, pays)
    box.travel_to("2023-10-15T12:00:00Z")
    query = "&".join(f"{name}={value}" for name, value in options.items())
    box.delete(f"/subscriptions/sub?{query}")
    return invoice, box.get("/credit_notes")["credit_notes"]


# What is given back of 31.00 when October ends on the 15th, and what the days until then cost, with taxes.
UNUSED, USED = gross(share(3100, 16, 31), 20), gross(share(3100, 15, 31), 20)


def parts(note: Any) -> tuple[int, int, int]:
    return note["credit_amount_cents"], note["refund_amount_cents"], note["offset_amount_cents"]


def test_an_early_end_gives_back_the_days_that_are_left(box: Scenario) -> None:
    invoice, (note,) = ended(box)
    assert (note["svc_invoice_id"], note["reason"]) == (invoice["svc_id"], "order_cancellation")
    unused = share(3100, 16, 31)
    assert (note["sub_total_excluding_taxes_amount_cents"], note["taxes_amount_cents"]) == (unused, percent(unused, 20))
    assert parts(note) == (UNUSED, 0, 0)


@pytest.mark.parametrize(
    ("option", "pays", "expected"),
    [
        ("credit", 3720, (UNUSED, 0, 0)),
        ("refund", 3720, (0, UNUSED, 0)),
        # What was paid and is not used up can be refunded.
        ("refund", 2790, (UNUSED - (2790 - USED), 2790 - USED, 0)),
        ("refund", 0, (UNUSED, 0, 0)),
        ("offset", 2790, (0, 2790 - USED, UNUSED - (2790 - USED))),
        ("offset", 0, (0, 0, UNUSED)),
    ],
)
def test_an_early_end_pays_back_what_was_paid_and_not_used(
    box: Scenario, option: str, pays: int, expected: tuple[int, int, int]
) -> None:
    _, (note,) = ended(box, pays=pays, on_termination_credit_note=option)
    assert parts(note) == expected


def test_an_early_end_gives_back_nothing_if_asked_not_to(box: Scenario) -> None:
    assert ended(box, on_termination_credit_note="skip")[1] == []


def test_what_has_been_credited_is_not_given_back_again(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (invoice,) = box.invoices()
    made(box, invoice, (0, 1000), credit_amount_cents=1200)
    box.travel_to("2023-10-15T12:00:00Z")
    box.delete("/subscriptions/sub")
    totals = sorted(note["total_amount_cents"] for note in box.get("/credit_notes")["credit_notes"])
    assert totals == [UNUSED - 1200, 1200]


def test_a_voided_invoice_is_not_credited_at_the_end(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (invoice,) = box.invoices()
    box.post(f"/invoices/{invoice['svc_id']}/void")
    box.delete("/subscriptions/sub")
    assert box.get("/credit_notes")["credit_notes"] == []


def test_an_upgrade_gives_back_its_own_day_too(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.plan(code="bigger", amount_cents=6200, pay_in_advance=True)
    box.subscribe()
    box.travel_to("2023-10-15T12:00:00Z")
    box.subscribe("bigger")
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert note["total_amount_cents"] == gross(share(3100, 17, 31), 20)


def test_a_coupon_on_the_fee_lowers_what_is_given_back(box: Scenario) -> None:
    box.coupon(1000)
    _, (note,) = ended(box)
    assert (note["coupons_adjustment_amount_cents"], note["taxes_amount_cents"]) == (share(1000, 16, 31), 217)
    assert note["total_amount_cents"] == share(3100, 16, 31) - share(1000, 16, 31) + 217


def settled_by_credit(box: Scenario) -> None:
    """A subscription of 31.00 whose first invoice a credit note has paid."""
    made(box, one_off(box, 10000), (0, 5000), credit_amount_cents=6000)
    box.plan(amount_cents=3100, pay_in_advance=True)


def test_an_end_settles_no_more_than_is_due(box: Scenario) -> None:
    settled_by_credit(box)
    box.subscribe(on_termination_credit_note="offset")
    box.put("/subscriptions/sub", subscription={"ending_at": "2023-10-15T12:00:00Z"})
    box.travel_to("2023-10-16T12:00:00Z")
    first = box.get("/credit_notes")["credit_notes"][0]
    assert (first["reason"], parts(first)) == ("order_cancellation", (UNUSED, 0, 0))
    assert box.billing.audit().findings == ()


def test_a_draft_is_settled_no_further_than_it_is_due_once_issued(box: Scenario) -> None:
    settled_by_credit(box)
    box.customer(billing_configuration={"invoice_grace_period": 30})
    box.subscribe()
    box.travel_to("2023-10-15T12:00:00Z")
    box.delete("/subscriptions/sub?on_termination_credit_note=offset")
    box.travel_to("2023-12-20T00:00:00Z")
    (note,) = [note for note in box.get("/credit_notes")["credit_notes"] if note["reason"] == "order_cancellation"]
    assert parts(note) == (UNUSED, 0, 0)
    invoice = box.invoice(note["svc_invoice_id"])
    assert (invoice["total_amount_cents"], invoice["total_due_amount_cents"]) == (0, 0)


def test_what_was_refunded_before_is_not_refunded_at_the_end(box: Scenario) -> None:
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe()
    (invoice,) = box.invoices()
    paid(box, invoice, 3720)
    made(box, invoice, (0, 1000), refund_amount_cents=1200)
    box.travel_to("2023-10-15T12:00:00Z")
    box.delete("/subscriptions/sub?on_termination_credit_note=refund")
    notes = box.get("/credit_notes")["credit_notes"]
    assert sorted(parts(note) for note in notes) == [(0, 720, 0), (0, 1200, 0)]


def test_parts_that_are_two_cents_off_add_up(box: Scenario) -> None:
    box.put("/taxes/vat", tax={"rate": "33.3"})
    note = made(box, one_off(box, 10000), (0, "10.4"), credit_amount_cents=15)
    assert note["sub_total_excluding_taxes_amount_cents"] + note["taxes_amount_cents"] == note["total_amount_cents"]
    assert parts(note) == (13, 0, 0)


def test_rounding_pays_no_cent_back_that_was_not_paid(box: Scenario) -> None:
    box.put("/taxes/vat", tax={"rate": "15"})
    invoice = one_off(box, 1000)
    paid(box, invoice, 5)
    note = made(box, invoice, (0, "4.5"), refund_amount_cents=5)
    assert (note["refund_amount_cents"], note["sub_total_excluding_taxes_amount_cents"]) == (5, 4)
    assert box.billing.audit().findings == ()
