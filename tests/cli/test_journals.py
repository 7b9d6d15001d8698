"""Files for DATEV, QuickBooks and Xero say what the ledger says, read back by another program."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.test_export_books import Books, at

from usagebill.cli import main
from usagebill.cli.accounts import read_accounts
from usagebill.core.ledger import Account
from usagebill.fields import CreditNoteItemFields, OneOffFeeFields

MARCH = ("--from", "2026-03-01", "--to", "2026-04-01")
ACCOUNTS = """
receivable = "1410"
revenue = "8200; 40"
discount = "8200; 40"
customer_credit = "1719"
refunds_due = "1731"
prepaid_ordered = "1710"
prepaid_purchased = "1718"
prepaid_granted = "1718"
promotion = "4630"
provider_fees = "4970"
rounding = "8200; 40"

[tax]
"DE 20" = "1776"
other = "1767"

[cash]
manual = "1200"

[datev]
consultant = 29098
client = 55003
chart = "03"

[xero]
tax_rate = "No VAT"
"""
# The accounts above of each kind.
NUMBERS = dict(re.findall(r'^(\w+) = "(\d+)', ACCOUNTS, re.MULTILINE)) | {"tax": "1776", "cash": "1200"}


@pytest.fixture
def books(tmp_path: Path) -> Any:
    """Sales, a payment in parts, a credit note, bought and free credits in March; a void in April."""
    books = Books(tmp_path / "billing.db")
    with books.billing as billing:
        (books.folder / "accounts.toml").write_text(ACCOUNTS)
        sold, other = books.sell("koch", "a", "b"), books.sell("smith", "b")
        books.clock.set(at("2026-03-13"))
        billing.payments.create(invoice_id=sold.id, amount_cents=900, reference="Überweisung 7", paid_at="2026-03-12")
        item: CreditNoteItemFields = {"fee_id": sold.fees[0].id, "amount_cents": 100}
        cents = 120 if sold.fees[0].taxes_amount_cents else 100
        billing.credit_notes.create(invoice_id=sold.id, reason="other", credit_amount_cents=cents, items=[item])
        billing.wallets.create(
            external_customer_id="koch", rate_amount="1", currency="EUR", paid_credits="30", granted_credits="5"
        )
        billing.run_due()
        (top_up,) = billing.invoices.list(invoice_type="credit")
        billing.payments.create(invoice_id=top_up.id, amount_cents=3000, reference="bank")
        billing.run_due()
        books.clock.set(at("2026-04-20"))
        billing.invoices.void(other.id)
        yield books


def made(books: Books, program: str, *more: str, code: int = 0) -> bytes:
    """The file for a program; what was said if there is none."""
    target = books.folder / f"file.{program}"
    target.unlink(missing_ok=True)
    arguments = ["export", "ledger", "--db", books.path, "--format", program, "--output", str(target), *more]
    if "--accounts" not in more:
        arguments += ["--accounts", str(books.folder / "accounts.toml")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    assert target.exists() == (code == 0)
    assert list(books.folder.glob("*.part")) == []
    return target.read_bytes() if code == 0 else done.output.encode()


def posted(books: Books, *bounds: str) -> dict[str, Decimal]:
    """The sums of the ledger, by the numbers of accounts."""
    sums: Counter[str] = Counter()
    for row in books.table("ledger", *bounds):
        sums[NUMBERS[row["account"]]] += row["amount_cents"]
    return {account: Decimal(cents) / 100 for account, cents in sums.items() if cents}


def added(*parts: tuple[str, Decimal]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for account, amount in parts:
        sums[account] = sums.get(account, Decimal(0)) + amount
    return {account: amount for account, amount in sums.items() if amount}


@pytest.mark.parametrize("bounds", [(), MARCH])
def test_datev_has_what_the_ledger_has(books: Books, bounds: tuple[str, ...]) -> None:
    text = made(books, "datev", *bounds).decode("cp1252")
    assert text.endswith("\r\n")
    header, columns, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=";")
    assert (len(header), len(columns)) == (31, 125)
    assert header[:5] == ["EXTF", "700", "21", "Buchungsstapel", "13"]
    last = "20260420" if not bounds else "20260313"
    assert header[10:16] == ["29098", "55003", "20260101", "4", "20260310", last]
    assert (header[20], header[21], header[26]) == ("0", "EUR", "03")
    parts: list[tuple[str, Decimal]] = []
    for values in rows:
        row = dict(zip(columns, values, strict=True))
        amount = Decimal(row["Umsatz (ohne Soll/Haben-Kz)"].replace(",", "."))
        debit, credit = row["Konto"], row["Gegenkonto (ohne BU-Schlüssel)"]
        assert amount > 0
        assert row["Soll/Haben-Kennzeichen"] == "S"
        assert debit != credit
        assert row["BU-Schlüssel"] == ("40" if "8200" in (debit, credit) else "")
        assert f"2026{row['Belegdatum'][2:]}{row['Belegdatum'][:2]}" <= header[15]
        parts += [(debit, amount), (credit, -amount)]
    assert added(*parts) == posted(books, *bounds)
    (paid,) = (values for values in rows if "Überweisung" in values[13])
    assert (paid[0], paid[9], paid[13]) == ("9,00", "1203", "payment Überweisung 7 koch")
    # A payment is matched with its invoice.
    (sold,) = {values[10] for values in rows if values[13].startswith("invoice ") and values[13].endswith(" koch")} - {
        row["number"] for row in books.table("invoices") if row["invoice_type"] == "credit"
    }
    assert paid[10] == sold


@pytest.mark.parametrize("bounds", [(), MARCH])
def test_quickbooks_has_what_the_ledger_has(books: Books, bounds: tuple[str, ...]) -> None:
    rows = list(csv.DictReader(io.StringIO(made(books, "quickbooks", *bounds).decode())))
    assert list(rows[0]) == [
        *("Journal No", "Journal Date", "Account Name", "Debits", "Credits", "Description", "Name"),
    ]
    journals: dict[str, Decimal] = {}
    parts: list[tuple[str, Decimal]] = []
    for row in rows:
        assert bool(row["Debits"]) != bool(row["Credits"])
        assert len(row["Journal No"]) <= 21
        amount = Decimal(row["Debits"] or 0) - Decimal(row["Credits"] or 0)
        journals[row["Journal No"]] = journals.get(row["Journal No"], Decimal(0)) + amount
        parts.append((row["Account Name"].partition(";")[0], amount))
    assert set(journals.values()) == {0}
    groups = {row["group_id"] for row in books.table("ledger", *bounds)}
    assert len(journals) == len(groups)
    assert added(*parts) == posted(books, *bounds)
    assert {(row["Journal Date"], row["Name"]) for row in rows if row["Description"] == "payment Überweisung 7"} == {
        ("03/12/2026", "koch")
    }


@pytest.mark.parametrize("bounds", [(), MARCH])
def test_xero_has_what_the_ledger_has(books: Books, bounds: tuple[str, ...]) -> None:
    rows = list(csv.DictReader(io.StringIO(made(books, "xero", *bounds).decode())))
    days: dict[str, Decimal] = {}
    parts: list[tuple[str, Decimal]] = []
    for row in rows:
        amount = Decimal(row["*Amount"])
        days[row["*Date"]] = days.get(row["*Date"], Decimal(0)) + amount
        parts.append((row["*AccountCode"], amount))
        assert row["*Narration"] == f"Billing of {row['*Date']}"
        assert row["*TaxRate"] == ("40" if row["*AccountCode"] == "8200" else "No VAT")
    assert days == dict.fromkeys(["10 Mar 2026", "12 Mar 2026", "13 Mar 2026", *([] if bounds else ["20 Apr 2026"])], 0)
    assert added(*parts) == posted(books, *bounds)


def change(books: Books, number: str, text: str) -> None:
    file = books.folder / "accounts.toml"
    written = re.sub(number, text, file.read_text(), count=1)
    assert written != file.read_text()
    file.write_text(written)


@pytest.mark.parametrize(
    ("program", "before", "after", "said"),
    [
        ("datev", '"1410"', '"Debitoren"', '"Debitoren" is no account of DATEV'),
        ("datev", '"1410"', '"1410; 9"', "1410 and 8200 have two"),
        ("datev", "consultant = 29098", "", "numbers of consultant and client"),
        ("datev", 'chart = "03"', 'fiscal_year_begins = "1 April"', "fiscal_year_begins"),
        ("datev", 'chart = "03"', 'fiscal_year_begins = "04-01"', "choose days before or from 2026-04-01"),
        ("xero", 'receivable = "1410"', "", "names no account of receivable"),
        ("quickbooks", 'manual = "1200"', "", 'names no account of cash for "manual"'),
        (
            "quickbooks",
            'receivable = "1410"',
            "receivable = 1410",
            "receivable is to be the name of an account, in quotes",
        ),
        ("quickbooks", 'receivable = "1410"', 'receivable = {koch = "1"}', "receivable has one account"),
        ("quickbooks", "revenue", "sales", "no account sales; there are receivable"),
    ],
)
def test_accounts_that_a_program_does_not_have_are_refused(
    books: Books, program: str, before: str, after: str, said: str
) -> None:
    change(books, before, after)
    assert said in " ".join(made(books, program, code=2).decode().split())


def test_a_file_is_of_one_company_and_currency(books: Books) -> None:
    books.billing.add_ons.create(name="C", code="c", amount_cents=700, amount_currency="USD")
    books.billing.customers.upsert(external_id="doe", currency="USD", country="US")
    fees: list[OneOffFeeFields] = [{"add_on_code": "c", "units": 1}]
    books.billing.invoices.create_one_off(external_customer_id="doe", currency="USD", fees=fees)
    said = made(books, "xero", code=2).decode()
    assert "choose one of EUR, USD with --only currency=..." in " ".join(said.split())
    rows = list(csv.DictReader(io.StringIO(made(books, "xero", "--only", "currency=USD").decode())))
    assert [(row["*AccountCode"], row["*Amount"]) for row in rows] == [("1410", "7.00"), ("8200", "-7.00")]
    rest = list(csv.DictReader(io.StringIO(made(books, "xero", "--only", "currency=EUR").decode())))
    both = added(*((row["*AccountCode"], Decimal(row["*Amount"])) for row in (*rows, *rest)))
    assert both == posted(books)


def test_programs_have_their_limits(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usagebill.cli.journals._XERO_LINES", 3)
    assert b"take fewer days" in made(books, "xero", code=2)
    monkeypatch.setattr("usagebill.cli.journals._DATEV_ROWS", 3)
    assert b"take fewer days" in made(books, "datev", code=2)
    nothing = ("--from", "2020-01-01", "--to", "2020-02-01")
    assert b"nothing was posted" in made(books, "datev", *nothing, code=2)
    assert made(books, "xero", *nothing).count(b"\n") == 1


@pytest.mark.parametrize("program", ["datev", "quickbooks", "xero"])
def test_a_closed_month_gives_the_same_file_again(books: Books, program: str) -> None:
    billing = books.billing
    billing.ledger.close(month="2026-03")
    before = made(books, program, *MARCH)
    first, *_ = billing.invoices.list(external_customer_id="koch", invoice_type="one_off")
    billing.payments.create(invoice_id=first.id, amount_cents=100, reference="late", paid_at="2026-03-30")
    billing.invoices.void(first.id, generate_credit_note=True, refund_amount=880)
    (wallet,) = billing.wallets.list(external_customer_id="koch")
    billing.wallets.terminate(wallet.id)
    billing.customers.upsert(external_id="koch", name="Koch and Sons", country="FR")
    billing.customers.delete("smith")
    billing.customers.delete("koch")
    billing.billing_entities.update("default", timezone="America/Los_Angeles", name="Another")
    assert made(books, program, *MARCH) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "datev"), "needs --accounts"),
        (("--format", "datev", "--by", "account"), "is for the ledger and its movements"),
        (("--only", "colour=red"), "no column colour; there are posting_date"),
        (("--by", "colour"), "no column colour; there are posting_date"),
    ],
)
def test_options_that_do_not_fit_are_refused(books: Books, arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, ["export", "ledger", "--db", books.path, *arguments])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_sums_by_any_columns(books: Books) -> None:
    def sums(*arguments: str) -> list[dict[str, str]]:
        done = CliRunner().invoke(main, ["export", "ledger", "--db", books.path, "--output", "-", *arguments])
        assert done.exit_code == 0, done.output
        return list(csv.DictReader(io.StringIO(done.stdout)))

    by_account = sums("--by", "account")
    assert list(by_account[0])[:5] == ["account", "currency", "base_currency", "rows", "amount_cents"]
    # Nobody gave an exchange rate.
    assert {(row["base_currency"], row["base_amount_cents"], row["base_amount"]) for row in by_account} == {
        ("", "", "")
    }
    assert [row["account"] for row in by_account] == sorted(row["account"] for row in by_account)
    table: Counter[str] = Counter()
    for row in books.table("ledger"):
        table[row["account"]] += row["amount_cents"]
    assert {row["account"]: int(row["amount_cents"]) for row in by_account} == dict(table)
    assert all(Decimal(row["amount"]) * 100 == int(row["amount_cents"]) for row in by_account)
    assert sum(int(row["rows"]) for row in by_account) == len(books.table("ledger"))
    (cash,) = sums("--by", "provider", "--only", "account=cash", "--only", "currency=EUR")
    assert (cash["provider"], cash["amount"]) == ("manual", "39.0")
    assert [row["tax_rate"] for row in sums("--by", "tax_rate,account", *MARCH)][-1] == "20.0"
    assert sums("--only", "provider=")[0]["provider"] == ""


def test_accounts_of_the_docs_are_good_for_a_file(books: Books) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
    lines = docs[docs.index("    receivable = ") :].partition("A kind of account")[0]
    (books.folder / "accounts.toml").write_text(lines)
    text = made(books, "datev").decode("cp1252")
    assert text.startswith('"EXTF";700;21;"Buchungsstapel";13;')
    named = read_accounts(str(books.folder / "accounts.toml")).names
    assert set(named) == set(Account)


def test_sales_have_an_account_for_each_rate(books: Books) -> None:
    change(books, 'revenue = "8200; 40"\n', "")
    change(books, r"\[tax\]\n", '[revenue]\n"DE 20" = "8400; 40"\n"DE" = "8200"\nother = "8338"\n\n[tax]\n')
    rows = csv.DictReader(io.StringIO(made(books, "xero").decode()))
    sums = added(*((row["*AccountCode"], Decimal(row["*Amount"])) for row in rows))
    # 10.00 at 20 %, less 1.00 of a credit note; 5.00 without tax; 5.00 to the US, which were voided.
    assert [sums.get(account) for account in ("8400", "8200", "8338")] == [Decimal("-9"), Decimal("-5"), None]
