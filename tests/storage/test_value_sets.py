"""Sets of the records with values of facets and with common items: lists by both equal those of the records."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.storage.contract import NOW, new_tenant
from tests.storage.test_counted_texts import (
    METADATA,
    TIERS,
    catch_up,
    early as early,
    has_tier,
    of_tier,
    recounted,
    store as store,
)

from usagebill.core.customers import Customer, MetadataItem
from usagebill.core.invoices.life_cycle import VISIBLE
from usagebill.core.invoices.records import Invoice
from usagebill.storage.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Negate,
    Null,
    Within,
    all_of,
    any_of,
    at_least,
    at_most,
    desc,
    eq,
    missing,
    negate,
    within,
)
from usagebill.storage.sqlite import SqliteStore, searches

_COUNTRIES = st.sampled_from([None, "DE", "FR", "US"])
_CURRENCIES = st.sampled_from([None, "EUR", "USD"])
_TYPES = st.sampled_from(["customer", "partner"])
_PLAIN_FACETS = st.one_of(
    st.builds(eq, st.just("country"), _COUNTRIES.filter(bool)),
    st.builds(within, st.just("country"), st.lists(_COUNTRIES.filter(bool), max_size=3).map(tuple)),
    st.builds(eq, st.just("currency"), _CURRENCIES.filter(bool)),
    st.builds(missing, st.just("currency")),
    st.builds(eq, st.just("account_type"), _TYPES),
)
_FACETS = st.recursive(
    _PLAIN_FACETS,
    lambda inner: st.builds(any_of, inner, inner) | st.builds(all_of, inner, inner) | st.builds(negate, inner),
    max_leaves=4,
)


def _meets(person: Customer, condition: Any) -> bool:
    match condition:
        case AnyOf(several):
            return any(_meets(person, inner) for inner in several)
        case AllOf(several):
            return all(_meets(person, inner) for inner in several)
        case Negate(inner):
            return not _meets(person, inner)
        case Within(column, values):
            return getattr(person, column) in values
        case Null(column, _):
            return getattr(person, column) is None
        case Compare(column, _, value):
            return bool(getattr(person, column) == value)
    raise TypeError(condition)


@examples(30, deadline=None)
@given(data=st.data())
def test_any_facets_beside_an_item_select_the_same_customers(early: None, data: st.DataObject) -> None:
    """Counted, not counted yet, or changed since; in a file with one organization or two."""
    store = SqliteStore(":memory:")
    try:
        tenant = new_tenant(store)
        entity = tenant.entity()
        people = [
            tenant.customer(
                entity,
                country=data.draw(_COUNTRIES),
                currency=data.draw(_CURRENCIES),
                account_type=data.draw(_TYPES),
                metadata=data.draw(METADATA),
            )
            for _ in range(data.draw(st.integers(1, 12)))
        ]
        tenant.insert(entity, *people)
        if data.draw(st.booleans()):
            other = new_tenant(store)
            stranger = other.entity()
            other.insert(stranger, other.customer(stranger, country="DE", currency="EUR"))
        for _ in range(data.draw(st.sampled_from([0, 3, 20, 20]))):
            store.roll_up_usage()
        for _ in range(data.draw(st.integers(0, 2))):
            place = data.draw(st.integers(0, len(people) - 1))
            people[place] = replace(people[place], currency=data.draw(_CURRENCIES), metadata=data.draw(METADATA))
            tenant.write(lambda tx, changed=people[place]: tx.replace(changed))  # type: ignore[misc]
        facets, tier = data.draw(_FACETS), data.draw(TIERS.filter(lambda tier: tier is not None))
        expected = sorted(person.id for person in people if _meets(person, facets) and has_tier(person, tier))
        conditions = [facets, *of_tier(tier)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(searches, "_READ", data.draw(st.sampled_from([0, 3_000])))
            assert tenant.read(lambda tx: tx.count(Customer, *conditions)) == len(expected)
            newest = (desc("created_at"),)
            page = tenant.read(lambda tx: tx.find(Customer, *conditions, order=newest, limit=99))
            assert [person.id for person in page] == expected
        recounted(store, Customer)
    finally:
        store.close()


def test_two_facets_of_which_none_alone_decides(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "_READ", 0)
    tenant = new_tenant(store)
    entity = tenant.entity()
    gold = (MetadataItem(id="m", key="tier", value="gold", created_at=NOW),)
    people = [
        tenant.customer(entity, country=country, currency=currency, metadata=gold)
        for country in ("DE", "FR", "US")
        for currency in ("EUR", "USD", "GBP")
    ]
    tenant.insert(entity, *people)
    catch_up(store)

    def number(*conditions: Any) -> int:
        return tenant.read(lambda tx: tx.count(Customer, *of_tier("gold"), *conditions))

    german, in_euros = eq("country", "DE"), eq("currency", "EUR")
    assert number(german, in_euros) == 1
    assert number(any_of(german, in_euros)) == 5
    assert number(negate(german), negate(in_euros)) == 4
    assert number(any_of(all_of(german, in_euros), all_of(negate(german), negate(in_euros)))) == 1 + 4


def test_amounts_up_to_one_within_a_slot_whose_first_part_has_the_same_first_amount(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 is where both the slot of amounts that begin with 1 and that of those with 10 begin."""
    monkeypatch.setattr(searches, "_READ", 0)
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity)
    day = date(2024, 3, 1)
    within_bounds, above = (99_999, 100_500, 109_999, 110_000, 120_000, 123_456), (123_457, 130_000, 199_999, 200_000)
    invoices = [
        tenant.invoice(customer, issuing_date=day, total_amount_cents=cents) for cents in (*within_bounds, *above)
    ]
    tenant.insert(entity, customer, *invoices)
    catch_up(store)
    conditions = (
        within("status", VISIBLE),
        at_least("issuing_date", day),
        at_most("total_amount_cents", 123_456),
    )
    assert tenant.read(lambda tx: tx.count(Invoice, *conditions)) == len(within_bounds)
    latest = (desc("issuing_date"), desc("created_at"))
    page = tenant.read(lambda tx: tx.find(Invoice, *conditions, order=latest, limit=99))
    assert sorted(invoice.total_amount_cents for invoice in page) == [*within_bounds]


