"""The ledger in the currency of the billing entity's books, by rates that are given with their day."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from beancount import loader
from click import UsageError
from hypothesis import given, strategies as st
from tests.scenarios import Scenario

from usagebill.cli.accounts import read_accounts
from usagebill.cli.beancount import beancount, beancount_accounts
from usagebill.cli.journals import journals
from usagebill.core.exchange_rates import ExchangeRate, converted
from usagebill.core.ledger import Movement
from usagebill.operations.audit import audit
from usagebill.operations.exports import EXPORTS
from usagebill.runtime.work import Work
from usagebill.storage.conditions import asc, eq

pytestmark = pytest.mark.now("2024-03-01T00:00:00Z")


@pytest.fixture
def box(box: Scenario) -> Scenario:
    """Books in USD, one EUR being 1.10 of them and from 10 March on 1.20, and an invoice over 119.00 EUR."""
    box.entity(default_currency="USD")
    rate(box, "1.10", "2024-01-01")
    rate(box, "1.20", "2024-03-10")
    box.customer(country="DE", currency="EUR")
    box.tax(19)
    bill(box)
    return box


def rate(box: Scenario, number: object, day: str | None = None, status: int = 200, **fields: Any) -> Any:
    sent = {"currency": "EUR", "rate": number, **({} if day is None else {"valid_from": day}), **fields}
    return box.post("/exchange_rates", status, exchange_rate=sent)


def bill(box: Scenario, cents: int = 10000) -> str:
    if not box.get("/add_ons")["add_ons"]:
        box.add_on()
    fee = {"add_on_code": "setup", "unit_amount_cents": cents, "units": 1}
    made = box.post("/invoices", invoice={"external_customer_id": "acme", "currency": "EUR", "fees": [fee]})
    return str(made["invoice"]["svc_id"])


def pay(box: Scenario, cents: int, paid_at: str) -> None:
    (invoice,) = box.invoices()
    payment = {"invoice_id": invoice["svc_id"], "amount_cents": cents, "reference": "bank", "paid_at": paid_at}
    box.post("/payments", payment=payment)


def posted(box: Scenario, **filters: str) -> dict[str, tuple[int, int | None]]:
    """The balances by account, in both currencies."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    balances: dict[str, tuple[int, int | None]] = {}
    for one in box.get(f"/ledger?per_page=100&{query}")["movements"]:
        cents, base = balances.get(one["account"], (0, 0))
        more = one["base_amount_cents"]
        balances[one["account"]] = (cents + one["amount_cents"], None if base is None or more is None else base + more)
    return balances


def assert_balanced(box: Scenario) -> None:
    sums: Counter[str] = Counter()
    for movement in box.billing.reading(lambda reader: reader.tx.find(Movement, order=[asc("id")])):
        sums[movement.group_id] += movement.base_amount_cents or 0
    assert not any(sums.values())
    assert box.billing.audit().findings == ()


def test_a_sale_is_converted_at_the_rate_of_its_day(box: Scenario) -> None:
    assert posted(box) == {"receivable": (11900, 13090), "revenue": (-10000, -11000), "tax": (-1900, -2090)}
    movement = box.get("/ledger")["movements"][0]
    assert (movement["base_currency"], movement["exchange_rate"]) == ("USD", "1.1")
    assert_balanced(box)


def test_a_debt_that_is_paid_at_another_rate_leaves_a_gain(box: Scenario) -> None:
    box.travel_to("2024-03-12T00:00:00Z")
    pay(box, 11900, "2024-03-11")
    assert posted(box, document_type="payment") == {
        "cash": (11900, 14280),
        "receivable": (-11900, -13090),
        "exchange": (0, -1190),
    }
    assert posted(box)["receivable"] == (0, 0)
    assert_balanced(box)


def test_a_part_is_converted_at_its_day_and_the_last_one_settles_the_debt(box: Scenario) -> None:
    box.travel_to("2024-03-12T00:00:00Z")
    pay(box, 1900, "2024-03-05")
    pay(box, 5000, "2024-03-11")
    assert posted(box)["receivable"] == (5000, 13090 - 2090 - 6000)
    assert "exchange" not in posted(box)
    pay(box, 5000, "2024-03-11")
    assert posted(box)["receivable"] == (0, 0)
    assert posted(box)["exchange"] == (0, -(2090 + 6000 + 6000 - 13090))
    assert_balanced(box)


def test_a_void_takes_back_what_was_posted(box: Scenario) -> None:
    box.travel_to("2024-03-12T00:00:00Z")
    (invoice,) = box.invoices()
    box.post(f"/invoices/{invoice['svc_id']}/void")
    assert set(posted(box).values()) == {(0, 0)}
    assert "exchange" not in posted(box)
    assert_balanced(box)


