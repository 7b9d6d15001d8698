"""The ledger as a file of Beancount, a program for double entry in plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from usagebill.cli.accounts import Accounts, read_accounts, value_text
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
    Account.PROVIDER_FEES: "Expenses:ProviderFees:{provider}",
    Account.ROUNDING: "Expenses:Rounding",
    Account.EXCHANGE: "Income:Exchange",
    Account.PAYABLE: "Liabilities:Payable",
    Account.PURCHASES: "Expenses:Purchases",
    Account.INPUT_TAX: "Assets:InputTax:{country}:{tax_rate}",
}
_TYPES = ("Assets", "Liabilities", "Income", "Expenses", "Equity")


def beancount_accounts(path: str | None) -> Accounts:
    """The names of accounts by their kind: those in the TOML file `path`, and the usual ones for all others.

    Raises `click.UsageError` for a name that Beancount does not have.
    """
    if path is None:
        return Accounts("", ACCOUNTS)
    accounts = read_accounts(path)
    for kind, named in accounts.names.items():
        for name in (named,) if isinstance(named, str) else named.values():
            if name.partition(":")[0] not in _TYPES:
                types = ", ".join(_TYPES)
                raise click.UsageError(f"{path}: {kind} is to be the name of an account below one of {types}")
    return replace(accounts, names={**ACCOUNTS, **accounts.names})


@contextmanager
def beancount(path: str, columns: Sequence[str], accounts: Accounts) -> Iterator[BeancountSink]:
    """A file of Beancount with these accounts, complete when the block ends and readable by its owner
    alone.
    """
    make_private(path)
    with Path(path).open("w", encoding="utf-8") as file:
        made = BeancountSink(file, columns, accounts)
        yield made
        made.finish()


class BeancountSink:
    """Movements as transactions. Those of a group follow each other, and groups come in order of their days."""

    def __init__(self, file: TextIO, columns: Sequence[str], accounts: Accounts) -> None:
        self._file = file
        self._columns = columns
        self._accounts = accounts
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
            name = self._accounts.name(row, _part)
            if name not in self._opened:
                self._opened.add(name)
                self._file.write(f"{day} open {name}\n")
            postings.append(f"  {name}  {_amounts(row)}\n")
        text = f"{first['document_type']} {first['number'] or first['document_id']}"
        self._file.write(f"{day} * {_quoted(first['external_customer_id'] or '')} {_quoted(text)}\n")
        self._file.write(f"  document-date: {first['document_date']}\n")
        self._file.writelines((*postings, "\n"))
        self._group = []


def _amounts(row: Mapping[str, object]) -> str:
    """The amount, and what it is worth in the books' own currency: a group is balanced in that."""
    if row["exchange_rate"] is None:
        return f"{row['amount']} {row['currency']}"
    worth = row["base_amount"]
    if not row["amount_cents"]:
        return f"{worth} {row['base_currency']}"
    return f"{row['amount']} {row['currency']} @@ {str(worth).removeprefix('-')} {row['base_currency']}"


def _part(value: object) -> str:
    """A column as a part of an account's name, which begins with a capital letter or a digit."""
    part = re.sub(r"[^A-Za-z0-9]+", "-", value_text(value)).strip("-") or "None"
    return part[0].upper() + part[1:]


def _quoted(text: object) -> str:
    return json.dumps(" ".join(str(text).split()), ensure_ascii=False)
