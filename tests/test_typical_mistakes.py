"""Typical mistakes of new users, and the messages over HTTP, in the library and on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.json_asserts import accepted
from tests.scenarios import Scenario, charge_on, plan_fields, price_ranges
from usagebill import Billing
from usagebill.cli import main
from usagebill.core.errors import BillingError, Invalid
from usagebill.fields import EventFields
from usagebill.http.api import Api, Request
from usagebill.http.app import routes
from usagebill.operations import api_keys
from usagebill.process.settings import Settings

NOW = "2024-03-05T00:00:00Z"
# An operation's name in the library -> method, path and root of the same request.
REQUESTS = {
    "customers.upsert": ("POST", "/customers", "customer"),
    "customers.get": ("GET", "/customers/{}", None),
    "plans.create": ("POST", "/plans", "plan"),
    "plans.create_charge": ("POST", "/plans/{}/charges", "charge"),
    "subscriptions.create": ("POST", "/subscriptions", "subscription"),
    "subscriptions.terminate": ("DELETE", "/subscriptions/{}", None),
    "billable_metrics.create": ("POST", "/billable_metrics", "billable_metric"),
    "events.create": ("POST", "/events", "event"),
    "events.create_batch": ("POST", "/events/batch", None),
    "coupons.create": ("POST", "/coupons", "coupon"),
    "applied_coupons.apply": ("POST", "/applied_coupons", "applied_coupon"),
    "wallets.create": ("POST", "/wallets", "wallet"),
    "taxes.create": ("POST", "/taxes", "tax"),
    "invoices.void": ("POST", "/invoices/{}/void", None),
    "invoices.create_one_off": ("POST", "/invoices", "invoice"),
    "webhook_endpoints.create": ("POST", "/webhook_endpoints", "webhook_endpoint"),
}


@dataclass(frozen=True)
class Mistake:
    """`call` is the operation's name in the library; `METRIC` and `DRAFT` in the fields stand for ids."""

    call: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    status: int = 422
    # The codes as they are on the wire: `error_details`, or `code` of other errors.
    codes: Any = None
    message: str = ""