def test_without_a_rate_nothing_is_converted_and_the_own_currency_needs_none() -> None:
    box = Scenario("2024-03-01T00:00:00Z")
    with box:
        box.entity(default_currency="USD")
        box.customer(currency="EUR")
        bill(box)
        assert posted(box) == {"receivable": (10000, None), "revenue": (-10000, None)}
        # What was posted stays as it is, and nobody knows what was gained on it.
        assert rate(box, "1.5")["exchange_rate"]["valid_from"] == "2024-03-01"
        assert posted(box) == {"receivable": (10000, None), "revenue": (-10000, None)}
        pay(box, 10000, "2024-03-01")
        assert posted(box, document_type="payment") == {"cash": (10000, 15000), "receivable": (-10000, -15000)}
        assert_balanced(box)
        box.entity(default_currency="EUR")
        bill(box)
        (movement, *_) = box.get("/ledger?account=receivable")["movements"][::-1]
        assert (movement["base_amount_cents"], movement["base_currency"], movement["exchange_rate"]) == (
            10000,
            "EUR",
            None,
        )


def test_the_rate_of_a_day_is_set_again_and_listed(box: Scenario) -> None:
    rate(box, "1.25", "2024-03-10")
    listed = box.get("/exchange_rates?currency=EUR")["exchange_rates"]
    assert [(one["valid_from"], one["rate"], one["base_currency"]) for one in listed] == [
        ("2024-03-10", "1.25", "USD"),
        ("2024-01-01", "1.1", "USD"),
    ]
    assert box.get("/exchange_rates?currency=GBP")["exchange_rates"] == []
    assert box.get("/exchange_rates?billing_entity_code=nobody", 404)["code"] == "billing_entity_not_found"
    made = box.billing.exchange_rates.create(currency="GBP", rate="1.3")
    assert [one.id for one in box.billing.exchange_rates.list(currency="GBP")] == [made.id]


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"currency": "USD"}, {"currency": ["value_is_invalid"]}),
        ({"currency": "XXX"}, {"currency": ["value_is_invalid"]}),
        ({"currency": None, "rate": None}, {"currency": ["value_is_mandatory"], "rate": ["value_is_mandatory"]}),
        ({"rate": "0"}, {"rate": ["value_is_out_of_range"]}),
        ({"rate": "-1"}, {"rate": ["value_is_out_of_range"]}),
        ({"valid_from": "2024-02-30"}, {"valid_from": ["invalid_date"]}),
    ],
)
def test_a_rate_that_is_none_is_refused(box: Scenario, fields: dict[str, Any], refused: dict[str, list[str]]) -> None:
    before = box.get("/exchange_rates")
    sent = {"currency": "EUR", "rate": "1.3", **fields}
    answer = box.post("/exchange_rates", 422, exchange_rate=sent)
    assert answer["error_details"] == refused
    assert box.get("/exchange_rates") == before
    assert rate(box, "1.3", None, 404, billing_entity_code="nobody")["code"] == "billing_entity_not_found"


def test_tables_have_both_currencies_and_beancount_accepts_them(box: Scenario, tmp_path: Path) -> None:
    box.travel_to("2024-03-12T00:00:00Z")
    pay(box, 11900, "2024-03-11")
    table, book = EXPORTS["ledger"], tmp_path / "books.beancount"
    rows = box.billing.reading(lambda reader: list(table.rows(reader, None, None)))
    (gain,) = (row for row in rows if row["account"] == "exchange")
    assert (gain["amount"], gain["base_amount"], gain["base_currency"]) == (0, Decimal("-11.9"), "USD")
    with beancount(str(book), list(table.columns), beancount_accounts(None)) as file:
        for row in rows:
            file.write([row[name] for name in table.columns])
    entries, errors, _ = loader.load_file(str(book))
    assert errors == []
    gains = [
        posting.units
        for entry in entries
        for posting in getattr(entry, "postings", ())
        if posting.account == "Income:Exchange"
    ]
    assert [(units.number, units.currency) for units in gains] == [(Decimal("-11.9"), "USD")]


@given(
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=6),
    st.decimals("0.0001", "10000", places=4),
    st.sampled_from(["EUR", "JPY", "KWD"]),
)
def test_a_group_that_sums_to_zero_does_so_in_both_currencies(parts: list[int], number: Decimal, currency: str) -> None:
    day = datetime(2024, 3, 1, tzinfo=UTC)
    at = ExchangeRate(
        id="r",
        organization_id="o",
        billing_entity_id="e",
        currency=currency,
        base_currency="USD",
        rate=number,
        valid_from=day.date(),
        created_at=day,
        updated_at=day,
    )
    cents = [*parts, -sum(parts)]
    based = converted(cents, at)
    assert sum(based) == 0
    scale = Decimal({"EUR": "1", "JPY": "100", "KWD": "0.1"}[currency])
    for part, base in zip(cents, based, strict=True):
        assert abs(base - part * scale * number) <= len(cents)


