"""`usagebill report` prints what the API answers, whatever the data."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.scenarios import charge_on, plan_fields

from usagebill import Billing
from usagebill.cli import main
from usagebill.cli.report import REPORTS
from usagebill.runtime.clock import ManualClock

HOSTILE = "[red]\x1b[31m東京\u202e"


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["report", *arguments])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


@pytest.fixture
def empty(tmp_path: Path) -> str:
    path = tmp_path / "billing.db"
    Billing(path).close()
    return str(path)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two months of a plan in yen and of one in euros, with a metric of a hostile name."""
    path = tmp_path_factory.mktemp("report") / "billing.db"
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    with Billing(path, clock=clock) as billing:
        metric = billing.billable_metrics.create(name="Calls", code=HOSTILE, aggregation_type="count_agg")
        charge = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "1000"}}
        for currency in ("EUR", "JPY"):
            plan = plan_fields(charge, code=currency, amount_cents=123_456, amount_currency=currency)
            billing.plans.create(**{**plan, "pay_in_advance": True})
            billing.customers.upsert(external_id=currency, currency=currency)
            billing.subscriptions.create(external_customer_id=currency, plan_code=currency, external_id=currency)
            billing.events.create(transaction_id=currency, code=HOSTILE, external_subscription_id=currency)
        while (due := billing.next_due()) is not None and due < datetime(2024, 2, 5, tzinfo=UTC):
            clock.set(max(clock.now(), due))
            billing.run_due(strict=True)
    return str(path)


def rows_of(file: str, name: str, **wanted: Any) -> list[dict[str, Any]]:
    with Billing(file, read_only=True) as billing:
        return [dict(billing.view(row)) for row in getattr(billing.analytics, name)(**wanted)]


def test_a_file_without_anything_has_empty_reports(empty: str) -> None:
    assert run("--db", empty).count("nothing") == len(REPORTS)
    assert run("gross_revenue", "--db", empty, "--csv", "-") == ""


def test_amounts_are_in_major_units_with_bars_by_currency(file: str) -> None:
    lines = run("gross_revenue", "--db", file).splitlines()
    january = {line.split()[3]: line.split()[4:] for line in lines if line.startswith("2024-01")}
    # In advance: 1,234.56 at once, and 1,000.00 of usage on top a month later.
    assert january["EUR"][0] == "1,234.56"
    assert january["JPY"][0] == "123,456"
    february = {line.split()[3]: line.split()[4:] for line in lines if line.startswith("2024-02")}
    assert february["EUR"][0] == "2,234.56"
    assert february["EUR"][1] == "█" * 24
    assert january["EUR"][1] == "█" * 13 + "▎"
    assert "default" in lines[2]


def test_every_report_is_printed_as_table_as_csv_and_as_json(file: str, tmp_path: Path) -> None:
    printed = run("--db", file)
    everything = json.loads(run("--db", file, "--json"))
    for name, about in REPORTS.items():
        rows = rows_of(file, name)
        assert about.title in printed
        assert everything[about.root] == json.loads(json.dumps(rows, default=str))
        target = tmp_path / f"{name}.csv"
        run(name, "--db", file, "--csv", str(target))
        text = target.read_text(encoding="utf-8")
        written = list(csv.DictReader(io.StringIO(text, newline="")))
        assert len(written) == len(rows)
        for line, row in zip(written, rows, strict=True):
            assert line["amount_cents"] == ("" if row["amount_cents"] is None else str(row["amount_cents"]))
            assert list(line) == list(row)


def test_nothing_of_a_name_reaches_the_terminal_as_a_command(file: str) -> None:
    printed = run("invoiced_usage", "--db", file)
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "[red]" in printed
    assert "東京" in printed
    # A program gets it as it is.
    assert rows_of(file, "invoiced_usage")[0]["code"] == HOSTILE
    assert HOSTILE in run("invoiced_usage", "--db", file, "--csv", "-")


def test_filters_are_those_of_the_api(file: str) -> None:
    shown = json.loads(run("gross_revenue", "--db", file, "--json", "--currency", "jpy", "--customer", "JPY"))
    assert {row["currency"] for row in shown["gross_revenues"]} == {"JPY"}
    assert json.loads(run("mrr", "--db", file, "--json", "--customer", "nobody", "--currency", "EUR")) == {"mrrs": []}
    dates = ("--by", "monthly", "--from", "2024-01-01", "--to", "2024-01-31", "--plan", "EUR")
    (usage,) = json.loads(run("usage", "--db", file, "--json", *dates))["usages"]
    assert (usage["start_of_period_dt"], usage["amount_cents"], usage["amount_currency"]) == (
        "2024-01-01",
        100_000,
        "EUR",
    )


def test_a_filter_that_a_report_does_not_know_is_refused(file: str) -> None:
    assert "mrr has no --plan" in run("mrr", "--db", file, "--plan", "EUR", code=2)
    assert "usage has no --months" in run("usage", "--db", file, "--months", "2", code=2)
    assert "name it" in run("--db", file, "--csv", "-", code=2)
    assert "invalid_date" in run("usage", "--db", file, "--from", "soon", code=1)
    assert "none/none.csv" in run("mrr", "--db", file, "--csv", "none/none.csv", code=1)


def test_months_without_anything_count_for_nothing(file: str) -> None:
    printed = run("mrr", "--db", file, "--at-most", "100")
    assert "before" not in printed
    lines = [line for line in run("mrr", "--db", file, "--at-most", "1").splitlines() if line.startswith("2024-")]
    assert len([line for line in lines if "EUR" in line or "JPY" in line]) == 1


def test_rows_that_are_left_out_are_counted(file: str) -> None:
    printed = run("gross_revenue", "--db", file, "--at-most", "1")
    assert "and 3 before: --at-most, --csv" in printed
    assert printed.count("2024-") == 1
    assert "and 1 more" in run("invoiced_usage", "--db", file, "--at-most", "1")


def test_units_below_zero_are_a_number_and_no_formula(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    with Billing(path, clock=clock) as billing:
        metric = billing.billable_metrics.create(name="GB", code="=gb", aggregation_type="sum_agg", field_name="gb")
        billing.plans.create(**plan_fields(charge_on(metric.id, amount="1")))
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        for day, units in ((2, 9), (3, -5)):
            clock.set(datetime(2024, 1, day, tzinfo=UTC))
            billing.events.create(
                transaction_id=str(day), code="=gb", external_subscription_id="sub", properties={"gb": units}
            )
        clock.set(datetime(2024, 2, 1, 1, tzinfo=UTC))
        billing.run_due(strict=True)
    days = ("--from", "2024-01-01", "--to", "2024-01-04")
    written = csv.DictReader(io.StringIO(run("usage", "--db", str(path), *days, "--csv", "-"), newline=""))
    assert [(row["units"], row["billable_metric_code"]) for row in written] == [("9.0", "'=gb"), ("-5.0", "'=gb")]