def on_plan(*charges: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return plan_fields(*charges, code="new", **fields)


def priced(model: str, **fields: Any) -> dict[str, Any]:
    return charge_on("METRIC", model, **fields)


GAP = price_ranges((0, 10, "1", "0"), (50, None, "0.5", "0"))
OVERLAP = price_ranges((0, 10, "1", "0"), (5, None, "0.5", "0"))
CLOSED = price_ranges((0, 10, "1", "0"), (11, 20, "0.5", "0"))
AGGREGATIONS = "count_agg, sum_agg, max_agg, latest_agg, unique_count_agg, weighted_sum_agg, custom_agg"

MISTAKES = {
    "unknown currency": Mistake(
        "customers.upsert",
        {"external_id": "new", "currency": "EURO"},
        codes={"currency": ["value_is_invalid"]},
        message='currency: "EURO" is not an ISO 4217 code; did you mean "EUR"?',
    ),
    "no external id": Mistake(
        "customers.upsert",
        {"name": "Acme"},
        codes={"external_id": ["value_is_mandatory"]},
        message="external_id: is missing; send it (your own id of the customer; an existing id updates that customer), "
        'for instance "acme"',
    ),
    "country by name": Mistake(
        "customers.upsert",
        {"external_id": "new", "country": "Belgium"},
        codes={"country": ["not_a_valid_country_code"]},
        message='country: "Belgium" is not a country; send two letters of ISO 3166, for instance "FR"',
    ),
    "unknown customer": Mistake(
        "customers.get",
        path=("nobody",),
        status=404,
        codes="customer_not_found",
        message='external_id: there is no customer "nobody"; see GET /customers',
    ),
    "graduated ranges with a gap": Mistake(
        "plans.create",
        on_plan(priced("standard", amount="1"), priced("graduated", graduated_ranges=GAP)),
        codes={"properties": ["invalid_graduated_ranges"]},
        message="charges[1].properties.graduated_ranges[1]: starts at 50, the range before ends at 10; start it at 10",
    ),
    "volume ranges that overlap": Mistake(
        "plans.create",
        on_plan(priced("volume", volume_ranges=OVERLAP)),
        codes={"properties": ["invalid_volume_ranges"]},
        message="charges[0].properties.volume_ranges[1]: starts at 5, the range before ends at 10; start it at 11",
    ),
    "last range with an end": Mistake(
        "plans.create_charge",
        priced("graduated", graduated_ranges=CLOSED),
        path=("basic",),
        codes={"properties": ["invalid_graduated_ranges"], "code": ["value_is_mandatory"]},
        message="properties.graduated_ranges[1]: ends at 20; the last range is open: `to_value: null`; "
        "code: is missing; send it (",
    ),
    "amount that is not a number": Mistake(
        "plans.create",
        on_plan(amount_cents="49 EUR"),
        codes={"amount_cents": ["is not a number"]},
        message='amount_cents: "49 EUR" is not a number; send a decimal number, as a number or as text',
    ),
    "interval misspelt": Mistake(
        "plans.create",
        on_plan(interval="month"),
        codes={"interval": ["value_is_invalid"]},
        message='interval: "month" is not one of the values that the field takes; send one of weekly, monthly, '
        'quarterly, semiannual, yearly; did you mean "monthly"?',
    ),
    "code that is taken": Mistake(
        "plans.create",
        plan_fields(code="basic"),
        codes={"code": ["value_already_exist"]},
        message='code: "basic" is already taken; choose another one, or change the record that has it',
    ),
    "code of a metric for its id": Mistake(
        "plans.create",
        on_plan(charge_on("storage", amount="1")),
        status=404,
        codes="billable_metrics_not_found",
        message='charges[0].billable_metric_id: there is no billable metric "storage"; did you mean "METRIC", '
        "the id of the one with this code?",
    ),
    "unknown charge model": Mistake(
        "plans.create",
        on_plan(priced("tiered")),
        codes={"charge_model": ["value_is_invalid"]},
        message='charges[0].charge_model: "tiered" is not one of the values that the field takes; send one of ',
    ),
    "unknown filter value": Mistake(
        "plans.create",
        on_plan(
            priced("standard", amount="1", filters=[{"values": {"region": ["ue"]}, "properties": {"amount": "2"}}])
        ),
        codes={"values": ["value_is_invalid"]},
        message="charges[0].filters[0].values: the metric declares no value 'ue' of 'region' (it declares: eu, us); "
        "declare it in the metric's `filters`",
    ),
    "unknown tax": Mistake(
        "plans.create",
        on_plan(tax_codes=["vta"]),
        status=404,
        codes="tax_not_found",
        message='tax_codes[0]: there is no tax "vta"; did you mean "vat"?',
    ),
    "unknown plan": Mistake(
        "subscriptions.create",
        {"external_customer_id": "acme", "plan_code": "basik", "external_id": "new"},
        status=404,
        codes="plan_not_found",
        message='plan_code: there is no plan "basik"; did you mean "basic"?',
    ),
    "subscription without customer": Mistake(
        "subscriptions.create",
        {"plan_code": "basic", "external_id": "new"},
        codes={"external_customer_id": ["value_is_mandatory"]},
        message="external_customer_id: is missing; send it (the customer, by your own id), for instance",
    ),
    "terminated subscription": Mistake(
        "subscriptions.terminate",
        path=("ended",),
        status=404,
        codes="subscription_not_found",
        message='external_id: there is no subscription "ended"; see GET /subscriptions',
    ),
    "unknown aggregation": Mistake(
        "billable_metrics.create",
        {"name": "Calls", "code": "calls", "aggregation_type": "count"},
        codes={"field_name": ["value_is_mandatory"], "aggregation_type": ["value_is_invalid"]},
        message="field_name: is missing; send it (the property of events whose values are aggregated; a count needs "
        'none), for instance "gb"; aggregation_type: "count" is not one of the values that the field takes; send '
        f'one of {AGGREGATIONS}; did you mean "count_agg"?',
    ),
    "sum of no field": Mistake(
        "billable_metrics.create",
        {"name": "Bytes", "code": "bytes", "aggregation_type": "sum_agg"},
        codes={"field_name": ["value_is_mandatory"]},
        message="field_name: is missing; send it (the property of events whose values are aggregated; a count needs "
        'none), for instance "gb"',
    ),
    "bad timestamp": Mistake(
        "events.create",
        {"transaction_id": "new", "code": "storage", "external_subscription_id": "sub", "timestamp": "5 March"},
        codes={"timestamp": ["invalid_format"]},
        message='timestamp: "5 March" has the wrong form; see the description of the field (when it happened, in '
        "Unix seconds; the library takes a `datetime` too), for instance 1704067200",
    ),
    "too large a batch": Mistake(
        "events.create_batch",
        {"events": [{"transaction_id": str(number), "code": "storage"} for number in range(101)]},
        codes={"events": ["too_many_events"]},
        message="events: has 101 events, and one request may bring 100; send several",
    ),
    "batch with a bad event": Mistake(
        "events.create_batch",
        {"events": [{"transaction_id": "1", "code": "storage"}, {"transaction_id": "2"}]},
        codes={"1": {"code": ["value_is_mandatory"]}},
        message='events[1].code: is missing; send it (the billable metric, by code), for instance "storage"',
    ),
    "unknown coupon": Mistake(
        "applied_coupons.apply",
        {"external_customer_id": "acme", "coupon_code": "welcom"},
        status=404,
        codes="coupon_not_found",
        message='coupon_code: there is no coupon "welcom"; did you mean "welcome"?',
    ),
    "coupon without its currency": Mistake(
        "coupons.create",
        {
            "name": "Ten",
            "code": "ten",
            "coupon_type": "fixed_amount",
            "amount_cents": 1000,
            "frequency": "once",
            "expiration": "no_expiration",
        },
        codes={"amount_currency": ["value_is_mandatory"]},
        message='amount_currency: is missing; send one, for instance "EUR"',
    ),
    "wallet with a bad rate": Mistake(
        "wallets.create",
        {"external_customer_id": "acme", "rate_amount": "-1", "currency": "EUR"},
        codes={"rate_amount": ["value_is_out_of_range"]},
        message='rate_amount: "-1" is outside the range of the field; send a number from 0.00001 to 10,000,000,000,000',
    ),
    "wallet of nobody": Mistake(
        "wallets.create",
        {"external_customer_id": "nobody", "rate_amount": "1", "currency": "EUR"},
        codes={"customer": ["customer_not_found"]},
        message='external_customer_id: "nobody" does not exist; create the customer first, or correct',
    ),
    "rate with a sign": Mistake(
        "taxes.create",
        {"name": "VAT", "code": "new", "rate": "21%"},
        codes={"rate": ["is not a number"]},
        message='rate: "21%" is not a number; send a decimal number, as a number or as text',
    ),
    "draft to be voided": Mistake(
        "invoices.void",
        path=("DRAFT",),
        status=405,
        codes="not_voidable",
        message="the invoice cannot be voided (it is draft); only finalized ones can, and payments go back with "
        "generate_credit_note; or credit it",
    ),
    "unknown add-on": Mistake(
        "invoices.create_one_off",
        {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]},
        status=404,
        codes="add_on_not_found",
        message='fees[0].add_on_code: there is no add-on "setup"; see GET /add_ons',
    ),
    "address without a scheme": Mistake(
        "webhook_endpoints.create",
        {"webhook_url": "hooks.acme.example"},
        codes={"webhook_url": ["url_is_invalid"]},
        message='webhook_url: "hooks.acme.example" is not an http or https address; send one such as ',
    ),
}


