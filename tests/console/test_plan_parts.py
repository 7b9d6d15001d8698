"""The parts of a plan in forms: filters, fixed charges, minimum commitment, thresholds, features."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.console.visitor import Visitor, invited
from tests.scenarios import REGION_AND_CLOUD, Scenario, charge_on, filter_on, fixed_charge_on

from usagebill.core.users import Role

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def done(visitor: Visitor, path: str, **fields: str) -> None:
    """Send a form that leads back to the plan."""
    answer = visitor.send_form(path, **fields)
    assert answer.status_code == 303, re.findall(r'role="alert">(.*?)<', answer.text)
    assert answer.headers["location"] == "/console/plans/basic"


def plan(box: Scenario) -> Any:
    return box.get("/plans/basic")["plan"]


def test_a_metric_names_the_properties_by_which_prices_differ(box: Scenario, admin: Visitor) -> None:
    fields = {"name": "Calls", "code": "calls", "aggregation_type": "sum_agg", "field_name": "n"}
    sent = {
        **fields,
        "filters": "region: us, eu\n\n cloud: aws ",
        "rounding_function": "ceil",
        "rounding_precision": "2",
    }
    assert admin.send_form("/new/metrics", **sent).status_code == 303
    metric = box.get("/billable_metrics/calls")["billable_metric"]
    assert metric["filters"] == [{"key": "cloud", "values": ["aws"]}, {"key": "region", "values": ["eu", "us"]}]
    assert (metric["rounding_function"], metric["rounding_precision"]) == ("ceil", 2)
    page = admin.page("/change/metrics/calls")
    assert "cloud: aws\nregion: eu, us</textarea>" in page
    assert admin.send_form("/change/metrics/calls", **fields).status_code == 303
    metric = box.get("/billable_metrics/calls")["billable_metric"]
    assert (metric["filters"], metric["rounding_function"]) == ([], None)
    refused = admin.send_form("/change/metrics/calls", **fields, filters="us, eu")
    assert refused.status_code == 422
    assert "has no name before a colon" in refused.text.partition('role="alert"')[2]
    weighted = {"name": "W", "code": "w", "aggregation_type": "weighted_sum_agg", "field_name": "n"}
    assert admin.send_form("/new/metrics", **weighted).status_code == 422
    assert admin.send_form("/new/metrics", **weighted, weighted_interval="seconds").status_code == 303


def test_a_filter_is_added_changed_and_removed_with_its_price_sheet(box: Scenario, admin: Visitor) -> None:
    box.plan(charge_on(box.metric("calls", filters=REGION_AND_CLOUD), "graduated", graduated_ranges=_RANGES))
    code = plan(box)["charges"][0]["code"]
    assert f"/console/new/filters?plan=basic&amp;charge={code}" in admin.page("/plans/basic")
    path = f"/new/filters?plan=basic&charge={code}"
    fields = {"of-region": "us, eu", "range-0-per_unit_amount": "0.25", "invoice_display_name": "West"}
    shown = admin.send_form(path, **fields, units="10")
    # 10 at 0.25, and nothing is stored.
    assert '<span class="amount">€2.50</span>' in shown.text
    assert plan(box)["charges"][0]["filters"] == []
    done(admin, path, **fields, step="save")
    (made,) = plan(box)["charges"][0]["filters"]
    assert (made["values"], made["invoice_display_name"]) == ({"region": ["us", "eu"]}, "West")
    assert made["properties"]["graduated_ranges"][0]["per_unit_amount"] == "0.25"
    assert "region: us, eu" in admin.page("/plans/basic")
    change = f"/change/filters/{made['svc_id']}?plan=basic&charge={code}"
    assert 'value="0.25"' in admin.page(change)
    done(admin, change, **{"range-0-per_unit_amount": "0.3"}, step="save")
    (changed,) = plan(box)["charges"][0]["filters"]
    assert changed["properties"]["graduated_ranges"][0]["per_unit_amount"] == "0.3"
    assert (changed["values"], changed["invoice_display_name"]) == (made["values"], None)
    none = admin.send_form(path, **{"range-0-per_unit_amount": "1"}, step="save")
    assert none.status_code == 422
    assert "values" in none.text.partition('role="alert"')[2]
    done(admin, change, step="remove")
    assert plan(box)["charges"][0]["filters"] == []


_RANGES = [{"from_value": 0, "to_value": None, "per_unit_amount": "1", "flat_amount": "0"}]


def test_a_charge_keeps_what_its_form_does_not_have(box: Scenario, admin: Visitor) -> None:
    shown = [{"value": "region"}]
    box.tax("20")
    metric = box.metric("calls", filters=REGION_AND_CLOUD)
    box.plan(
        charge_on(
            metric,
            properties={"amount": "1", "presentation_group_keys": shown},
            filters=[filter_on({"region": ["us"]}, amount="2")],
        )
    )
    (before,) = plan(box)["charges"]
    fields = {"metric": "calls", "code": before["code"], "charge_model": "standard", "amount": "3", "tax_codes": "vat"}
    done(admin, f"/change/charges/{before['code']}?plan=basic", **fields, step="save")
    (after,) = plan(box)["charges"]
    assert after["properties"] == {**before["properties"], "amount": "3"}
    assert after["filters"] == before["filters"]
    assert [tax["code"] for tax in after["taxes"]] == ["vat"]
    done(admin, f"/change/charges/{before['code']}?plan=basic", **{**fields, "tax_codes": ""}, step="save")
    assert plan(box)["charges"][0]["taxes"] == []
    done(admin, f"/change/charges/{before['code']}?plan=basic", step="remove")
    assert plan(box)["charges"] == []


@pytest.mark.parametrize(
    ("invoiced", "expected"),
    [("", (True, None)), ("invoice", (False, "invoice")), ("never", (False, None))],
)
def test_fees_of_single_events_are_invoiced_as_chosen(
    box: Scenario, admin: Visitor, invoiced: str, expected: tuple[bool, str | None]
) -> None:
    box.metric("calls")
    box.plan()
    fields = {"metric": "calls", "code": "c", "charge_model": "standard", "amount": "1", "pay_in_advance": "yes"}
    done(admin, "/new/charges?plan=basic", **fields, invoiced=invoiced, step="save")
    (charge,) = plan(box)["charges"]
    assert (charge["invoiceable"], charge["regroup_paid_fees"]) == expected
    page = admin.page("/change/charges/c?plan=basic")
    assert f'<option value="{invoiced}" selected>' in page


def test_terms_of_a_plan_that_has_been_subscribed_to_are_not_asked_for(box: Scenario, admin: Visitor) -> None:
    box.plan(charge_on(box.metric("calls"), amount="1", min_amount_cents=500))
    box.customer()
    box.subscribe()
    (before,) = plan(box)["charges"]
    path = f"/change/charges/{before['code']}?plan=basic"
    page = admin.page(path)
    assert "prices and names change, terms stay" in page
    for name in ("metric", "code", "charge_model", "min_amount_cents", "pay_in_advance", "prorated"):
        assert f'name="{name}"' not in page, name
    done(admin, path, amount="2", step="save")
    (after,) = plan(box)["charges"]
    assert (after["properties"]["amount"], after["min_amount_cents"]) == ("2", 500)


@pytest.mark.parametrize("model", ["standard", "graduated", "volume"])
def test_a_fixed_charge_is_added_changed_and_removed(box: Scenario, admin: Visitor, model: str) -> None:
    box.add_on("seat", 10_000, name="Seat")
    box.plan()
    prices = {"amount": "4"} if model == "standard" else {"range-0-per_unit_amount": "4"}
    fields = {"add_on_code": "seat", "code": "seats", "units": "3", "charge_model": model, **prices, "prorated": "yes"}
    shown = admin.send_form("/new/fixed-charges?plan=basic", **fields)
    assert '<span class="amount">€12.00</span>' in shown.text
    assert plan(box)["fixed_charges"] == []
    done(admin, "/new/fixed-charges?plan=basic", **fields, step="save")
    (made,) = plan(box)["fixed_charges"]
    assert (made["units"], made["charge_model"], made["prorated"], made["add_on_code"]) == (3, model, True, "seat")
    page = admin.page("/change/fixed-charges/seats?plan=basic")
    # It is called as its add-on is, for as long as that is called so.
    assert 'name="invoice_display_name" value=""' in page
    assert 'name="units" value="3"' in page
    assert 'name="prorated"' not in page
    done(admin, "/change/fixed-charges/seats?plan=basic", **{**fields, "units": "5"}, step="save")
    (changed,) = plan(box)["fixed_charges"]
    assert (changed["units"], changed["prorated"], changed["properties"]) == (5, True, made["properties"])
    refused = admin.send_form("/change/fixed-charges/seats?plan=basic", **{**fields, "units": "x"}, step="save")
    assert refused.status_code == 422
    assert "Units of a subscription: “x” is no number" in refused.text
    done(admin, "/change/fixed-charges/seats?plan=basic", step="remove")
    assert plan(box)["fixed_charges"] == []


def test_a_fixed_charge_of_a_subscribed_plan_is_billed_at_what_was_typed(box: Scenario, admin: Visitor) -> None:
    box.add_on("seat", 10_000)
    box.plan(fixed_charges=[fixed_charge_on(box.get("/add_ons/seat")["add_on"]["svc_id"], units="2", amount="10")])
    box.customer()
    box.subscribe(subscription_at="2024-03-01T00:00:00Z")
    code = plan(box)["fixed_charges"][0]["code"]
    sent = {"units": "3", "amount": "10", "apply_units_immediately": "yes"}
    done(admin, f"/change/fixed-charges/{code}?plan=basic", **sent, step="save")
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = box.invoices()
    assert invoice["total_amount_cents"] == 3000


def test_commitment_and_thresholds_are_set_changed_and_taken_away(box: Scenario, admin: Visitor) -> None:
    box.plan(interval="yearly", bill_charges_monthly=True)
    box.tax("20")
    sent = {
        "amount_cents": "100",
        "invoice_display_name": "Minimum",
        "tax_codes": "vat",
        "range-0-amount_cents": "50.5",
        "range-0-threshold_display_name": "First",
        "range-2-amount_cents": "20",
        "range-2-recurring": "yes",
    }
    more = admin.send_form("/plans/basic/terms", **sent)
    assert 'name="range-4-amount_cents"' in more.text
    assert plan(box)["usage_thresholds"] == []
    done(admin, "/plans/basic/terms", **sent, step="save")
    now = plan(box)
    commitment = now["minimum_commitment"]
    assert (commitment["amount_cents"], commitment["invoice_display_name"]) == (10_000, "Minimum")
    assert [tax["code"] for tax in commitment["taxes"]] == ["vat"]
    # What belongs to the interval stays.
    assert (now["bill_charges_monthly"], now["bill_fixed_charges_monthly"]) == (True, False)
    thresholds = [
        (item["amount_cents"], item["threshold_display_name"], item["recurring"]) for item in now["usage_thresholds"]
    ]
    assert thresholds == [(5050, "First", False), (2000, None, True)]
    page = admin.page("/plans/basic/terms")
    for text in ('value="100.00"', 'value="50.50"', 'value="First"', 'value="vat"'):
        assert text in page
    assert "every €20.00" in admin.page("/plans/basic")
    refused = admin.send_form("/plans/basic/terms", **{**sent, "range-0-amount_cents": "x"}, step="save")
    assert refused.status_code == 422
    done(admin, "/plans/basic/terms", step="save")
    assert "minimum_commitment" not in plan(box)
    assert plan(box)["usage_thresholds"] == []


def test_a_yearly_plan_that_is_changed_is_still_billed_every_month(box: Scenario, admin: Visitor) -> None:
    box.plan(interval="yearly", bill_charges_monthly=True)
    page = admin.page("/change/plans/basic")
    fields = {"name": "Y", "code": "basic", "amount_cents": "0", "amount_currency": "EUR", "interval": "yearly"}
    assert re.search('name="bill_charges_monthly" value="yes" checked', page)
    done(admin, "/change/plans/basic", **fields, bill_charges_monthly="yes")
    assert plan(box)["bill_charges_monthly"] is True


def test_features_are_given_to_a_plan_with_the_values_of_their_privileges(box: Scenario, admin: Visitor) -> None:
    lines = "most: integer\nsso: boolean\nlevel: select, basic, pro\nnote: string"
    assert admin.send_form("/new/features", code="seats", name="Seats", privileges=lines).status_code == 303
    kinds = {item["code"]: item["value_type"] for item in box.get("/features/seats")["feature"]["privileges"]}
    assert kinds == {"most": "integer", "sso": "boolean", "level": "select", "note": "string"}
    assert "level: select, basic, pro" in admin.page("/change/features/seats")
    box.plan()
    assert 'value="seats">Seats</option>' in admin.page("/plans/basic")
    chosen = admin.ask("GET", "/plans/basic/features?feature=seats")
    path = chosen.headers["location"].removeprefix("/console")
    assert path == "/plans/basic/features/seats"
    values = {"value-most": "5", "value-sso": "true", "value-level": "pro", "value-note": ""}
    done(admin, path, **values, step="save")

    def given() -> dict[str, Any]:
        (item,) = [item["entitlement"] for item in plan(box)["entitlements"]]
        return {privilege["code"]: privilege["value"] for privilege in item["privileges"]}

    assert given() == {"most": 5, "sso": True, "level": "pro"}
    page = admin.page(path)
    assert 'name="value-most" value="5"' in page
    assert '<option value="true" selected>' in page
    done(admin, path, **{**values, "value-sso": "", "value-most": "7"}, step="save")
    assert given() == {"most": 7, "level": "pro"}
    refused = admin.send_form(path, **{**values, "value-most": "many"}, step="save")
    assert refused.status_code == 422
    assert given() == {"most": 7, "level": "pro"}
    done(admin, path, step="remove")
    assert plan(box)["entitlements"] == []


@pytest.mark.parametrize("role", [Role.FINANCE, Role.SUPPORT, Role.READ_ONLY])
def test_who_may_not_write_plans_changes_none(box: Scenario, admin: Visitor, role: Role) -> None:
    box.post("/features", feature={"code": "sso"})
    box.plan(charge_on(box.metric("calls"), amount="1"))
    code = plan(box)["charges"][0]["code"]
    before = plan(box)
    visitor = Visitor(box.billing, invited(box.billing, role))
    page = visitor.page("/plans/basic")
    for path in (
        f"/new/filters?plan=basic&charge={code}",
        f"/change/charges/{code}?plan=basic",
        "/new/fixed-charges?plan=basic",
        "/plans/basic/terms",
        "/plans/basic/features/sso",
    ):
        assert path.replace("&", "&amp;") not in page
        visitor.page(path, status=403)
        assert visitor.send_form(path, step="save").status_code == 403
        assert visitor.send_form(path, step="remove").status_code == 403
    assert plan(box) == before
