"""`usagebill export` writes every stored row and digit, in each format."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow.parquet
import pytest
from beancount import loader
from click.testing import CliRunner
from tests.examples import mostly_slow
from tests.scenarios import plan_fields

from usagebill import Billing
from usagebill.cli import main
from usagebill.demo.quarter import Quarter
from usagebill.fields import MetricFilterFields
from usagebill.runtime.clock import ManualClock

HOSTILE = '=cmd|"x"!A1, "東京"\nnext'
KINDS = (
    *("invoices", "fees", "events", "payments", "credit_notes", "credits", "taxes", "ledger", "receivables"),
    "usage",
)


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["export", *arguments])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A month of a plan with usage in fractions of cents, a coupon, taxes, a payment and a hostile name."""
    path = tmp_path_factory.mktemp("export") / "billing.db"
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    with Billing(path, clock=clock) as billing:
        billing.taxes.create(name="VAT", code="vat", rate="20", applied_to_organization=True)
        metric = billing.billable_metrics.create(
            name="Calls", code="calls", aggregation_type="sum_agg", field_name="value"
        )
        charge = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "0.00012345"}}
        billing.plans.create(**plan_fields(charge, amount_cents=1000))
        billing.customers.upsert(external_id="acme", name=HOSTILE, currency="EUR")
        coupon: dict[str, Any] = {"coupon_type": "percentage", "percentage_rate": "10", "frequency": "forever"}
        billing.coupons.create(name="ten", code="ten", expiration="no_expiration", **coupon)
        billing.applied_coupons.apply(external_customer_id="acme", coupon_code="ten")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub", name="Main")
        for at in range(3):
            billing.events.create(
                transaction_id=f"t{at}",
                code="calls",
                external_subscription_id="sub",
                properties={"value": "12345678901.5", "note": HOSTILE},
            )
        while (due := billing.next_due()) is not None and due < datetime(2024, 2, 5, tzinfo=UTC):
            clock.set(max(clock.now(), due))
            billing.run_due(strict=True)
        (invoice,) = billing.invoices.list().items
        billing.payments.create(invoice_id=invoice.id, amount_cents=100, reference="by hand")
        billing.credit_notes.create(
            invoice_id=invoice.id,
            reason="other",
            description=HOSTILE,
            offset_amount_cents=108,
            items=[{"fee_id": invoice.fees[0].id, "amount_cents": 100}],
        )
    return str(path)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of any format."""
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    head, *lines = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
    return [dict(zip(head, line, strict=True)) for line in lines]


def exported(file: str, kind: str, path: Path, *more: str) -> list[dict[str, Any]]:
    run(kind, "--db", file, "--format", path.suffix[1:], "--output", str(path), *more)
    return read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_says_the_same(file: str, tmp_path: Path, kind: str) -> None:
    january = ("--from", "2024-01-01", "--to", "2024-02-01")
    assert_alike(file, tmp_path, kind, *(january if kind == "usage" else ()))


@pytest.fixture(scope="module")
def quarter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A quarter with refunds, wallets and fees in advance."""
    path = tmp_path_factory.mktemp("quarter") / "books.db"
    lived = Quarter(path)
    lived.live()
    lived.close()
    return str(path)


@pytest.mark.parametrize("more", [(), ("--by", "external_customer_id")])
@pytest.mark.parametrize("kind", ["refunds", "wallets", "deferred_revenue", "receivables", "taxes", "ledger"])
def test_every_format_says_the_same_of_a_quarter(
    quarter: str, tmp_path: Path, kind: str, more: tuple[str, ...]
) -> None:
    assert_alike(quarter, tmp_path, kind, *more)


def assert_alike(file: str, tmp_path: Path, kind: str, *when: str) -> None:
    as_csv, as_parquet, as_excel = (
        exported(file, kind, tmp_path / f"{kind}.{ending}", "--raw", *when) for ending in ("csv", "parquet", "xlsx")
    )
    assert len(as_csv) == len(as_parquet) == len(as_excel) > 0
    assert list(as_csv[0]) == list(as_parquet[0]) == list(as_excel[0])
    assert list(tmp_path.glob("*.part")) == []
    for plain, typed, shown in zip(as_csv, as_parquet, as_excel, strict=True):
        for name, text in plain.items():
            if isinstance(typed[name], (int, Decimal)):
                assert Decimal(text) == typed[name]
                assert float(text) == pytest.approx(float(shown[name]))
            elif isinstance(typed[name], str):
                assert text == typed[name] == shown[name]
            elif typed[name] is None:
                assert (text, shown[name]) == ("", None)


