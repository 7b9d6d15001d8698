"""The ledger as a file of Beancount, a program for double entry in plain text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from usagebill.cli.export_files import make_private
from usagebill.core.ledger import Account

# The names of accounts; those in braces are columns of the movement.
ACCOUNTS: Mapping[str, str] = {
    Account.RECEIVABLE: "Assets:Receivable",
    Account.CASH: "Assets:Cash:{provider}",
    Account.REVENUE: "Income:Revenue",
    Account.DISCOUNT: "Income:Discounts",
    Account.FORFEITED: "Income:Forfeited",
    Account.TAX: "Liabilities:Tax:{country}:{tax_rate}",
    Account.CUSTOMER_CREDIT: "Liabilities:Credits",
    Account.REFUNDS_DUE: "Liabilities:Refunds",
    Account.PREPAID_ORDERED: "Liabilities:Prepaid:Ordered",
    Account.PREPAID_PURCHASED: "Liabilities:Prepaid:Purchased",
    Account.PREPAID_GRANTED: "Liabilities:Prepaid:Granted",
    Account.PROMOTION: "Expenses:Promotion",
    Account.LOST_DISPUTES: "Expenses:LostDisputes",
    Account.ROUNDING: "Expenses:Rounding",
    Account.PAYABLE: "Liabilities:Payable",
    Account.PURCHASES: "Expenses:Purchases",
    Account.INPUT_TAX: "Assets:InputTax:{country}:{tax_rate}",
}
_PLACE = re.compile(r"\{(country|tax_rate|tax_code|provider|billing_entity|currency)\}")
_TYPES = ("Assets", "Liabilities", "Income", "Expenses", "Equity")


def account_names(path: str | None) -> Mapping[str, str]:
    """The names of accounts by their kind: those in the TOML file `path`, and the usual ones for all others.

    Raises `click.UsageError` for a file that names anything else.
    """
    if path is None:
        return ACCOUNTS
    try:
        named = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise click.UsageError(f"{path}: {problem}") from problem
    for kind, name in named.items():
        if kind not in ACCOUNTS:
            raise click.UsageError(f"{path}: no account {kind}; there are {', '.join(ACCOUNTS)}")
        if not isinstance(name, str) or name.partition(":")[0] not in _TYPES:
            raise click.UsageError(f"{path}: {kind} is to be the name of an account below one of {', '.join(_TYPES)}")
    return {**ACCOUNTS, **named}


@contextmanager
def beancount(path: str, columns: Sequence[str], names: Mapping[str, str]) -> Iterator[BeancountSink]:
    """A file of Beancount whose accounts have these names, complete when the block ends and readable by its owner
    alone.
    """
    make_private(path)
    with Path(path).open("w", encoding="utf-8") as file:
        made = BeancountSink(file, columns, names)
        yield made
        made.finish()


class BeancountSink:
    """Movements as transactions. Those of a group follow each other, and groups come in order of their days."""

    def __init__(self, file: TextIO, columns: Sequence[str], names: Mapping[str, str]) -> None:
        self._file = file
        self._columns = columns
        self._names = names
        self._opened: set[str] = set()
        self._group: list[Mapping[str, object]] = []

    def write(self, values: Sequence[object]) -> None:
        """Add a movement."""
        row = dict(zip(self._columns, values, strict=True))
        if self._group and row["group_id"] != self._group[0]["group_id"]:
            self.finish()
        self._group.append(row)

    def finish(self) -> None:
        """Write the last group. An account is opened on the day of its first movement."""
        if not self._group:
            return
        first, postings = self._group[0], []
        day = first["posting_date"]
        for row in self._group:
            name = _PLACE.sub(partial(_filled, row), self._names[str(row["account"])])
            if name not in self._opened:
                self._opened.add(name)
                self._file.write(f"{day} open {name}\n")
            postings.append(f"  {name}  {row['amount']} {row['currency']}\n")
        text = f"{first['document_type']} {first['number'] or first['document_id']}"
        self._file.write(f"{day} * {_quoted(first['external_customer_id'] or '')} {_quoted(text)}\n")
        self._file.write(f"  document-date: {first['document_date']}\n")
        self._file.writelines((*postings, "\n"))
        self._group = []


def _filled(row: Mapping[str, object], place: re.Match[str]) -> str:
    """A column as a part of an account's name, which begins with a capital letter or a digit."""
    value = row[place[1]]
    text = f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)
    part = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "None"
    return part[0].upper() + part[1:]


def _quoted(text: object) -> str:
    return json.dumps(" ".join(str(text).split()), ensure_ascii=False)