def test_a_rate_is_deleted_unless_its_month_is_closed(box: Scenario) -> None:
    box.travel_to("2024-04-02T00:00:00Z")
    rate(box, "1.30", "2024-04-01")
    before = posted(box)
    latest, of_march, of_january = box.get("/exchange_rates")["exchange_rates"]
    assert box.delete(f"/exchange_rates/{latest['svc_id']}")["exchange_rate"]["rate"] == "1.3"
    assert box.delete(f"/exchange_rates/{latest['svc_id']}", 404)["code"] == "exchange_rate_not_found"
    assert posted(box) == before
    # That of March holds again.
    bill(box)
    assert posted(box, from_date="2024-04-01")["receivable"] == (11900, 14280)

    box.billing.ledger.close(month="2024-02")
    box.billing.exchange_rates.delete(of_march["svc_id"])
    refused = box.delete(f"/exchange_rates/{of_january['svc_id']}", 405)
    assert refused["code"] == "month_is_closed"
    assert rate(box, "9", "2024-01-01", 405)["code"] == "month_is_closed"
    assert box.get("/exchange_rates")["exchange_rates"] == [of_january]
    assert rate(box, "1.4", "2024-04-02")["exchange_rate"]["rate"] == "1.4"
    assert_balanced(box)


@pytest.mark.parametrize("program", ["quickbooks", "xero", "datev"])
def test_journals_are_in_the_currency_of_the_books(box: Scenario, tmp_path: Path, program: str) -> None:
    box.travel_to("2024-03-12T00:00:00Z")
    pay(box, 11900, "2024-03-11")
    box.customer("smith", currency="USD")
    box.post(
        "/invoices",
        invoice={
            "external_customer_id": "smith",
            "currency": "USD",
            "fees": [{"add_on_code": "setup", "unit_amount_cents": 700}],
        },
    )
    table, named, made = EXPORTS["ledger"], tmp_path / "accounts.toml", tmp_path / "made"
    numbers = {account: str(1000 + at) for at, account in enumerate(posted(box))}
    named.write_text(
        "\n".join(f'{account} = "{number}"' for account, number in numbers.items())
        + "\n[datev]\nconsultant = 1\nclient = 2\n"
    )
    rows = box.billing.reading(lambda reader: list(table.rows(reader, None, None)))
    assert {row["currency"] for row in rows} == {"EUR", "USD"}

    def written(some: Any) -> str:
        with journals(str(made), program, list(table.columns), read_accounts(str(named))) as file:
            for row in some:
                file.write([row[name] for name in table.columns])
        return made.read_bytes().decode("cp1252" if program == "datev" else "utf-8")

    text = written(rows)
    sums: Counter[str] = Counter()
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=";" if program == "datev" else ","))
    for line in lines[2:] if program == "datev" else lines[1:]:
        if program == "datev":
            amount = round(Decimal(line[0].replace(",", ".")) * 100)
            sums[line[6]] += amount
            sums[line[7]] -= amount
            assert line[2] == "USD"
        elif program == "quickbooks":
            sums[line[2]] += round((Decimal(line[3] or 0) - Decimal(line[4] or 0)) * 100)
        else:
            sums[line[3]] += round(Decimal(line[5]) * 100)
    worth = {numbers[account]: base for account, (_, base) in posted(box).items()}
    assert {number: sums[number] for number in worth} == worth
    assert worth[numbers["exchange"]] == -1190
    if program != "xero":
        assert "119.00 EUR at 1.2" in text

    # What nobody can convert is in its own currency, alone.
    unknown = [{**row, "base_currency": None} if row["currency"] == "EUR" else row for row in rows]
    with pytest.raises(UsageError, match="no exchange rate was known for some of EUR"):
        written(unknown)
    assert "119.00" in written([row for row in unknown if row["currency"] == "EUR"]).replace(",", ".")


@pytest.mark.parametrize("own", [True, False])
def test_an_amount_in_the_books_that_is_wrong_is_found(box: Scenario, own: bool) -> None:
    box.travel_to("2024-03-12T00:00:00Z")
    if own:
        (entity,) = box.get("/billing_entities")["billing_entities"]
        box.put(f"/billing_entities/{entity['code']}", billing_entity={"default_currency": "EUR"})
        bill(box)
    else:
        pay(box, 11900, "2024-03-11")

    def doubled(work: Work) -> tuple[str, ...]:
        of = ("base_currency", "EUR") if own else ("document_type", "payment")
        for movement in work.tx.find(Movement, eq(*of)):
            work.tx.replace(replace(movement, base_amount_cents=2 * (movement.base_amount_cents or 0)))
        return tuple(finding.detail for finding in audit(work).findings)

    found = set(box.billing.writing(doubled))
    accounts = {f"{account} in the books' own currency" for account in ("receivable", "revenue", "tax")}
    assert found == (accounts if own else {"what a settled debt is worth"})