def test_an_item_that_many_records_have_is_not_read_from_its_index(store: SqliteStore) -> None:
    tenant = new_tenant(store)
    entity = tenant.entity()
    gold = (MetadataItem(id="m", key="tier", value="gold", created_at=NOW),)
    people = [
        tenant.customer(entity, country="DE" if number % 2 else "FR", metadata=gold if number % 3 else ())
        for number in range(9)
    ]
    tenant.insert(entity, *people)
    catch_up(store)
    statements: list[str] = []

    def number_of_gold(tx: Any) -> int:
        tx._connection.set_trace_callback(statements.append)
        try:
            return int(tx.count(Customer, *of_tier("gold"), eq("country", "DE")))
        finally:
            tx._connection.set_trace_callback(None)

    # 1, 5 and 7: odd and no multiple of 3.
    assert tenant.read(number_of_gold) == 3
    assert not any('FROM "customers_metadata" x' in statement for statement in statements)


def test_a_file_of_version_45_gets_sets_of_what_it_has_counted(early: None, tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    store = SqliteStore(file)
    tenant = new_tenant(store)
    entity = tenant.entity()
    tiers = (("gold",), ("silver",), (), ("gold",), ("gold",), ("silver",))
    people = [
        tenant.customer(
            entity,
            name="Ada",
            country="DE" if number % 2 else "FR",
            state="CA",
            metadata=tuple(MetadataItem(id="m", key="tier", value=value, created_at=NOW) for value in values),
        )
        for number, values in enumerate(tiers)
    ]
    days = (date(2024, 3, 1), date(2024, 3, 9), date(2024, 3, 10), date(2024, 3, 31))
    invoices = [tenant.invoice(people[0], issuing_date=day) for day in days]
    tenant.insert(entity, *people, *invoices)
    catch_up(store)
    # Changed since they were counted.
    tenant.write(lambda tx: tx.replace(replace(people[3], metadata=())))
    tenant.write(lambda tx: tx.replace(replace(invoices[2], issuing_date=date(2024, 4, 2))))
    store.close()
    connection = sqlite3.connect(file)
    for table in ("customers", "invoices"):
        connection.execute(
            f"DELETE FROM {table}_set_bits WHERE id IN (SELECT b.id FROM {table}_set_bits b"
            f" JOIN {table}_sets s ON (b.id & 1099511627775) IN (s.id * 3 + 1, s.id * 3 + 2)"
            " WHERE s.ranged LIKE 'facet %' OR s.ranged LIKE 'metadata %' OR s.ranged LIKE '%/3')"
        )
        connection.execute(
            f"DELETE FROM {table}_sets WHERE ranged LIKE 'facet %' OR ranged LIKE 'metadata %' OR ranged LIKE '%/3'"
        )
        # What was the set of a combination of facets.
        connection.execute(f"INSERT INTO {table}_set_bits VALUES (4, ?)", (b"\xff" * 1024,))
    for column in ("state", "zipcode"):
        connection.execute(f"DROP INDEX customers_having_{column}")
        connection.execute(
            f"CREATE INDEX customers_{column}_created_at_id"
            f" ON customers (organization_id, {column}, created_at DESC, id, deleted_at)"
        )
    connection.execute("PRAGMA user_version = 45")
    connection.commit()
    connection.close()

    store = SqliteStore(file)
    try:
        moved = replace(tenant, store=store)
        assert moved.read(lambda tx: tx.count(Customer, *of_tier("gold"), eq("country", "FR"))) == 2
        assert moved.read(lambda tx: tx.count(Customer, eq("state", "CA"), eq("country", "DE"))) == 3
        bounds = at_least("issuing_date", date(2024, 3, 9)), at_least("total_amount_cents", 0)
        assert moved.read(lambda tx: tx.count(Invoice, within("status", VISIBLE), *bounds)) == 3
        for kind in (Customer, Invoice):
            recounted(store, kind)
        indexes = {name for (name,) in store._writer.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
        assert "customers_having_state" in indexes
        assert "customers_state_created_at_id" not in indexes
    finally:
        store.close()
