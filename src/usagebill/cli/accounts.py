"""The file of accounts: how a chart of accounts names what the ledger posts to, in TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import click

from usagebill.core.ledger import TURNOVER, Account

Row = Mapping[str, object]
# Names in braces stand for columns of the movement.
_COLUMN = re.compile(r"\{(country|tax_rate|tax_code|provider|billing_entity|currency|external_customer_id)\}")
# The columns by which a kind may have a table of accounts.
_APART: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(TURNOVER, ("country", "tax_rate")),
    Account.TAX: ("country", "tax_rate"),
    Account.INPUT_TAX: ("country", "tax_rate"),
    Account.CASH: ("provider",),
    Account.PROVIDER_FEES: ("provider",),
}
_ELSE = "other"
# Tables for programs that want to know more than accounts.
_PROGRAMS = ("datev", "xero")


@dataclass(frozen=True, slots=True)
class Accounts:
    """Names of accounts by their kind, or by kind and place, and what else programs want to know."""

    path: str
    names: Mapping[str, str | Mapping[str, str]]
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def name(self, row: Row, filled: Callable[[object], str]) -> str:
        """The account of a movement; `filled` writes a column's value as a part of its name.

        Raises `click.UsageError` if the file names none.
        """
        kind = str(row["account"])
        named = self.names.get(kind)
        if isinstance(named, Mapping):
            key = " ".join(value_text(row[column]) for column in _APART[kind] if row[column] is not None)
            named, kind = named.get(key, named.get(_ELSE)), f'{kind} for "{key}"'
        if named is None:
            raise click.UsageError(f"{self.path} names no account of {kind}")
        return _COLUMN.sub(lambda place: filled(row[place[1]]), named)


def value_text(value: object) -> str:
    """A column's value: `19` for a rate of 19.0."""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def read_accounts(path: str) -> Accounts:
    """The accounts that the TOML file `path` names. Raises `click.UsageError` for a file that names anything else."""
    try:
        named = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise click.UsageError(f"{path}: {problem}") from problem
    settings = {program: named.pop(program) for program in _PROGRAMS if isinstance(named.get(program), Mapping)}
    for kind, name in named.items():
        if kind not in tuple(Account):
            raise click.UsageError(f"{path}: no account {kind}; there are {', '.join(Account)}")
        if isinstance(name, Mapping) and kind not in _APART:
            raise click.UsageError(f"{path}: {kind} has one account; tables are for {', '.join(_APART)}")
        if any(not isinstance(one, str) for one in (name.values() if isinstance(name, Mapping) else (name,))):
            raise click.UsageError(f"{path}: {kind} is to be the name of an account, in quotes")
    return Accounts(path, named, settings)