def test_rows_are_what_the_library_shows(file: str, tmp_path: Path) -> None:
    with Billing(file, read_only=True) as billing:
        (invoice,) = billing.invoices.list().items
        shown = billing.view(billing.invoices.get(invoice.id))
    (row,) = exported(file, "invoices", tmp_path / "i.parquet")
    for name in ("number", "total_amount_cents", "taxes_amount_cents", "total_due_amount_cents", "payment_status"):
        assert row[name] == shown[name]
    assert row["external_customer_id"] == "acme"
    fees = exported(file, "fees", tmp_path / "f.parquet")
    assert sum(fee["amount_cents"] for fee in fees) == shown["fees_amount_cents"]
    (usage,) = (fee for fee in fees if fee["fee_type"] == "charge")
    # A price of 0.00012345 and 37 billion units lose no digit.
    assert (usage["units"], usage["unit_amount"]) == (Decimal("37037036704.5"), Decimal("0.00012345"))
    events = exported(file, "events", tmp_path / "e.csv")
    assert {event["transaction_id"] for event in events} == {"t0", "t1", "t2"}
    assert {json.loads(event["properties"])["note"] for event in events} == {HOSTILE}
    (payment,) = exported(file, "payments", tmp_path / "p.csv")
    assert (payment["amount"], payment["reference"], payment["invoice_number"]) == ("1.0", "by hand", shown["number"])


def test_taxes_are_those_of_invoices_less_those_of_credit_notes(file: str, tmp_path: Path) -> None:
    with Billing(file, read_only=True) as billing:
        (invoice,) = billing.invoices.list().items
        (note,) = billing.credit_notes.list().items
    (shown,) = exported(file, "credit_notes", tmp_path / "n.parquet")
    assert (shown["number"], shown["invoice_number"]) == (note.number, invoice.number)
    assert (shown["total_amount_cents"], shown["taxes_amount_cents"]) == (108, note.taxes_amount_cents)
    path = tmp_path / "t.parquet"
    billed, credited = exported(file, "taxes", path)
    assert (billed["document_type"], billed["tax_code"], billed["tax_rate"]) == ("invoice", "vat", 20)
    assert billed["tax_amount_cents"] == invoice.taxes_amount_cents
    assert (credited["number"], credited["tax_amount_cents"]) == (note.number, -note.taxes_amount_cents)
    # A period of taxes is one of issuing dates, not of when a draft was made.
    month = ("--from", invoice.issuing_date.isoformat(), "--to", (invoice.issuing_date + timedelta(days=9)).isoformat())
    assert exported(file, "taxes", path, *month) == [billed, credited]
    assert exported(file, "taxes", path, "--to", invoice.issuing_date.isoformat()) == []


def test_focus_adds_up_to_the_invoice(file: str, tmp_path: Path) -> None:
    rows = exported(file, "fees", tmp_path / "focus.parquet", "--columns", "focus")
    with Billing(file, read_only=True) as billing:
        (invoice,) = billing.invoices.list().items
    assert {row["InvoiceId"] for row in rows} == {invoice.number}
    assert {row["BillingAccountName"] for row in rows} == {HOSTILE}
    billed = sum(row["BilledCost"] for row in rows)
    assert abs(billed * 100 - invoice.total_amount_cents) < 1
    assert sorted(row["ChargeCategory"] for row in rows) == ["Purchase", "Tax", "Tax", "Usage"]
    (usage,) = (row for row in rows if row["ChargeCategory"] == "Usage")
    assert (usage["ConsumedQuantity"], usage["ChargeFrequency"]) == (Decimal("37037036704.5"), "Usage-Based")
    # Coupons take a tenth, of what was rounded to whole cents.
    assert abs(usage["ListCost"] * 9 - usage["BilledCost"] * 10) < Decimal("0.05")
    assert (usage["ChargePeriodStart"].day, usage["ChargePeriodEnd"]) == (1, datetime(2024, 2, 1, tzinfo=UTC))
    taxes = [row for row in rows if row["ChargeCategory"] == "Tax"]
    assert all(row["PricingQuantity"] is None and row["BilledCost"] > 0 for row in taxes)


# The specification's columns: those that are never empty, and those with a list of values.
FOCUS_NEVER_NULL = [
    "BilledCost",
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargeCategory",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
]
FOCUS_VALUES = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"", "Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"Other"},
}
FOCUS_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")


