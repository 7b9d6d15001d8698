"""Credits bought, granted and voided: what becomes of them, of their invoices, and of the wallet's balance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.json_asserts import accepted, missing, refused
from tests.operations.test_wallets import create, funded
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.core.errors import Invalid
from usagebill.runtime.clock import ManualClock

pytestmark = [pytest.mark.now("2025-01-15T10:00:00Z"), pytest.mark.usefixtures("acme")]


def move(box: Scenario, wallet_id: str, **fields: object) -> Any:
    return box.send("POST", "/wallet_transactions", {"wallet_transaction": {"wallet_id": wallet_id, **fields}})


def moved(box: Scenario, wallet_id: str, **fields: object) -> list[Any]:
    transactions: list[Any] = accepted(move(box, wallet_id, **fields), "wallet_transactions")
    return transactions


def shown(box: Scenario, transaction: Any) -> Any:
    return box.get(f"/wallet_transactions/{transaction['svc_id']}")["wallet_transaction"]


def balance(box: Scenario, wallet_id: str) -> tuple[int, str, str]:
    wallet = box.get(f"/wallets/{wallet_id}")["wallet"]
    return wallet["balance_cents"], wallet["credits_balance"], wallet["consumed_credits"]


def bought(box: Scenario, wallet_id: str, credits: str = "10", **fields: object) -> tuple[Any, Any]:
    """A purchase and its invoice."""
    (purchase,) = moved(box, wallet_id, paid_credits=credits, **fields)
    box.run_due()
    purchase = shown(box, purchase)
    return purchase, purchase["svc_invoice_id"]


def settle(box: Scenario, invoice_id: str, status: str = "succeeded") -> None:
    box.put(f"/invoices/{invoice_id}", invoice={"payment_status": status})
    box.run_due()


def test_bought_credits_are_invoiced_and_come_once_they_are_paid(box: Scenario) -> None:
    wallet_id = funded(box, rate_amount="2", name="Flights", purchase_order_number="PO-1")
    _, invoice_id = bought(box, wallet_id, "7.5")
    invoice = box.invoice(invoice_id)
    assert (invoice["invoice_type"], invoice["status"], invoice["payment_status"]) == ("credit", "finalized", "pending")
    assert (invoice["total_amount_cents"], invoice["taxes_amount_cents"]) == (15 * 200 // 2, 0)
    assert invoice["purchase_order_number"] == "PO-1"
    (fee,) = invoice["fees"]
    assert (fee["item"]["type"], fee["item"]["item_type"], fee["units"]) == ("credit", "WalletTransaction", "7.5")
    assert (fee["precise_unit_amount"], fee["payment_status"]) == ("2.0", "pending")
    assert balance(box, wallet_id) == (0, "0.0", "0.0")
    settle(box, invoice_id)
    settle(box, invoice_id)
    assert balance(box, wallet_id) == (15 * 200 // 2, "7.5", "0.0")
    assert box.webhook_types("invoice", "wallet") == [
        "wallet.created",
        "wallet.depleted_ongoing_balance",
        "wallet_transaction.created",
        "invoice.paid_credit_added",
        "invoice.payment_status_updated",
        "wallet_transaction.updated",
        "wallet.updated",
    ]


def test_one_transaction_is_answered_bare_and_under_its_name(box: Scenario) -> None:
    wallet_id = funded(box)
    (grant,) = moved(box, wallet_id, granted_credits="3")
    answer = box.get(f"/wallet_transactions/{grant['svc_id']}")
    named = answer.pop("wallet_transaction")
    assert answer == named
    assert named["applied_invoice_custom_sections"] == []


def test_nulls_are_as_if_they_were_not_sent(box: Scenario) -> None:
    wallet_id = funded(box)
    fields = ("paid_credits", "voided_credits", "voided_transaction_id", "name", "priority", "metadata")
    (grant,) = moved(box, wallet_id, granted_credits="3", **dict.fromkeys(fields))
    assert (grant["credit_amount"], grant["priority"], grant["name"], grant["metadata"]) == ("3.0", 50, None, [])
    alert = {"alert_type": "wallet_balance_amount", "code": "low", "name": None, "billable_metric_code": None}
    thresholds = [{"value": 100, "code": None, "recurring": None}]
    body = {"alert": None, "alerts": [{**alert, "thresholds": thresholds}]}
    (made,) = box.ask("POST", "/customers/acme/wallets/default/alerts", body)["alerts"]
    assert made["thresholds"] == [{"code": None, "value": "100.0", "recurring": False}]


def test_taxes_coupons_and_credits_have_no_part_in_a_top_up(box: Scenario) -> None:
    box.tax(20)
    box.coupon(100)
    wallet_id = funded(box, granted_credits="50")
    _, invoice_id = bought(box, wallet_id)
    invoice = box.invoice(invoice_id)
    assert (invoice["total_amount_cents"], invoice["applied_taxes"], invoice["credits"]) == (1000, [], [])


def test_a_failed_payment_fails_the_purchase_and_a_later_one_settles_it(box: Scenario) -> None:
    wallet_id = funded(box)
    purchase, invoice_id = bought(box, wallet_id)
    settle(box, invoice_id, "failed")
    failed = shown(box, purchase)
    assert (failed["status"], failed["failed_at"], failed["settled_at"]) == ("failed", "2025-01-15T10:00:00Z", None)
    assert balance(box, wallet_id) == (0, "0.0", "0.0")
    box.travel_to("2025-01-16T10:00:00Z")
    box.post("/payments", payment={"invoice_id": invoice_id, "amount_cents": 1000, "reference": "bank"})
    box.run_due()
    settled = shown(box, purchase)
    assert (settled["status"], settled["failed_at"]) == ("settled", "2025-01-15T10:00:00Z")
    assert settled["settled_at"] == "2025-01-16T10:00:00Z"
    assert balance(box, wallet_id) == (1000, "10.0", "0.0")
    # What has been credited stays, whatever is said of the payment afterwards.
    settle(box, invoice_id, "failed")
    assert shown(box, purchase)["status"] == "settled"
    assert balance(box, wallet_id) == (1000, "10.0", "0.0")


def test_a_top_up_is_not_paid_in_parts(box: Scenario) -> None:
    wallet_id = funded(box)
    _, invoice_id = bought(box, wallet_id)
    part = {"invoice_id": invoice_id, "amount_cents": 400, "reference": "part"}
    assert refused(box.send("POST", "/payments", {"payment": part})) == {"amount_cents": ["invalid_amount"]}


def test_a_credit_note_that_settles_the_invoice_brings_no_credits(box: Scenario) -> None:
    wallet_id = funded(box)
    purchase, invoice_id = bought(box, wallet_id)
    fee_id = box.invoice(invoice_id)["fees"][0]["svc_id"]
    items = [{"fee_id": fee_id, "amount_cents": 1000}]
    box.post("/credit_notes", credit_note={"invoice_id": invoice_id, "offset_amount_cents": 1000, "items": items})
    box.run_due()
    assert box.invoice(invoice_id)["payment_status"] == "succeeded"
    assert shown(box, purchase)["status"] == "failed"
    assert balance(box, wallet_id) == (0, "0.0", "0.0")


def test_an_invoice_that_must_be_paid_first_is_dated_the_day_of_its_payment(box: Scenario) -> None:
    wallet_id = funded(box, invoice_requires_successful_payment=True)
    purchase, invoice_id = bought(box, wallet_id)
    assert box.send("GET", f"/invoices/{invoice_id}")[0] == 404
    assert box.webhook_types("invoice") == []
    box.travel_to("2025-02-03T08:00:00Z")
    payment = {"invoice_id": invoice_id, "amount_cents": 1000, "reference": "bank"}
    box.post("/payments", payment=payment)
    box.run_due()
    invoice = box.invoice(invoice_id)
    assert (invoice["status"], invoice["payment_status"]) == ("finalized", "succeeded")
    assert (invoice["issuing_date"], invoice["payment_due_date"]) == ("2025-02-03", "2025-02-03")
    assert box.webhook_types("invoice") == ["invoice.paid_credit_added"]
    assert shown(box, purchase)["status"] == "settled"
    # One purchase may ask for it, and one may not.
    assert (
        moved(box, wallet_id, paid_credits="1", invoice_requires_successful_payment=False)[0][
            "invoice_requires_successful_payment"
        ]
        is False
    )


def test_a_purchase_of_an_ended_wallet_is_still_credited(box: Scenario) -> None:
    wallet_id = funded(box)
    _, invoice_id = bought(box, wallet_id)
    box.delete(f"/wallets/{wallet_id}")
    settle(box, invoice_id)
    assert balance(box, wallet_id) == (1000, "10.0", "0.0")


def test_a_voided_invoice_leaves_its_purchase_waiting(box: Scenario) -> None:
    wallet_id = funded(box)
    purchase, invoice_id = bought(box, wallet_id)
    box.post(f"/invoices/{invoice_id}/void")
    assert shown(box, purchase)["status"] == "pending"


def test_voids_draw_on_grants_first_then_on_what_was_bought(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="30")
    _, invoice_id = bought(box, wallet_id, "70")
    settle(box, invoice_id)
    (void,) = moved(box, wallet_id, voided_credits="80")
    fundings = box.get(f"/wallet_transactions/{void['svc_id']}/fundings")["wallet_transaction_fundings"]
    sources = {item["wallet_transaction"]["transaction_status"]: item["amount_cents"] for item in fundings}
    assert sources == {"granted": 3000, "purchased": 5000}
    assert balance(box, wallet_id) == (2000, "20.0", "80.0")


def test_priority_beats_the_kind_of_the_transaction(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="60")
    _, invoice_id = bought(box, wallet_id, "20", priority=1)
    settle(box, invoice_id)
    (void,) = moved(box, wallet_id, voided_credits="30")
    fundings = box.get(f"/wallet_transactions/{void['svc_id']}/fundings")["wallet_transaction_fundings"]
    sources = {item["wallet_transaction"]["transaction_status"]: item["amount_cents"] for item in fundings}
    assert sources == {"purchased": 2000, "granted": 1000}


def test_no_more_is_voided_than_there_is(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="30")
    assert refused(move(box, wallet_id, voided_credits="50")) == {"voided_credits": ["insufficient_credits"]}
    (grant,) = moved(box, wallet_id, granted_credits="15")
    answer = move(box, wallet_id, voided_credits="16", voided_transaction_id=grant["svc_id"])
    assert refused(answer) == {"amount_cents": ["exceeds_remaining_transaction_amount"]}
    # A grant of the same request does not count yet.
    answer = move(box, wallet_id, granted_credits="10", voided_credits="50")
    assert refused(answer) == {"voided_credits": ["insufficient_credits"]}
    assert balance(box, wallet_id) == (4500, "45.0", "0.0")
    assert len(box.get(f"/wallets/{wallet_id}/wallet_transactions")["wallet_transactions"]) == 2


def test_credits_without_a_cent_can_be_voided(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="1")
    (void,) = moved(box, wallet_id, voided_credits="0.004")
    assert (void["amount"], void["credit_amount"]) == ("0.0", "0.004")
    assert balance(box, wallet_id) == (100, "0.996", "0.004")
    assert box.get(f"/wallet_transactions/{void['svc_id']}/fundings")["wallet_transaction_fundings"] == []


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"priority": 0}, {"priority": ["value_is_invalid"]}),
        ({"priority": "first"}, {"priority": ["value_is_invalid"]}),
        ({"purchase_order_number": "p" * 256}, {"purchase_order_number": ["value_is_too_long"]}),
        ({"name": "n" * 256}, {"name": ["too_long"]}),
        ({"metadata": "text"}, {"metadata": ["invalid_type"]}),
        ({"metadata": [{"key": "k", "value": {}}]}, {"metadata": ["nested_structure_not_allowed"]}),
        ({"metadata": [{"key": f"k{n}", "value": "v"} for n in range(16)]}, {"metadata": ["too_many_keys"]}),
        ({"paid_credits": "1" + "0" * 25}, {"paid_credits": ["invalid_paid_credits", "invalid_amount"]}),
        ({"voided_transaction_id": "none"}, {"voided_transaction_id": ["wallet_transaction_not_found"]}),
    ],
)
def test_a_bad_request_moves_nothing(box: Scenario, fields: dict[str, object], details: object) -> None:
    wallet_id = funded(box, granted_credits="30")
    assert refused(move(box, wallet_id, **{"granted_credits": "1", **fields})) == details
    assert balance(box, wallet_id) == (3000, "30.0", "0.0")


def test_a_purchase_beyond_the_limits_grants_nothing_either(box: Scenario) -> None:
    wallet_id = funded(box, paid_top_up_max_amount_cents=1000)
    assert refused(move(box, wallet_id, paid_credits="10.01", granted_credits="5")) == {
        "paid_credits": ["amount_above_maximum"]
    }
    assert balance(box, wallet_id) == (0, "0.0", "0.0")


def test_sections_of_a_top_up_are_its_own_else_the_wallets_else_the_customers(box: Scenario) -> None:
    for code in ("of-top-up", "of-wallet", "of-customer"):
        box.billing.invoice_custom_sections.create(name=code, code=code, display_name=code, details=code)
    box.post("/customers", customer={"external_id": "acme", "invoice_custom_section_codes": ["of-customer"]})

    def sections(wallet_id: str, **choice: object) -> list[str]:
        fields: dict[str, Any] = {"invoice_custom_section": choice} if choice else {}
        invoice = box.invoice(bought(box, wallet_id, **fields)[1])
        return [section["code"] for section in invoice["applied_invoice_custom_sections"]]

    plain = funded(box)
    chosen = funded(box, invoice_custom_section={"invoice_custom_section_codes": ["of-wallet"]})
    assert sections(plain) == ["of-customer"]
    assert sections(chosen) == ["of-wallet"]
    assert sections(chosen, invoice_custom_section_codes=["of-top-up"]) == ["of-top-up"]
    assert sections(chosen, skip_invoice_custom_sections=True) == []


def test_unknown_wallets_and_transactions_are_missing(box: Scenario) -> None:
    assert refused(move(box, "none", granted_credits="1")) == {"wallet_id": ["wallet_not_found"]}
    for path in ("", "/consumptions", "/fundings"):
        assert missing(box.send("GET", f"/wallet_transactions/none{path}")) == "wallet_transaction"


def test_first_credits_that_cannot_be_bought_leave_no_wallet(box: Scenario) -> None:
    assert refused(create(box, paid_credits="1", paid_top_up_min_amount_cents=200)) == {
        "paid_credits": ["amount_below_minimum"]
    }
    assert box.get("/wallets")["wallets"] == []


def refund(box: Scenario, invoice_id: str, cents: int, **parts: int) -> Any:
    fee_id = box.invoice(invoice_id)["fees"][0]["svc_id"]
    items = [{"fee_id": fee_id, "amount_cents": cents}]
    sent = {"invoice_id": invoice_id, "items": items, **(parts or {"refund_amount_cents": cents})}
    return box.send("POST", "/credit_notes", {"credit_note": sent})


def paid_top_up(box: Scenario, wallet_id: str) -> tuple[Any, str]:
    purchase, invoice_id = bought(box, wallet_id)
    box.post("/payments", payment={"invoice_id": invoice_id, "amount_cents": 1000, "reference": "bank"})
    box.run_due()
    return purchase, invoice_id


def test_a_refund_takes_the_credits_of_its_own_purchase(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="5")
    purchase, invoice_id = paid_top_up(box, wallet_id)
    note = accepted(refund(box, invoice_id, 400), "credit_note")
    assert (note["refund_amount_cents"], note["credit_amount_cents"]) == (400, 0)
    assert shown(box, purchase)["remaining_amount_cents"] == 600
    assert balance(box, wallet_id) == (1100, "11.0", "4.0")
    transactions = box.get(f"/wallets/{wallet_id}/wallet_transactions?transaction_status=voided")["wallet_transactions"]
    assert [item["svc_credit_note_id"] for item in transactions] == [note["svc_id"]]
    estimate = {"invoice_id": invoice_id, "items": [{"fee_id": note["items"][0]["fee"]["svc_id"], "amount_cents": 600}]}
    estimated = box.post("/credit_notes/estimate", credit_note=estimate)["estimated_credit_note"]
    assert (estimated["max_creditable_amount_cents"], estimated["max_refundable_amount_cents"]) == (0, 600)


def test_what_was_used_of_a_top_up_is_not_refunded(box: Scenario) -> None:
    wallet_id = funded(box)
    _, invoice_id = paid_top_up(box, wallet_id)
    moved(box, wallet_id, voided_credits="7")
    assert refused(refund(box, invoice_id, 301)) == {"amount_cents": ["higher_than_wallet_balance"]}
    assert refused(refund(box, invoice_id, 300, credit_amount_cents=300)) == {
        "credit_amount_cents": ["cannot_credit_invoice"]
    }
    accepted(refund(box, invoice_id, 300), "credit_note")
    assert balance(box, wallet_id) == (0, "0.0", "10.0")


def test_an_ended_wallet_refunds_nothing(box: Scenario) -> None:
    wallet_id = funded(box)
    _, invoice_id = paid_top_up(box, wallet_id)
    box.delete(f"/wallets/{wallet_id}")
    status, body = refund(box, invoice_id, 100)
    assert (status, body["code"]) == (405, "invalid_type_or_status")


def listed(box: Scenario, wallet_id: str, query: str = "") -> list[Any]:
    items: list[Any] = box.get(f"/wallets/{wallet_id}/wallet_transactions{query}")["wallet_transactions"]
    return items


def test_what_a_request_says_goes_to_the_transactions_that_it_is_about(box: Scenario) -> None:
    box.billing.invoice_custom_sections.create(name="Terms", code="terms", display_name="Terms", details="Terms")
    wallet_id = funded(box, granted_credits="20", purchase_order_number="PO-1")
    made = moved(
        box,
        wallet_id,
        paid_credits="3",
        granted_credits="2",
        voided_credits="1",
        name="Spring",
        priority=4,
        purchase_order_number=" PO-2 ",
        metadata=[{"key": f"k{number}", "value": "v"} for number in range(15)],
        payment_method={"payment_method_type": "manual"},
        invoice_custom_section={"invoice_custom_section_codes": ["terms"]},
    )
    assert [item["transaction_status"] for item in made] == ["purchased", "granted", "voided"]
    assert {(item["name"], item["priority"], item["source"], len(item["metadata"])) for item in made} == {
        ("Spring", 4, "manual", 15)
    }
    assert [item["purchase_order_number"] for item in made] == ["PO-2", "PO-2", "PO-1"]
    assert [item["payment_method"]["payment_method_type"] for item in made] == ["manual", "provider", "provider"]
    for item in made:
        (section,) = shown(box, item)["applied_invoice_custom_sections"]
        assert section["invoice_custom_section"]["code"] == "terms"
    assert [item["status"] for item in made] == ["pending", "settled", "settled"]
    assert [item["remaining_amount_cents"] for item in made] == [None, 200, None]


def test_no_credits_make_no_transactions(box: Scenario) -> None:
    wallet_id = funded(box)
    assert moved(box, wallet_id, paid_credits="0", granted_credits="0.000009", voided_credits="0") == []
    assert listed(box, wallet_id) == []
    assert box.webhook_types("wallet_transaction") == []


def test_a_purchase_follows_its_wallet_unless_it_says_whether_it_must_be_paid_first(box: Scenario) -> None:
    wallet_id = funded(box, invoice_requires_successful_payment=True)
    required = [
        moved(box, wallet_id, paid_credits="1", **choice)[0]["invoice_requires_successful_payment"]
        for choice in (
            {},
            {"invoice_requires_successful_payment": None},
            {"invoice_requires_successful_payment": False},
        )
    ]
    assert required == [True, True, False]


def test_messages_of_a_movement_show_the_wallet_as_it_is_then(box: Scenario) -> None:
    rule = {"trigger": "interval", "interval": "monthly", "granted_credits": "1"}
    wallet_id = funded(box, granted_credits="5", recurring_transaction_rules=[rule])
    moved(box, wallet_id, voided_credits="2")
    created_messages = [message for message in box.webhooks if message["webhook_type"] == "wallet_transaction.created"]
    assert {message["object_type"] for message in created_messages} == {"wallet_transaction"}
    wallet = created_messages[-1]["wallet_transaction"]["wallet"]
    assert (wallet["svc_id"], wallet["credits_balance"]) == (wallet_id, "3.0")
    assert {"applies_to", "recurring_transaction_rules"} & set(wallet) == set()
    settle(box, bought(box, wallet_id)[1])
    (settled,) = (message for message in box.webhooks if message["webhook_type"] == "wallet_transaction.updated")
    assert settled["wallet_transaction"]["wallet"]["credits_balance"] == "13.0"
    (created,) = (message for message in box.webhooks if message["webhook_type"] == "wallet.created")
    assert (len(created["wallet"]["recurring_transaction_rules"]), "applies_to" in created["wallet"]) == (1, False)


def test_a_transaction_keeps_the_billing_entity_that_it_was_made_with(box: Scenario) -> None:
    for code in ("one", "two"):
        box.post("/billing_entities", billing_entity={"name": code, "code": code})
    wallet_id = funded(box, granted_credits="5", billing_entity_code="one")
    (grant,) = listed(box, wallet_id)
    box.put(f"/wallets/{wallet_id}", wallet={"billing_entity_code": "two"})
    assert shown(box, grant)["billing_entity_code"] == "one"
    (void,) = moved(box, wallet_id, voided_credits="1", voided_transaction_id=grant["svc_id"])
    assert void["billing_entity_code"] == "one"
    (pooled,) = moved(box, wallet_id, voided_credits="1", voided_transaction_id="")
    assert pooled["billing_entity_code"] == "two"
    _, invoice_id = bought(box, wallet_id)
    assert box.invoice(invoice_id)["billing_entity_code"] == "two"


def test_a_wallet_says_when_its_balance_last_moved_and_when_credits_last_went(box: Scenario) -> None:
    wallet_id = funded(box)

    def moments() -> tuple[str | None, str | None]:
        wallet = box.get(f"/wallets/{wallet_id}")["wallet"]
        return wallet["last_balance_sync_at"], wallet["last_consumed_credit_at"]

    assert moments() == (None, None)
    moved(box, wallet_id, granted_credits="5")
    assert moments() == ("2025-01-15T10:00:00Z", None)
    box.travel_to("2025-01-16T10:00:00Z")
    _, invoice_id = bought(box, wallet_id)
    assert moments() == ("2025-01-15T10:00:00Z", None)
    box.travel_to("2025-01-17T10:00:00Z")
    settle(box, invoice_id)
    assert moments() == ("2025-01-17T10:00:00Z", None)
    box.travel_to("2025-01-18T10:00:00Z")
    moved(box, wallet_id, voided_credits="1")
    assert moments() == ("2025-01-18T10:00:00Z", "2025-01-18T10:00:00Z")


def test_what_is_left_of_a_grant_is_shown_in_unrounded_credits(box: Scenario) -> None:
    wallet_id = funded(box, rate_amount="3")
    (grant,) = moved(box, wallet_id, granted_credits="1")
    moved(box, wallet_id, voided_credits="0.33333")
    grant = shown(box, grant)
    assert (grant["remaining_amount_cents"], grant["remaining_credit_amount"]) == (200, "0.666666666666667")
    consumptions = box.get(f"/wallet_transactions/{grant['svc_id']}/consumptions")["wallet_transaction_consumptions"]
    assert [(item["amount_cents"], item["credit_amount"]) for item in consumptions] == [(100, "0.333333333333333")]


def test_filters_by_metadata_must_all_hold_and_blank_ones_do_not_count(box: Scenario) -> None:
    wallet_id = funded(box)
    pair = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
    moved(box, wallet_id, granted_credits="1", metadata=pair)
    moved(box, wallet_id, granted_credits="2", metadata=pair[:1])
    matching = {
        query: [item["credit_amount"] for item in listed(box, wallet_id, f"?{query}")]
        for query in (
            "metadata[a]=1&metadata[b]=2",
            "metadata[b]=2&metadata[a]=",
            "metadata[a]=2",
            "metadata=a",
            "metadata[]=a",
        )
    }
    assert {query: sorted(credits) for query, credits in matching.items()} == {
        "metadata[a]=1&metadata[b]=2": ["1.0"],
        "metadata[b]=2&metadata[a]=": ["1.0"],
        "metadata[a]=2": [],
        "metadata=a": ["1.0", "2.0"],
        "metadata[]=a": ["1.0", "2.0"],
    }


def test_a_top_up_that_is_not_invoiced_yet_has_no_payment_link() -> None:
    with Billing(":memory:", clock=ManualClock(datetime(2025, 1, 15, tzinfo=UTC)), deliver=False) as billing:
        billing.customers.upsert(external_id="acme", currency="EUR")
        wallet = billing.wallets.create(external_customer_id="acme", rate_amount="1")
        (purchase,) = billing.wallet_transactions.create(wallet_id=wallet.id, paid_credits="1")
        assert purchase.invoice_id is None
        with pytest.raises(Invalid) as refusal:
            billing.wallet_transactions.payment_url(purchase.id)
        assert refusal.value.details == {"base": ["wallet_transaction_has_no_attached_invoice"]}


def test_the_line_of_a_top_up_is_called_as_its_transaction(box: Scenario) -> None:
    wallet_id = funded(box, name="Flights")
    lines = [box.invoice(bought(box, wallet_id, **names)[1])["fees"][0] for names in ({"name": "Ten"}, {})]
    assert [line["item"]["name"] for line in lines] == ["Ten", "credit"]
    # A document calls the second one after its wallet.
    assert [line["description"] for line in lines] == ["Flights"] * 2
    assert {(line["item"]["code"], line["taxes_rate"], line["taxes_amount_cents"]) for line in lines} == {
        ("credit", 0.0, 0)
    }


def test_a_top_up_is_dated_and_due_by_the_days_of_its_customer(box: Scenario) -> None:
    box.customer(timezone="Asia/Tokyo", net_payment_term=14)
    box.travel_to("2025-01-31T16:00:00Z")
    _, invoice_id = bought(box, funded(box))
    invoice = box.invoice(invoice_id)
    assert (invoice["issuing_date"], invoice["payment_due_date"]) == ("2025-02-01", "2025-02-15")
    assert invoice["net_payment_term"] == 14
    assert invoice["sub_total_excluding_taxes_amount_cents"] == invoice["fees_amount_cents"] == 1000


def test_a_purchase_announces_each_change_of_its_payment_once(box: Scenario) -> None:
    wallet_id = funded(box)
    _, invoice_id = bought(box, wallet_id)

    def announced_statuses() -> list[str]:
        return [
            message["wallet_transaction"]["status"]
            for message in box.webhooks
            if message["webhook_type"] == "wallet_transaction.updated"
        ]

    settle(box, invoice_id, "failed")
    settle(box, invoice_id, "failed")
    assert announced_statuses() == ["failed"]
    settle(box, invoice_id, "pending")
    assert announced_statuses() == ["failed"]
    settle(box, invoice_id)
    settle(box, invoice_id, "failed")
    assert announced_statuses() == ["failed", "settled"]


@pytest.mark.parametrize("status", ["pending", "failed"])
def test_a_top_up_that_is_not_paid_can_be_settled_by_a_note_and_not_refunded(box: Scenario, status: str) -> None:
    wallet_id = funded(box)
    purchase, invoice_id = bought(box, wallet_id)
    settle(box, invoice_id, status)
    for parts in ({"refund_amount_cents": 1000}, {"credit_amount_cents": 1000}):
        code, body = refund(box, invoice_id, 1000, **parts)
        assert (code, body["code"]) == (405, "invalid_type_or_status")
    assert refused(refund(box, invoice_id, 400, offset_amount_cents=400)) == {
        "offset_amount_cents": ["not_equal_to_total_amount"]
    }
    accepted(refund(box, invoice_id, 1000, offset_amount_cents=1000), "credit_note")
    box.run_due()
    assert (shown(box, purchase)["status"], balance(box, wallet_id)) == ("failed", (0, "0.0", "0.0"))


@pytest.mark.parametrize(("rate", "credits"), [("10", "1.2"), ("20", "0.6")])
def test_a_refund_takes_credits_at_the_rate_of_the_wallet(box: Scenario, rate: str, credits: str) -> None:
    wallet_id = funded(box, rate_amount=rate)
    _, invoice_id = bought(box, wallet_id, "2")
    total = box.invoice(invoice_id)["total_amount_cents"]
    box.post("/payments", payment={"invoice_id": invoice_id, "amount_cents": total, "reference": "bank"})
    box.run_due()
    sent = len(box.webhook_types("wallet_transaction.created")), len(box.webhook_types("wallet.updated"))
    accepted(refund(box, invoice_id, 1200), "credit_note")
    (void,) = listed(box, wallet_id, "?transaction_status=voided")
    assert (void["credit_amount"], void["amount"], void["status"]) == (credits, "12.0", "settled")
    message_counts = len(box.webhook_types("wallet_transaction.created")), len(box.webhook_types("wallet.updated"))
    assert message_counts == (sent[0], sent[1] + 1)


def test_credits_that_were_paid_for_stay_and_their_invoice_is_not_voided(box: Scenario) -> None:
    wallet_id = funded(box)
    purchase, invoice_id = paid_top_up(box, wallet_id)
    status, body = box.send("POST", f"/invoices/{invoice_id}/void")
    assert (status, body["code"]) == (405, "not_voidable")
    too_much = {"generate_credit_note": True, "refund_amount": 1}
    assert refused(box.send("POST", f"/invoices/{invoice_id}/void", too_much)) == {
        "credit_refund_amount": ["total_amount_exceeds_invoice_amount"]
    }
    refusal = box.post(f"/invoices/{invoice_id}/void", status=405, generate_credit_note=True)
    assert "10.00 EUR came in and must go back; a credit note refunds them first" in refusal["message"]
    assert (shown(box, purchase)["status"], balance(box, wallet_id)) == ("settled", (1000, "10.0", "0.0"))
    assert box.get("/credit_notes")["credit_notes"] == []
    assert box.billing.audit().findings == ()
