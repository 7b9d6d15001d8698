"""Invoices of customers whose taxes a provider gives: they wait for its answer, and say so where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from tests.json_asserts import for_programs
from tests.money import gross, percent, share
from tests.provider import Provider, refused, throttled, unreachable
from tests.scenarios import Scenario, charge_on

LINK = {"integration_type": "anrok", "integration_code": "main", "sync_with_provider": True}


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def box(provider: Provider) -> Iterator[Scenario]:
    with Scenario(now="2024-03-01T12:00:00Z", tax_provider=provider) as box:
        box.put("/billing_entities/default", billing_entity={"net_payment_term": 10})
        box.tax(name="Own", code="own")
        box.billing.tax_connections.create(
            kind="anrok", code="main", name="Anrok", url="https://tax.example", item_codes={"basic": "SW1"}
        )
        yield box


def customer(box: Scenario, **fields: Any) -> Any:
    return box.customer(**{"integration_customers": [LINK], **fields})


def paid_in_advance(box: Scenario, cents: int = 3100, **fields: Any) -> Any:
    """The invoice of a subscription that has just started."""
    box.plan(amount_cents=cents, pay_in_advance=True, **fields)
    box.subscribe()
    (invoice,) = box.invoices()
    return invoice


def taxes(invoice: Any) -> list[tuple[str, float, int]]:
    return [(line["tax_code"], line["tax_rate"], line["amount_cents"]) for line in invoice["applied_taxes"]]


def errors(shown: Any) -> list[tuple[str, Any]]:
    return [(detail["error_code"], detail["details"]) for detail in shown["error_details"]]


# Answers


def test_an_invoice_has_the_taxes_of_the_provider_instead_of_the_organizations(box: Scenario) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    assert (invoice["status"], invoice["tax_status"], invoice["payment_status"]) == (
        "finalized",
        "succeeded",
        "pending",
    )
    assert taxes(invoice) == [("sales_tax", 10, percent(3100, 10))]
    (line,), (fee,) = invoice["applied_taxes"], invoice["fees"]
    assert (line["svc_tax_id"], line["tax_description"], line["fees_amount_cents"]) == (None, "state", 3100)
    assert (fee["taxes_amount_cents"], fee["taxes_rate"]) == (percent(3100, 10), 10)
    assert (invoice["taxes_amount_cents"], invoice["total_amount_cents"]) == (percent(3100, 10), gross(3100, 10))
    assert box.webhook_types().count("invoice.created") == 1
    assert box.billing.audit().findings == ()


def test_what_the_tax_provider_is_sent(box: Scenario, provider: Provider) -> None:
    customer(
        box,
        legal_name="Acme Inc.",
        tax_identification_number="US1",
        address_line1="1 Main St",
        city="Oakland",
        country="US",
        shipping_address={"city": "Reno", "state": "NV"},
    )
    box.coupon(100)
    invoice = paid_in_advance(box)
    (tax_request,) = provider.asked
    assert (tax_request.purpose, tax_request.document_id, tax_request.number) == ("finalized", invoice["svc_id"], None)
    assert (tax_request.issuing_date, tax_request.currency) == (date(2024, 3, 1), "EUR")
    party = tax_request.party
    assert (party.external_id, party.provider_id, party.name) == ("acme", "acme", "Acme Inc.")
    assert party.tax_identification_number == "US1"
    where = party.address
    assert (where.address_line1, where.city, where.state, where.country) == ("1 Main St", "Reno", "NV", "US")
    (item,) = tax_request.items
    assert (item.id, item.code, item.fee_type) == (invoice["fees"][0]["svc_id"], "SW1", "subscription")
    assert (item.amount_cents, item.units) == (3100 - 100, Decimal(1))


def test_credit_notes_pay_once_the_taxes_are_known(box: Scenario, provider: Provider) -> None:
    customer(box)
    first = paid_in_advance(box)
    note = {"invoice_id": first["svc_id"], "credit_amount_cents": 110}
    items = [{"fee_id": first["fees"][0]["svc_id"], "amount_cents": 100}]
    box.post("/credit_notes", credit_note={**note, "items": items})
    provider.failures = [unreachable()]
    box.travel_to("2024-04-01T00:10:00Z")
    waiting = box.invoices()[-1]
    assert (waiting["status"], waiting["credit_notes_amount_cents"], waiting["total_amount_cents"]) == (
        "pending",
        0,
        3100,
    )
    box.travel_to("2024-04-01T00:11:00Z")
    paid = box.invoice(waiting["svc_id"])
    assert (paid["status"], paid["credit_notes_amount_cents"], paid["total_amount_cents"]) == (
        "finalized",
        110,
        gross(3100, 10) - 110,
    )
    assert box.billing.audit().findings == ()


def test_an_invoice_of_add_ons_has_the_providers_taxes_whatever_is_asked_for(box: Scenario) -> None:
    customer(box)
    box.add_on("setup", 500)
    body = {
        "external_customer_id": "acme",
        "currency": "EUR",
        "fees": [{"add_on_code": "setup", "tax_codes": ["own"]}],
    }
    made = box.post("/invoices", invoice=body)["invoice"]
    assert (made["status"], made["tax_status"]) == ("pending", "pending")
    invoice = box.invoice(made["svc_id"])
    assert (invoice["status"], taxes(invoice)) == ("finalized", [("sales_tax", 10, 50)])
    assert box.webhook_types().count("invoice.one_off_created") == 1
    assert "invoice.created" not in box.webhook_types()


def test_an_invoice_of_nothing_that_is_not_sent_asks_nobody(box: Scenario, provider: Provider) -> None:
    customer(box, finalize_zero_amount_invoice="skip")
    box.plan(amount_cents=0, pay_in_advance=True)
    box.subscribe()
    assert box.invoices() == []
    assert provider.asked == []


def test_the_provider_names_the_customer_with_the_first_issued_invoice(box: Scenario, provider: Provider) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 2})
    provider.customer_id = "cus_9"
    paid_in_advance(box)

    def named() -> str:
        shown = box.get("/customers/acme")["customer"]["integration_customers"][0]
        return str(shown["external_customer_id"])

    assert (named(), provider.purposes()) == ("acme", ["draft"])
    box.travel_to("2024-03-04T00:00:00Z")
    assert (named(), provider.purposes()) == ("cus_9", ["draft", "finalized"])


def test_an_invoice_that_waited_has_the_dates_of_the_day_on_which_it_is_issued(
    box: Scenario, provider: Provider
) -> None:
    customer(box)
    provider.failures = [throttled()] * 24
    waiting = paid_in_advance(box)
    assert waiting["status"] == "pending"
    box.jump_to("2024-03-05T12:00:00Z")
    for _ in range(24):
        box.travel_to("2024-03-05T18:00:00Z")
    invoice = box.invoice(waiting["svc_id"])
    assert (invoice["status"], invoice["issuing_date"], invoice["payment_due_date"]) == (
        "finalized",
        "2024-03-05",
        "2024-03-15",
    )
    assert len(provider.asked) == 25
    assert (provider.asked[0].issuing_date, provider.asked[24].issuing_date) == (date(2024, 3, 1), date(2024, 3, 5))


# Drafts


def test_a_draft_stays_a_draft_with_the_taxes_of_a_draft(box: Scenario, provider: Provider) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    draft = paid_in_advance(box)
    assert (draft["status"], draft["tax_status"], taxes(draft)) == (
        "draft",
        "succeeded",
        [("sales_tax", 10, percent(3100, 10))],
    )
    assert provider.purposes() == ["draft"]
    assert box.webhook_types().count("invoice.ready_to_finalize") == 1
    box.travel_to("2024-03-05T00:00:00Z")
    issued = box.invoice(draft["svc_id"])
    assert (issued["status"], issued["total_amount_cents"]) == ("finalized", gross(3100, 10))
    assert provider.purposes() == ["draft", "finalized"]


def test_a_draft_whose_taxes_fail_stays_a_draft(box: Scenario, provider: Provider) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    provider.failures = [refused()]
    draft = paid_in_advance(box)
    assert (draft["status"], draft["tax_status"], draft["taxes_amount_cents"]) == ("draft", "failed", 0)
    assert errors(draft) == [
        ("tax_error", {"tax_error": "customerAddressCouldNotResolve", "tax_error_message": "no such address"})
    ]
    assert "invoice.ready_to_finalize" in box.webhook_types()
    refreshed = box.put(f"/invoices/{draft['svc_id']}/refresh")["invoice"]
    assert refreshed["tax_status"] == "pending"
    again = box.invoice(draft["svc_id"])
    assert (again["tax_status"], errors(again), taxes(again)) == (
        "succeeded",
        [],
        [("sales_tax", 10, percent(3100, 10))],
    )


def test_a_draft_is_not_finalized_while_its_taxes_are_asked_for(box: Scenario, provider: Provider) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    provider.failures = [unreachable()]
    draft = paid_in_advance(box)
    answer = box.put(f"/invoices/{draft['svc_id']}/finalize", status=403)
    assert answer["code"] == "cannot_finalize_with_pending_taxes"
    box.travel_to("2024-03-01T12:01:00Z")
    finalized = box.put(f"/invoices/{draft['svc_id']}/finalize")["invoice"]
    assert (finalized["status"], finalized["tax_status"]) == ("pending", "pending")
    assert box.invoice(draft["svc_id"])["status"] == "finalized"


def test_an_answer_about_a_draft_that_has_changed_meanwhile_counts_for_nothing(
    box: Scenario, provider: Provider
) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    draft = paid_in_advance(box)
    provider.rate = Decimal("0.3")

    def change() -> None:
        provider.rate = Decimal("0.5")
        box.billing.invoices.refresh(draft["svc_id"])

    provider.meanwhile = change
    box.billing.invoices.refresh(draft["svc_id"])
    shown = box.invoice(draft["svc_id"])
    assert taxes(shown) == [("sales_tax", 50, percent(3100, 50))]
    assert shown["tax_status"] == "succeeded"


def test_a_question_that_comes_to_nothing_late_does_not_put_off_the_one_after_it(
    box: Scenario, provider: Provider
) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    draft = paid_in_advance(box)
    provider.meanwhile = lambda: box.billing.invoices.refresh(draft["svc_id"])
    provider.failures = [unreachable()]
    box.billing.invoices.refresh(draft["svc_id"])
    assert box.invoice(draft["svc_id"])["tax_status"] == "succeeded"


def test_a_draft_taxed_by_the_organization_after_all_is_not_sent_to_the_provider(
    box: Scenario, provider: Provider
) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    draft = paid_in_advance(box)
    provider.failures = [refused()]
    box.billing.invoices.refresh(draft["svc_id"])
    customer(box, integration_customers=[])
    box.travel_to("2024-03-01T12:10:00Z")
    assert errors(box.invoice(draft["svc_id"])) == []
    box.travel_to("2024-03-05T00:00:00Z")
    assert taxes(box.invoice(draft["svc_id"])) == [("own", 20, percent(3100, 20))]
    requests_before = len(provider.asked)
    box.post(f"/invoices/{draft['svc_id']}/void")
    assert len(provider.asked) == requests_before


# Failures


def test_an_invoice_without_taxes_has_failed(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [refused()]
    invoice = paid_in_advance(box)
    assert (invoice["status"], invoice["tax_status"], invoice["sequential_id"]) == ("failed", "failed", None)
    assert (invoice["taxes_amount_cents"], invoice["total_amount_cents"]) == (0, 3100)
    tax_errors = [
        ("tax_error", {"tax_error": "customerAddressCouldNotResolve", "tax_error_message": "no such address"})
    ]
    assert errors(invoice) == tax_errors
    assert errors(box.get("/customers/acme")["customer"]) == tax_errors
    (message,) = [message for message in box.webhooks if message["webhook_type"] == "customer.tax_provider_error"]
    shown = dict(message["tax_provider_customer_error"])
    assert shown.pop("svc_customer_id")
    assert shown == {
        "external_customer_id": "acme",
        "tax_provider": "anrok",
        "tax_provider_code": "main",
        "provider_error": {"message": "no such address", "error_code": "customerAddressCouldNotResolve"},
    }
    assert "invoice.created" not in box.webhook_types()


def test_a_failed_invoice_is_tried_again(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [refused(), refused("other", "")]
    invoice = paid_in_advance(box)
    again = box.post(f"/invoices/{invoice['svc_id']}/retry")["invoice"]
    assert (again["status"], again["tax_status"], errors(again)) == ("pending", "pending", [])
    failed = box.invoice(invoice["svc_id"])
    assert errors(failed) == [("tax_error", {"tax_error": "other"})]
    box.post(f"/invoices/{invoice['svc_id']}/retry")
    issued = box.invoice(invoice["svc_id"])
    assert (issued["status"], errors(issued), taxes(issued)) == (
        "finalized",
        [],
        [("sales_tax", 10, percent(3100, 10))],
    )
    assert errors(box.get("/customers/acme")["customer"]) == []
    refusal = box.post(f"/invoices/{invoice['svc_id']}/retry", status=405)
    assert refusal["code"] == "invalid_status"


def test_an_invoice_that_met_a_limit_is_tried_again_every_quarter_of_an_hour(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [refused("limit", "API limit reached"), refused("limit", "API limit reached")]
    invoice = paid_in_advance(box)
    assert invoice["status"] == "failed"
    box.travel_to("2024-03-01T12:15:00Z")
    assert (box.invoice(invoice["svc_id"])["status"], len(provider.asked)) == ("failed", 2)
    box.travel_to("2024-03-01T12:29:00Z")
    assert len(provider.asked) == 2
    box.travel_to("2024-03-01T12:30:00Z")
    assert box.invoice(invoice["svc_id"])["status"] == "finalized"


def test_an_invoice_that_met_a_limit_has_the_organizations_taxes_once_its_customer_is_unlinked(
    box: Scenario, provider: Provider
) -> None:
    customer(box)
    provider.failures = [refused("limit", "API limit reached")]
    invoice = paid_in_advance(box)
    customer(box, integration_customers=[])
    assert box.invoice(invoice["svc_id"])["status"] == "failed"
    box.travel_to("2024-03-01T12:15:00Z")
    assert taxes(box.invoice(invoice["svc_id"])) == [("own", 20, percent(3100, 20))]


def test_another_try_at_one_invoice_leaves_the_questions_about_others_alone(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [refused(), unreachable()]
    failed = paid_in_advance(box)
    body = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]}
    box.add_on("setup", 500)
    waiting = box.post("/invoices", invoice=body)["invoice"]
    box.post(f"/invoices/{failed['svc_id']}/retry")
    first, other, again = provider.asked
    assert [first.document_id, other.document_id, again.document_id] == [
        failed["svc_id"],
        waiting["svc_id"],
        failed["svc_id"],
    ]
    assert first.request_id != again.request_id
    box.travel_to("2024-03-01T12:00:15Z")
    assert provider.asked[3].request_id == other.request_id
    assert box.invoice(waiting["svc_id"])["status"] == "finalized"


def test_an_answer_that_lacks_a_fee_taxes_nothing(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.items_left_out = 1
    failed = paid_in_advance(box)
    assert (failed["status"], errors(failed)[0][1]["tax_error"]) == ("failed", "invalid_response")


def test_whoever_cannot_be_reached_is_asked_six_times(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [unreachable()] * 6
    invoice = paid_in_advance(box)
    assert (invoice["status"], invoice["error_details"]) == ("pending", [])
    box.travel_to("2024-03-02T12:00:00Z")
    failed = box.invoice(invoice["svc_id"])
    assert (failed["status"], len(provider.asked)) == ("failed", 6)
    assert errors(failed) == [("tax_error", {"tax_error": "network_error", "tax_error_message": "no route"})]


def test_another_address_makes_the_customers_error_go_away(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [refused()]
    paid_in_advance(box)
    assert len(customer(box, name="Acme")["error_details"]) == 1
    assert customer(box, shipping_address={"city": "Reno"})["error_details"] == []


def test_any_part_of_an_address_makes_the_customers_error_go_away(box: Scenario, provider: Provider) -> None:
    customer(box, city="Oakland", shipping_address={"city": "Reno"})
    provider.failures = [refused()]
    paid_in_advance(box)
    assert len(customer(box, city="Oakland")["error_details"]) == 1
    assert customer(box, city="San Jose")["error_details"] == []


def test_a_draft_has_no_error_while_its_taxes_are_requested_again(box: Scenario, provider: Provider) -> None:
    customer(box, billing_configuration={"invoice_grace_period": 3})
    provider.failures = [refused(), unreachable()]
    draft = paid_in_advance(box)
    assert len(draft["error_details"]) == 1
    box.put(f"/invoices/{draft['svc_id']}/refresh")
    waiting = box.invoice(draft["svc_id"])
    assert (waiting["tax_status"], waiting["error_details"]) == ("pending", [])


def test_the_error_of_a_provider_that_is_not_asked_any_more_goes_away(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [refused(), refused()]
    failed = paid_in_advance(box)
    assert customer(box, integration_customers=[])["error_details"] == []
    customer(box)
    box.post(f"/invoices/{failed['svc_id']}/retry")
    assert len(box.get("/customers/acme")["customer"]["error_details"]) == 1
    box.billing.tax_connections.delete("main")
    assert box.get("/customers/acme")["customer"]["error_details"] == []


def test_without_any_provider_to_ask_an_invoice_fails_and_says_so() -> None:
    with Scenario(now="2024-03-01T12:00:00Z") as box:
        box.billing.tax_connections.create(kind="anrok", code="main", name="Anrok", url="https://tax.example")
        customer(box)
        invoice = paid_in_advance(box)
        assert invoice["status"] == "failed"
        assert errors(invoice)[0][1]["tax_error"] == "no_tax_provider"


# Links that come and go


def test_a_customer_that_is_unlinked_pays_the_organizations_taxes_at_once(box: Scenario, provider: Provider) -> None:
    customer(box)
    provider.failures = [unreachable()]
    waiting = paid_in_advance(box)
    customer(box, integration_customers=[])
    issued = box.invoice(waiting["svc_id"])
    assert (issued["status"], taxes(issued)) == ("finalized", [("own", 20, percent(3100, 20))])
    box.travel_to("2024-03-02T12:00:00Z")
    assert taxes(box.invoice(waiting["svc_id"])) == [("own", 20, percent(3100, 20))]


def test_a_failed_invoice_of_a_customer_that_is_unlinked_is_retried_with_the_organizations_taxes(
    box: Scenario, provider: Provider
) -> None:
    customer(box)
    provider.failures = [refused()]
    failed = paid_in_advance(box)
    box.billing.tax_connections.delete("main")
    box.post(f"/invoices/{failed['svc_id']}/retry")
    assert taxes(box.invoice(failed["svc_id"])) == [("own", 20, percent(3100, 20))]


def test_a_provider_goes_before_the_check_of_a_vat_number(box: Scenario, provider: Provider) -> None:
    fields = {"country": "FR", "eu_tax_management": True}
    box.put("/billing_entities/default", billing_entity=fields)
    customer(box, country="IT", tax_identification_number="IT12345678901")
    assert taxes(paid_in_advance(box)) == [("sales_tax", 10, percent(3100, 10))]


# What follows


def test_a_credit_note_is_reported_with_what_it_takes_back_of_each_fee(box: Scenario, provider: Provider) -> None:
    customer(box)
    box.coupon(100)
    invoice = paid_in_advance(box)
    body = {
        "invoice_id": invoice["svc_id"],
        "credit_amount_cents": 1065,
        "items": [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 1000}],
    }
    note = box.post("/credit_notes", credit_note=body)["credit_note"]
    tax_request = provider.asked[-1]
    assert (tax_request.purpose, tax_request.document_id, tax_request.number) == (
        "credit_note",
        note["svc_id"],
        note["number"],
    )
    # 1000 of 3100, of which the coupon left 3000.
    assert [item.amount_cents for item in tax_request.items] == [-share(1000, 3000, 3100)]
    assert note["error_details"] == []


def test_a_credit_note_that_could_not_be_reported_stands(box: Scenario, provider: Provider) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    provider.failures = [refused("frozen", "the period is closed")]
    body = {
        "invoice_id": invoice["svc_id"],
        "credit_amount_cents": 1100,
        "items": [{"fee_id": invoice["fees"][0]["svc_id"], "amount_cents": 1000}],
    }
    note = box.post("/credit_notes", credit_note=body)["credit_note"]
    shown = box.get(f"/credit_notes/{note['svc_id']}")["credit_note"]
    assert shown["balance_amount_cents"] == 1100
    assert errors(shown) == [("tax_error", {"tax_error": "frozen", "tax_error_message": "the period is closed"})]


def test_a_void_is_reported_to_the_provider(box: Scenario, provider: Provider) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    box.post(f"/invoices/{invoice['svc_id']}/void")
    tax_request = provider.asked[-1]
    assert (tax_request.purpose, tax_request.document_id, tax_request.number) == (
        "void",
        invoice["svc_id"],
        invoice["number"],
    )
    assert box.invoice(invoice["svc_id"])["error_details"] == []


@pytest.mark.parametrize(
    ("code", "instead"), [("transactionFrozenForFiling", "negate"), ("CannotModifyLockedTransaction", "return")]
)
def test_an_invoice_that_cannot_be_cancelled_any_more_is_taken_back(
    box: Scenario, provider: Provider, code: str, instead: str
) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    provider.failures = [refused(code)]
    box.post(f"/invoices/{invoice['svc_id']}/void")
    assert provider.purposes()[-2:] == ["void", instead]
    assert [item.amount_cents for item in provider.asked[-1].items] == [-3100]
    assert box.invoice(invoice["svc_id"])["error_details"] == []


def test_a_void_that_the_provider_refuses_stands(box: Scenario, provider: Provider) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    provider.failures = [refused("unknownTransaction", "not here")]
    box.post(f"/invoices/{invoice['svc_id']}/void")
    shown = box.invoice(invoice["svc_id"])
    assert shown["status"] == "voided"
    assert errors(shown) == [
        (
            "tax_voiding_error",
            {"tax_voiding_error": "unknownTransaction", "tax_voiding_error_message": "not here"},
        )
    ]


def test_the_notes_of_a_void_are_not_taken_back_twice(box: Scenario, provider: Provider) -> None:
    customer(box)
    invoice = paid_in_advance(box)
    body = {"generate_credit_note": True, "credit_amount": 500}
    box.ask("POST", f"/invoices/{invoice['svc_id']}/void", body)
    assert provider.purposes() == ["finalized", "void"]


def test_invoices_taxed_by_the_organization_are_not_reported(box: Scenario, provider: Provider) -> None:
    customer(box, integration_customers=[])
    invoice = paid_in_advance(box)
    customer(box)
    box.post(f"/invoices/{invoice['svc_id']}/void")
    assert provider.asked == []


# What is not billed yet


@pytest.fixture
def in_arrears(box: Scenario) -> Scenario:
    box.customer(integration_customers=[LINK])
    box.plan(charge_on(box.metric("calls"), amount="1"), amount_cents=1000)
    box.subscribe()
    return box


def test_current_usage_is_taxed_by_the_provider(in_arrears: Scenario, provider: Provider) -> None:
    in_arrears.event("calls", value=25)
    shown = in_arrears.usage()
    assert (shown["amount_cents"], shown["taxes_amount_cents"]) == (25 * 100, percent(25 * 100, 10))
    assert shown["total_amount_cents"] == gross(25 * 100, 10)
    (tax_request,) = provider.asked
    assert (tax_request.purpose, tax_request.document_id) == ("draft", None)
    assert [(item.code, item.units, item.amount_cents) for item in tax_request.items] == [("calls", 25, 25 * 100)]
    assert in_arrears.usage("&apply_taxes=false")["taxes_amount_cents"] == 0
    assert len(provider.asked) == 1


def test_usage_that_arrives_while_the_provider_is_asked_is_taxed_alike(
    in_arrears: Scenario, provider: Provider
) -> None:
    in_arrears.event("calls", value=25)
    provider.meanwhile = lambda: in_arrears.billing.events.create(
        transaction_id="late", code="calls", external_subscription_id="sub", properties={"value": 5}
    )
    shown = in_arrears.usage()
    assert (shown["amount_cents"], shown["taxes_amount_cents"]) == ((25 + 5) * 100, percent((25 + 5) * 100, 10))
    assert len(provider.asked) == 1


def test_current_usage_is_refused_without_taxes(in_arrears: Scenario, provider: Provider) -> None:
    in_arrears.event("calls", value=25)
    provider.failures = [refused(), throttled()]
    path = "/customers/acme/current_usage?external_subscription_id=sub"
    assert in_arrears.get(path, status=422)["error_details"] == {"tax_error": ["no such address"]}
    limited = in_arrears.get(path, status=429)
    assert for_programs(limited) == {
        "status": 429,
        "error": "Too Many Provider Requests",
        "code": "too_many_provider_requests",
        "error_details": {
            "provider_name": "anrok",
            "message": "Service anrok is not available. Try again later.",
        },
    }


def previewed(box: Scenario) -> Any:
    body = {"customer": {"external_id": "acme"}, "subscriptions": {"external_ids": ["sub"]}}
    return box.ask("POST", "/invoices/preview", body)["invoice"]


def test_a_preview_is_the_invoice_that_comes(in_arrears: Scenario, provider: Provider) -> None:
    in_arrears.event("calls", value=25)
    preview = previewed(in_arrears)
    assert provider.purposes() == ["draft"]
    in_arrears.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = in_arrears.invoices()
    for field in ("fees_amount_cents", "taxes_amount_cents", "total_amount_cents"):
        assert preview[field] == invoice[field], field
    assert taxes(preview) == taxes(invoice) == [("sales_tax", 10, 350)]


def test_nothing_is_held_up_while_a_preview_asks_the_provider(in_arrears: Scenario, provider: Provider) -> None:
    in_arrears.event("calls", value=25)
    provider.meanwhile = lambda: in_arrears.event("calls", value=5)
    shown = previewed(in_arrears)
    net = 1000 + (25 + 5) * 100
    assert (shown["fees_amount_cents"], shown["taxes_amount_cents"]) == (net, percent(net, 10))
    assert provider.purposes() == ["draft"]


@pytest.mark.parametrize("grace_days", [0, 3])
def test_a_preview_uses_the_credit_notes_that_earlier_invoices_leave(in_arrears: Scenario, grace_days: int) -> None:
    in_arrears.plan(code="ahead", amount_cents=3100, pay_in_advance=True)
    in_arrears.subscribe("ahead", "other")
    (paid,) = in_arrears.invoices()
    in_arrears.delete("/subscriptions/other?on_termination_credit_note=credit&on_termination_invoice=skip")
    customer(in_arrears, billing_configuration={"invoice_grace_period": grace_days})
    # The first of three invoices of 11.00 each is a draft by then where there is a grace period.
    in_arrears.travel_to("2024-04-01T12:00:00Z")
    assert previewed(in_arrears)["credit_notes_amount_cents"] == 1100
    in_arrears.travel_to("2024-05-05T00:00:00Z")
    used = [
        invoice["credit_notes_amount_cents"] for invoice in in_arrears.invoices() if invoice["svc_id"] != paid["svc_id"]
    ]
    assert used == [1100, 1100]


def test_a_preview_without_an_answer_has_no_taxes(in_arrears: Scenario, provider: Provider) -> None:
    in_arrears.event("calls", value=25)
    provider.failures = [refused()]
    preview = previewed(in_arrears)
    assert (preview["taxes_amount_cents"], preview["total_amount_cents"], taxes(preview)) == (0, 1000 + 25 * 100, [])
    assert in_arrears.invoices() == []


# Fees without invoice


@pytest.fixture
def in_advance(box: Scenario) -> Scenario:
    box.customer(integration_customers=[LINK])
    charge = charge_on(
        box.metric("calls"), amount="1", pay_in_advance=True, invoiceable=False, regroup_paid_fees="invoice"
    )
    box.plan(charge)
    box.subscribe()
    return box


def fees(box: Scenario) -> list[Any]:
    return list(box.get("/fees?fee_type=charge")["fees"])


def test_a_fee_without_invoice_is_taxed_by_the_provider(box: Scenario, in_advance: Scenario) -> None:
    in_advance.event("calls", value=25)
    (fee,) = fees(box)
    assert (fee["amount_cents"], fee["taxes_amount_cents"]) == (25 * 100, percent(25 * 100, 10))
    assert fee["total_amount_cents"] == gross(25 * 100, 10)


def test_a_fee_of_a_customer_that_is_unlinked_meanwhile_has_the_organizations_taxes(
    box: Scenario, in_advance: Scenario, provider: Provider
) -> None:
    provider.failures = [unreachable()]
    in_advance.event("calls", value=25)
    customer(box, integration_customers=[])
    box.travel_to("2024-03-01T12:01:00Z")
    (fee,) = fees(box)
    assert (fee["taxes_amount_cents"], len(provider.asked)) == (percent(25 * 100, 20), 1)


def test_a_fee_whose_taxes_are_not_given_is_kept_without_any(
    box: Scenario, in_advance: Scenario, provider: Provider
) -> None:
    provider.failures = [refused()]
    event = in_advance.event("calls", value=25)
    (fee,) = fees(box)
    assert (fee["amount_cents"], fee["taxes_amount_cents"]) == (25 * 100, 0)
    (message,) = [message for message in box.webhooks if message["webhook_type"] == "fee.tax_provider_error"]
    assert message["tax_provider_fee_error"] == {
        "tax_provider_code": "main",
        "svc_charge_id": fee["svc_charge_id"],
        "event_transaction_id": event["transaction_id"],
        "provider_error": {"message": "no such address", "error_code": "customerAddressCouldNotResolve"},
    }


def test_fees_that_were_paid_are_invoiced_with_the_taxes_that_they_have(
    box: Scenario, in_advance: Scenario, provider: Provider
) -> None:
    in_advance.event("calls", value=25)
    provider.rate = Decimal("0.2")
    in_advance.event("calls", value=10)
    for fee in fees(box):
        box.put(f"/fees/{fee['svc_id']}", fee={"payment_status": "succeeded"})
    box.travel_to("2024-04-01T01:00:00Z")
    (invoice,) = [invoice for invoice in box.invoices() if invoice["invoice_type"] == "advance_charges"]
    assert sorted(taxes(invoice)) == [("sales_tax", 10, percent(2500, 10)), ("sales_tax", 20, percent(1000, 20))]
    assert invoice["total_amount_cents"] == gross(2500, 10) + gross(1000, 20)
    assert box.billing.audit().findings == ()


def test_an_estimate_has_the_providers_taxes_or_none(box: Scenario, in_advance: Scenario, provider: Provider) -> None:
    event = {"code": "calls", "external_subscription_id": "sub", "properties": {"value": 25}}

    def estimate() -> int:
        (fee,) = box.post("/events/estimate_fees", event=event)["fees"]
        return int(fee["taxes_amount_cents"])

    assert estimate() == 250
    provider.failures = [refused()]
    assert estimate() == 0
    assert fees(box) == []
