"""A one-off invoice with many lines is built while others can write, and is never built from what has changed since."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from usagebill import Billing
from usagebill.core import one_off_requests
from usagebill.core.errors import Invalid
from usagebill.fields import OneOffFeeFields
from usagebill.operations.invoices import one_off
from usagebill.runtime.clock import ManualClock

LINES = 100


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "billing.db"


@pytest.fixture
def billing(file: Path) -> Iterator[Billing]:
    with Billing(file, clock=ManualClock(datetime(2024, 3, 5, 10, tzinfo=UTC)), deliver=False) as billing:
        billing.taxes.create(name="VAT", code="vat", rate="20", applied_to_organization=True)
        billing.customers.upsert(external_id="acme")
        billing.add_ons.create(name="Hour", code="hour", amount_cents=100, amount_currency="EUR")
        yield billing


def invoiced(billing: Billing) -> Any:
    lines: list[OneOffFeeFields] = [{"add_on_code": "hour"}] * LINES
    return billing.invoices.create_one_off(external_customer_id="acme", currency="EUR", fees=lines)


def watched(monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
    """Have `look` called as each line is built."""
    build = one_off_requests.one_off_fee

    def seen(*arguments: Any) -> Any:
        look()
        return build(*arguments)

    monkeypatch.setattr(one_off, "one_off_fee", seen)


def test_its_lines_are_built_while_others_can_write(
    billing: Billing, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = 0

    def can_write() -> None:
        nonlocal built
        built += 1
        connection = sqlite3.connect(file, timeout=0, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        connection.close()

    watched(monkeypatch, can_write)
    invoice = invoiced(billing)
    assert built == LINES
    assert (invoice.number[-3:], invoice.total_amount_cents) == ("001", LINES * 120)
    assert len(billing.view(invoice)["fees"]) == LINES
    assert billing.customers.get("acme").currency == "EUR"
    assert list(billing.audit().findings) == []


def test_what_changes_meanwhile_counts(billing: Billing, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = ["10"]

    def change_once() -> None:
        if rates:
            with Billing(file, clock=billing.clock, deliver=False) as another:
                another.taxes.update("vat", rate=rates.pop())

    watched(monkeypatch, change_once)
    assert invoiced(billing).total_amount_cents == LINES * 110
    assert list(billing.audit().findings) == []


def test_a_refusal_leaves_the_customer_as_it_was(billing: Billing) -> None:
    lines: list[OneOffFeeFields] = [{"add_on_code": "hour"}] * LINES
    with pytest.raises(Invalid):
        billing.invoices.create_one_off(external_customer_id="acme", currency="USD", fees=lines)
    assert billing.customers.get("acme").currency is None
