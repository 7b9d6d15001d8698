"""Two price lists on last month's usage: exact, before taxes, and nothing of it stays."""

from __future__ import annotations

import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.money import share
from tests.scenarios import Scenario, charge_on, filter_on, fixed_charge_on, plan_fields, price_ranges

from usagebill import Billing
from usagebill.cli import main
from usagebill.cli.price_files import price_text
from usagebill.core.errors import Invalid, NotFound
from usagebill.core.price_comparisons import LineKind
from usagebill.fields import ChargeFields

pytestmark = pytest.mark.now("2024-01-01T00:00:00Z")
RANGES = price_ranges((0, 10, "1", "0"), (11, None, "0.5", "2"))


def month_of_usage(box: Scenario) -> str:
    """February of `acme` on `basic` (all kinds of charges) and of `beta`; the id of the metric."""
    metric = box.metric("calls", "sum_agg", field_name="n", filters=[{"key": "region", "values": ["us", "eu"]}])
    add_on = box.ask(
        "POST", "/add_ons", {"add_on": {"name": "S", "code": "support", "amount_cents": 1, "amount_currency": "EUR"}}
    )["add_on"]["svc_id"]
    charges = [
        charge_on(metric, "graduated", graduated_ranges=RANGES, min_amount_cents=1500),
        charge_on(metric, amount="0.333", code="flat", filters=[filter_on({"region": ["eu"]}, amount="0.1")]),
    ]
    box.plan(
        *charges,
        amount_cents=1000,
        fixed_charges=[fixed_charge_on(add_on, amount="3", units="2")],
        minimum_commitment={"amount_cents": 3200},
    )
    for customer in ("acme", "beta"):
        box.customer(external_id=customer)
        box.subscribe(external_customer_id=customer, external_id=customer)
    box.travel_to("2024-02-10T00:00:00Z")
    for number, region in ((7, "us"), (6, "eu")):
        box.event("calls", "acme", n=number, region=region)
    box.travel_to("2024-03-05T00:00:00Z")
    return metric


def test_a_plan_against_itself_comes_to_its_invoices(box: Scenario) -> None:
    month_of_usage(box)
    rows = box.billing.plans.compare("basic", "basic")
    billed: dict[str, int] = {}
    for listed in box.get("/invoices")["invoices"]:
        invoice = box.get(f"/invoices/{listed['svc_id']}")["invoice"]
        # The latest come first.
        billed.setdefault(invoice["customer"]["external_id"], invoice["fees_amount_cents"])
    usage = 1500 + round(7 * 33.3 + 6 * 10)
    assert billed == {"acme": 1000 + 600 + usage, "beta": 3200}
    assert {row.external_subscription_id: row.old_cents for row in rows} == billed
    assert [row.difference_cents for row in rows] == [0, 0]
    assert {(row.start, row.end) for row in rows} == {(date(2024, 2, 1), date(2024, 2, 29))}


def test_fields_of_a_plan_are_priced_without_being_stored(box: Scenario) -> None:
    month_of_usage(box)
    charge = {"billable_metric_code": "calls", "charge_model": "standard", "properties": {"amount": "2"}}
    new = plan_fields(charge, code="basic", amount_cents=500)
    (acme, beta) = box.billing.plans.compare("basic", new)
    assert [(line.kind, line.new_cents) for line in acme.lines if line.new_cents] == [
        (LineKind.PLAN, 500),
        (LineKind.CHARGE, 2600),
    ]
    assert (acme.new_cents, beta.new_cents) == (500 + 2600, 500)
    assert [plan.code for plan in box.billing.plans.list()] == ["basic"]
    assert not [message for message in box.webhooks if message["webhook_type"] == "plan.created"][1:]


def test_part_of_a_month_pays_its_share(box: Scenario) -> None:
    month_of_usage(box)
    box.billing.subscriptions.terminate("beta")
    (_, beta) = box.billing.plans.compare("basic", plan_fields(amount_cents=3100), date(2024, 3, 1), date(2024, 3, 31))
    assert (beta.end, beta.new_cents) == (date(2024, 3, 5), share(3100, 5, 31))


