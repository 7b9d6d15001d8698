"""Archives: everything about a customer, and nothing about another, in one file."""

from __future__ import annotations

import json
import zipfile
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.json_asserts import missing
from tests.operations.test_erasure import sell
from tests.scenarios import Scenario

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.errors import NotFound
from usagebill.queries.belongings import OWNERS, belongings
from usagebill.storage.tables import TABLES, table_of

pytestmark = pytest.mark.now("2024-03-05T12:00:00Z")


def lines(content: bytes) -> dict[str, list[Any]]:
    with zipfile.ZipFile(BytesIO(content)) as files:
        return {
            name.removesuffix(".jsonl"): [json.loads(line) for line in files.read(name).splitlines()]
            for name in files.namelist()
            if name.endswith(".jsonl")
        }


def test_it_has_every_record_of_the_customer_and_of_no_other(box: Scenario) -> None:
    id = sell(box)
    other = box.customer("acme", name="Acme")["svc_id"]
    box.subscribe(customer="acme", external_id="other")
    box.event("calls", external_id="other", value=1)
    found = lines(box.billing.customers.archive("Zaphodia-7"))
    owned = [*box.billing.reading(lambda reader: [*belongings(reader, [id])])]
    assert {name: len(rows) for name, rows in found.items() if name not in ("events", "activity_logs")} == {
        name: sum(table_of(type(record)).name == name for record in owned)
        for name in {table_of(type(record)).name for record in owned} - {"documents"}
    }
    assert [row["id"] for row in found["customers"]] == [id]
    assert [row["transaction_id"] for row in found["events"]] == ["t1", "t2"]
    assert found["invoices"][0]["total_amount_cents"] == box.invoices("Zaphodia-7")[0]["total_amount_cents"]
    assert {row["activity_type"] for row in found["activity_logs"]} >= {"customer.created", "invoice.created"}
    assert other not in str(found)


def test_it_has_the_documents(box: Scenario) -> None:
    sell(box)
    with zipfile.ZipFile(BytesIO(box.billing.customers.archive("Zaphodia-7"))) as files:
        pdfs = [files.read(name) for name in files.namelist() if name.startswith("documents/invoice-")]
    assert pdfs
    assert all(pdf.startswith(b"%PDF") for pdf in pdfs)


def test_an_unknown_customer_has_none(box: Scenario) -> None:
    assert missing(box.send("GET", "/customers/nobody/archive")) == "customer"
    with pytest.raises(NotFound):
        box.billing.customers.archive("nobody")


def test_the_command_makes_documents_that_are_missing(tmp_path: Path) -> None:
    path, target = tmp_path / "billing.db", tmp_path / "ada.zip"
    with Billing(path, deliver=False) as billing:
        billing.customers.upsert(external_id="ada", currency="EUR")
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        billing.invoices.create_one_off(external_customer_id="ada", currency="EUR", fees=[{"add_on_code": "setup"}])
    result = CliRunner().invoke(main, ["customers", "archive", "ada", "-o", str(target), "--db", str(path)])
    assert result.exit_code == 0, result.output
    with zipfile.ZipFile(target) as files:
        assert [name for name in files.namelist() if name.startswith("documents/")]
    unknown = CliRunner().invoke(main, ["customers", "archive", "bob", "-o", str(tmp_path / "b"), "--db", str(path)])
    assert unknown.exit_code == 1
    assert "customer_not_found" in unknown.output
    assert not [*tmp_path.glob("b*.part")]


def test_columns_that_name_owners_are_columns() -> None:
    columns = {item.name for table in TABLES for item in fields(table.kind)}
    assert OWNERS.keys() <= columns