@pytest.fixture(scope="module")
def ids_and_box() -> Iterator[tuple[Scenario, dict[str, str]]]:
    with Scenario(now="2024-01-01T00:00:00Z") as box:
        box.ask("PUT", "/organizations", {"organization": {"billing_configuration": {"invoice_grace_period": 40}}})
        box.customer(currency="EUR")
        metric = box.metric("storage", "sum_agg", field_name="gb", filters=[{"key": "region", "values": ["us", "eu"]}])
        box.ask("POST", "/taxes", {"tax": {"name": "VAT", "code": "vat", "rate": "21"}})
        coupon = {"code": "welcome", "name": "Welcome", "coupon_type": "percentage", "percentage_rate": "10"}
        box.ask("POST", "/coupons", {"coupon": {**coupon, "frequency": "once", "expiration": "no_expiration"}})
        box.plan(charge_on(metric, amount="1"), amount_cents=1000)
        box.subscribe()
        box.subscribe(external_id="ended")
        box.ask("DELETE", "/subscriptions/ended")
        box.travel_to(NOW)
        draft = next(invoice for invoice in box.invoices() if invoice["status"] == "draft")
        yield box, {"METRIC": metric, "DRAFT": draft["svc_id"]}


def named(value: Any, ids: Mapping[str, str]) -> Any:
    text = json.dumps(value)
    for name, id in ids.items():
        text = text.replace(name, id)
    return json.loads(text)


