"""The ledger as journals that DATEV, QuickBooks and Xero import.

The formats: DATEV's Buchungsstapel, version 13, as described at https://developer.datev.de/datev/platform/en/dtvf;
QuickBooks Online's import of journal entries, at
https://quickbooks.intuit.com/learn-support/en-au/help-article/import-export-files/import-journal-entries-quickbooks-online/L4tQBwbs7_AU_en_AU;
Xero's import of manual journals, at https://help.xero.com/nz/ManualJournalsImport.

A file depends on nothing but its movements and accounts: that of a closed month is the same each time it is written.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import click

from usagebill.cli.accounts import Accounts, Row, value_text
from usagebill.cli.export_files import harmless, make_private
from usagebill.core.currencies import exponent, major_from_cents

T = TypeVar("T")
_DECIMALS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """What a journal posts to an account, in cents: a debit if positive. `tax_key` is what the file of accounts names
    after a semicolon.
    """

    account: str
    tax_key: str
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The movements of a group, by account. They sum to zero; accounts that they leave as they were are left out."""

    group_id: str
    day: date
    document_date: date
    document_type: str
    number: str
    invoice: str
    customer: str
    currency: str
    created_at: datetime
    postings: tuple[Posting, ...]
    # What it was in the document's currency: `119.00 GBP at 1.1712`.
    converted_from: str | None = None

    @property
    def text(self) -> str:
        """What was posted: `credit note LUM-1-CN001`."""
        return f"{self.document_type.replace('_', ' ')} {self.number}"


Written = tuple[str, str]  # the file, and its encoding


@contextmanager
def journals(path: str, program: str, columns: Sequence[str], accounts: Accounts) -> Iterator[JournalSink]:
    """A file that the program imports, complete when the block ends and readable by its owner alone.

    Raises `click.UsageError` for movements that no one file of the program can hold.
    """
    sink = JournalSink(columns)
    yield sink
    text, encoding = PROGRAMS[program](list(_journals(sink.rows, accounts)), accounts)
    make_private(path)
    Path(path).write_bytes(text.encode(encoding, errors="replace"))


