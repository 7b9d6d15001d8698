"""The clock of a sandbox: shown on every page, and moved there and over HTTP with what falls due on the way."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.asgi import send
from tests.cases import each
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.core.users import Role
from usagebill.http.app import create_app
from usagebill.testing import Sandbox

pytestmark = pytest.mark.now("2024-03-05T10:00:00Z")


@pytest.fixture
def app(box: Scenario) -> Any:
    box.plan(amount_cents=3100)
    box.customer()
    box.subscribe()
    return create_app(box.billing, sandbox=box)


def clock(app: Any, box: Scenario, body: object = None, key: str | None = None) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {box.api_key if key is None else key}"}
    answer = send(app, "GET" if body is None else "POST", "/clock", headers=headers, **({"json": body} if body else {}))
    return answer.status_code, answer.json()


def test_the_clock_moves_over_http_and_bills_each_month_on_its_day(box: Scenario, app: Any) -> None:
    assert clock(app, box) == (200, {"clock": {"now": "2024-03-05T10:00:00Z"}})
    assert clock(app, box, {"now": "2024-06-02T08:00:00Z"}) == (200, {"clock": {"now": "2024-06-02T08:00:00Z"}})
    invoices = box.invoices()
    assert [invoice["issuing_date"] for invoice in invoices] == ["2024-04-01", "2024-05-01", "2024-06-01"]
    # 27 of 31 days, then whole months.
    assert [invoice["total_amount_cents"] for invoice in invoices] == [2700, 3100, 3100]


@each(
    "sent,code",
    [
        ("2024-03-05T09:59:59Z", "cannot_be_in_past"),
        ("tomorrow", "invalid_date"),
        (5, "invalid_date"),
        ("2026-03-08T10:00:00Z", "value_is_out_of_range"),
    ],
    ids=str,
)
def test_a_time_that_cannot_be_reached_is_refused_and_nothing_moves(
    box: Scenario, app: Any, sent: object, code: str
) -> None:
    status, body = clock(app, box, {"now": sent})
    assert (status, body["error_details"]) == (422, {"now": [code]})
    assert box.now == datetime(2024, 3, 5, 10, tzinfo=UTC)


def test_only_keys_that_may_write_move_the_clock(box: Scenario, app: Any) -> None:
    reader = box.post("/api_keys", api_key={"name": "Reader", "permissions": {"organization": ["read"]}})["api_key"]
    for key, status in (("", 401), ("guess", 401), (reader["value"], 403)):
        assert clock(app, box, {"now": "2024-04-05T00:00:00Z"}, key)[0] == status
    headers = {"authorization": f"Bearer {box.api_key}"}
    assert send(app, "POST", "/clock", headers=headers, content=b"{").status_code == 400
    assert send(app, "POST", "/clock", headers=headers, content=b" " * 2000).status_code == 413
    assert box.now == datetime(2024, 3, 5, 10, tzinfo=UTC)


def test_a_service_that_is_no_sandbox_has_no_clock(box: Scenario) -> None:
    plain = create_app(box.billing)
    assert clock(plain, box)[0] == 404
    visitor = Visitor(box.billing, invited(box.billing, "admin"), plain)
    assert "Sandbox" not in visitor.page("/")
    assert visitor.send_form("/clock", step="month").status_code == 405


def test_the_console_shows_the_clock_on_every_page_and_moves_it(box: Scenario, app: Any) -> None:
    admin = Visitor(box.billing, invited(box.billing, "admin"), app)
    reader = Visitor(box.billing, invited(box.billing, Role.READ_ONLY), app)
    for path, status in (("/", 200), ("/customers", 200), ("/sign-in", 200), ("/nowhere", 404)):
        page = admin.page(path, status=status)
        assert "<strong>Sandbox</strong> Mar 5, 2024, 10:00 UTC" in page
    assert "+1 month" in admin.page("/customers")
    assert "+1 month" not in reader.page("/customers")
    assert reader.send_form("/clock", step="month").status_code == 403
    assert admin.ask("POST", "/clock", data={"csrf": "0" * 64, "step": "month"}).status_code == 403
    assert admin.send_form("/clock", step="month", here="/customers/acme").headers["location"] == (
        "/console/customers/acme"
    )
    assert box.now == datetime(2024, 4, 5, 10, tzinfo=UTC)
    assert len(box.invoices()) == 1
    assert admin.send_form("/clock", step="day", here="//evil.example").headers["location"].startswith("/console/")
    # The session lives on, although a month has passed.
    assert admin.send_form("/clock", now="2024-05-01T12:30").status_code == 303
    assert (box.now, len(box.invoices())) == (datetime(2024, 5, 1, 12, 30, tzinfo=UTC), 2)
    refused = admin.send_form("/clock", now="2024-05-01T12:29")
    assert refused.status_code == 422
    assert "in the past" in refused.text


def test_a_copy_of_a_file_moves_and_the_file_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    with Billing(path, deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.plans.create(
            name="Pro", code="pro", interval="monthly", amount_cents=3100, amount_currency="EUR", pay_in_advance=False
        )
        billing.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="s")
        began = billing.clock.now()
    before = Path(path).read_bytes()
    with Sandbox(began, copy_of=path, strict=False) as box:
        box.travel_to(datetime(began.year + 1, began.month, 1, 12, tzinfo=UTC))
        assert len(box.billing.invoices.list().items) == 12
    assert Path(path).read_bytes() == before