@pytest.mark.parametrize("name", MISTAKES)
def test_http_names_value_place_and_remedy(name: str, ids_and_box: tuple[Scenario, dict[str, str]]) -> None:
    box, ids = ids_and_box
    mistake = MISTAKES[name]
    method, path, root = REQUESTS[mistake.call]
    fields = named(dict(mistake.fields), ids)
    body = {root: fields} if root is not None else fields
    status, answer = box.send(method, path.format(*named(mistake.path, ids)), body if body else None)
    assert status == mistake.status, answer
    assert answer.get("error_details", answer["code"]) == mistake.codes
    assert answer["message"].startswith(named(mistake.message, ids))
    if status == 422:
        assert [*answer["messages"]] == [*mistake.codes]
        assert "; ".join(text for texts in answer["messages"].values() for text in texts) == answer["message"]


# The library ingests any number of events at once.
@pytest.mark.parametrize("name", [name for name in MISTAKES if MISTAKES[name].call != "events.create_batch"])
def test_the_library_says_the_same(name: str, ids_and_box: tuple[Scenario, dict[str, str]]) -> None:
    box, ids = ids_and_box
    mistake = MISTAKES[name]
    resource, verb = mistake.call.split(".")
    call = getattr(getattr(box.billing, resource), verb)
    with pytest.raises(BillingError) as caught:
        call(*named(mistake.path, ids), **named(dict(mistake.fields), ids))
    problem = caught.value
    assert (problem.status, getattr(problem, "details", problem.code)) == (mistake.status, mistake.codes)
    assert problem.message.startswith(named(mistake.message, ids))
    assert problem.message in str(problem)


# Mistakes that only a request can make


@pytest.fixture
def box() -> Iterator[Scenario]:
    with Scenario(now=NOW) as box:
        yield box


def test_a_price_that_is_a_number_is_to_be_text(box: Scenario) -> None:
    metric = box.metric("storage", "sum_agg", field_name="gb")
    status, answer = box.send("POST", "/plans", {"plan": plan_fields(charge_on(metric, amount=0.25))})
    assert (status, answer["error_details"]) == (422, {"properties": ["invalid_amount"]})
    text = 'charges[0].properties.amount: is a number; send text, which keeps every digit: "0.25"'
    assert answer["message"] == text


def raw(box: Scenario, body: bytes, key: str | None = None) -> tuple[int, Any, Mapping[str, str]]:
    request = Request(
        method="POST", path="/api/v1/plans", headers={"authorization": f"Bearer {key or box.api_key}"}, body=body
    )
    answer = Api(box.billing, routes()).answer(request)
    return answer.status, json.loads(answer.body), answer.headers


def test_malformed_json_says_where_it_ends(box: Scenario) -> None:
    status, answer, _ = raw(box, b'{"plan": {"name": "Pro",}}')
    assert (status, answer["error"]) == (400, "Bad Request")
    assert answer["message"].startswith("the body cannot be read: ")
    assert "24" in answer["message"]


def test_a_body_without_its_root_is_shown_the_root(box: Scenario) -> None:
    status, answer = box.send("POST", "/plans", plan_fields())
    assert status == 400
    assert answer["message"] == 'the body has nothing under "plan"; send an object there: {"plan": {...}}'


def test_the_error_for_a_wrong_key_shows_how_to_send_keys_without_repeating_it(box: Scenario) -> None:
    status, answer, _ = raw(box, b"{}", key="surely-wrong")
    assert (status, answer["error"]) == (401, "Unauthorized")
    assert answer["message"] == "no API key, or one that is not valid; send `Authorization: Bearer <API key>`"