def test_focus_keeps_to_its_specification(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    clock = ManualClock(datetime(2024, 1, 1, 12, 30, 15, 123456, tzinfo=UTC))
    with Billing(path, clock=clock) as billing:
        billing.taxes.create(name="VAT", code="vat", rate="20", applied_to_organization=True)
        filters: list[MetricFilterFields] = [{"key": "model", "values": ["small", "large", "new"]}]
        metric = billing.billable_metrics.create(
            name="Calls", code="calls", aggregation_type="count_agg", filters=filters
        )
        charge = {
            "billable_metric_id": metric.id,
            "charge_model": "standard",
            "properties": {"amount": "1"},
            "filters": [{"values": {"model": ["small", "large"]}, "properties": {"amount": "2"}}],
        }
        billing.plans.create(**plan_fields(charge, amount_cents=1000))
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
        for number, model in enumerate(("small", "new")):
            billing.events.create(
                transaction_id=str(number), code="calls", external_subscription_id="sub", properties={"model": model}
            )
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
        clock.set(datetime(2024, 2, 1, 1, tzinfo=UTC))
        billing.run_due(strict=True)
    rows = exported(str(path), "fees", tmp_path / "focus.csv", "--columns", "focus")
    assert {row["ChargeCategory"] for row in rows} == {"Usage", "Purchase", "Tax"}
    for row in rows:
        assert all(row[name] for name in FOCUS_NEVER_NULL), row
        assert all(row[name] in values for name, values in FOCUS_VALUES.items()), row
        for name in ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"):
            assert FOCUS_TIME.fullmatch(row[name])
        assert row["BillingPeriodStart"] < row["BillingPeriodEnd"]
        assert (row["SkuPriceId"] == "") == (row["ChargeCategory"] == "Tax")
    tags = [json.loads(row["Tags"]) for row in rows if row["Tags"]]
    assert {"model": "small, large"} in tags
    assert all(isinstance(value, str) for tag in tags for value in tag.values())


@pytest.mark.parametrize("ending", mostly_slow(["csv", "parquet", "xlsx"], "csv"))
@pytest.mark.parametrize("kind", [*KINDS, "refunds", "requested_invoices", "wallets"])
def test_a_table_without_rows_has_its_columns(tmp_path: Path, kind: str, ending: str) -> None:
    path = tmp_path / "billing.db"
    Billing(path).close()
    target = tmp_path / f"empty.{ending}"
    assert exported(str(path), kind, target) == []
    if ending == "csv":
        assert len(target.read_text().splitlines()[0].split(",")) > 5
    elif ending == "parquet":
        assert len(pyarrow.parquet.read_schema(target)) > 5


@pytest.mark.parametrize("kind", ["invoices", "fees", "events", "payments", "credit_notes", "credits", "taxes"])
def test_times_bound_what_was_made(file: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "all.csv"
    everything = exported(file, kind, path)
    assert exported(file, kind, path, "--from", "2023-12-31", "--to", "2025-01-01") == everything
    assert exported(file, kind, path, "--to", "2023-12-31") == []
    assert exported(file, kind, path, "--from", "2025-01-01") == []


def test_standard_output_is_the_table_alone(file: str) -> None:
    assert len(list(csv.DictReader(io.StringIO(run("events", "--db", file, "-o", "-"), newline="")))) == 3


def test_what_cannot_be_is_refused(file: str, tmp_path: Path) -> None:
    assert "only CSV" in run("events", "--db", file, "-o", "-", "--format", "xlsx", code=2)
    assert "is for fees" in run("events", "--db", file, "--columns", "focus", code=2)
    assert "not an ISO 8601 time" in run("events", "--db", file, "--from", "soon", code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_a_format_has_no_room_for_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    with Billing(path, clock=ManualClock(datetime(2024, 1, 1, tzinfo=UTC))) as billing:
        billing.billable_metrics.create(name="C", code="c", aggregation_type="sum_agg", field_name="value")
        billing.events.create(
            transaction_id="t", code="c", external_subscription_id="s", precise_total_amount_cents="1" + "0" * 30
        )
    refused = run("events", "--db", str(path), "--format", "parquet", "-o", str(tmp_path / "e.parquet"), code=1)
    assert "precise_total_amount_cents" in refused
    assert list(tmp_path.glob("e.*")) == []
    (row,) = exported(str(path), "events", tmp_path / "e.xlsx")
    assert row["precise_total_amount_cents"] == "1" + "0" * 30 + ".0"


def test_a_text_that_excel_would_cut_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "billing.db"
    with Billing(path) as billing:
        billing.events.create(transaction_id="t", code="c", properties={"note": "x" * 32_768})
    done = CliRunner().invoke(
        main, ["export", "events", "--db", str(path), "--format", "xlsx", "-o", str(tmp_path / "e")]
    )
    assert (done.exit_code, "properties has a text of" in done.output) == (1, True)
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name.startswith("e")) == []


WRITERS = [
    *(["export", "invoices", "--format", form, "--output"] for form in ("csv", "parquet", "xlsx")),
    ["report", "mrr", "--csv"],
]


@pytest.mark.parametrize("command", WRITERS, ids=" ".join)
def test_every_file_that_a_command_writes_is_its_owners_alone(file: str, tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "written"
    before = os.umask(0)
    try:
        done = CliRunner().invoke(main, [*command, str(path), "--db", file])
    finally:
        os.umask(before)
    assert done.exit_code == 0, done.output
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_texts_of_events_are_no_formulas_either(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    with Billing(path) as billing:
        billing.events.create(transaction_id="=1+2", code="+1", external_subscription_id="@a")
    options: list[str]
    for options, mark in (([], "'"), (["--raw"], "")):
        (row,) = exported(path, "events", tmp_path / "events.csv", *options)
        shown = [row[name] for name in ("transaction_id", "code", "external_subscription_id")]
        assert shown == [f"{mark}=1+2", f"{mark}+1", f"{mark}@a"]


@pytest.mark.parametrize("name", ["=1+2", "+1", "-1", "@SUM(1)", "\t=1", "'=1", "it's"])
def test_no_text_of_a_csv_file_is_a_formula(tmp_path: Path, name: str) -> None:
    database = str(tmp_path / "billing.db")
    with Billing(database) as billing:
        billing.customers.upsert(external_id=name, currency="EUR")
        billing.add_ons.create(name="A", code="a", amount_cents=100, amount_currency="EUR")
        billing.invoices.create_one_off(external_customer_id=name, fees=[{"add_on_code": "a", "units": 1}])
    path = tmp_path / "invoices.csv"
    path.touch(mode=0o644)
    (shown,) = exported(database, "invoices", path)
    assert shown["external_customer_id"] == (name if name == "it's" else f"'{name}")
    assert path.stat().st_mode & 0o777 == 0o600
    (raw,) = exported(database, "invoices", path, "--raw")
    assert raw["external_customer_id"] == name
    # Numbers are no texts.
    assert shown["total_amount_cents"] == raw["total_amount_cents"] == "100"


def test_the_ledger_is_exported_by_the_day_of_posting_and_its_months_are_closed(file: str, tmp_path: Path) -> None:
    def days(*bounds: str) -> list[str]:
        rows = csv.DictReader(io.StringIO(run("ledger", "--db", file, "--output", "-", *bounds)))
        found = list(rows)
        assert sum(int(row["amount_cents"]) for row in found) == 0
        return [row["posting_date"] for row in found]

    everything = days()
    assert everything == sorted(everything)
    assert days("--from", "2024-02-01", "--to", "2024-03-01") == [day for day in everything if day[:7] == "2024-02"]
    assert "2024-02-01" in everything
    book = tmp_path / "books.beancount"
    run("ledger", "--db", file, "--format", "beancount", "--output", str(book))
    assert loader.load_file(str(book))[1] == []
    assert os.stat(book).st_mode & 0o777 == 0o600
    assert "is for the ledger" in run("fees", "--db", file, "--format", "beancount", code=2)
    assert "is for --format beancount" in run("ledger", "--db", file, "--accounts", "x.toml", code=2)


def test_books_are_closed_by_month(file: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(file).read_bytes())

    def books(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["books", *arguments, "--db", str(copy)])
        assert done.exit_code == code, done.output
        return done.output.strip()

    assert books("status") == "no month is closed"
    assert "is not a month that is over" in books("close", "2024-13", code=2)
    assert "is not a month that is over" in books("close", "9999-12", code=2)
    assert books("close", "2024-01") == "closed until 2024-01-31"
    assert books("close", "2024-01", "--json") == '{\n  "last_day": "2024-01-31"\n}'
    assert books("status") == "closed until 2024-01-31"
