"""Spend limits, holds and connections in the console: made, changed and removed by whoever may."""

from __future__ import annotations

import re

import pytest
from tests.asgi import send
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on

from usagebill.http.app import create_app

pytestmark = pytest.mark.now("2024-03-05T10:30:00Z")


def visitor(box: Scenario, role: str = "admin") -> Visitor:
    return Visitor(box.billing, invited(box.billing, role))


@pytest.fixture
def sold(box: Scenario, acme: None) -> None:
    box.plan(charge_on(box.metric("requests"), amount="2"), amount_cents=3000)
    box.subscribe()


OWNERS = [("customers", "acme"), ("subscriptions", "sub"), ("plans", "basic")]


@pytest.mark.parametrize(("folder", "key"), OWNERS)
def test_a_limit_is_made_changed_and_removed(box: Scenario, sold: None, folder: str, key: str) -> None:
    admin, api = visitor(box), f"/{folder}/{key}/spend_limits"
    path = f"/limits/{folder}?of={key}"
    assert f'href="/console{path}"' in admin.page(f"/{folder}/{key}")
    assert "No limits" in admin.page(path)
    fields = {"code": "budget", "amount_cents": "50.00", "interval": "month", "on_reached": "refuse"}
    assert admin.send_form(path, **fields).status_code == 303
    (limit,) = box.get(api)["spend_limits"]
    assert (limit["amount_cents"], limit["interval"], limit["units"]) == (5000, "month", None)
    page = admin.page(f"{path}&code=budget")
    assert 'value="50.00"' in page
    again = admin.send_form(path, **fields)
    assert (again.status_code, 'role="alert"' in again.text) == (422, True)
    changed = {**fields, "amount_cents": "", "units": "7", "billable_metric_code": "requests", "grace_percent": "10"}
    assert admin.send_form(f"{path}&code=budget", **changed).status_code == 303
    (limit,) = box.get(api)["spend_limits"]
    assert (limit["amount_cents"], limit["units"], limit["grace_percent"]) == (None, "7.0", "10.0")
    assert "7 units" in admin.page(path)
    assert admin.send_form(f"{path}&code=budget", **{**changed, "units": "x"}).status_code == 422
    reader = visitor(box, "read_only")
    assert "budget" in reader.page(path)
    assert "<h2>New limit" not in reader.page(path)
    assert reader.send_form(path, **{**fields, "code": "own"}).status_code == 403
    assert admin.send_form(f"{path}&code=budget", step="remove").status_code == 303
    assert box.get(api)["spend_limits"] == []


def test_a_subscription_says_what_its_limits_leave_and_what_is_held(box: Scenario, sold: None) -> None:
    box.post("/customers/acme/spend_limits", spend_limit={"code": "budget", "amount_cents": 5000, "interval": "month"})
    box.event("requests", "sub", value="5")
    held = box.post("/holds", hold={"external_subscription_id": "sub", "amount_cents": 700, "seconds": 600})["hold"]
    admin = visitor(box)
    page = admin.page("/subscriptions/sub")
    cells = re.findall(r'data-label="(Most|Used|Held|Left)">(.*?)</td>', page)
    assert cells == [("Most", "€50.00"), ("Used", "€10.00"), ("Held", "€7.00"), ("Left", "€33.00")]
    path = f"/holds/{held['svc_id']}"
    assert path in page
    assert f"{path}/release" in admin.page(path)
    reader = visitor(box, "read_only")
    assert f"{path}/release" not in reader.page(path)
    assert reader.send_form(f"{path}/release").status_code == 403
    assert admin.send_form(f"{path}/release", shown_for="").status_code == 303
    assert box.get(f"/holds/{held['svc_id']}")["hold"]["status"] == "released"
    assert "That is not possible now" in admin.page(f"{path}/release")