def test_the_error_for_a_key_names_the_permission_that_it_lacks(box: Scenario) -> None:
    _, key = box.billing.writing(lambda work: api_keys.create(work, permissions={"plan": ("read",)}))
    status, answer, _ = raw(box, b"{}", key=key)
    assert (status, answer["code"]) == (403, "write_action_not_allowed_for_plan")
    assert "lacks the permission plan:write;" in answer["message"]


def test_an_unknown_address_points_to_the_reference(box: Scenario) -> None:
    status, answer = box.send("GET", "/subscription")
    assert (status, answer["code"]) == (404, "resource_not_found")
    assert answer["message"] == "there is no such operation at this address; see GET /docs"


def test_too_many_requests_say_when_to_come_back() -> None:
    with Scenario(now=NOW, settings=Settings(requests_per_minute=1)) as box:
        accepted(box.send("POST", "/plans", {"plan": plan_fields()}), "plan")
        request = Request(method="GET", path="/api/v1/plans", headers={"authorization": f"Bearer {box.api_key}"})
        api = Api(box.billing, routes())
        assert api.answer(request).status == 200
        box.jump_to("2024-03-05T00:00:20Z")
        answer = api.answer(request)
    assert (answer.status, answer.headers["retry-after"]) == (429, "40")
    assert "Retry-After" in json.loads(answer.body)["message"]


def test_what_is_sent_is_shortened_and_secrets_are_left_out(box: Scenario) -> None:
    _, answer = box.send("POST", "/plans", {"plan": plan_fields(interval="x" * 10_000)})
    assert len(answer["message"]) < 300
    with pytest.raises(Invalid) as caught:
        box.billing.payment_connections.create(kind="stripe", code="p", secret_key=" ")
    assert "secret_key" in caught.value.message
    with pytest.raises(Invalid) as caught:
        box.billing.tax_connections.create(kind="anrok", code="a", api_key="hidden-0815", url="nowhere")
    assert "hidden-0815" not in str(caught.value)
    assert 'url: "nowhere" is not an http or https address' in caught.value.message


# The command line


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "billing.db"
    with Billing(path) as billing:
        billing.billable_metrics.create(name="Storage", code="storage", aggregation_type="sum_agg", field_name="gb")
    return str(path)


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "address without a scheme": (
        ("tax-connections", "create", "--kind", "anrok", "--code", "a", "--url", "nowhere"),
        'url: "nowhere" is not an http or https address; send one such as ',
    ),
    "unknown campaign": (
        ("dunning-campaigns", "delete", "nope"),
        "no campaign has the code nope: see `usagebill dunning-campaigns list`",
    ),
    "unknown permission": (
        ("keys", "create", "--permission", "plans:write"),
        "no resource 'plans' of --permission",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_says_it_in_a_line(name: str, file: str) -> None:
    command, message = COMMANDS[name]
    done = CliRunner().invoke(main, [*command, "--db", file])
    assert done.exit_code != 0
    assert message in done.output


def test_events_that_are_refused_say_why_line_by_line(file: str, tmp_path: Path) -> None:
    lines = tmp_path / "events.jsonl"
    lines.write_text(
        '{"transaction_id": "1", "code": "storage", "timestamp": "5 March"}\n{"transaction_id": "2", "timestamp": 0}\n',
        "utf-8",
    )
    done = CliRunner().invoke(main, ["events", "import", str(lines), "--db", file])
    assert done.exit_code == 1
    assert "line 1: timestamp: '5 March' is no time; send Unix seconds or ISO 8601" in done.output
    assert "line 2: code: is missing; send it (the billable metric, by code)" in done.output


def test_a_batch_of_mistakes_is_reported_in_a_few_lines() -> None:
    events: list[EventFields] = [
        {"transaction_id": str(number), "code": "storage", "timestamp": "5 March"} for number in range(180)
    ]
    with Billing(deliver=False) as billing, pytest.raises(Invalid) as refused:
        billing.events.ingest(events)
    assert len(refused.value.messages) == 180
    assert refused.value.message.count("5 March") == 10
    assert refused.value.message.endswith("; and 170 more")
    assert str(refused.value).count("invalid_format") == 10
