"""`usagebill prices`: price lists as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from tests.operations.test_price_lists import EVERYTHING, everything, simple

from usagebill import Billing
from usagebill.cli import main
from usagebill.cli.price_files import price_text, read_price_file


@pytest.fixture
def system(tmp_path: Path) -> str:
    path = str(tmp_path / "billing.db")
    Billing(path).close()
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["prices", *arguments])


def test_what_is_pulled_after_it_was_applied_is_the_same_file(system: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(price_text(EVERYTHING), "utf-8")
    applied = run("apply", str(file), "--db", system)
    assert applied.exit_code == 0, applied.output
    assert "plans pro: new" in applied.output
    assert run("pull", "--db", system).stdout == file.read_text("utf-8")
    assert run("diff", str(file), "--db", system).output == "nothing changes\n"
    prices = everything()
    prices["plans"][0]["amount_cents"] = 900
    file.write_text(price_text(prices), "utf-8")
    assert run("diff", str(file), "--db", system).output == "plans pro: amount_cents 1000 -> 900\n"
    assert run("apply", str(file), "--db", system).exit_code == 0
    assert run("pull", "--db", system).stdout == file.read_text("utf-8")


def test_a_rise_is_said_in_money_and_refused_without_a_word(system: str, tmp_path: Path) -> None:
    with Billing(system) as billing:
        billing.prices.apply(simple())
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme")
        billing.events.create(transaction_id="1", code="calls", external_subscription_id="acme", properties={"n": 20})
    prices = simple()
    prices["plans"][0]["charges"][0]["properties"]["amount"] = "0.75"
    file = tmp_path / "prices.yaml"
    file.write_text(price_text(prices), "utf-8")
    refused = run("apply", str(file), "--db", system)
    assert refused.exit_code == 1
    # 20 calls at 0.25 more.
    assert "1 of 1 subscriptions of plan pro would have paid 5.00 EUR more for this month so far" in refused.output
    wrong = run("apply", str(file), "--effective", "some day", "--db", system)
    assert wrong.exit_code == 1
    assert "effective" in wrong.output
    assert run("apply", str(file), "--effective", "2999-01-01", "--db", system).exit_code == 0
    assert run("diff", str(file), "--db", system).output.startswith("plans pro: charges[calls].properties.amount 0.5")
    assert run("apply", str(file), "--effective", "immediately", "--db", system).exit_code == 0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("plans:\n  - code: a\n    code: b\n", ":3:5: code is here twice"),
        ("plans: [\n", ":2:1: "),
        ("plans:\n  - code: pro\n    name: Pro\n    colour: red\n", ":4:5: plans[0].colour: "),
        ("plans:\n  - &a\n    code: pro\n    metadata:\n      x: *a\n", ":2:5: an alias of what it stands in"),
        ("plans:\n  - name: Pro\n", ":2:5: plans[0].code: "),
        (
            "plans:\n  - {name: P, code: p, interval: monthly, amount_cents: 1, amount_currency: EUR,\n"
            "     pay_in_advance: false, charges: [{code: c, charge_model: standard,\n"
            "       billable_metric_code: nope}]}\n",
            ':4:8: plans[0].charges[0].billable_metric_code: there is no billable metric "nope"',
        ),
        ("taxes:\n  - {code: vat, name: VAT, rate: 20}\n  - {code: low, name: Low,\n     rate: ten}\n", ":4:6: "),
    ],
)
def test_errors_name_line_and_column(system: str, tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text, "utf-8")
    refused = run("apply", str(file), "--db", system)
    assert refused.exit_code == 1
    assert f"prices.yaml{place}" in refused.output


def test_values_are_read_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "plans:\n  - code: no\n    name: 010\n    description: 2024-01-01\n    amount_cents: 12\n"
        "    trial_period: 2.50\n    pay_in_advance: false\n    metadata: ~\n",
        "utf-8",
    )
    (plan,) = read_price_file(file).content["plans"]
    assert {name: str(value) for name, value in plan.items()} == {
        "code": "no",
        "name": "010",
        "description": "2024-01-01",
        "amount_cents": "12",
        "trial_period": "2.50",
        "pay_in_advance": "False",
        "metadata": "None",
    }
    assert not [value for value in plan.values() if isinstance(value, float)]


def test_the_schema_accepts_price_lists_and_nothing_else() -> None:
    schema = json.loads(run("schema").output)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(EVERYTHING)] == []
    assert [error.message for error in validator.iter_errors(simple())] == []

    def wrong(change: Any) -> bool:
        prices = everything()
        change(prices)
        return not validator.is_valid(prices)

    assert wrong(lambda prices: prices.update(plan=[]))
    assert wrong(lambda prices: prices["plans"][0].update(id="x"))
    assert wrong(lambda prices: prices["plans"][0]["charges"][0].update(billable_metric_id="x"))
    assert wrong(lambda prices: prices["plans"][0]["charges"][0].pop("code"))
    assert wrong(lambda prices: prices["plans"][0].pop("interval"))
    assert wrong(lambda prices: prices["coupons"][0].update(frequency="often"))
