"""Wallets, as a caller of the API sees them: created, changed, ended, with what went in and out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.json_asserts import accepted, missing, refused
from tests.scenarios import Scenario

pytestmark = [pytest.mark.now("2025-01-15T10:00:00Z"), pytest.mark.usefixtures("acme")]


def create(box: Scenario, **fields: object) -> Any:
    body = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", **fields}
    return box.send("POST", "/wallets", {"wallet": body})


def created(box: Scenario, **fields: object) -> Any:
    return accepted(create(box, **fields), "wallet")


def funded(box: Scenario, **fields: object) -> str:
    """The id of a wallet whose first credits have come."""
    wallet_id = str(created(box, **fields)["svc_id"])
    box.run_due()
    return wallet_id


def test_rates_have_five_decimals_and_a_range(box: Scenario) -> None:
    for rate in ("0", "-1", "0.000001", "1.234567", "1e20", None):
        assert refused(create(box, rate_amount=rate)) == {"rate_amount": ["value_is_out_of_range"]}
    assert refused(create(box, rate_amount="much")) == {"rate_amount": ["is not a number"]}
    assert created(box, rate_amount="0.00001")["rate_amount"] == "0.00001"


def test_a_wallet_needs_a_currency_and_gives_it_to_its_customer(box: Scenario) -> None:
    box.post("/customers", customer={"external_id": "new"})
    nobody = {"external_customer_id": "new", "rate_amount": "1"}
    assert refused(box.send("POST", "/wallets", {"wallet": nobody})) == {"currency": ["value_is_invalid"]}
    assert refused(create(box, external_customer_id="new", currency="XXX")) == {"currency": ["value_is_invalid"]}
    assert box.get("/customers/new")["customer"]["currency"] is None
    created(box, external_customer_id="new", currency="USD")
    assert box.get("/customers/new")["customer"]["currency"] == "USD"
    assert refused(create(box, external_customer_id="new", currency="EUR")) == {
        "currency": ["currencies_does_not_match"]
    }


def test_a_wallet_of_an_unknown_billing_entity_is_not_made(box: Scenario) -> None:
    assert missing(create(box, billing_entity_code="none")) == "billing_entity"
    assert missing(create(box, billing_entity_id="none")) == "billing_entity"
    assert box.get("/wallets")["wallets"] == []
    assert missing(box.send("GET", "/wallets?billing_entity_codes[]=none")) == "billing_entity"
    created(box)
    assert len(box.get("/wallets?billing_entity_codes[]=default")["wallets"]) == 1


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"metadata": {"k": "v" * 256}}, {"value": ["value of 'k' is longer than 255 characters"]}),
        ({"purchase_order_number": "p" * 256}, {"purchase_order_number": ["value_is_too_long"]}),
        ({"transaction_name": 7}, {"name": ["invalid_value"]}),
        ({"transaction_priority": 51}, {"transaction_priority": ["value_is_invalid"]}),
        ({"transaction_metadata": [{"key": f"k{n}", "value": "v"} for n in range(6)]}, {"metadata": ["too_many_keys"]}),
        ({"payment_method": {"payment_method_id": "x"}}, {"payment_method": ["invalid_payment_method"]}),
        ({"applies_to": {"billable_metric_codes": ["none"]}}, {"applies_to": ["invalid_limitations"]}),
        ({"expiration_at": 1767225600}, {"expiration_at": ["invalid_date"]}),
        ({"priority": "high"}, {"priority": ["value_is_invalid"]}),
        ({"granted_credits": "0.001"}, {"granted_credits": ["amount_rounds_to_zero"]}),
    ],
)
def test_a_bad_request_makes_no_wallet(box: Scenario, fields: dict[str, object], details: object) -> None:
    assert refused(create(box, **fields)) == details
    assert box.get("/wallets")["wallets"] == []
    assert box.webhook_types("wallet") == []


def test_null_clears_some_fields_and_leaves_others(box: Scenario) -> None:
    wallet = created(
        box,
        name="Prepaid",
        code="prepaid",
        priority=3,
        expiration_at="2026-01-01T00:00:00Z",
        paid_top_up_min_amount_cents=100,
        paid_top_up_max_amount_cents=200,
        purchase_order_number=" PO-1 ",
        metadata={"k": "v"},
        invoice_requires_successful_payment=True,
    )
    assert wallet["purchase_order_number"] == "PO-1"
    cleared = ("name", "expiration_at", "paid_top_up_min_amount_cents", "paid_top_up_max_amount_cents")
    kept = ("code", "priority", "metadata", "invoice_requires_successful_payment")
    fields = dict.fromkeys((*cleared, "purchase_order_number", *kept))
    changed = box.put(f"/wallets/{wallet['svc_id']}", wallet=fields)["wallet"]
    assert {name: changed[name] for name in kept} == {name: wallet[name] for name in kept}
    assert all(changed[name] is None for name in (*cleared, "purchase_order_number"))


def test_an_update_keeps_the_limits_of_use_that_it_does_not_name(box: Scenario) -> None:
    box.metric("calls")
    limits = {"fee_types": ["charge"], "billable_metric_codes": ["calls"]}
    wallet_id = created(box, applies_to=limits)["svc_id"]
    assert box.put(f"/wallets/{wallet_id}", wallet={"name": "New"})["wallet"]["applies_to"] == limits
    box.put(f"/wallets/{wallet_id}/metadata", metadata={"k": "v"})
    changed = box.put(f"/wallets/{wallet_id}", wallet={"applies_to": {"fee_types": []}})["wallet"]
    assert changed["applies_to"] == {"fee_types": [], "billable_metric_codes": ["calls"]}
    changed = box.put(f"/wallets/{wallet_id}", wallet={"applies_to": {"billable_metric_codes": []}})["wallet"]
    assert changed["applies_to"] == {"fee_types": [], "billable_metric_codes": []}


def test_new_limits_must_leave_room_for_the_rule(box: Scenario) -> None:
    rule = {"trigger": "interval", "interval": "monthly", "paid_credits": "20"}
    wallet_id = created(box, recurring_transaction_rules=[rule])["svc_id"]
    answer = box.send("PUT", f"/wallets/{wallet_id}", {"wallet": {"name": "New", "paid_top_up_max_amount_cents": 1999}})
    assert refused(answer) == {"recurring_transaction_rules": ["invalid_recurring_rule"]}
    shown = box.get(f"/wallets/{wallet_id}")["wallet"]
    assert (shown["name"], shown["paid_top_up_max_amount_cents"]) == (None, None)
    box.put(f"/wallets/{wallet_id}", wallet={"paid_top_up_max_amount_cents": 2000})


def test_a_wallet_ends_when_it_expires(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="30", expiration_at="2025-02-01T12:34:56Z")
    box.travel_to("2025-02-01T12:34:55Z")
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["status"] == "active"
    box.travel_to("2025-02-01T12:34:56Z")
    wallet = box.get(f"/wallets/{wallet_id}")["wallet"]
    assert (wallet["status"], wallet["terminated_at"]) == ("terminated", "2025-02-01T12:34:56.000Z")
    assert (wallet["credits_balance"], wallet["balance_cents"]) == ("30.0", 3000)
    assert box.webhook_types("wallet.terminated") == ["wallet.terminated"]


def test_a_later_expiration_takes_the_place_of_the_former(box: Scenario) -> None:
    wallet_id = funded(box, expiration_at="2025-02-01T00:00:00Z")
    box.put(f"/wallets/{wallet_id}", wallet={"expiration_at": "2025-03-01T00:00:00Z"})
    box.travel_to("2025-02-10T00:00:00Z")
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["status"] == "active"
    box.put(f"/wallets/{wallet_id}", wallet={"expiration_at": None})
    box.travel_to("2025-04-01T00:00:00Z")
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["status"] == "active"


def test_wallets_end_with_their_customer(box: Scenario) -> None:
    wallet_id = funded(box, granted_credits="5")
    box.delete("/customers/acme")
    box.run_due()
    wallet = box.get(f"/wallets/{wallet_id}")["wallet"]
    assert (wallet["status"], wallet["credits_balance"]) == ("terminated", "5.0")


def test_metadata_below_a_customer_is_that_of_the_active_wallet(box: Scenario) -> None:
    old = created(box, code="prepaid")["svc_id"]
    box.delete(f"/wallets/{old}")
    new = created(box, code="prepaid")["svc_id"]
    path = "/customers/acme/wallets/prepaid/metadata"
    assert box.post(path, metadata={"a": "1", "b": None})["metadata"] == {"a": "1", "b": None}
    assert box.put(path, metadata={"a": "2"})["metadata"] == {"a": "2", "b": None}
    assert box.delete(f"{path}/b")["metadata"] == {"a": "2"}
    assert box.get(f"/wallets/{new}")["wallet"]["metadata"] == {"a": "2"}
    assert "metadata" not in box.get(f"/wallets/{old}")["wallet"]
    assert box.delete(path)["metadata"] is None
    assert missing(box.send("DELETE", f"{path}/a")) == "metadata"


def test_a_wallet_has_defaults_for_all_but_its_rate(box: Scenario) -> None:
    optional = (
        *("name", "code", "priority", "paid_credits", "granted_credits", "expiration_at", "metadata", "applies_to"),
        *("invoice_requires_successful_payment", "paid_top_up_min_amount_cents", "paid_top_up_max_amount_cents"),
        *("purchase_order_number", "payment_method", "invoice_custom_section", "recurring_transaction_rules"),
    )
    body = {"external_customer_id": "acme", "rate_amount": "1", **dict.fromkeys(optional)}
    wallet = accepted(box.send("POST", "/wallets", {"wallet": body}), "wallet")
    assert (wallet["code"], wallet["priority"], wallet["currency"]) == ("default", 50, "EUR")
    assert wallet["applies_to"] == {"fee_types": [], "billable_metric_codes": []}
    assert (wallet["invoice_requires_successful_payment"], "metadata" in wallet) == (False, False)
    assert wallet["payment_method"] == {"payment_method_type": "provider", "payment_method_id": None}


@pytest.mark.beyond_reference  # Its documents know fewer types of fees than it takes.
def test_what_a_wallet_pays_for_is_named_once(box: Scenario) -> None:
    box.metric("calls")
    fee_types = ["charge", "add_on", "subscription", "credit", "commitment", "fixed_charge", "product", "charge"]
    limits = {"fee_types": fee_types, "billable_metric_codes": ["calls", None, "calls"]}
    wallet = created(box, applies_to=limits)
    assert wallet["applies_to"] == {"fee_types": fee_types[:-1], "billable_metric_codes": ["calls"]}


def test_the_first_credits_say_what_the_request_says_of_them_and_later_ones_do_not(box: Scenario) -> None:
    pairs = [{"key": f"k{number}", "value": "v"} for number in range(5)]
    wallet_id = created(
        box,
        paid_credits="10",
        granted_credits="5",
        transaction_name="Welcome",
        transaction_metadata=pairs,
        transaction_priority=7,
        purchase_order_number="PO-1",
    )["svc_id"]
    box.run_due()
    box.post("/wallet_transactions", wallet_transaction={"wallet_id": wallet_id, "granted_credits": "1"})
    listed = box.get(f"/wallets/{wallet_id}/wallet_transactions")["wallet_transactions"]
    shown = {item["credit_amount"]: (item["name"], item["metadata"], item["priority"]) for item in listed}
    assert shown == {"10.0": ("Welcome", pairs, 7), "5.0": ("Welcome", pairs, 7), "1.0": (None, [], 50)}
    assert {(item["source"], item["purchase_order_number"]) for item in listed} == {("manual", "PO-1")}


def test_what_is_wrong_is_looked_for_step_by_step(box: Scenario) -> None:
    wrong: dict[str, object] = {"rate_amount": "0", "priority": 51, "paid_credits": "0.001", "granted_credits": "0.001"}
    assert refused(create(box, **wrong, expiration_at="soon", billing_entity_code="none")) == {
        "expiration_at": ["invalid_date"]
    }
    assert missing(create(box, **wrong, billing_entity_code="none")) == "billing_entity"
    assert refused(create(box, **wrong)) == {
        "rate_amount": ["value_is_out_of_range"],
        "priority": ["value_is_invalid"],
    }
    small = {"paid_credits": "0.001", "granted_credits": "0.001", "paid_top_up_min_amount_cents": 100}
    assert refused(create(box, **small)) == {"paid_credits": ["amount_rounds_to_zero"]}
    rule = {"trigger": "interval", "interval": "monthly", "paid_credits": "0.5"}
    limited = {"paid_credits": "0.5", "paid_top_up_min_amount_cents": 100, "recurring_transaction_rules": [rule]}
    assert refused(create(box, **limited)) == {"paid_credits": ["amount_below_minimum"]}
    limited["ignore_paid_top_up_limits_on_creation"] = True
    assert refused(create(box, **limited)) == {"recurring_transaction_rules": ["invalid_recurring_rule"]}


def test_a_wallet_that_is_refused_leaves_its_customer_without_a_currency(box: Scenario) -> None:
    box.post("/customers", customer={"external_id": "new"})
    answer = create(box, external_customer_id="new", paid_credits="1", paid_top_up_min_amount_cents=200)
    assert refused(answer) == {"paid_credits": ["amount_below_minimum"]}
    assert box.get("/customers/new")["customer"]["currency"] is None


def test_the_id_of_a_billing_entity_goes_before_its_code(box: Scenario) -> None:
    for code in ("one", "two"):
        box.post("/billing_entities", billing_entity={"name": code, "code": code})
    (first_entity,) = (item for item in box.get("/billing_entities")["billing_entities"] if item["code"] == "one")
    wallet = created(box, billing_entity_id=first_entity["svc_id"], billing_entity_code="two", code="of-one")
    assert wallet["billing_entity_code"] == "one"
    by_code = created(box, billing_entity_code="two", code="of-two")
    assert by_code["billing_entity_code"] == "two"
    listed = box.get("/wallets?billing_entity_codes[]=one&billing_entity_codes[]=two")["wallets"]
    assert {item["code"] for item in listed} == {"of-one", "of-two"}
    path = f"/wallets/{by_code['svc_id']}"
    assert missing(box.send("PUT", path, {"wallet": {"billing_entity_code": "none"}})) == "billing_entity"
    # Without one of its own it has that of its customer.
    assert box.put(path, wallet={"billing_entity_code": None})["wallet"]["billing_entity_code"] == "default"


@pytest.mark.parametrize(
    ("method", "is_known"),
    [
        ({"payment_method_type": "manual"}, True),
        ({"payment_method_type": "provider"}, True),
        ({"payment_method_type": "provider", "payment_method_id": None}, True),
        ({"payment_method_type": "provider", "payment_method_id": "none"}, False),
        ({"payment_method_type": "cheque"}, False),
    ],
)
def test_a_wallet_is_paid_for_by_hand_or_by_a_method_that_there_is(
    box: Scenario, method: dict[str, object], is_known: bool
) -> None:
    problem = {"payment_method": ["invalid_payment_method"]}
    if not is_known:
        assert refused(create(box, payment_method=method)) == problem
    wallet = created(box, payment_method=method if is_known else None)
    if is_known:
        assert wallet["payment_method"] == {"payment_method_id": None, **method}
    else:
        path = f"/wallets/{wallet['svc_id']}"
        assert refused(box.send("PUT", path, {"wallet": {"payment_method": method}})) == problem


def test_what_is_wrong_with_a_change_is_looked_for_step_by_step(box: Scenario) -> None:
    wallet_id = created(box)["svc_id"]
    wrong: dict[str, object] = {
        "expiration_at": "soon",
        "recurring_transaction_rules": [{}, {}],
        "applies_to": {"fee_types": ["coffee"]},
        "payment_method": {"payment_method_type": "cheque"},
        "billing_entity_code": "none",
        "priority": 0,
    }

    def change() -> Any:
        return box.send("PUT", f"/wallets/{wallet_id}", {"wallet": wrong})

    for field, problem in (
        ("expiration_at", {"expiration_at": ["invalid_date"]}),
        ("recurring_transaction_rules", {"recurring_transaction_rules": ["invalid_number_of_recurring_rules"]}),
        ("applies_to", {"allowed_fee_types": ["invalid_fee_types"]}),
        ("payment_method", {"payment_method": ["invalid_payment_method"]}),
    ):
        assert refused(change()) == problem
        del wrong[field]
    assert missing(change()) == "billing_entity"
    del wrong["billing_entity_code"]
    assert refused(change()) == {"priority": ["value_is_invalid"]}
    box.delete(f"/wallets/{wallet_id}")
    wrong["expiration_at"] = "soon"
    assert refused(change()) == {"wallet_id": ["wallet_is_terminated"]}


def test_metadata_has_its_limits_and_its_messages(box: Scenario) -> None:
    wallet_id = created(box)["svc_id"]
    path = f"/wallets/{wallet_id}/metadata"
    full: dict[str, str | None] = {f"{number:0100}": "v" * 255 for number in range(50)}
    for metadata in ({**full, "more": "v"}, {"k" * 101: "v"}, {"k": "v" * 256}, {"k": 1}):
        assert list(refused(box.send("POST", path, {"metadata": metadata}))) == ["value"]
    assert box.webhook_types("wallet.updated") == []
    assert box.post(path, metadata=full)["metadata"] == full
    assert list(refused(box.send("PATCH", path, {"metadata": {"more": None}}))) == ["value"]
    assert len(box.webhook_types("wallet.updated")) == 1
    assert box.ask("POST", path, {})["metadata"] == full
    assert box.ask("PATCH", path, {"metadata": {}})["metadata"] == full
    key = next(iter(full))
    sent = len(box.webhook_types("wallet.updated"))
    box.delete(f"{path}/{key}")
    assert key not in box.delete(f"{path}/unknown")["metadata"]
    assert len(box.webhook_types("wallet.updated")) == sent
    assert box.post(path, metadata={})["metadata"] == {}
    assert box.get(f"/wallets/{wallet_id}")["wallet"]["metadata"] == {}
    assert box.delete(path)["metadata"] is None
    assert len(box.webhook_types("wallet.updated")) == sent + 2


def test_an_expiration_is_an_instant_in_any_zone(box: Scenario) -> None:
    wallet = created(box, expiration_at="2025-02-01T00:00:00+09:00")
    assert wallet["expiration_at"] == "2025-01-31T15:00:00Z"
    box.travel_to("2025-01-31T14:59:59Z")
    assert box.get(f"/wallets/{wallet['svc_id']}")["wallet"]["status"] == "active"
    box.travel_to("2025-01-31T15:00:00Z")
    assert box.get(f"/wallets/{wallet['svc_id']}")["wallet"]["status"] == "terminated"
