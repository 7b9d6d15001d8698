"""Actions on invoices: the effect is shown in money first, and is what then happens."""

from __future__ import annotations

import re
from typing import Any

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
    fields = {"amount_cents": "10000", "reference": "transfer 7"}
    assert admin.send_form(path, **fields).headers["location"] == f"/console/invoices/{invoice['svc_id']}"
    again = admin.send_form(path, **fields)
    assert again.status_code == 422
    assert 'role="alert"' in again.text
    (payment,) = box.get("/payments")["payments"]
    assert (payment["amount_cents"], payment["reference"]) == (10_000, "transfer 7")
    assert box.invoice(invoice["svc_id"])["payment_status"] == "succeeded"


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
    assert "not possible for this invoice now" in page
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
    assert "not possible for this invoice now" in page
    assert effect(page) == []


@each("role", [Role.SUPPORT, Role.READ_ONLY], ids=str)
def test_who_may_not_write_invoices_changes_none(box: Scenario, admin: Visitor, role: Role) -> None:
    invoice = box.invoices()[0] if box.invoices() else one_off(box)
    visitor = Visitor(box.billing, invited(box.billing, role))
    assert "Void" not in visitor.page(f"/invoices/{invoice['svc_id']}")
    for act in ("void", "pay", "finalize", "retry-payment"):
        visitor.page(f"/invoices/{invoice['svc_id']}/{act}", status=403)
        assert visitor.send_form(f"/invoices/{invoice['svc_id']}/{act}").status_code == 403
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"
    assert box.get("/payments")["payments"] == []


def test_a_form_of_another_session_does_nothing_to_an_invoice(box: Scenario, admin: Visitor) -> None:
    invoice = one_off(box)
    answer = admin.ask("POST", f"/invoices/{invoice['svc_id']}/void", data={"csrf": "0" * 64})
    assert answer.status_code == 403
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"
