"""Lists on PostgreSQL: whichever way they are asked they say the same, and counts say what counting says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import psycopg
import pytest
from hypothesis import HealthCheck, given, strategies as st
from tests.examples import examples
from tests.postgresql import server_url
from tests.properties.strategies import CrashingStore, Life, lives, play
from tests.scenarios import Scenario
from tests.storage.contract import new_tenant
from tests.storage.test_lists import LISTS, WAYS, do_everything, few, filled_world, plainly, questions
from tests.storage.test_postgresql import run

from usagebill.core.customers import Customer, MetadataItem
from usagebill.core.invoices.life_cycle import VISIBLE
from usagebill.core.invoices.records import Invoice
from usagebill.core.organizations import Organization
from usagebill.http.endpoints import Endpoint
from usagebill.storage.conditions import Condition, any_of, contains, desc, eq, has_item, negate, related, within
from usagebill.storage.listings import CountFault
from usagebill.storage.ports import Transaction
from usagebill.storage.postgresql import PostgresStore, schema
from usagebill.storage.postgresql.listed import index_definitions
from usagebill.storage.tables import CUSTOMER_COLUMNS, table_of

NOW = datetime(2024, 3, 5, 10, tzinfo=UTC)

pytestmark = pytest.mark.second_engine


@pytest.fixture(scope="module")
def on_server() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("USAGEBILL_SANDBOX_DATABASE", server_url())
        yield


@pytest.fixture(scope="module")
def filled(on_server: None) -> Iterator[tuple[Scenario, dict[str, str]]]:
    with filled_world() as world_and_ids:
        yield world_and_ids


def store_of(box: Scenario) -> PostgresStore:
    store = box.billing.store
    if isinstance(store, CrashingStore):
        store = store.store
    assert isinstance(store, PostgresStore)
    return store


def faults_of(store: PostgresStore) -> list[CountFault]:
    """Where the counts of all organizations are not what the records are counted anew."""
    organizations = store.read(None, lambda tx: tx.find(Organization))
    return [
        fault
        for organization in organizations
        for fault in store.read(organization.id, lambda tx: list(tx.list_faults()))
    ]


@pytest.mark.parametrize("endpoint", LISTS, ids=lambda endpoint: endpoint.path)
def test_a_list_is_the_same_whichever_way_it_is_asked(
    filled: tuple[Scenario, dict[str, str]], endpoint: Endpoint
) -> None:
    box, known = filled
    nonempty_lists = 0
    for question in questions(endpoint, known):
        for page in ("per_page=2", "per_page=2&page=2"):
            address = f"{question}{'&' if '?' in question else '?'}{page}"
            with plainly():
                expected = box.request("GET", address)
            nonempty_lists += expected[0] == 200 and expected[1]["meta"]["total_count"] > 0
            for way in WAYS:
                with few(way):
                    assert box.request("GET", address) == expected, (address, way)
    assert nonempty_lists > 0


@pytest.mark.slow
def test_counts_follow_whatever_the_api_does(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        do_everything(box)
        assert faults_of(store_of(box)) == []


@pytest.mark.slow
@examples(15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(lives(8), st.integers(0, 10_000))
def test_counts_follow_lives_in_which_processes_die(on_server: None, life: Life, seed: int) -> None:
    chance = Random(seed)

    def check(box: Scenario) -> None:
        assert faults_of(store_of(box)) == []

    play(life, dies=lambda: chance.random() < 0.3, check=check)


def test_counts_follow_edits_by_hand(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        for name in ("a", "b", "c", "d"):
            box.customer(name, currency="EUR")
        url = store_of(box).url
        run(
            url,
            "UPDATE customers SET currency = 'USD' WHERE external_id = 'a'",
            "UPDATE customers SET deleted_at = created_at WHERE external_id = 'b'",
            "UPDATE customers SET name = 'Acme'",
            "DELETE FROM customers WHERE external_id = 'c'",
        )
        totals = [
            box.request("GET", f"/api/v1/customers{query}")[1]["meta"]["total_count"]
            for query in ("", "?currencies[]=EUR", "?currencies[]=USD", "?currencies[]=GBP")
        ]
        assert totals == [2, 1, 1, 0]
        assert faults_of(store_of(box)) == []
        run(url, "TRUNCATE customers CASCADE")
        assert box.request("GET", "/api/v1/customers")[1]["meta"]["total_count"] == 0


def test_counts_by_other_records_follow_these(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        for code in ("a", "b"):
            box.plan(code=code)
        for number in range(4):
            box.customer(f"c{number}")
            box.subscribe("ab"[number % 2], f"s{number}", f"c{number}")

        def totals() -> list[int]:
            return [
                box.request("GET", f"/api/v1/subscriptions?{query}")[1]["meta"]["total_count"]
                for query in ("plan_code=a", "plan_code=b", "plan_code=c", "overridden=true")
            ]

        assert totals() == [2, 2, 0, 0]
        # Two rows in one statement, of which each takes the code that the other had.
        swap = "UPDATE plans SET code = CASE code WHEN 'a' THEN 'b' ELSE 'c' END"
        run(store_of(box).url, swap, "UPDATE plans SET parent_id = id WHERE code = 'c'")
        assert totals() == [0, 2, 2, 2]
        assert faults_of(store_of(box)) == []


def test_records_of_an_older_database_are_counted(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.customer("a")
        box.customer("b")
        url = store_of(box).url
        run(url, "DELETE FROM customers_counts", f"UPDATE usagebill_schema SET version = {schema.VERSION - 1}")
        PostgresStore(url).close()
        assert box.request("GET", "/api/v1/customers")[1]["meta"]["total_count"] == 2


def index_names(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'").fetchall()
    return {name for (name,) in rows}


def test_an_older_database_gets_the_indexes_of_lists_and_loses_those_of_other_lists(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.customer("a", metadata=[{"key": "tier", "value": "gold", "display_in_invoice": False}])
        url = store_of(box).url
        names = index_names(url)
        expected = {name for name, _ in index_definitions(table_of(Customer))}
        assert expected <= names
        run(
            url,
            *(f'DROP INDEX "{name}"' for name in expected),
            "DROP FUNCTION item_keys CASCADE",
            "CREATE INDEX customers_faceted_00000000 ON customers (organization_id)",
            "CREATE INDEX customers_listed ON customers (organization_id)",
            "CREATE INDEX invoices_purchase_order_number ON invoices (organization_id)",
            "CREATE TABLE list_counts (organization_id text, n bigint)",
            "CREATE FUNCTION count_customers_of_old() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN INSERT INTO list_counts VALUES (NEW.organization_id, 1); RETURN NULL; END $$",
            "CREATE TRIGGER count_referring AFTER UPDATE ON customers FOR EACH ROW"
            " EXECUTE FUNCTION count_customers_of_old()",
            "UPDATE usagebill_schema SET version = 11",
        )
        PostgresStore(url).close()
        assert index_names(url) == names
        box.customer("a", name="Renamed")
        totals = [
            box.request("GET", f"/api/v1/customers?metadata[tier]={value}")[1]["meta"]["total_count"]
            for value in ("gold", "silver", "")
        ]
        assert totals == [1, 0, 0]
        assert faults_of(store_of(box)) == []


# Keys and values of metadata: the same characters when put together, escapes of JSON, too long for an index.
PAIRS = (
    ("a", "b=c"),
    ("a=b", "c"),
    ("a", "b"),
    ("\\u0000", "\\"),
    ("\ue000", "\ue0000"),
    ("\ue0000", "it\"s 'quoted'"),
    ("日本", "語"),
    ("long", "x" * 3_000),
    ("long", "x" * 2_999 + "y"),
    ("y" * 400, "z"),
)


def test_items_are_found_the_same_by_the_index(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        tenant, other = new_tenant(store_of(box)), new_tenant(store_of(box))
        for owner in (tenant, other):
            entity = owner.entity()
            lists = [[pair] for pair in PAIRS] + [[PAIRS[0], PAIRS[6]], [PAIRS[1], PAIRS[1]], []]
            items = [
                tuple(MetadataItem(id="m", key=key, value=value, created_at=NOW) for key, value in pairs)
                for pairs in lists
            ]
            owner.insert(
                entity,
                *(
                    owner.customer(entity, name=str(place), metadata=some, currency="EUR" if place % 2 else "USD")
                    for place, some in enumerate(items)
                ),
            )

        def listed(*conditions: Condition) -> tuple[list[str], int]:
            records, total = tenant.read(
                lambda tx: tx.page(Customer, *conditions, order=[desc("created_at")], limit=3, offset=1)
            )
            return [customer.id for customer in records], total.count

        totals = []
        for key, value in PAIRS:
            has_key, has_pair = has_item("metadata", key=key), has_item("metadata", key=key, value=value)
            for conditions in (
                (has_pair,),
                (has_pair, eq("currency", "EUR")),
                (has_key,),
                (negate(has_key),),
                (negate(has_key), eq("currency", "USD")),
                (any_of(has_pair, has_item("metadata", key="日本")),),
            ):
                by_index = listed(*conditions)
                with plainly():
                    assert listed(*conditions) == by_index, conditions
                totals.append(by_index[1])
        # The first pair, then in euros: two lists have it, the first (in dollars) and the eleventh.
        assert totals[:2] == [2, 0]


def test_a_rare_facet_is_found_by_the_index_however_the_others_are_spread(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        for place in range(6):
            box.customer(f"c{place}", currency="GBP" if place in (1, 4) else "EUR", country="DE" if place < 3 else "FR")
        shown = [
            [customer["external_id"] for customer in box.request("GET", f"/api/v1/customers?{query}")[1]["customers"]]
            for query in (
                "currencies[]=GBP",
                "currencies[]=GBP&countries[]=DE",
                "currencies[]=GBP&currencies[]=EUR&countries[]=FR&per_page=2",
                "currencies[]=GBP&per_page=1&page=2",
                "currencies[]=GBP&per_page=2&page=2",
            )
        ]
        # All were made at one instant, so their ids decide.
        assert shown == [["c1", "c4"], ["c1"], ["c3", "c4"], ["c4"], []]


def test_a_filtered_list_is_as_it_is_now_however_many_matched_before(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:

        def listed(query: str) -> tuple[list[str], int]:
            _, body = box.request("GET", f"/api/v1/customers?currencies[]=GBP&{query}")
            return [customer["external_id"] for customer in body["customers"]], body["meta"]["total_count"]

        assert listed("per_page=2") == ([], 0)
        for place in range(5):
            box.customer(f"c{place}", currency="GBP")
        assert listed("per_page=2") == (["c0", "c1"], 5)
        assert listed("per_page=2&page=3") == (["c4"], 5)
        assert listed("per_page=2&page=4") == ([], 5)
        for place in range(4):
            assert box.request("DELETE", f"/api/v1/customers/c{place}")[0] == 200
        assert listed("per_page=2") == (["c4"], 1)
        assert listed("per_page=2&page=3") == ([], 1)


NAMES = (
    "Acme",
    "ACME Straße",
    "strasse acme",
    "100%_sure\\",
    'it\'s "quoted"',
    "naïve Ångström",
    "日本語の会社",
    "a-b-c-d",
    "abc\x1fdef",
    "abc  def",
    "\0abc\ue000",
    "x",
)
TERMS = (
    *NAMES,
    "acm",
    "STRASSE",
    "straß",
    "%_s",
    "sure\\",
    "'s \"q",
    "ångs",
    "日本語",
    "b-c",
    "c\x1fd",
    "c d",
    "def",
    "ab",
    "-",
    "me\x1f",
)


@pytest.mark.parametrize("way", [0, 2, 5_000])
def test_pages_of_searches_are_those_of_the_records_that_contain_the_text(on_server: None, way: int) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        tenant, other = new_tenant(store_of(box)), new_tenant(store_of(box))
        for owner in (tenant, other):
            entity = owner.entity()
            customers = [
                owner.customer(
                    entity,
                    name=name,
                    legal_name=NAMES[(place + 1) % len(NAMES)],
                    currency="EUR" if place % 3 else "USD",
                    created_at=NOW + timedelta(seconds=place % 5),
                    deleted_at=NOW if place == 3 else None,
                )
                for place, name in enumerate((*NAMES, *NAMES))
            ]
            owner.insert(entity, *customers)
            owner.insert(*(owner.invoice(customer, number=f"ACM-{place}") for place, customer in enumerate(customers)))

        def by_page(kind: type, *conditions: Condition) -> list[tuple[list[str], int]]:
            listing = table_of(kind).listing
            assert listing is not None
            shown = []
            for offset in (0, 3, 30):
                records, total = tenant.read(
                    lambda tx, offset=offset: tx.page(  # type: ignore[misc]
                        kind, *conditions, order=listing.order, limit=3, offset=offset
                    )
                )
                shown.append(([record.id for record in records], total.count))
            return shown

        def check(kind: type, *conditions: Condition) -> int:
            with few(way):
                pages_by_index = by_page(kind, *conditions)
            with plainly():
                assert by_page(kind, *conditions) == pages_by_index, conditions
            return pages_by_index[0][1]

        totals = []
        for term in TERMS:
            named = contains(("name", "legal_name"), term)
            totals.append(check(Customer, named))
            check(Customer, named, eq("currency", "USD"))
            of_customer = contains(CUSTOMER_COLUMNS, term)
            either = contains(("number",), term), related(Customer, "customer_id", of_customer)
            shown = within("status", VISIBLE)
            check(Invoice, any_of(*either), shown)
            check(Invoice, any_of(*either, eq("id", customers[0].id)), shown)
            check(Invoice, any_of(*either), shown, eq("currency", "EUR"))
        # Each name is that of two customers, and the legal name of two others; the only deleted one has another.
        assert totals[NAMES.index("a-b-c-d")] == 4
        assert max(totals) > 5


def test_a_search_sees_what_its_transaction_has_written(on_server: None) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        tenant = new_tenant(store_of(box))
        entity = tenant.entity()
        customer = tenant.customer(entity, name="Before")
        tenant.insert(entity, customer)

        def rename(tx: Transaction) -> tuple[int, int]:
            tx.replace(replace(customer, name="Afterwards"))
            before, after = (tx.find(Customer, contains(("name",), term)) for term in ("before", "afterward"))
            return len(before), len(after)

        assert tenant.write(rename) == (0, 1)


def test_searches_go_on_without_the_index(on_server: None) -> None:
    """As on a server that does not have the extension."""
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.customer("acme", name="Juniper")
        url = store_of(box).url
        run(url, "DROP EXTENSION pg_trgm CASCADE")
        store = PostgresStore(url)
        organization_id = box.billing.organization.id
        assert len(store.read(organization_id, lambda tx: tx.find(Customer, contains(("name",), "unipe")))) == 1
        store.close()
        # The database is used again by other tests.
        run(url, "UPDATE usagebill_schema SET version = 1")
        PostgresStore(url).close()
        assert any(name.startswith("customers_searched_") for name in index_names(url))
