"""Dunning campaigns: whom they ask, when, with what, and what starts them afresh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.scenarios import Scenario

from usagebill.core.dunning import DunningProgress
from usagebill.core.invoices.records import Invoice
from usagebill.core.tasks import ChaseCustomer
from usagebill.runtime.work import Work
from usagebill.storage.conditions import eq

pytestmark = pytest.mark.beyond_reference


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now="2025-01-01T10:00:00Z") as box:
        box.entity(name="Lumen", email="billing@lumen.example")
        box.customer(name="Acme", email="anna@acme.example", net_payment_term=2)
        box.add_on("setup", 100)
        yield box


def campaign(box: Scenario, cents: int = 10_000, code: str = "standard", *, applied: bool = True, **fields: Any) -> Any:
    body = {
        "name": code.title(),
        "code": code,
        "days_between_attempts": 2,
        "max_attempts": 2,
        "bcc_emails": ["cfo@lumen.example"],
        "thresholds": [{"amount_cents": cents, "currency": "EUR"}],
        **fields,
    }
    made = box.post("/dunning_campaigns", dunning_campaign=body)["dunning_campaign"]
    if applied:
        box.entity(applied_dunning_campaign_code=code)
    return made


def one_off(box: Scenario, units: int = 149, customer: str = "acme", **fields: Any) -> Any:
    fees = [{"add_on_code": "setup", "units": units}]
    return box.post("/invoices", invoice={"external_customer_id": customer, "fees": fees, **fields})["invoice"]


def pay(box: Scenario, invoice: Any, cents: int) -> None:
    box.post("/payments", payment={"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "transfer"})


def requests_sent(box: Scenario, customer: str = "acme") -> list[tuple[str, int]]:
    """When a customer was asked, and for how much, oldest first."""
    listed = box.get(f"/customers/{customer}/payment_requests")["payment_requests"]
    return sorted((request["created_at"], request["amount_cents"]) for request in listed)


def finished(box: Scenario) -> int:
    return box.webhook_types("dunning_campaign.finished").count("dunning_campaign.finished")


def attempts(box: Scenario) -> dict[str, int]:
    known = box.billing.reading(lambda work: work.tx.first(DunningProgress))
    return {} if known is None else dict(known.attempts)


# Attempts


def test_a_customer_is_asked_until_no_attempt_is_left(box: Scenario) -> None:
    campaign(box)
    one_off(box)
    box.travel_to("2025-02-01T00:00:00Z")
    assert requests_sent(box) == [("2025-01-04T00:45:00Z", 14_900), ("2025-01-06T01:45:00Z", 14_900)]
    assert finished(box) == 1
    assert [email.sent_at.isoformat() for email in box.emails] == [
        "2025-01-04T00:45:00+00:00",
        "2025-01-06T01:45:00+00:00",
    ]
    assert {(email.to, email.bcc) for email in box.emails} == {(("anna@acme.example",), ("cfo@lumen.example",))}
    assert box.billing.next_due() is None or attempts(box) == {"EUR": 2}


def test_below_the_threshold_nobody_is_asked_before_more_is_overdue(box: Scenario) -> None:
    campaign(box, 15_000)
    one_off(box)
    box.travel_to("2025-01-05T00:00:00Z")
    assert requests_sent(box) == []
    one_off(box, 1)
    box.travel_to("2025-01-09T00:00:00Z")
    assert requests_sent(box) == [("2025-01-08T00:45:00Z", 15_000)]


def test_the_threshold_counts_totals_and_the_request_what_is_left(box: Scenario) -> None:
    campaign(box, 14_900)
    invoice = one_off(box)
    pay(box, invoice, 14_000)
    box.travel_to("2025-01-05T00:00:00Z")
    assert requests_sent(box) == [("2025-01-04T00:45:00Z", 900)]


def test_each_billing_entity_asks_for_its_own_invoices(box: Scenario) -> None:
    campaign(box, max_attempts=1)
    box.post("/billing_entities", billing_entity={"name": "Other", "code": "other", "email": "o@lumen.example"})
    one_off(box, 60)
    one_off(box, 50, billing_entity_code="other")
    box.travel_to("2025-01-05T00:00:00Z")
    assert requests_sent(box) == [("2025-01-04T00:45:00Z", 5_000), ("2025-01-04T00:45:00Z", 6_000)]
    assert attempts(box) == {"EUR": 1}
    assert {email.sender_name for email in box.emails} == {"Lumen", "Other"}


def test_currencies_are_asked_for_apart(box: Scenario) -> None:
    thresholds = [{"amount_cents": 10_000, "currency": "EUR"}, {"amount_cents": 100, "currency": "USD"}]
    campaign(box, max_attempts=1, thresholds=thresholds)
    one_off(box, 120)
    dollars = one_off(box, 130)

    def into_dollars(work: Work) -> None:
        invoice = work.tx.get(Invoice, dollars["svc_id"])
        assert invoice is not None
        work.tx.replace(replace(invoice, currency="USD"))

    box.billing.writing(into_dollars)
    box.travel_to("2025-01-05T00:00:00Z")
    listed = box.get("/payment_requests")["payment_requests"]
    assert {(request["amount_currency"], request["amount_cents"]) for request in listed} == {
        ("EUR", 120 * 100),
        ("USD", 130 * 100),
    }
    (finished,) = [message for message in box.webhooks if message["webhook_type"] == "dunning_campaign.finished"]
    assert finished["dunning_campaign"] == {
        "external_customer_id": "acme",
        "customer_external_id": "acme",
        "dunning_campaign_code": "standard",
        "overdue_balance_cents": 120 * 100,
        "overdue_balance_currency": "EUR",
        "overdue_balances": [
            {"currency": "EUR", "amount_cents": 120 * 100},
            {"currency": "USD", "amount_cents": 130 * 100},
        ],
    }


# Whom


def test_excluded_customers_partners_and_deleted_ones_are_left_alone(box: Scenario) -> None:
    campaign(box)
    box.customer(exclude_from_dunning_campaign=True)
    box.customer("partner", account_type="partner", net_payment_term=2)
    box.customer("gone", net_payment_term=2)
    for customer in ("acme", "partner", "gone"):
        one_off(box, customer=customer)
    box.delete("/customers/gone")
    box.travel_to("2025-01-20T00:00:00Z")
    assert box.get("/payment_requests")["payment_requests"] == []
    box.customer(exclude_from_dunning_campaign=False)
    box.travel_to("2025-01-20T01:00:00Z")
    assert requests_sent(box) == [("2025-01-20T00:45:00Z", 14_900)]


def test_a_campaign_that_is_applied_late_asks_for_what_is_overdue_already(box: Scenario) -> None:
    box.customer("other", net_payment_term=2)
    one_off(box)
    one_off(box, customer="other")
    box.travel_to("2025-01-10T08:00:00Z")
    campaign(box)
    campaign(box, code="gentle", applied=False, max_attempts=1)
    shown = box.customer("other", applied_dunning_campaign_code="gentle")
    assert shown["applied_dunning_campaign_code"] == "gentle"
    box.travel_to("2025-01-20T00:00:00Z")
    assert [at for at, _ in requests_sent(box)] == ["2025-01-10T08:45:00Z", "2025-01-12T09:45:00Z"]
    assert [at for at, _ in requests_sent(box, "other")] == ["2025-01-10T08:45:00Z"]


def test_more_customers_than_are_looked_at_at_once_are_all_asked(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("usagebill.operations.dunning_run._REVIEWED_AT_ONCE", 2)
    names = [f"customer-{number}" for number in range(5)]
    for name in names:
        box.customer(name, net_payment_term=2)
        one_off(box, customer=name)
        one_off(box, customer=name)
    box.travel_to("2025-01-10T08:00:00Z")
    campaign(box, max_attempts=1)
    box.travel_to("2025-01-11T00:00:00Z")
    assert {name: len(requests_sent(box, name)) for name in names} == dict.fromkeys(names, 1)


# Resets


def test_paying_what_was_asked_for_starts_afresh(box: Scenario) -> None:
    campaign(box, 1, days_between_attempts=30)
    invoice = one_off(box)
    box.travel_to("2025-01-04T01:00:00Z")
    assert attempts(box) == {"EUR": 1}
    pay(box, invoice, 14_800)
    assert attempts(box) == {"EUR": 1}
    pay(box, invoice, 100)
    assert attempts(box) == {"EUR": 0}
    one_off(box, 6)
    box.travel_to("2025-01-10T00:00:00Z")
    assert [cents for _, cents in requests_sent(box)] == [14_800 + 100, 6 * 100]


def test_paying_what_no_campaign_asked_for_changes_nothing(box: Scenario) -> None:
    campaign(box, 10_000)
    one_off(box)
    box.travel_to("2025-01-04T01:00:00Z")
    later = one_off(box, 1)
    box.travel_to("2025-01-07T00:30:00Z")
    assert attempts(box) == {"EUR": 2}
    pay(box, later, 100)
    assert attempts(box) == {"EUR": 2}


def test_another_campaign_starts_afresh(box: Scenario) -> None:
    campaign(box, max_attempts=1)
    campaign(box, code="strict", applied=False, max_attempts=1)
    one_off(box)
    box.travel_to("2025-01-04T01:00:00Z")
    assert attempts(box) == {"EUR": 1}
    box.entity(applied_dunning_campaign_code="strict")
    assert attempts(box) == {}
    box.travel_to("2025-01-05T00:00:00Z")
    assert [at for at, _ in requests_sent(box)] == ["2025-01-04T00:45:00Z", "2025-01-04T01:45:00Z"]
    box.customer(applied_dunning_campaign_code="standard")
    assert attempts(box) == {}
    box.travel_to("2025-01-06T00:00:00Z")
    assert len(requests_sent(box)) == 3


def test_a_deleted_campaign_is_gone_everywhere(box: Scenario) -> None:
    campaign(box)
    box.customer(applied_dunning_campaign_code="standard")
    one_off(box)
    box.travel_to("2025-01-04T01:00:00Z")
    deleted = box.delete("/dunning_campaigns/standard")["dunning_campaign"]
    assert deleted["code"] == "standard"
    assert attempts(box) == {}
    assert box.get("/customers/acme")["customer"]["applied_dunning_campaign_code"] is None
    assert box.get("/billing_entities/default")["billing_entity"]["applied_dunning_campaign_code"] is None
    box.travel_to("2025-01-20T00:00:00Z")
    assert len(requests_sent(box)) == 1
    assert box.get("/dunning_campaigns/standard", status=404)["code"] == "dunning_campaign_not_found"
    campaign(box)


def test_thresholds_that_nothing_reaches_any_more_start_afresh(box: Scenario) -> None:
    campaign(box)
    one_off(box)
    box.travel_to("2025-01-04T01:00:00Z")
    added = [{"amount_cents": 10_000, "currency": "EUR"}, {"amount_cents": 5, "currency": "USD"}]
    box.put("/dunning_campaigns/standard", dunning_campaign={"thresholds": added})
    assert attempts(box) == {"EUR": 1}
    lower = [{"amount_cents": 14_900, "currency": "EUR"}]
    box.put("/dunning_campaigns/standard", dunning_campaign={"thresholds": lower})
    assert attempts(box) == {"EUR": 1}
    box.put(
        "/dunning_campaigns/standard", dunning_campaign={"thresholds": [{"amount_cents": 14_901, "currency": "eur"}]}
    )
    assert attempts(box) == {}


def test_a_lower_threshold_and_more_attempts_are_noticed(box: Scenario) -> None:
    campaign(box, 20_000, max_attempts=1)
    one_off(box)
    box.travel_to("2025-01-05T08:00:00Z")
    changed = {"thresholds": [{"amount_cents": 14_900, "currency": "EUR"}]}
    box.put("/dunning_campaigns/standard", dunning_campaign=changed)
    box.travel_to("2025-01-09T08:00:00Z")
    assert [at for at, _ in requests_sent(box)] == ["2025-01-05T08:45:00Z"]
    box.put("/dunning_campaigns/standard", dunning_campaign={"max_attempts": 2})
    box.travel_to("2025-01-10T08:00:00Z")
    assert [at for at, _ in requests_sent(box)] == ["2025-01-05T08:45:00Z", "2025-01-09T08:45:00Z"]


# Downtime and failures


def test_downtime_loses_and_repeats_no_attempt_and_writes_once(box: Scenario) -> None:
    campaign(box, max_attempts=3)
    one_off(box)
    box.jump_to("2025-01-20T00:00:00Z")
    box.run_due()
    box.run_due()
    assert [at for at, _ in requests_sent(box)] == [
        "2025-01-04T00:45:00Z",
        "2025-01-06T01:45:00Z",
        "2025-01-08T02:45:00Z",
    ]
    assert finished(box) == 1
    # Three letters on one day, all of them late, would tell the customer nothing that the last one does not.
    assert [email.sent_at for email in box.emails] == [box.now]


def test_an_attempt_that_fails_half_way_leaves_nothing_and_is_made_once(
    box: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign(box, max_attempts=1)
    one_off(box)
    box.jump_to("2025-01-05T00:00:00Z")
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise RuntimeError("the disk is full")

        patch.setattr("usagebill.operations.dunning_run.is_finished", fail)
        box.billing.run_due()
        assert requests_sent(box) == []
        assert attempts(box) == {}
    failed = box.billing.reading(lambda work: work.tx.jobs.waiting(ChaseCustomer.kind, customer_id(work)))
    assert failed is not None
    box.travel_to("2025-01-06T00:00:00Z")
    assert [at for at, _ in requests_sent(box)] == ["2025-01-04T00:45:00Z"]
    assert len(box.emails) == 1


def customer_id(work: Any) -> str:
    return str(work.tx.first(Invoice, eq("payment_overdue", True)).customer_id)


# Definitions


def test_campaigns_are_made_read_changed_and_listed(box: Scenario) -> None:
    made = campaign(box, description="After a week", applied=False)
    assert box.get("/dunning_campaigns/standard")["dunning_campaign"] == made
    changed = box.put("/dunning_campaigns/standard", dunning_campaign={"name": "New", "description": None})
    assert (changed["dunning_campaign"]["name"], changed["dunning_campaign"]["description"]) == ("New", None)
    assert changed["dunning_campaign"]["thresholds"] == made["thresholds"]
    campaign(box, code="other", applied=False)
    listed = box.get("/dunning_campaigns")
    assert {row["code"] for row in listed["dunning_campaigns"]} == {"standard", "other"}
    assert listed["meta"]["total_count"] == 2


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"bcc_emails": "cfo@lumen.example"}, {"bcc_emails": ["must_be_an_array"]}),
        ({"bcc_emails": ["nobody"]}, {"bcc_emails": ["invalid_email_format[0,nobody]"]}),
        ({"thresholds": None}, {"thresholds": ["can't be blank"]}),
        ({"thresholds": [{"currency": "EUR"}]}, {"thresholds": {"0": {"amount_cents": ["value_is_mandatory"]}}}),
        ({"days_between_attempts": 0}, {"days_between_attempts": ["value_is_out_of_range"]}),
        ({"max_attempts": 10**9}, {"max_attempts": ["value_is_out_of_range"]}),
        ({"name": ""}, {"name": ["value_is_mandatory"]}),
    ],
)
def test_what_is_refused_changes_nothing(box: Scenario, fields: dict[str, Any], details: dict[str, Any]) -> None:
    made = campaign(box)
    body = {"name": "N", "code": "n", "thresholds": made["thresholds"], **fields}
    assert box.post("/dunning_campaigns", dunning_campaign=body, status=422)["error_details"] == details
    refused = box.put("/dunning_campaigns/standard", dunning_campaign=fields, status=422)
    assert refused["error_details"] == details
    assert box.get("/dunning_campaigns")["dunning_campaigns"] == [made]


def test_unknown_campaigns_cannot_be_applied(box: Scenario) -> None:
    customer = {"external_id": "acme", "applied_dunning_campaign_code": "no"}
    assert box.post("/customers", customer=customer, status=404)["code"] == "dunning_campaign_not_found"
    entity = {"applied_dunning_campaign_code": "no"}
    refused = box.put("/billing_entities/default", billing_entity=entity, status=404)
    assert refused["code"] == "dunning_campaign_not_found"
