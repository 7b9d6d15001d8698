"""Actions on invoices: the effect is shown in money first, and is what then happens."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.cases import each
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill.core.users import Role

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture
def admin(box: Scenario, acme: None) -> Visitor:
    box.add_on("seat", 10_000)
    return Visitor(box.billing, invited(box.billing, "admin"))


def one_off(box: Scenario) -> Any:
    """A new invoice of 100.00 euros."""
    fees = [{"add_on_code": "seat", "units": 1}]
    return box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]


def draft(box: Scenario) -> Any:
    """A draft of 26.13 euros: 27 of 31 days of 30.00."""
    box.customer(billing_configuration={"invoice_grace_period": 5})
    box.plan(amount_cents=3000)
    box.subscribe()
    box.travel_to("2024-04-01T12:00:00Z")
    return box.invoices()[0]


def effect(page: str) -> list[tuple[str, str, str]]:
    """The rows of the effect: name, now, then."""
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', page, re.DOTALL)
    cells = [(name, re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)) for name, row in rows]
    return [(name, *(re.sub("<.*?>", "", text).strip() for text in texts)) for name, texts in cells]


def test_a_payment_shows_what_it_pays_and_pays_it_once(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    path = f"/invoices/{invoice['svc_id']}/pay"
    assert path in admin.page(f"/invoices/{invoice['svc_id']}")
    page = admin.page(path)
    assert effect(page) == [
        ("Total", "€100.00", "€100.00"),
        ("Paid", "€0.00", "€100.00"),
        ("Due", "€100.00", "€0.00"),
        ("Status", "Finalized", "Finalized"),
        ("Payment", "Pending", "Succeeded"),
    ]
    # Looking has changed nothing.
    assert box.invoice(invoice["svc_id"]) == {**invoice, **box.invoice(invoice["svc_id"])}
    assert box.get("/payments")["payments"] == []
    fields = {"amount_cents": "100.00", "shown_for": "amount_cents=100.00", "reference": "transfer 7"}
    assert admin.send_form(path, **fields).headers["location"] == f"/console/invoices/{invoice['svc_id']}"
    again = admin.send_form(path, **fields)
    assert again.status_code == 422
    assert 'role="alert"' in again.text
    (payment,) = box.get("/payments")["payments"]
    assert (payment["amount_cents"], payment["reference"]) == (10_000, "transfer 7")
    assert box.invoice(invoice["svc_id"])["payment_status"] == "succeeded"


def test_part_of_an_invoice_is_paid_after_its_effect_was_shown(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    path = f"/invoices/{invoice['svc_id']}/pay"
    # Another amount than the one whose effect was shown.
    fields = {"amount_cents": "40", "shown_for": "amount_cents=100.00", "reference": "transfer 8"}
    page = admin.send_form(path, **fields)
    assert page.status_code == 200
    assert effect(page.text)[1:3] == [("Paid", "€0.00", "€40.00"), ("Due", "€100.00", "€60.00")]
    assert 'value="amount_cents=40"' in page.text
    assert "Record payment of €40.00" in page.text
    assert box.get("/payments")["payments"] == []
    assert admin.send_form(path, **{**fields, "shown_for": "amount_cents=40"}).status_code == 303
    (payment,) = box.get("/payments")["payments"]
    assert (payment["amount_cents"], payment["reference"]) == (4000, "transfer 8")
    assert box.invoice(invoice["svc_id"])["total_due_amount_cents"] == 6000


@each("amount", ["12,50", "0.001", "x", "1e3000", "-1", "0", "", "100.01"], ids=str)
def test_an_amount_that_cannot_be_paid_is_refused_in_words(box: Scenario, admin: Visitor, amount: str) -> None:
    path = f"/invoices/{one_off(box)['svc_id']}/pay"
    answer = admin.send_form(path, amount_cents=amount, shown_for="", reference="transfer")
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert effect(answer.text) == []
    assert admin.send_form(path, amount_cents=amount, shown_for=f"amount_cents={amount}").status_code in (200, 422)
    assert box.get("/payments")["payments"] == []


def credit_fields(invoice: Any, **sent: str) -> dict[str, str]:
    """The fields of the credit form, and what its effect was shown for."""
    names = [f"line-{fee['svc_id']}" for fee in invoice["fees"]] + ["total", "credited_to"]
    fields = {"credited_to": "credit_amount_cents", **sent}
    return {**fields, "shown_for": urlencode({name: fields.get(name, "") for name in names})}


def test_a_credit_by_line_and_by_amount_shows_what_it_comes_to_and_does_that(box: Scenario, admin: Visitor) -> None:
    box.tax("20")
    fees = [{"add_on_code": "seat", "units": 1}, {"add_on_code": "seat", "units": 2}]
    invoice = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
    path = f"/invoices/{invoice['svc_id']}/credit"
    assert path in admin.page(f"/invoices/{invoice['svc_id']}")
    first = admin.page(path)
    assert "€100.00 is left, before taxes" in first
    assert effect(first) == []
    line = {f"line-{invoice['fees'][0]['svc_id']}": "25", "credited_to": "offset_amount_cents"}
    fields = credit_fields(invoice, **line)
    page = admin.send_form(path, **{**fields, "shown_for": ""}).text
    assert ("Due", "€360.00", "€330.00") in effect(page)
    assert re.search(r"Credit note</dt><dd[^>]*>€30.00<", page)
    assert box.get("/credit_notes")["credit_notes"] == []
    assert admin.send_form(path, **fields, reason="order_change", description="Half a seat").status_code == 303
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert (note["total_amount_cents"], note["offset_amount_cents"], note["taxes_amount_cents"]) == (3000, 3000, 500)
    assert (note["reason"], note["description"]) == ("order_change", "Half a seat")
    assert "€75.00 is left, before taxes" in admin.page(path)
    # An amount over what is left of both: 75.00 and 200.00.
    fields = credit_fields(invoice, total="11.00")
    assert "Credit €11.00" in admin.send_form(path, **{**fields, "shown_for": ""}).text
    assert admin.send_form(path, **fields).status_code == 303
    note = max(box.get("/credit_notes")["credit_notes"], key=lambda made: made["number"])
    assert (note["total_amount_cents"], note["balance_amount_cents"]) == (1100, 1100)
    assert sorted(item["amount_cents"] for item in note["items"]) == [250, 667]
    both = admin.send_form(path, **credit_fields(invoice, total="11.00", **line))
    assert both.status_code == 422
    assert "not both" in both.text.partition('role="alert"')[2]
    too_much = admin.send_form(path, **credit_fields(invoice, total="319.01"))
    assert too_much.status_code == 422
    assert 'role="alert"' in too_much.text
    assert len(box.get("/credit_notes")["credit_notes"]) == 2


def test_a_draft_is_computed_anew(box: Scenario, admin: Visitor) -> None:
    invoice = draft(box)
    visitor = Visitor(box.billing, invited(box.billing, "finance"))
    path = f"/invoices/{invoice['svc_id']}/refresh"
    box.tax("10")
    assert ("Total", "€26.13", "€28.74") in effect(visitor.page(path))
    assert visitor.send_form(path).status_code == 303
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == 2874


def test_an_invoice_is_sent_by_email_or_it_is_said_why_not(box: Scenario, admin: Visitor) -> None:
    path = f"/invoices/{one_off(box)['svc_id']}/email"
    assert "Send by e-mail" in admin.page(path)
    answer = admin.send_form(path, to="ada@example.com")
    assert answer.status_code == 405
    assert "e-mail" in answer.text.partition('role="alert"')[2]


def test_a_void_shows_that_nothing_is_due_and_is_logged_with_its_user(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    path = f"/invoices/{invoice['svc_id']}/void"
    shown = {name: (now, then) for name, now, then in effect(admin.page(path))}
    assert shown["Status"] == ("Finalized", "Voided")
    assert shown["Due"][0] == "€100.00"
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"
    assert admin.send_form(path).status_code == 303
    voided = box.invoice(invoice["svc_id"])
    assert voided["status"] == "voided"
    assert shown["Due"][1] == f"€{voided['total_due_amount_cents'] / 100:.2f}"
    page = admin.page(path)
    assert "not possible now" in page
    assert effect(page) == []
    (entry,) = box.get("/activity_logs?activity_types[]=invoice.voided")["activity_logs"]
    assert (entry["user_email"], entry["activity_source"]) == ("admin@example.com", "front")
    mine = box.get("/activity_logs?user_emails[]=admin@example.com")["activity_logs"]
    assert {activity["activity_type"] for activity in mine} == {"invoice.voided"}
    assert box.get("/activity_logs?user_emails[]=other@example.com")["activity_logs"] == []


def test_a_draft_is_finalized_at_what_was_shown(box: Scenario, admin: Visitor) -> None:
    invoice = draft(box)
    visitor = Visitor(box.billing, invited(box.billing, "finance"))
    path = f"/invoices/{invoice['svc_id']}/finalize"
    shown = {name: then for name, _, then in effect(visitor.page(path))}
    assert (shown["Status"], shown["Total"]) == ("Finalized", "€26.13")
    assert box.invoice(invoice["svc_id"])["status"] == "draft"
    assert visitor.send_form(path).status_code == 303
    final = box.invoice(invoice["svc_id"])
    assert (final["status"], final["total_amount_cents"]) == ("finalized", 2613)


def test_a_charge_is_not_offered_where_no_provider_makes_it(box: Scenario, admin: Visitor) -> None:
    id = one_off(box)["svc_id"]
    assert "retry-payment" not in admin.page(f"/invoices/{id}")
    page = admin.page(f"/invoices/{id}/retry-payment")
    assert "not possible now" in page
    assert effect(page) == []


@each("role", [Role.SUPPORT, Role.READ_ONLY], ids=str)
def test_who_may_not_write_invoices_changes_none(box: Scenario, admin: Visitor, role: Role) -> None:
    invoice = box.invoices()[0] if box.invoices() else one_off(box)
    visitor = Visitor(box.billing, invited(box.billing, role))
    assert "Void" not in visitor.page(f"/invoices/{invoice['svc_id']}")
    for act in ("void", "pay", "finalize", "retry-payment", "credit", "email", "refresh"):
        visitor.page(f"/invoices/{invoice['svc_id']}/{act}", status=403)
        assert visitor.send_form(f"/invoices/{invoice['svc_id']}/{act}").status_code == 403
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"
    assert box.get("/payments")["payments"] == []


def test_a_form_of_another_session_does_nothing_to_an_invoice(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    answer = admin.ask("POST", f"/invoices/{invoice['svc_id']}/void", data={"csrf": "0" * 64})
    assert answer.status_code == 403
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"
