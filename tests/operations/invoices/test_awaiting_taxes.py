"""Invoices made while a VAT number is checked: they wait for their taxes, and go on when the check has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.money import gross, percent, share
from tests.registry import Registry, rate_limited, unknown
from tests.scenarios import Scenario, charge_on


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.answers = [rate_limited()]
    return registry


@pytest.fixture
def box(registry: Registry) -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T12:00:00Z", vat_registry=registry) as box:
        fields = {"country": "FR", "eu_tax_management": True, "net_payment_term": 10}
        box.put("/billing_entities/default", billing_entity=fields)
        yield box


def customer(box: Scenario, **fields: Any) -> None:
    """A customer whose Italian number the registry does not tell of yet."""
    box.customer(**{"country": "IT", "tax_identification_number": "IT12345678901", **fields})


def paid_in_advance(box: Scenario, cents: int = 3100, **fields: Any) -> Any:
    """The invoice of a subscription that has just started."""
    box.plan(amount_cents=cents, pay_in_advance=True, **fields)
    box.subscribe()
    (invoice,) = box.invoices()
    return invoice


def answer(box: Scenario, registry: Registry, *, known: bool = True, at: str = "2024-03-01T12:05:00Z") -> None:
    """Have the registry answer the next time that it is asked."""
    registry.answers = [registry.known if known else unknown()]
    box.travel_to(at)


def test_an_invoice_waits_without_number_and_taxes(box: Scenario) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    assert (invoice["status"], invoice["tax_status"], invoice["payment_status"]) == ("pending", "pending", "pending")
    assert (invoice["fees_amount_cents"], invoice["taxes_amount_cents"], invoice["applied_taxes"]) == (3100, 0, [])
    assert [(fee["taxes_amount_cents"], fee["applied_taxes"]) for fee in invoice["fees"]] == [(0, [])]
    assert (invoice["sequential_id"], invoice["number"][-5:]) == (None, "DRAFT")
    assert [subscription["external_id"] for subscription in invoice["subscriptions"]] == ["sub"]
    assert not {"invoice.created", "invoice.drafted"} & set(box.webhook_types())


def test_a_registered_number_is_invoiced_at_0_percent(box: Scenario, registry: Registry) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    answer(box, registry)
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["status"], invoice["tax_status"]) == ("finalized", "succeeded")
    assert [(line["tax_code"], line["tax_rate"], line["amount_cents"]) for line in invoice["applied_taxes"]] == [
        ("svc_eu_reverse_charge", 0, 0)
    ]
    assert (invoice["total_amount_cents"], invoice["sequential_id"]) == (3100, 1)
    assert box.webhook_types().index("customer.vies_check") < box.webhook_types().index("invoice.created")
    assert box.webhook_types().count("invoice.created") == 1
    assert box.billing.audit().findings == ()


def test_a_number_that_counts_for_nothing_is_invoiced_with_the_tax_of_the_country(
    box: Scenario, registry: Registry
) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    answer(box, registry, known=False)
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["status"], invoice["total_amount_cents"]) == ("finalized", gross(3100, 22))
    assert invoice["taxes_amount_cents"] == percent(3100, 22)
    assert [fee["taxes_amount_cents"] for fee in invoice["fees"]] == [percent(3100, 22)]
    assert box.billing.audit().findings == ()


def test_it_is_dated_when_it_is_issued(box: Scenario, registry: Registry) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    assert (waiting["issuing_date"], waiting["payment_due_date"]) == ("2024-03-01", "2024-03-11")
    box.travel_to("2024-03-02T12:00:00Z")
    answer(box, registry, at="2024-03-02T14:00:00Z")
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["issuing_date"], invoice["payment_due_date"]) == ("2024-03-02", "2024-03-12")


@pytest.mark.parametrize(
    ("adjustment", "dated"), [("keep_anchor", "2024-04-01"), ("align_with_finalization_date", "2024-04-03")]
)
def test_a_periodic_invoice_may_keep_its_date(box: Scenario, registry: Registry, adjustment: str, dated: str) -> None:
    adjusted = {"subscription_invoice_issuing_date_adjustment": adjustment}
    customer(box, tax_identification_number=None, billing_configuration=adjusted)
    box.plan(amount_cents=3100)
    box.subscribe()
    box.travel_to("2024-03-31T12:00:00Z")
    customer(box)
    box.travel_to("2024-04-03T00:30:00Z")
    answer(box, registry, at="2024-04-03T02:00:00Z")
    (invoice,) = box.invoices()
    assert (invoice["status"], invoice["issuing_date"]) == ("finalized", dated)


def test_coupons_are_taken_off_at_once_and_once(box: Scenario, registry: Registry) -> None:
    customer(box)
    box.coupon(1100)
    waiting = paid_in_advance(box)
    assert (waiting["coupons_amount_cents"], waiting["total_amount_cents"]) == (1100, 3100 - 1100)
    answer(box, registry, known=False)
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["coupons_amount_cents"], invoice["taxes_amount_cents"]) == (1100, percent(3100 - 1100, 22))
    assert (invoice["total_amount_cents"], len(invoice["credits"])) == (gross(3100 - 1100, 22), 1)
    (applied,) = box.get("/applied_coupons")["applied_coupons"]
    assert applied["status"] == "terminated"


def test_credit_notes_pay_for_it_when_it_is_issued(box: Scenario, registry: Registry) -> None:
    registry.answers = [unknown()]
    customer(box)
    first = paid_in_advance(box, 1000)
    (fee,) = first["fees"]
    note = {
        "invoice_id": first["svc_id"],
        "credit_amount_cents": 610,
        "items": [{"fee_id": fee["svc_id"], "amount_cents": 500}],
    }
    made = box.post("/credit_notes", credit_note=note)["credit_note"]
    registry.answers = [rate_limited()]
    customer(box, zipcode="00100")
    box.subscribe(external_id="other")
    waiting = box.invoices()[1]
    assert (waiting["status"], waiting["credit_notes_amount_cents"]) == ("pending", 0)
    answer(box, registry, known=False)
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["credit_notes_amount_cents"], invoice["total_amount_cents"]) == (610, 610)
    spent = box.get(f"/credit_notes/{made['svc_id']}")["credit_note"]
    assert (spent["balance_amount_cents"], spent["credit_status"]) == (0, "consumed")
    assert box.billing.audit().findings == ()


def test_all_that_waits_goes_on_together_and_nothing_waits_after_that(box: Scenario, registry: Registry) -> None:
    customer(box)
    paid_in_advance(box)
    box.subscribe(external_id="other")
    assert [invoice["status"] for invoice in box.invoices()] == ["pending", "pending"]
    answer(box, registry)
    assert [invoice["sequential_id"] for invoice in box.invoices()] == [1, 2]
    box.subscribe(external_id="third")
    assert [invoice["tax_status"] for invoice in box.invoices()] == ["succeeded", "succeeded", None]


@pytest.mark.parametrize(
    ("fields", "cents"), [({"tax_identification_number": None}, 682), ({"country": "ES", "zipcode": "35001"}, 0)]
)
def test_a_check_that_is_dropped_lets_invoices_go_on(box: Scenario, fields: dict[str, Any], cents: int) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    customer(box, **fields)
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["status"], invoice["tax_status"], invoice["taxes_amount_cents"]) == (
        "finalized",
        "succeeded",
        cents,
    )


def test_switching_off_lets_invoices_go_on(box: Scenario) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    box.put("/billing_entities/default", billing_entity={"eu_tax_management": False})
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["status"], invoice["taxes_amount_cents"]) == ("finalized", 0)


def test_a_changed_number_keeps_invoices_waiting(box: Scenario, registry: Registry) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    customer(box, tax_identification_number="DE123456789")
    assert box.invoice(waiting["svc_id"])["status"] == "pending"
    answer(box, registry)
    assert box.invoice(waiting["svc_id"])["status"] == "finalized"


def test_an_invoice_over_nothing_that_is_not_sent_does_not_wait(box: Scenario) -> None:
    customer(box, finalize_zero_amount_invoice="skip")
    box.plan(amount_cents=0, pay_in_advance=True)
    box.subscribe()
    assert box.invoices() == []
    customer(box, finalize_zero_amount_invoice="finalize")
    box.subscribe(external_id="other")
    assert [invoice["status"] for invoice in box.invoices()] == ["pending"]


def test_one_off_invoices_wait_too(box: Scenario, registry: Registry) -> None:
    customer(box)
    box.coupon(500)
    box.add_on("setup", 1000)
    body = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]}
    waiting = box.post("/invoices", invoice=body)["invoice"]
    assert (waiting["status"], waiting["tax_status"], waiting["total_amount_cents"]) == ("pending", "pending", 1000)
    assert "invoice.one_off_created" not in box.webhook_types()
    answer(box, registry, known=False)
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["status"], invoice["coupons_amount_cents"]) == ("finalized", 0)
    assert invoice["total_amount_cents"] == gross(1000, 22)
    assert (box.webhook_types().count("invoice.one_off_created"), box.webhook_types().count("invoice.created")) == (
        1,
        0,
    )


# Drafts


def draft(box: Scenario) -> Any:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    return paid_in_advance(box)


def test_a_draft_stays_one(box: Scenario, registry: Registry) -> None:
    invoice = draft(box)
    assert (invoice["status"], invoice["tax_status"], invoice["taxes_amount_cents"]) == ("draft", "pending", 0)
    assert ("invoice.drafted" in box.webhook_types(), "invoice.ready_to_finalize" in box.webhook_types()) == (
        True,
        False,
    )
    answer(box, registry, known=False)
    taxed = box.invoice(invoice["svc_id"])
    assert (taxed["status"], taxed["tax_status"], taxed["total_amount_cents"]) == (
        "draft",
        "succeeded",
        gross(3100, 22),
    )
    assert box.webhook_types().count("invoice.ready_to_finalize") == 1
    box.travel_to("2024-03-04T12:00:00Z")
    issued = box.invoice(invoice["svc_id"])
    assert (issued["status"], issued["tax_status"]) == ("finalized", "succeeded")
    assert issued["total_amount_cents"] == gross(3100, 22)


def test_a_draft_without_its_taxes_is_not_finalized_by_hand(box: Scenario, registry: Registry) -> None:
    invoice = draft(box)
    path = f"/api/v1/invoices/{invoice['svc_id']}/finalize"
    status, body = box.request("PUT", path)
    assert (status, body["code"]) == (403, "cannot_finalize_with_pending_taxes")
    assert box.invoice(invoice["svc_id"])["status"] == "draft"
    answer(box, registry)
    assert box.request("PUT", path)[0] == 200


def test_a_draft_whose_time_is_up_waits_for_its_taxes(box: Scenario, registry: Registry) -> None:
    invoice = draft(box)
    box.travel_to("2024-03-05T12:00:00Z")
    waiting = box.invoice(invoice["svc_id"])
    assert (waiting["status"], waiting["tax_status"]) == ("pending", "pending")
    answer(box, registry, at="2024-03-06T12:00:00Z")
    issued = box.invoice(invoice["svc_id"])
    assert (issued["status"], issued["issuing_date"]) == ("finalized", "2024-03-05")


def test_a_refresh_while_the_check_runs_takes_the_taxes_away(box: Scenario, registry: Registry) -> None:
    registry.answers = [unknown()]
    invoice = draft(box)
    assert invoice["taxes_amount_cents"] == percent(3100, 22)
    registry.answers = [rate_limited()]
    customer(box, zipcode="00100")
    refreshed = box.put(f"/invoices/{invoice['svc_id']}/refresh")["invoice"]
    assert (refreshed["tax_status"], refreshed["taxes_amount_cents"]) == ("pending", 0)
    answer(box, registry)
    assert box.invoice(invoice["svc_id"])["tax_status"] == "succeeded"


def test_drafts_are_recomputed_with_the_new_tax(box: Scenario, registry: Registry) -> None:
    registry.answers = [unknown()]
    invoice = draft(box)
    registry.answers = [registry.known]
    customer(box, zipcode="00100")
    assert box.invoice(invoice["svc_id"])["taxes_amount_cents"] == percent(3100, 22)
    box.travel_to("2024-03-01T12:06:00Z")
    assert box.invoice(invoice["svc_id"])["taxes_amount_cents"] == 0


# What is refused meanwhile


@pytest.mark.parametrize(("method", "action"), [("POST", "/void"), ("DELETE", ""), ("POST", "/retry")])
def test_an_invoice_that_waits_is_not_for_voids_deletions_and_retries(box: Scenario, method: str, action: str) -> None:
    customer(box)
    waiting = paid_in_advance(box)
    status, body = box.send(method, f"/invoices/{waiting['svc_id']}{action}")
    assert status == 405, body
    assert box.invoice(waiting["svc_id"])["status"] == "pending"


def test_an_end_that_gives_something_back_waits_for_the_taxes(box: Scenario, registry: Registry) -> None:
    customer(box)
    paid_in_advance(box)
    box.travel_to("2024-03-03T12:00:00Z")
    status, body = box.send("DELETE", "/subscriptions/sub")
    assert (status, body["code"]) == (405, "cannot_terminate_with_pending_taxes")
    assert box.get("/subscriptions/sub")["subscription"]["status"] == "active"
    assert box.get("/credit_notes")["credit_notes"] == []
    answer(box, registry, known=False, at="2024-03-03T14:00:00Z")
    box.delete("/subscriptions/sub")
    (note,) = box.get("/credit_notes")["credit_notes"]
    unused = share(3100, 28, 31)  # March from the 4th on
    assert (note["credit_amount_cents"], note["taxes_amount_cents"]) == (gross(unused, 22), percent(unused, 22))


def test_an_upgrade_that_gives_something_back_waits_for_the_taxes(box: Scenario) -> None:
    customer(box)
    paid_in_advance(box)
    box.plan(code="better", amount_cents=6200, pay_in_advance=True)
    upgrade = {"external_customer_id": "acme", "external_id": "sub", "plan_code": "better"}
    box.travel_to("2024-03-03T12:00:00Z")
    status, body = box.send("POST", "/subscriptions", {"subscription": upgrade})
    assert (status, body["code"]) == (405, "cannot_terminate_with_pending_taxes")
    assert len(box.invoices()) == 1


def test_an_end_that_gives_nothing_back_does_not_wait(box: Scenario) -> None:
    customer(box)
    paid_in_advance(box)
    box.travel_to("2024-03-03T12:00:00Z")
    ended = box.delete("/subscriptions/sub?on_termination_credit_note=skip")["subscription"]
    assert ended["status"] == "terminated"


def test_a_planned_end_gives_back_what_was_taxed_in_the_end(box: Scenario, registry: Registry) -> None:
    customer(box)
    box.plan(amount_cents=3100, pay_in_advance=True)
    box.subscribe(ending_at="2024-03-03T23:59:59Z")
    box.travel_to("2024-03-05T12:00:00Z")
    assert box.get("/subscriptions/sub?status=terminated")["subscription"]["status"] == "terminated"
    assert box.get("/credit_notes")["credit_notes"] == []
    answer(box, registry, known=False, at="2024-03-05T14:00:00Z")
    (note,) = box.get("/credit_notes")["credit_notes"]
    first, *_ = box.invoices()
    assert note["number"] == f"{first['number']}-CN001"
    left = note["sub_total_excluding_taxes_amount_cents"]
    assert left > 0
    assert note["taxes_amount_cents"] == (left * 22 + 50) // 100
    assert note["credit_amount_cents"] == left + note["taxes_amount_cents"]
    assert box.billing.audit().findings == ()


# Usage paid before the end of its period


def test_usage_billed_ahead_is_credited_while_its_invoice_waits(box: Scenario, registry: Registry) -> None:
    box.customer()
    charge = charge_on(box.metric("gb"), amount="1")
    box.plan(charge, amount_cents=0, usage_thresholds=[{"amount_cents": 1000}])
    box.subscribe()
    box.travel_to("2024-03-31T12:00:00Z")
    customer(box, country=None)
    box.event("gb", value=20)
    box.event("gb", value=1)
    (ahead,) = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "progressive_billing"]
    assert (ahead["status"], ahead["fees_amount_cents"]) == ("pending", 20 * 100)
    box.travel_to("2024-04-02T00:00:00Z")
    answer(box, registry, known=False, at="2024-04-02T02:00:00Z")
    first, second = box.invoices()
    assert [(listed["invoice_type"], listed["status"]) for listed in (first, second)] == [
        ("progressive_billing", "finalized"),
        ("subscription", "finalized"),
    ]
    assert (second["fees_amount_cents"], second["progressive_billing_credit_amount_cents"]) == (
        (20 + 1) * 100,
        20 * 100,
    )
    assert (first["total_amount_cents"], second["total_amount_cents"]) == (gross(20 * 100, 20), gross(1 * 100, 20))
    assert box.billing.audit().findings == ()


def test_what_was_billed_ahead_too_much_is_given_back_with_its_tax(box: Scenario, registry: Registry) -> None:
    box.customer()
    charge = charge_on(box.metric("gb"), amount="1")
    box.plan(charge, amount_cents=0, usage_thresholds=[{"amount_cents": 1000}])
    box.subscribe()
    box.travel_to("2024-03-31T12:00:00Z")
    customer(box, country=None)
    box.event("gb", value=20)
    box.event("gb", value=-5)
    box.travel_to("2024-04-02T00:00:00Z")
    assert box.get("/credit_notes")["credit_notes"] == []
    answer(box, registry, known=False, at="2024-04-02T02:00:00Z")
    ahead, last = box.invoices()
    assert (ahead["total_amount_cents"], last["total_amount_cents"]) == (gross(20 * 100, 20), 0)
    (note,) = box.get("/credit_notes")["credit_notes"]
    assert (note["number"], note["taxes_amount_cents"], note["credit_amount_cents"]) == (
        f"{ahead['number']}-CN001",
        percent(5 * 100, 20),
        gross(5 * 100, 20),
    )
    assert box.billing.audit().findings == ()


# Previews


def preview(box: Scenario, **fields: object) -> Any:
    body = {"customer": {"external_id": "acme", **fields}, "plan_code": "basic"}
    return box.ask("POST", "/invoices/preview", body)["invoice"]


def test_a_preview_shows_no_taxes_while_they_are_not_known(box: Scenario, registry: Registry) -> None:
    customer(box)
    box.plan(amount_cents=3100, pay_in_advance=True)
    shown = preview(box)
    assert (shown["tax_status"], shown["taxes_amount_cents"], shown["total_amount_cents"]) == ("pending", 0, 3100)
    requests_before = len(registry.asked)
    assert preview(box, tax_identification_number="DE123456789")["taxes_amount_cents"] == 0
    assert len(registry.asked) == requests_before
    assert preview(box, tax_identification_number=None)["taxes_amount_cents"] == percent(3100, 22)


def test_a_preview_decides_nothing_about_a_customer_as_it_is(box: Scenario, registry: Registry) -> None:
    registry.answers = [registry.known]
    customer(box)
    box.tax(10, applied_to_organization=False, name="Own", code="own")
    box.customer(tax_codes=["own"])
    box.plan(amount_cents=3100, pay_in_advance=True)
    assert preview(box)["taxes_amount_cents"] == percent(3100, 10)
