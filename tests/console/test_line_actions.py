"""Drafts and voided invoices in the console: lines are adjusted, drafts deleted, voided invoices made again."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.console.test_invoice_actions import draft, effect, one_off
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture(autouse=True)
def seat(box: Scenario, acme: None) -> None:
    box.add_on("seat", 10_000)


def signed_in(box: Scenario, role: str = "admin") -> Visitor:
    return Visitor(box.billing, invited(box.billing, role))


def confirmed(admin: Visitor, path: str, **fields: str) -> Any:
    """The answer to a form whose effect was shown for these fields."""
    return admin.send_form(path, **fields, shown_for=urlencode(fields))


def usage_draft(box: Scenario) -> Any:
    """A draft of 26.13 euros, and of 5 requests at 2.00 euros."""
    box.customer(billing_configuration={"invoice_grace_period": 5})
    box.plan(charge_on(box.metric("requests"), amount="2"), amount_cents=3000)
    box.subscribe()
    box.event("requests", "sub", value="5")
    box.travel_to("2024-04-01T12:00:00Z")
    return box.invoices()[0]


def line(invoice: Any, type: str) -> Any:
    return next(fee for fee in invoice["fees"] if fee["item"]["type"] == type)


def adjustment(fee: Any, units: str = "", price: str = "", name: str = "") -> dict[str, str]:
    return {
        "fee_id": fee["svc_id"],
        "units": units,
        "unit_precise_amount": price,
        "invoice_display_name": name,
    }


def test_a_line_of_a_draft_is_adjusted_and_reset_after_its_effect_was_shown(box: Scenario) -> None:
    invoice = box.invoice(usage_draft(box)["svc_id"])
    admin = signed_in(box)
    usage = line(invoice, "charge")
    path = f"/invoices/{invoice['svc_id']}/adjust"
    page = admin.page(f"/invoices/{invoice['svc_id']}")
    assert f"{path}?fee_id={usage['svc_id']}" in page
    asked = admin.page(f"{path}?fee_id={usage['svc_id']}")
    assert f'value="{usage["svc_id"]}" selected' in asked
    assert effect(asked) == []
    fields = adjustment(usage, units="3", price="1.50", name="Requests, as agreed")
    before = invoice["total_amount_cents"]
    shown = effect(admin.send_form(path, **fields).text)
    assert shown[0] == ("Total", f"€{before / 100:.2f}", f"€{(before - 550) / 100:.2f}")
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == before
    assert confirmed(admin, path, **fields).status_code == 303
    adjusted = box.invoice(invoice["svc_id"])
    assert adjusted["total_amount_cents"] == before - 550
    assert line(adjusted, "charge")["item"]["invoice_display_name"] == "Requests, as agreed"
    # A line is adjusted once: a second time it is reset first.
    again = confirmed(admin, path, **adjustment(line(adjusted, "charge"), units="4"))
    assert again.status_code == 422
    assert "reset" in again.text
    reset = path.replace("adjust", "reset")
    assert confirmed(admin, reset, fee_id=line(adjusted, "charge")["svc_id"]).status_code == 303
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == before
    refused = confirmed(admin, reset, fee_id=line(box.invoice(invoice["svc_id"]), "charge")["svc_id"])
    assert (refused.status_code, 'role="alert"' in refused.text) == (404, True)
    assert confirmed(admin, path, **adjustment({"svc_id": "none"}, units="4")).status_code == 404
    assert confirmed(admin, path, **adjustment(usage, units="4x")).status_code == 422


def test_a_line_is_added_to_a_draft_after_its_effect_was_shown(box: Scenario) -> None:
    box.customer(billing_configuration={"invoice_grace_period": 5})
    storage = box.metric("storage", filters=[{"key": "region", "values": ["eu", "us"]}])
    eu = {"values": {"region": ["eu"]}, "properties": {"amount": "4"}}
    box.plan(
        charge_on(box.metric("requests"), amount="2"),
        charge_on(storage, amount="3", filters=[eu]),
        charge_on(box.metric("calls"), amount="7", pay_in_advance=True),
        amount_cents=3000,
    )
    box.subscribe()
    box.event("requests", "sub", value="5")
    box.travel_to("2024-04-01T12:00:00Z")
    invoice = box.invoice(box.invoices()[0]["svc_id"])
    admin, path = signed_in(box), f"/invoices/{invoice['svc_id']}/add-line"
    assert path in admin.page(f"/invoices/{invoice['svc_id']}")
    choices = re.findall(r'<option value="([^"]+/[^"]+)"[^>]*>([^<]+)', admin.page(path))
    assert sorted(name for _, name in choices) == ["storage of sub", "storage of sub: region eu"]
    (filtered,) = [value for value, name in choices if name.endswith("eu")]
    fields = {
        "missing": filtered,
        "units": "3",
        "unit_precise_amount": "",
        "invoice_display_name": "Storage, as agreed",
    }
    before = invoice["total_amount_cents"]
    shown = effect(admin.send_form(path, **fields).text)
    assert shown[0] == ("Total", f"€{before / 100:.2f}", f"€{(before + 1200) / 100:.2f}")
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == before
    assert confirmed(admin, path, **fields).status_code == 303
    added = box.invoice(invoice["svc_id"])
    assert added["total_amount_cents"] == before + 1200
    (fee,) = [fee for fee in added["fees"] if fee["svc_charge_filter_id"]]
    assert (fee["item"]["invoice_display_name"], fee["units"]) == ("Storage, as agreed", "3.0")
    # It is there now, and resetting takes it away.
    assert "storage of sub: region eu" not in admin.page(path)
    assert confirmed(admin, path, **fields).status_code == 422
    for wrong in ({**fields, "missing": "x"}, {**fields, "missing": f"x/{filtered}"}, {**fields, "units": "-1"}):
        assert confirmed(admin, path, **wrong).status_code in (404, 422)
    reader = signed_in(box, "read_only")
    assert reader.send_form(path, **fields).status_code == 403
    assert confirmed(admin, path.replace("add-line", "reset"), fee_id=fee["svc_id"]).status_code == 303
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == before


def test_a_deleted_draft_is_billed_no_more(box: Scenario) -> None:
    invoice = draft(box)
    admin = signed_in(box)
    path = f"/invoices/{invoice['svc_id']}/delete"
    assert path in admin.page(f"/invoices/{invoice['svc_id']}")
    assert effect(admin.page(path)) == [
        ("Total", "€26.13", "€0.00"),
        ("Paid", "€0.00", "€0.00"),
        ("Due", "€26.13", "€0.00"),
        ("Status", "Draft", "Deleted"),
    ]
    assert box.invoices()[0]["status"] == "draft"
    assert confirmed(admin, path).headers["location"] == "/console/invoices"
    assert box.invoices() == []
    assert admin.send_form(path).status_code == 404
    box.travel_to("2024-05-01T12:00:00Z")
    assert [item["total_amount_cents"] for item in box.invoices()] == [3000]


def test_an_issued_invoice_is_not_deleted_or_adjusted(box: Scenario) -> None:
    invoice = one_off(box)
    admin = signed_in(box)
    for path in ("delete", "adjust", "reset", "regenerate"):
        assert f"/{invoice['svc_id']}/{path}" not in admin.page(f"/invoices/{invoice['svc_id']}")
        assert "That is not possible now" in admin.page(f"/invoices/{invoice['svc_id']}/{path}")
        sent = admin.send_form(f"/invoices/{invoice['svc_id']}/{path}", shown_for="")
        assert 'role="alert"' in sent.text
    assert box.invoice(invoice["svc_id"])["total_amount_cents"] == 10_000


def test_a_voided_invoice_is_made_again_with_other_lines(box: Scenario) -> None:
    fees = [{"add_on_code": "seat", "units": 1}, {"add_on_code": "seat", "units": 2}]
    invoice = box.post("/invoices", invoice={"external_customer_id": "acme", "fees": fees})["invoice"]
    box.post(f"/invoices/{invoice['svc_id']}/void")
    admin = signed_in(box)
    path = f"/invoices/{invoice['svc_id']}/regenerate"
    assert path in admin.page(f"/invoices/{invoice['svc_id']}")
    first, second = (fee["svc_id"] for fee in sorted(invoice["fees"], key=lambda fee: fee["amount_cents"]))
    filled = effect(admin.page(path))
    assert filled[0] == ("Total", "€300.00", "€300.00")
    assert filled[3] == ("Status", "Voided", "Finalized")
    fields = {
        f"{name}-{fee['svc_id']}": {f"units-{second}": "3", f"unit_precise_amount-{second}": "50"}.get(
            f"{name}-{fee['svc_id']}", ""
        )
        for fee in invoice["fees"]
        for name in ("units", "unit_precise_amount")
    }
    page = admin.send_form(path, **fields).text
    assert effect(page)[0] == ("Total", "€300.00", "€150.00")
    assert len(box.invoices()) == 1
    location = confirmed(admin, path, **fields).headers["location"]
    made = box.invoice(location.rpartition("/")[2])
    assert made["total_amount_cents"] == 15_000
    assert first not in [fee["svc_id"] for fee in made["fees"]]
    again = confirmed(admin, path, **fields)
    assert (again.status_code, len(box.invoices())) == (403, 2)
    none = dict.fromkeys(fields, "")
    assert "nothing to invoice" in admin.send_form(path, **none).text


def test_lines_are_not_for_those_who_only_read(box: Scenario) -> None:
    invoice = usage_draft(box)
    reader = signed_in(box, "read_only")
    for path in ("delete", "adjust", "reset"):
        assert f"/{path}" not in reader.page(f"/invoices/{invoice['svc_id']}")
        assert reader.send_form(f"/invoices/{invoice['svc_id']}/{path}").status_code == 403