def test_limits_of_one_metric_and_those_of_the_customer_are_seen_and_marked(box: Scenario, sold: None) -> None:
    quota = {"code": "cap", "units": "40", "billable_metric_code": "requests", "group": {"model": ["large"]}}
    box.post("/plans/basic/spend_limits", spend_limit=quota)
    box.put("/billing_entities/default", billing_entity={"portal_spend_limits": True})
    link = box.get("/customers/acme/portal_url")["customer"]["portal_url"].removeprefix("http://localhost:8000")
    own = {"interval": "day", "amount": "9"}
    assert send(create_app(box.billing), "POST", f"{link}/limits/sub", data=own).status_code == 303
    box.event("requests", "sub", value="5", model="large")
    admin = visitor(box)
    cells = re.findall(r'data-label="(?:Most|Used|Held|Left)">(.*?)</td>', admin.page("/subscriptions/sub"))
    assert cells == ["40", "5", "0", "35", "€9.00", "€10.00", "€0.00", "€0.00"]
    assert "customer_portal_day (set by the customer)" in admin.page("/subscriptions/sub")
    path = "/limits/subscriptions?of=sub"
    assert "set by the customer" in admin.page(path)
    assert 'name="amount_cents"' not in admin.page(f"{path}&code=customer_portal_day")
    assert admin.send_form(f"{path}&code=customer_portal_day", amount_cents="90").status_code == 405
    assert admin.send_form(f"{path}&code=customer_portal_day", step="remove").status_code == 303
    assert box.get("/subscriptions/sub/spend_limits")["spend_limits"] == []


def test_a_payment_provider_is_connected_in_a_form_that_never_shows_its_secrets(box: Scenario) -> None:
    admin = visitor(box)
    first = admin.page("/new/payment-connections")
    assert 'name="secret_key"' not in first
    chosen = admin.page("/new/payment-connections?kind=adyen")
    assert 'name="merchant_account"' in chosen
    assert 'name="secret_key"' not in chosen
    assert re.search(r'name="live" value="yes" checked', chosen)
    fields = {"kind": "adyen", "code": "main", "name": "Adyen", "live": "", "live_prefix": "", "url": ""}
    lacking = admin.send_form("/new/payment-connections", **fields, api_key="key-of-ours")
    assert lacking.status_code == 422
    assert "key-of-ours" not in lacking.text
    assert 'name="merchant_account"' in lacking.text
    sent = {**fields, "api_key": "key-of-ours", "merchant_account": "Shop", "hmac_key": "ab12"}
    made = admin.send_form("/new/payment-connections", **sent)
    assert made.headers["location"] == "/console/payment-connections/main"
    (connection,) = box.billing.payment_connections.list()
    assert (connection.kind, connection.live) == ("adyen", False)
    assert connection.credentials["api_key"] == "key-of-ours"
    change = admin.page("/change/payment-connections/main")
    assert "key-of-ours" not in change
    assert 'name="kind"' not in change
    renamed = {"name": "Adyen, live", "live": "yes", "live_prefix": "1797a841fbb37ca7-Shop", "api_key": ""}
    assert admin.send_form("/change/payment-connections/main", **renamed).status_code == 303
    (connection,) = box.billing.payment_connections.list()
    assert (connection.name, connection.live) == ("Adyen, live", True)
    assert connection.credentials == {"api_key": "key-of-ours", "merchant_account": "Shop", "hmac_key": "ab12"}
    assert admin.send_form("/change/payment-connections/main", **{**renamed, "api_key": "newer"}).status_code == 303
    assert box.billing.payment_connections.get("main").credentials["api_key"] == "newer"
    for role in ("finance", "support", "read_only"):
        other = visitor(box, role)
        assert other.send_form("/new/payment-connections", **{**sent, "code": role}).status_code == 403
    assert len(box.billing.payment_connections.list()) == 1


@pytest.mark.parametrize(("folder", "kind"), [("tax-connections", "anrok"), ("sync-connections", "xero")])
def test_other_systems_are_connected_in_forms(box: Scenario, folder: str, kind: str) -> None:
    admin = visitor(box)
    fields = {"code": "books", "kind": kind, "name": "Books", "url": "https://books.example", "api_key": "key-of-ours"}
    fields |= {"sync_invoices": "yes"} if folder == "sync-connections" else {}
    assert admin.send_form(f"/new/{folder}", **fields).headers["location"] == f"/console/{folder}/books"
    changed = {"name": "Other books", "url": "https://other.example", "api_key": ""}
    assert admin.send_form(f"/change/{folder}/books", **changed).status_code == 303
    page = admin.page(f"/{folder}/books")
    assert "https://other.example" in page
    assert "key-of-ours" not in page
    resource = box.billing.tax_connections if folder == "tax-connections" else box.billing.sync_connections
    assert resource.get("books").api_key == "key-of-ours"
