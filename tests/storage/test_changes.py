"""The change log of PostgreSQL: which statements what others have written bears on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from tests.postgresql import server_url
from tests.storage.contract import Tenant

from usagebill.core.taxes import Tax
from usagebill.storage.conditions import eq
from usagebill.storage.ports import Observation
from usagebill.storage.postgresql import PostgresStore, changes
from usagebill.storage.postgresql.changes import Touched
from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.databases import temporary_database

OF_CUSTOMER = 'SELECT t."id" FROM "fees" t WHERE t.organization_id = ? AND t."customer_id" = ? ORDER BY t."id" LIMIT ?'
OF_SEVERAL = 'SELECT t."id" FROM "fees" t WHERE t."id" = ANY(?::text[]) AND t."invoice_id" != ? ORDER BY t."id"'
EITHER = 'SELECT t."id" FROM "fees" t WHERE t."customer_id" = ? OR t."amount_cents" = ?'
NESTED = 'SELECT t."id" FROM "fees" t WHERE (t."item" = ? OR t."item" IN (?,?)) AND t."subscription_id" = ?'
REFERRING = (
    'SELECT t."id" FROM "fees" t WHERE t.organization_id = ? AND t."customer_id" = ? AND EXISTS (SELECT 1 FROM'
    ' "invoices" t_invoices WHERE t_invoices.id = t."invoice_id" AND t_invoices.organization_id = t.organization_id'
    ' AND (t_invoices."status" = ?)) ORDER BY t."id"'
)
REFERRED_TO = (
    'SELECT t."id" FROM "invoices" t WHERE t."customer_id" = ? AND EXISTS (SELECT 1 FROM "fees" t_fees WHERE'
    ' t_fees."invoice_id" = t.id)'
)


def touched(table: str, *ids: str, is_new: bool = True) -> Touched:
    rows = Touched()
    rows.note(table, ids, is_new=is_new)
    return rows


@pytest.mark.parametrize(
    ("rows", "sql", "values", "bears"),
    [
        (touched("fees", "c1"), OF_CUSTOMER, ("o", "c1", 5), True),
        (touched("fees", "c1"), OF_CUSTOMER, ("o", "c2", 5), False),
        (touched("invoices", "c1"), OF_CUSTOMER, ("o", "c1", 5), False),
        (touched("fees", "f1"), OF_SEVERAL, (("f1",), "i1"), True),
        (touched("fees", "f2"), OF_SEVERAL, (("f1", "f2"), "i1"), True),
        (touched("fees", "f3", "i1"), OF_SEVERAL, (("f1", "f2"), "i1"), False),
        (touched("fees", "c1"), OF_CUSTOMER, ("o", None, 5), False),
        (touched("fees", "c1"), EITHER, ("c2", 5), True),
        (touched("fees", "s1"), NESTED, ("a", "b", "c", "s1"), True),
        (touched("fees", "a", "b", "c"), NESTED, ("a", "b", "c", "s1"), False),
        (touched("invoices", "c1"), REFERRING, ("o", "c1", "draft"), False),
        (touched("invoices", "c2", is_new=False), REFERRING, ("o", "c1", "draft"), True),
        (touched("fees", "c1"), REFERRING, ("o", "c1", "draft"), True),
        (touched("fees", "f1"), REFERRED_TO, ("c1",), True),
    ],
)
def test_a_statement_is_asked_again_only_if_rows_that_were_written_may_belong_to_its_answer(
    rows: Touched, sql: str, values: tuple[object, ...], bears: bool
) -> None:
    assert rows.bears_on(sql, values) is bears


def test_of_very_many_rows_only_their_table_is_logged() -> None:
    rows = Touched()
    rows.note("fees", (str(number) for number in range(10_000)), is_new=True)
    assert list(rows.items()) == [("fees", None, True)]
    again = Touched()
    for table, ids, is_new in rows.items():
        again.note(table, ids, is_new=is_new)
    assert again.bears_on(OF_CUSTOMER, ("o", "c1", 5))


@contextmanager
def opened() -> Iterator[tuple[Tenant, Tenant]]:
    """One organization on two stores, as two machines have it."""
    with temporary_database(server_url()) as url:
        stores = PostgresStore(url), PostgresStore(url)
        try:
            yield Tenant(stores[0], "one"), Tenant(stores[1], "one")
        finally:
            for store in stores:
                store.close()


def seen(tenant: Tenant, tax: Tax) -> Observation:
    return tenant.read(
        lambda tx: tx.observed(lambda seen: (seen.get(Tax, tax.id), seen.count(Tax, eq("id", tax.id))))[1]
    )


def asked_again(tenant: Tenant, observation: Observation) -> tuple[bool, int]:
    """Whether it still holds, and how many statements were repeated to say so."""
    with patch.object(Connection, "execute_all", autospec=True, side_effect=Connection.execute_all) as repeated:
        holds = tenant.write(lambda tx: tx.still_holds(observation))
    return holds, sum(len(call.args[1]) for call in repeated.call_args_list)


@pytest.mark.second_engine
def test_what_another_machine_wrote_to_other_rows_leaves_nothing_to_be_asked_again() -> None:
    with opened() as (here, there):
        vat, levy = here.tax("vat"), here.tax("levy")
        here.insert(vat, levy)
        observation = seen(here, vat)
        there.write(lambda tx: tx.replace(replace(levy, name="Levy")))
        assert asked_again(here, observation) == (True, 0)
        there.write(lambda tx: tx.replace(replace(vat, name="Value added tax")))
        assert asked_again(here, observation)[0] is False


@pytest.mark.second_engine
def test_what_the_log_has_forgotten_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_KEPT", 1)
    monkeypatch.setattr(changes, "_FORGETS_EVERY", 1)
    with opened() as (here, there):
        vat, levy = here.tax("vat"), here.tax("levy")
        here.insert(vat, levy)
        observation = seen(here, vat)
        for number in range(3):
            there.write(lambda tx, number=number: tx.replace(replace(levy, name=f"Levy {number}")))  # type: ignore[misc]
        holds, repeated = asked_again(here, observation)
        assert holds
        assert repeated == 2


@pytest.mark.second_engine
def test_a_record_that_was_deleted_does_not_hold() -> None:
    with opened() as (here, there):
        vat = here.tax("vat")
        here.insert(vat)
        observation = seen(here, vat)
        there.write(lambda tx: tx.delete(vat))
        assert asked_again(here, observation)[0] is False