def test_other_currencies_and_unknown_plans_are_refused(box: Scenario) -> None:
    month_of_usage(box)
    with pytest.raises(Invalid, match="the plans are in EUR and USD"):
        box.billing.plans.compare("basic", plan_fields(code="usd", amount_currency="USD"))
    with pytest.raises(NotFound, match='there is no plan "basik"; did you mean "basic"'):
        box.billing.plans.compare("basic", "basik")
    with pytest.raises(NotFound, match=r"charges\[0\].*no billable metric \"cals\"; did you mean \"calls\""):
        box.billing.plans.compare("basic", plan_fields({"billable_metric_code": "cals", "charge_model": "standard"}))


# From 1 February on, `basic` costs 10.00 and 0.50 a call: `one` makes 20 calls, `two` 4 and `three` none.
def three_on_basic(box: Scenario) -> None:
    metric = box.metric("calls", "sum_agg", field_name="n")
    box.plan(charge_on(metric, amount="0.5"), amount_cents=1000)
    for name, fields in (("one", {}), ("two", {"ending_at": "2024-12-31T23:59:59Z"}), ("three", {})):
        box.customer(external_id=name)
        box.subscribe(external_customer_id=name, external_id=name, **fields)
    box.travel_to("2024-02-10T00:00:00Z")
    box.event("calls", "one", n=20)
    box.event("calls", "two", n=4)
    box.travel_to("2024-03-05T00:00:00Z")


def changed_charge(box: Scenario, amount: str) -> list[ChargeFields]:
    charge = box.get("/plans/basic")["plan"]["charges"][0]
    return [{"id": charge["svc_id"], "charge_model": "standard", "properties": {"amount": amount}}]


def test_a_change_is_previewed_for_every_subscription(box: Scenario) -> None:
    three_on_basic(box)
    before = box.get("/plans/basic"), len(box.webhooks)
    # 20 calls: 10.00 + 10.00 before, 8.00 + 20.00 after; 4 calls: 12.00 and 12.00; none: 10.00 and 8.00.
    sent = {"plan": {"amount_cents": 800, "charges": changed_charge(box, "1")}}
    shown = box.ask("POST", "/plans/basic/preview_change", sent)["change_preview"]
    assert (shown["from_date"], shown["to_date"], shown["currency"]) == ("2024-02-01", "2024-02-29", "EUR")
    assert (shown["old_cents"], shown["new_cents"], shown["difference_cents"]) == (4200, 4800, 600)
    assert (shown["subscriptions_count"], shown["more_count"], shown["less_count"]) == (3, 1, 1)
    assert [(row["external_subscription_id"], row["difference_cents"]) for row in shown["largest"]] == [
        ("one", 800),
        ("three", -200),
    ]
    assert [(line["code"], line["old_cents"], line["new_cents"]) for line in shown["lines"]] == [
        (None, 3000, 2400),
        ("calls", 1200, 2400),
    ]
    assert (box.get("/plans/basic"), len(box.webhooks)) == before


def test_a_preview_names_those_whose_term_is_agreed(box: Scenario) -> None:
    three_on_basic(box)
    preview = box.billing.plans.preview_change("basic", amount_cents=1100)
    assert preview.difference_cents == 300
    assert [row.external_subscription_id for row in preview.fixed_terms] == ["two"]


def test_a_preview_of_another_month_and_of_months_that_cannot_be(box: Scenario) -> None:
    three_on_basic(box)
    january = box.billing.plans.preview_change("basic", amount_cents=1100, month="2024-01")
    # Without usage, each pays the fee alone.
    assert (january.old_cents, january.new_cents) == (3000, 3300)
    with pytest.raises(Invalid, match="it has not ended; the last that has is 2024-02"):
        box.billing.plans.preview_change("basic", amount_cents=1100, month="2024-03")
    with pytest.raises(Invalid) as refused:
        box.billing.plans.preview_change("basic", amount_cents=1100, month="March")
    assert refused.value.details == {"month": ["invalid_date"]}
    with pytest.raises(Invalid) as refused:
        box.billing.plans.preview_change("basic", amount_cents=-1)
    assert refused.value.details == {"amount_cents": ["value_is_out_of_range"]}