class JournalSink:
    """Movements, kept until the last has come. Those of a group follow each other."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self.rows: list[Row] = []

    def write(self, values: Sequence[object]) -> None:
        """Add a movement."""
        self.rows.append(dict(zip(self._columns, values, strict=True)))


def _journals(rows: Sequence[Row], accounts: Accounts) -> Iterator[Journal]:
    # In the books' own currency, if every movement is known in it.
    unknown = sorted({str(row["currency"]) for row in rows if row["base_currency"] is None})
    is_based = not unknown
    currency, cents = ("base_currency", "base_amount_cents") if is_based else ("currency", "amount_cents")
    for name in (currency, "billing_entity"):
        several = sorted({str(row[name]) for row in rows})
        if len(several) > 1:
            rates = "" if is_based else f" (no exchange rate was known for some of {', '.join(unknown)})"
            raise click.UsageError(
                f"a file holds one {name}{rates}: choose one of {', '.join(several)} with --only {name}=..."
            )
    for _, group in groupby(rows, key=lambda row: row["group_id"]):
        movements = list(group)
        first = movements[0]
        number = str(first["number"] or first["document_id"])
        journal = Journal(
            group_id=str(first["group_id"]),
            day=_of(date, first["posting_date"]),
            document_date=_of(date, first["document_date"]),
            document_type=str(first["document_type"]),
            number=number,
            invoice=_invoice_of(movements) or number,
            customer=str(first["external_customer_id"] or ""),
            currency=str(first[currency]),
            created_at=_of(datetime, first["created_at"]),
            postings=_postings(movements, accounts, cents),
            converted_from=_converted_from(movements) if is_based else None,
        )
        if journal.postings:
            yield journal


def _invoice_of(movements: Sequence[Row]) -> str | None:
    """The number of the one invoice whose debt the movements change."""
    numbers = {str(movement["invoice_number"]) for movement in movements if movement["invoice_number"] is not None}
    return numbers.pop() if len(numbers) == 1 else None


def _converted_from(movements: Sequence[Row]) -> str | None:
    """The debits in another currency than that of the books, and the rate of the day."""
    first = movements[0]
    if first["exchange_rate"] is None:
        return None
    currency = str(first["currency"])
    debits = sum(max(0, _of(int, movement["amount_cents"])) for movement in movements)
    return f"{_amount(debits, currency)} {currency} at {value_text(first['exchange_rate'])}"


def _postings(movements: Sequence[Row], accounts: Accounts, column: str) -> tuple[Posting, ...]:
    sums: dict[str, int] = {}
    for movement in movements:
        if not movement[column]:
            # An exchange gain is nothing in the document's currency, and needs no account there.
            continue
        name = accounts.name(movement, value_text)
        sums[name] = sums.get(name, 0) + _of(int, movement[column])
    made = []
    for name, amount in sorted(sums.items()):
        account, _, key = name.partition(";")
        if amount:
            made.append(Posting(account=account.strip(), tax_key=key.strip(), cents=amount))
    return tuple(made)


def _of(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _amount(cents: int, currency: str) -> str:
    """An amount in major units, with as many decimals as the currency has and at least two."""
    return f"{major_from_cents(cents, currency):.{max(_DECIMALS, exponent(currency))}f}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


# QuickBooks

QUICKBOOKS_COLUMNS = ("Journal No", "Journal Date", "Account Name", "Debits", "Credits", "Description", "Name")
# Numbers of journals have at most 21 characters; the last ones of an id tell it from all others.
_NUMBER = 20


def _quickbooks(made: Sequence[Journal], accounts: Accounts) -> Written:
    """A journal for each group. A line's name, which QuickBooks wants for debts, is the customer's external id."""
    rows = []
    for journal in made:
        number = journal.group_id.replace("-", "")[-_NUMBER:]
        for posting in journal.postings:
            amount = _amount(abs(posting.cents), journal.currency)
            text = journal.text if journal.converted_from is None else f"{journal.text}, {journal.converted_from}"
            sides = (amount, "") if posting.cents > 0 else ("", amount)
            customer = str(harmless(journal.customer))
            rows.append((number, f"{journal.day:%m/%d/%Y}", posting.account, *sides, text, customer))
    return _table(QUICKBOOKS_COLUMNS, rows), "utf-8"


# Xero

XERO_COLUMNS = (
    *("*Narration", "*Date", "Description", "*AccountCode", "*TaxRate", "*Amount"),
    *("TrackingName1", "TrackingOption1", "TrackingName2", "TrackingOption2"),
)
_XERO_LINES = 300
_UNTAXED = "Tax Exempt"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _xero(made: Sequence[Journal], accounts: Accounts) -> Written:
    """A journal for each day, with the sums of its accounts: a file of Xero has few lines."""
    untaxed = str(accounts.settings.get("xero", {}).get("tax_rate", _UNTAXED))
    rows = []
    for day, of_day in groupby(made, key=lambda journal: journal.day):
        sums: dict[tuple[str, str], int] = {}
        for posting in (posting for journal in of_day for posting in journal.postings):
            place = posting.account, posting.tax_key or untaxed
            sums[place] = sums.get(place, 0) + posting.cents
        # A day of which Xero takes no other for it, wherever its user lives.
        written = f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
        for (account, tax_rate), cents in sorted(sums.items()):
            if cents:
                amount = _amount(cents, made[0].currency)
                rows.append((f"Billing of {written}", written, "", account, tax_rate, amount, "", "", "", ""))
    if len(rows) > _XERO_LINES:
        raise click.UsageError(f"Xero imports {_XERO_LINES} lines at once, and these are {len(rows)}: take fewer days")
    return _table(XERO_COLUMNS, rows), "utf-8"


# DATEV

_MORE = range(1, 21)
DATEV_COLUMNS = (
    *("Umsatz (ohne Soll/Haben-Kz)", "Soll/Haben-Kennzeichen", "WKZ Umsatz", "Kurs", "Basis-Umsatz"),
    *("WKZ Basis-Umsatz", "Konto", "Gegenkonto (ohne BU-Schlüssel)", "BU-Schlüssel", "Belegdatum", "Belegfeld 1"),
    *("Belegfeld 2", "Skonto", "Buchungstext", "Postensperre", "Diverse Adressnummer", "Geschäftspartnerbank"),
    *("Sachverhalt", "Zinssperre", "Beleglink"),
    *(f"Beleginfo - {part} {number}" for number in range(1, 9) for part in ("Art", "Inhalt")),
    *("KOST1 - Kostenstelle", "KOST2 - Kostenstelle", "Kost-Menge", "EU-Land u. UStID (Bestimmung)"),
    *("EU-Steuersatz (Bestimmung)", "Abw. Versteuerungsart", "Sachverhalt L+L", "Funktionsergänzung L+L"),
    *("BU 49 Hauptfunktionstyp", "BU 49 Hauptfunktionsnummer", "BU 49 Funktionsergänzung"),
    *(f"Zusatzinformation{part} {number}" for number in _MORE for part in (" - Art", "- Inhalt")),
    *("Stück", "Gewicht", "Zahlweise", "Forderungsart", "Veranlagungsjahr", "Zugeordnete Fälligkeit", "Skontotyp"),
    *("Auftragsnummer", "Buchungstyp", "USt-Schlüssel (Anzahlungen)", "EU-Land (Anzahlungen)"),
    *("Sachverhalt L+L (Anzahlungen)", "EU-Steuersatz (Anzahlungen)", "Erlöskonto (Anzahlungen)", "Herkunft-Kz"),
    *("Buchungs GUID", "KOST-Datum", "SEPA-Mandatsreferenz", "Skontosperre", "Gesellschaftername"),
    *("Beteiligtennummer", "Identifikationsnummer", "Zeichnernummer", "Postensperre bis"),
    *("Bezeichnung SoBil-Sachverhalt", "Kennzeichen SoBil-Buchung", "Festschreibung", "Leistungsdatum"),
    *("Datum Zuord. Steuerperiode", "Fälligkeit", "Generalumkehr (GU)", "Steuersatz", "Land"),
    *("Abrechnungsreferenz", "BVV-Position", "EU-Land u. UStID (Ursprung)", "EU-Steuersatz (Ursprung)"),
    "Abw. Skontokonto",
)
_DATEV_ROWS = 99_999
_DATEV_ACCOUNT = re.compile(r"[1-9][0-9]{0,8}")
_DATEV_KEY = re.compile(r"[0-9]{0,4}")
_NOT_IN_BELEGFELD = re.compile(r"[^A-Za-z0-9$&%*+\-/]+")
_BELEGFELD, _BUCHUNGSTEXT, _BELEGINFO = 36, 60, 210
_FISCAL_YEAR = re.compile(r"(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])")


def _datev(made: Sequence[Journal], accounts: Accounts) -> Written:
    """A row for each part of a debit that goes to a credit of the same group. Nothing is fixed (festgeschrieben)."""
    rows = [row for journal in made for row in _datev_rows(journal)]
    if not rows:
        raise click.UsageError("nothing was posted on these days, and DATEV imports no file without rows")
    if len(rows) > _DATEV_ROWS:
        raise click.UsageError(f"DATEV imports {_DATEV_ROWS} rows at once, and these are {len(rows)}: take fewer days")
    if exponent(made[0].currency) > _DECIMALS:
        raise click.UsageError(f"amounts of DATEV have {_DECIMALS} decimals, and {made[0].currency} has more")
    lines = [_datev_header(made, accounts), DATEV_COLUMNS, *rows]
    return "".join(";".join(line) + "\r\n" for line in lines), "cp1252"


def _datev_header(made: Sequence[Journal], accounts: Accounts) -> Sequence[str]:
    settings = accounts.settings.get("datev", {})
    for name in ("consultant", "client"):
        if not isinstance(settings.get(name), int):
            raise click.UsageError(f"{accounts.path}: DATEV needs numbers of consultant and client below [datev]")
    begins = str(settings.get("fiscal_year_begins", "01-01"))
    if _FISCAL_YEAR.fullmatch(begins) is None:
        raise click.UsageError(f"{accounts.path}: fiscal_year_begins is to be a month and a day, such as 07-01")
    first, last = made[0].day, made[-1].day
    years = {_fiscal_year(day, begins) for day in (first, last)}
    if len(years) > 1:
        raise click.UsageError(f"a file of DATEV is of one fiscal year: choose days before or from {max(years)}")
    stamp = max(journal.created_at for journal in made).astimezone(UTC)
    return (
        *('"EXTF"', "700", "21", '"Buchungsstapel"', "13"),
        # When the last of its movements was posted: a file of the same movements is the same.
        f"{stamp:%Y%m%d%H%M%S}{stamp.microsecond // 1000:03}",
        *("", '"RE"', '""', '""', str(settings["consultant"]), str(settings["client"])),
        *(f"{max(years):%Y%m%d}", str(settings.get("account_length", 4)), f"{first:%Y%m%d}", f"{last:%Y%m%d}"),
        *(_quoted("usagebill", _BUCHUNGSTEXT), '""', "1", "0", "0", _quoted(made[0].currency, 3)),
        *("", '""', "", "", _quoted(str(settings.get("chart", "")), 2), "", "", '""', '""'),
    )


def _fiscal_year(day: date, begins: str) -> date:
    """The first day of the fiscal year of `day`."""
    month, first = (int(part) for part in begins.split("-"))
    begun = date(day.year, month, first)
    return begun if begun <= day else date(day.year - 1, month, first)


def _datev_rows(journal: Journal) -> Iterator[Sequence[str]]:
    debits = [posting for posting in journal.postings if posting.cents > 0]
    credits = [posting for posting in journal.postings if posting.cents < 0]
    owed = [-credit.cents for credit in credits]
    at = 0
    for debit in debits:
        left = debit.cents
        while left:
            part = min(left, owed[at])
            yield _datev_row(journal, debit, credits[at], part)
            left, owed[at] = left - part, owed[at] - part
            at += not owed[at]


def _datev_row(journal: Journal, debit: Posting, credit: Posting, cents: int) -> Sequence[str]:
    keys = {posting.tax_key for posting in (debit, credit) if posting.tax_key}
    for posting in (debit, credit):
        if _DATEV_ACCOUNT.fullmatch(posting.account) is None or _DATEV_KEY.fullmatch(posting.tax_key) is None:
            named = "; ".join(part for part in (posting.account, posting.tax_key) if part)
            raise click.UsageError(f'"{named}" is no account of DATEV, such as "8400" or "8400; 40" with a tax key')
    if len(keys) > 1:
        raise click.UsageError(f"a row of DATEV has one tax key: {debit.account} and {credit.account} have two")
    values = {
        "Umsatz (ohne Soll/Haben-Kz)": _amount(cents, journal.currency).replace(".", ","),
        "Soll/Haben-Kennzeichen": '"S"',
        "WKZ Umsatz": _quoted(journal.currency, 3),
        "Konto": debit.account,
        "Gegenkonto (ohne BU-Schlüssel)": credit.account,
        "BU-Schlüssel": _quoted("".join(keys), 4),
        "Belegdatum": f"{journal.day:%d%m}",
        # Open items are matched by it: a payment has the number of its invoice.
        "Belegfeld 1": _quoted(_NOT_IN_BELEGFELD.sub("-", journal.invoice), _BELEGFELD),
        "Buchungstext": _quoted(f"{journal.text} {journal.customer}", _BUCHUNGSTEXT),
        "Beleginfo - Art 1": _quoted("Kunde", 20),
        "Beleginfo - Inhalt 1": _quoted(journal.customer, _BELEGINFO),
        "Beleginfo - Art 2": _quoted("Dokument vom", 20),
        "Beleginfo - Inhalt 2": _quoted(str(journal.document_date), _BELEGINFO),
        "Beleginfo - Art 3": _quoted("Gruppe", 20),
        "Beleginfo - Inhalt 3": _quoted(journal.group_id, _BELEGINFO),
        "Festschreibung": "0",
    }
    if journal.converted_from is not None:
        values["Beleginfo - Art 4"] = _quoted("Fremdwährung", 20)
        values["Beleginfo - Inhalt 4"] = _quoted(journal.converted_from, _BELEGINFO)
    return [values.get(name, "") for name in DATEV_COLUMNS]


def _quoted(text: str, length: int) -> str:
    """A text of at most `length` characters, on one line."""
    return '"' + " ".join(text.split())[:length].replace('"', '""') + '"'


PROGRAMS: Mapping[str, Callable[[Sequence[Journal], Accounts], Written]] = {
    "datev": _datev,
    "quickbooks": _quickbooks,
    "xero": _xero,
}