def test_subscriptions_with_prices_of_their_own_follow_cascades(box: Scenario) -> None:
    three_on_basic(box)
    box.billing.subscriptions.update("three", plan_overrides={"name": "Three's own"})
    alone = box.billing.plans.preview_change("basic", amount_cents=1100)
    assert (alone.more_count, alone.overridden_count) == (2, 1)
    with_own = box.billing.plans.preview_change("basic", amount_cents=1100, cascade_updates=True)
    assert (with_own.more_count, with_own.overridden_count) == (3, 1)


def test_what_is_previewed_is_what_the_change_comes_to(box: Scenario) -> None:
    three_on_basic(box)
    charges = changed_charge(box, "2.5")
    preview = box.billing.plans.preview_change("basic", amount_cents=100, charges=charges)
    box.billing.plans.update("basic", amount_cents=100, charges=charges)
    assert preview.new_cents == sum(row.old_cents for row in box.billing.plans.compare("basic", "basic"))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["compare", *arguments])


def test_the_command_prints_a_table_csv_and_json(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    with Billing(path) as billing:
        calls = billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="sum_agg", field_name="n")
        charge = {"billable_metric_id": calls.id, "charge_model": "standard", "properties": {"amount": "1"}}
        billing.plans.create(**plan_fields(charge, amount_cents=0))
        billing.customers.upsert(external_id="=acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="=acme", plan_code="basic", external_id="sub")
        billing.events.create(transaction_id="1", code="calls", external_subscription_id="sub", properties={"n": 5})
        today = billing.clock.now().date()
    other = tmp_path / "new.yaml"
    other.write_text(
        "plan:\n  name: New\n  code: new\n  interval: monthly\n  amount_cents: 0\n  amount_currency: EUR\n"
        "  pay_in_advance: false\n  charges:\n  - billable_metric_code: calls\n    charge_model: standard\n"
        '    properties: {amount: "3"}\n',
        "utf-8",
    )
    days = ("--from", str(today), "--to", str(today), "--db", path)
    table = run("basic", str(other), *days)
    assert table.exit_code == 0, table.output
    assert "5.00 EUR" in table.output
    assert "10.00 EUR" in table.output
    rows = list(csv.DictReader(run("basic", str(other), *days, "--format", "csv").output.splitlines()))
    assert [
        (row["code"], row["units"], row["old_cents"], row["new_cents"]) for row in rows if row["kind"] == "charge"
    ] == [("calls", "5.0", "500", "1500")]
    raw = list(csv.DictReader(run("basic", str(other), *days, "--format", "csv", "--raw").output.splitlines()))
    # No formula for a spreadsheet, as it is for programs.
    assert {row["external_customer_id"] for row in rows} == {"'=acme"}
    assert {row["external_customer_id"] for row in raw} == {"=acme"}
    shown = json.loads(run("basic", str(other), *days, "--format", "json").output)
    assert shown["total"]["difference_cents"] == 1000
    assert [row["external_customer_id"] for row in shown["subscriptions"]] == ["=acme"]
    listed = tmp_path / "prices.yaml"
    with Billing(path) as billing:
        listed.write_text(price_text(billing.prices.pull()).replace("amount: '1'", "amount: '3'"), "utf-8")
    of_list = json.loads(run("basic", str(listed), *days, "--format", "json").output)
    assert of_list["total"]["difference_cents"] == 1000
    listed.write_text("plans: []\n", "utf-8")
    assert "prices.yaml has no plan basic" in run("basic", str(listed), *days).output
    nothing = run("basic", str(other), "--db", path)
    assert "no subscription was active then" in nothing.output
