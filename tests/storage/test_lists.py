"""Lists say the same whichever way they are asked, go through indexes however they are narrowed, and count exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st
from tests.examples import examples, mostly_slow
from tests.sample_records import VERBS, in_order, invoiced, path_of, request_of, world
from tests.scenarios import Scenario
from tests.storage.contract import NOW, Tenant, new_tenant, second
from tests.storage.events_contract import event

from usagebill.core.coupons import AppliedCoupon, Coupon, CouponStatus
from usagebill.core.customers import Customer, MetadataItem
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import VISIBLE
from usagebill.core.invoices.records import Invoice
from usagebill.core.payments import NoticeStatus, ProviderNotice
from usagebill.core.plans import Plan
from usagebill.core.subscriptions import Subscription
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.operations import events, organizations
from usagebill.storage.conditions import (
    Condition,
    any_of,
    at_least,
    at_most,
    contains,
    desc,
    eq,
    has_item,
    missing,
    negate,
    related,
    same_text,
    within,
)
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.listings import Total
from usagebill.storage.ports import Transaction
from usagebill.storage.postgresql.listed import PostgresLists
from usagebill.storage.sql import lists as sql_lists
from usagebill.storage.sql.lists import Lists
from usagebill.storage.sqlite import SqliteStore
from usagebill.storage.sqlite.list_counts import SqliteListCounts
from usagebill.storage.sqlite.listed import SqliteLists
from usagebill.storage.tables import CUSTOMER_COLUMNS, TABLES, table_of

# What each filter of a list is asked for: something that is there, something that is not, and what cuts a range in two.
ASKED: dict[str, tuple[str, ...]] = {
    "api_key_ids": ("api_key_ids[]=none&to_date=2100-01-01",),
    "api_version": ("api_version=v1", "api_version=v2"),
    "clients": ("clients[]=&clients[]=curl",),
    "http_methods": ("http_methods[]=post", "http_methods[]=put&http_methods[]=delete"),
    "http_statuses": (
        "http_statuses[]=succeeded",
        "http_statuses[]=failed",
        "http_statuses[]=200&http_statuses[]=404",
        "http_statuses[]=5xx&http_statuses[]=timeout",
    ),
    "log_events": ("log_events[]=api_key.created&to_date=2100-01-01",),
    "log_types": ("log_types[]=webhook_endpoint&log_types[]=billing_entity&to_date=2100-01-01",),
    "request_paths": ("request_paths[]=/api/v1/customers", "request_paths[]=*/plans", "request_paths=/api/v1/w*"),
    "user_ids": ("user_ids[]=anna&to_date=2100-01-01",),
    "activity_sources": ("activity_sources[]=api", "activity_sources[]=system"),
    "activity_types": ("activity_types[]=plan.created&activity_types[]=coupon.created", "activity_types[]=none"),
    "from_date": ("from_date=2024-03-05", "from_date=2024-03-05T10:00:01Z"),
    "resource_ids": ("resource_ids[]={invoice_id}",),
    "resource_types": ("resource_types[]=Plan", "resource_types[]=Invoice&resource_types[]=Wallet"),
    "to_date": ("to_date=2024-03-05T12:00:00Z", "from_date=2024-03-05&to_date=2024-03-06"),
    "user_emails": ("user_emails[]=anna@seller.example",),
    "account": ("account=cash", "account=none"),
    "account_type": ("account_type[]=customer", "account_type[]=partner"),
    "amount_from": ("amount_from=1", "amount_from=123457"),
    "amount_to": ("amount_to=4711", "amount_to=0"),
    "billable_metric_code": ("billable_metric_code=gb", "billable_metric_code=none"),
    "billing_entity_code": ("billing_entity_code=default",),
    "billing_entity_codes": ("billing_entity_codes[]=default",),
    "code": ("code=gb", "code=none"),
    "countries": ("countries[]=DE", "countries[]=FR&countries[]=DE"),
    "coupon_code": ("coupon_code[]=ten", "coupon_code[]=none"),
    "created_at_from": ("created_at_from=2024-03-05", "created_at_from=2024-03-05T10:00:00Z"),
    "created_at_to": ("created_at_to=2024-03-31", "created_at_to=2024-04-01T01:00:00Z"),
    "document_type": ("document_type=payment", "document_type=none"),
    "credit_status": ("credit_status=available", "credit_status[]=consumed"),
    "currencies": ("currencies[]=EUR", "currencies[]=USD"),
    "currency": ("currency=EUR", "currency=USD"),
    "customer_external_id": ("customer_external_id=acme",),
    "customer_type": ("customer_type=company",),
    "event_transaction_id": ("event_transaction_id=t9",),
    "external_customer_id": ("external_customer_id=acme", "external_customer_id=none"),
    "external_id": ("external_id=acme", "external_id=sub"),
    "external_subscription_id": ("external_subscription_id=sub",),
    "event_types": ("event_types[]=wallet.created&event_types[]=customer.created", "event_types[]=none"),
    "failed_at_from": ("failed_at_from=2024-01-01",),
    "failed_at_to": ("failed_at_to=2024-01-01T12:00:00Z",),
    "fee_type": ("fee_type=charge", "fee_type=commitment"),
    "has_customer_type": ("has_customer_type=true", "has_customer_type=false"),
    "has_tax_identification_number": ("has_tax_identification_number=true", "has_tax_identification_number=false"),
    "invoice_id": ("invoice_id={invoice_id}",),
    "invoice_number": ("invoice_number=none",),
    "invoice_type": ("invoice_type=one_off", "invoice_type=credit"),
    "issuing_date_from": ("issuing_date_from=2024-03-06",),
    "issuing_date_to": ("issuing_date_to=2024-03-06", "issuing_date_from=2024-03-05&issuing_date_to=2024-03-05"),
    "metadata": ("metadata[tier]=gold", "metadata[tier]="),
    "overridden": ("overridden=true", "overridden=false"),
    "overriden": ("overriden=true",),
    "overpaid": ("overpaid=true", "overpaid=false"),
    "partially_paid": ("partially_paid=true", "partially_paid=false"),
    "payment_dispute_lost": ("payment_dispute_lost=true", "payment_dispute_lost=false"),
    "payment_overdue": ("payment_overdue=true", "payment_overdue=false"),
    "payment_status": ("payment_status=pending",),
    "payment_statuses": ("payment_statuses[]=pending&payment_statuses[]=failed",),
    "plan_code": ("plan_code=basic", "plan_code=none"),
    "purchase_order_number": ("purchase_order_number=po-1",),
    "reason": ("reason=other", "reason[]=order_change"),
    "refund_status": ("refund_status=pending",),
    "refunded_at_from": ("refunded_at_from=2024-01-01",),
    "refunded_at_to": ("refunded_at_to=2024-01-01",),
    "search_term": ("search_term=acme", "search_term=ac", "search_term=none", "search_term=-0"),
    "self_billed": ("self_billed=true", "self_billed=false"),
    "settlements": (
        "settlements[]=payment",
        "settlements[]=credit_note",
        "settlements[]=payment&settlements[]=credit_note",
    ),
    "states": ("states[]=CA",),
    "status": ("status=finalized", "status[]=active&status[]=pending", "status=active", "status=draft"),
    "statuses": ("statuses[]=finalized&statuses[]=draft", "statuses[]=pending", "statuses[]=failed"),
    "source": ("source=kafka:usage", "source=none"),
    "subscription_status": ("subscription_status=active", "subscription_status=terminated"),
    "subject": ("subject=customer", "subject=invoice"),
    "subject_id": ("subject_id=none",),
    "succeeded_at_from": ("succeeded_at_from=2024-01-01",),
    "succeeded_at_to": ("succeeded_at_to=2024-01-01",),
    "timestamp_from": ("timestamp_from=2024-03-05",),
    "timestamp_from_started_at": ("timestamp_from_started_at=true&external_subscription_id=sub",),
    "timestamp_to": ("timestamp_to=2024-03-05T12:00:00Z",),
    "transaction_status": ("transaction_status=granted", "transaction_status=voided"),
    "transaction_type": ("transaction_type=inbound", "transaction_type=outbound"),
    "billed_by_default": ("billed_by_default=true", "billed_by_default=true&external_subscription_id=sub&code=gb"),
    "unbilled": ("unbilled=true", "unbilled=true&external_subscription_id=nobody&code=gb"),
    "types": ("types[]=credit", "types[]=refund&types[]=offset"),
    "webhook_endpoint_id": ("webhook_endpoint_id={webhook_endpoints}", "webhook_endpoint_id=none"),
    "zipcodes": ("zipcodes[]=10115",),
}
# Lists that go through no index: of the keys of an organization, which are a handful and expire, of the periods of a
# subscription, asked for one by one, and of the one event of a fee.
FEW = ("/api_keys", "/past_usage", "/fees/{fee_id}/events")
LISTS = [endpoint for endpoint in endpoints() if endpoint.paged and not endpoint.path.endswith(FEW)]
FEW_LISTS = [endpoint for endpoint in LISTS if endpoint.path in ("/customers", "/invoices", "/fees", "/events")]


def filters_of(endpoint: Endpoint) -> list[str]:
    return [] if endpoint.query is None else [field.name for field in attrs.fields(endpoint.query)]


@contextmanager
def filled_world() -> Iterator[tuple[Scenario, dict[str, str]]]:
    """A world with everything in it: some invoices paid, some partly, drafts, credit notes, overrides."""
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        known = world(box)
        invoiced(box, known)
        customer = {
            "external_id": "acme",
            "name": "Acme",
            "country": "DE",
            "metadata": [{"key": "tier", "value": "gold"}],
        }
        assert box.request("POST", "/api/v1/customers", json={"customer": customer})[0] == 200
        rate = {"currency": "GBP", "rate": "1.2", "valid_from": "2024-03-01"}
        assert box.request("POST", "/api/v1/exchange_rates", json={"exchange_rate": rate})[0] == 200
        override = {"plan_overrides": {"amount_cents": 5}, "plan_code": "basic", "external_customer_id": "acme"}
        assert (
            box.request("POST", "/api/v1/subscriptions", json={"subscription": {**override, "external_id": "o"}})[0]
            == 200
        )
        # Records of the same kind that belong to another record than the one asked for.
        wallet = {"external_customer_id": "acme", "rate_amount": "1", "currency": "EUR", "code": "other"}
        other = box.request("POST", "/api/v1/wallets", json={"wallet": wallet})[1]["wallet"]["svc_id"]
        for moved in ({"granted_credits": "5"}, {"voided_credits": "1"}):
            body = {"wallet_transaction": {"wallet_id": other, **moved}}
            assert box.request("POST", "/api/v1/wallet_transactions", json=body)[0] == 200
        yield box, known


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[Scenario, dict[str, str]]]:
    with filled_world() as world_and_ids:
        yield world_and_ids


def questions(endpoint: Endpoint, known: dict[str, str]) -> list[str]:
    odd = {"external_id": "acme", "external_customer_id": "acme"}
    if endpoint.path.startswith("/subscriptions/"):
        odd["external_id"] = "sub"
    if endpoint.path.endswith("/fundings"):
        odd["wallet_transaction_id"] = known["void_id"]
    path = path_of(endpoint, known, odd)
    paths = [path]
    for name in filters_of(endpoint):
        paths += [f"{path}?{query.format(**known)}" for query in ASKED[name]]
    return paths


# How many records are gathered before the list is walked: none, or as many as there are.
WAYS = (0, 50_000)


@contextmanager
def plainly() -> Iterator[None]:
    """Asked without counters, documents and the like: what a query means."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lists, "page", lambda *_: None)
        patch.setattr(Lists, "count", lambda *_: None)
        yield


@contextmanager
def few(number: int) -> Iterator[None]:
    """So many records are few."""
    with pytest.MonkeyPatch.context() as patch:
        for dialect in (SqliteLists, PostgresLists):
            patch.setattr(dialect, "few", number)
        yield


@pytest.mark.parametrize("endpoint", mostly_slow(LISTS, *FEW_LISTS), ids=lambda endpoint: endpoint.path)
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
            assert expected[0] in (200, 404, 422), (address, expected)
            nonempty_lists += expected[0] == 200 and expected[1]["meta"]["total_count"] > 0
            for way in WAYS:
                with few(way):
                    assert box.request("GET", address) == expected, (address, way)
    assert nonempty_lists > 0


def plans_of(box: Scenario, address: str) -> list[tuple[str, str]]:
    """The statements that a request makes of tables that are listed, and each step of how SQLite answers them."""
    connection = box.billing.store._writer  # type: ignore[attr-defined]
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    try:
        status, _ = box.request("GET", address)
    finally:
        connection.set_trace_callback(None)
    assert status in (200, 404, 422), address
    steps = []
    for statement in seen:
        if statement.startswith(("SELECT t.id FROM", "SELECT COUNT(*) FROM", "SELECT coalesce(SUM")):
            steps += [(statement, row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    return steps


# Lists of values, indexes of texts, and documents in a search for one or two letters.
_HARMLESS = re.compile(r"SCAN (item|lead|\(subquery-\d+\)|c\b|d\b|s VIRTUAL TABLE INDEX|\d+ CONSTANT)")


@pytest.mark.parametrize("endpoint", mostly_slow(LISTS, *FEW_LISTS), ids=lambda endpoint: endpoint.path)
def test_no_list_reads_a_table_or_sorts_one(filled: tuple[Scenario, dict[str, str]], endpoint: Endpoint) -> None:
    box, known = filled
    for question in questions(endpoint, known):
        for way in WAYS:
            with few(way):
                for statement, step in plans_of(box, question):
                    if " AND 0 " in statement:
                        # Nothing is within an empty list, and SQLite reads nothing.
                        continue
                    assert not step.startswith("SCAN") or _HARMLESS.match(step), (question, step, statement)
                    walked = "_listed" in statement
                    assert "TEMP B-TREE FOR ORDER BY" not in step or not walked, (question, step, statement)
                    if re.match(r"SEARCH t USING .*\(organization_id=\?\)$", step):
                        # All of an organization's: only along the list.
                        assert "_listed" in step, (question, step, statement)


def test_every_filter_of_every_list_is_asked() -> None:
    names = {name for endpoint in LISTS for name in filters_of(endpoint)}
    assert names == set(ASKED)


def recounted(connection: Any) -> None:
    """Counts, documents and values equal those made anew from the rows."""
    listed = [table.name for table in TABLES if table.listing is not None]
    owners = " UNION ".join(
        f'SELECT organization_id FROM "{name}{part}"' for name in listed for part in ("", "_counts")
    )
    for (organization,) in connection.execute(owners).fetchall():
        assert (
            list(
                SqliteListCounts(
                    connection, lambda sql, values: connection.execute(sql, values).fetchall(), organization
                ).faults()
            )
            == []
        )
    for table in TABLES:
        if table.listing is not None and table.listing.searched:
            search, documents = f"{table.name}_search", f"{table.name}_documents"
            connection.execute(f"INSERT INTO {search} ({search}) VALUES ('integrity-check')")
            left = f'SELECT id FROM "{documents}" WHERE id NOT IN (SELECT id FROM "{table.name}")'
            assert connection.execute(left).fetchall() == []


def do_everything(box: Scenario) -> None:
    """Ask everything of the API, once."""
    known = world(box)
    invoiced(box, known)
    for verb, endpoint in sorted(VERBS, key=in_order):
        path, body = request_of(verb, endpoint, known)
        box.request(verb, path, json=body)


@pytest.mark.slow
def test_counts_follow_whatever_the_api_does() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        do_everything(box)
        recounted(box.billing.store._writer)  # type: ignore[attr-defined]
        assert box.billing.reading(lambda reader: list(reader.tx.list_faults())) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shared", [False, True])
def test_a_search_counts_neither_what_is_deleted_nor_what_is_others(shared: bool, way: int) -> None:
    with few(way), Scenario(now="2024-03-05T10:00:00Z") as box:
        for name in ("Ada", "Ada Lovelace", "Grace"):
            box.customer(name, name=name)
        box.delete("/customers/Ada")
        if shared:
            box.billing.store.write(None, lambda tx: organizations.create(tx, NOW, "Another"))
        assert box.get("/customers?search_term=ada")["meta"]["total_count"] == 1
        assert box.get("/customers?search_term=grace")["meta"]["total_count"] == 1
        assert box.get("/customers?search_term=charles")["meta"]["total_count"] == 0


@pytest.mark.slow
def test_a_search_beside_a_filter_finds_the_same_whichever_is_looked_at() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.add_on("setup", 100)
        for number in range(8):
            name, currency = "Grace" if number in (2, 3) else f"Ada {number}", "GBP" if number in (1, 2) else "EUR"
            box.customer(f"c{number}", name=name, currency=currency)
            line = {"add_on_code": "setup", "units": "2" if number > 4 else "1", "unit_amount_cents": 100}
            box.post("/invoices", invoice={"external_customer_id": f"c{number}", "currency": currency, "fees": [line]})
        box.delete("/customers/c7")
        addresses = [
            f"/{kind}?search_term={term}&{narrowed}&per_page=2&page={page}"
            for kind, filters in {
                "customers": ("currencies[]=GBP", "currencies[]=EUR", "currencies[]=USD", "has_customer_type=false"),
                "invoices": (
                    *("currency=GBP", "currency=EUR", "payment_status=succeeded", "amount_to=100&currency=GBP"),
                    *("amount_from=150", "amount_to=150", "amount_from=150&currency=EUR"),
                    "issuing_date_from=2024-03-05",
                ),
            }.items()
            for narrowed in filters
            for term in ("ada", "grace", "ad", "charles", "c2")
            for page in (1, 2)
        ]
        shown = 0
        for address in addresses:
            with plainly():
                expected = box.get(address)
            shown += expected["meta"]["total_count"]
            for way in WAYS:
                with few(way):
                    assert box.get(address) == expected, (address, way)
        assert shown > 20


def test_a_search_in_the_history_of_an_endpoint_finds_the_same_in_every_way() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        history = box.billing.webhooks.list_of_endpoint
        endpoints = [
            box.billing.webhook_endpoints.create(webhook_url=f"https://acme.example/{number}").id for number in range(2)
        ]
        customers = [box.customer(f"c{number}")["svc_id"] for number in range(4)]
        terms = [customers[1], customers[1][-6:], customers[2][:4].upper(), customers[0][-2:], "-", "none", ""]
        questions = [
            (endpoint, {"search_term": term, **narrowed, "per_page": 3, "page": page})
            for endpoint in endpoints
            for term in terms
            for narrowed in ({}, {"statuses": ["pending"]}, {"statuses": ["failed"]}, {"to_date": "2024-03-06"})
            for page in (1, 2)
        ]
        for endpoint, filters in questions:
            with plainly():
                expected = history(endpoint, **filters)
            for way in WAYS:
                with few(way):
                    assert history(endpoint, **filters) == expected, (filters, way)
        assert [history(endpoint, search_term=customers[1].upper()).total_count for endpoint in endpoints] == [1, 1]
        assert history(endpoints[0], search_term="-").total_count == len(customers)


_COUNTRIES = st.sampled_from([None, "DE", "FR"])
_NAMES = st.sampled_from(
    [None, "", "Ada", "ADA Lovelace", "Straße", "STRASSE 1", 'say "x"', "a\0b", "\ufffd", "éÉ", "x_%"]
)
_TERMS = st.sampled_from(["a", "ad", "ada", "ADA L", "ss", "STRA", '"x', "\0", "a\0b", "\ufffd", "É", "x_%", "_"])
_TIERS = st.sampled_from([(), ("gold",), ("silver",)])
_CENTS = st.sampled_from([0, 7, 999, 1000, 1001, 1009, 1010, 123_456, 10**18, 2**63 - 1, 2**63, 10**30])


def _tiers(values: tuple[str, ...]) -> tuple[MetadataItem, ...]:
    return tuple(MetadataItem(id="m", key="tier", value=value, created_at=NOW) for value in values)


@pytest.fixture(scope="module")
def store() -> Iterator[SqliteStore]:
    opened = SqliteStore(":memory:")
    yield opened
    opened.close()


@pytest.fixture
def own_store() -> Iterator[SqliteStore]:
    opened = SqliteStore(":memory:")
    yield opened
    opened.close()


class TestHistories:
    """Counts, texts and items after any history of writes."""

    @pytest.mark.slow
    @examples(60, deadline=None)
    @given(data=st.data())
    def test_of_customers(self, store: SqliteStore, data: st.DataObject) -> None:
        tenant = new_tenant(store)
        entity = tenant.entity()
        tenant.insert(entity)
        people: list[Customer] = []
        for _ in range(data.draw(st.integers(1, 8))):
            action = data.draw(st.sampled_from(["insert", "replace", "delete", "remove"])) if people else "insert"
            fields = {
                "name": data.draw(_NAMES),
                "country": data.draw(_COUNTRIES),
                "metadata": _tiers(data.draw(_TIERS)),
                "tax_identification_number": data.draw(st.sampled_from([None, "", "DE1"])),
            }
            if action == "insert":
                people.append(tenant.customer(entity, **fields))
                tenant.insert(people[-1])
                continue
            place = data.draw(st.integers(0, len(people) - 1))
            if action == "remove":
                gone = people.pop(place)
                tenant.write(lambda tx, gone=gone: tx.delete(gone))  # type: ignore[misc]
                continue
            at = NOW if action == "delete" else None
            people[place] = replace(people[place], **fields, deleted_at=at)  # type: ignore[arg-type]
            changed = people[place]
            tenant.write(lambda tx, changed=changed: tx.replace(changed))  # type: ignore[misc]
        recounted(store._writer)
        live = [person for person in people if person.deleted_at is None]
        term = data.draw(_TERMS)
        searched = contains(("name",), term)
        expected = {person.id for person in live if person.name and term.casefold() in person.name.casefold()}
        in_order = sorted(live, key=lambda person: (-person.created_at.timestamp(), person.id))

        def check(matching: set[str], *conditions: Condition) -> None:
            ids = [person.id for person in in_order if person.id in matching]
            newest = [desc("created_at")]
            whole = tenant.read(lambda tx: tx.page(Customer, *conditions, order=newest, limit=99))
            part = tenant.read(lambda tx: tx.page(Customer, *conditions, order=newest, limit=2, offset=1))
            assert ([person.id for person in whole[0]], whole[1]) == (ids, Total(len(ids)))
            assert ([person.id for person in part[0]], part[1]) == (ids[1:3], Total(len(ids)))
            assert tenant.read(lambda tx: tx.count(Customer, *conditions)) == len(ids)

        golden = has_item("metadata", key="tier", value="gold")
        gold = {person.id for person in live if any(item.value == "gold" for item in person.metadata)}
        bare = {person.id for person in live if not person.metadata}
        german = {person.id for person in live if person.country == "DE"}
        somewhere = {person.id for person in live if person.country is not None}
        for way in WAYS:
            with few(way):
                check(expected, searched)
                check(gold, golden)
                check(bare, negate(has_item("metadata", key="tier")))
                check(gold & german, golden, eq("country", "DE"))
                check(gold & expected, golden, searched)
                check(german & expected, eq("country", "DE"), searched)
                check(somewhere, within("country", ("DE", "FR")))

    @pytest.mark.slow
    @examples(60, deadline=None)
    @given(data=st.data())
    def test_of_documents_that_are_searched_with_their_customers(self, store: SqliteStore, data: st.DataObject) -> None:
        """Whatever is renamed, hidden or removed, in whatever order it was written."""
        tenant = new_tenant(store)
        entity = tenant.entity()
        tenant.insert(entity)
        people = [tenant.customer(entity, name=data.draw(_NAMES)) for _ in range(2)]
        invoices: list[Invoice] = []
        numbers = st.sampled_from(["A-1", "ada-12", "x_%", "ß"])
        statuses = st.sampled_from(["finalized", "generating"])
        written: set[str] = set()
        for _ in range(data.draw(st.integers(1, 8))):
            action = data.draw(st.sampled_from(["insert", "insert", "replace", "rename", "remove"]))
            person = data.draw(st.integers(0, len(people) - 1))
            if action == "rename":
                people[person] = replace(people[person], name=data.draw(_NAMES))
                if people[person].id in written:
                    tenant.write(lambda tx, changed=people[person]: tx.replace(changed))  # type: ignore[misc]
                continue
            fields: dict[str, Any] = {"number": data.draw(numbers), "status": data.draw(statuses)}
            if action == "insert" or not invoices:
                invoices.append(tenant.invoice(people[person], **fields))
                new = [invoices[-1], *([] if people[person].id in written else [people[person]])]
                written.add(people[person].id)
                listed_between = data.draw(st.booleans())

                def insert(tx: Transaction, new: Any = new[::-1], listed: bool = listed_between) -> None:
                    for record in new:
                        tx.insert(record)
                        if listed:
                            tx.count(Customer, contains(("name",), "a"))
                            tx.count(Invoice, contains(("number",), "a"))

                tenant.write(insert)
                continue
            place = data.draw(st.integers(0, len(invoices) - 1))
            if action == "remove":
                gone = invoices.pop(place)
                tenant.write(lambda tx, gone=gone: tx.delete(gone))  # type: ignore[misc]
            else:
                changed = invoices[place] = replace(invoices[place], **fields)
                tenant.write(lambda tx, changed=changed: tx.replace(changed))  # type: ignore[misc]
        recounted(store._writer)
        named = {person.id: (person.name or "").casefold() for person in people}
        term = data.draw(_TERMS)
        searched = any_of(
            contains(("number",), term), related(Customer, "customer_id", contains(CUSTOMER_COLUMNS, term))
        )
        shown = within("status", VISIBLE)
        folded = term.casefold()
        expected = {
            invoice.id
            for invoice in invoices
            if invoice.status in VISIBLE
            and (
                folded in (invoice.number or "").casefold()
                or folded in named[invoice.customer_id]
                or any(
                    folded in (getattr(person, column) or "").casefold()
                    for person in people
                    if person.id == invoice.customer_id
                    for column in CUSTOMER_COLUMNS
                )
            )
        }
        order = [desc("issuing_date"), desc("created_at")]
        for way in WAYS:
            with few(way):
                matching, total = tenant.read(lambda tx: tx.page(Invoice, shown, searched, order=order, limit=99))
                assert {invoice.id for invoice in matching} == expected
                assert total == Total(len(expected))

    def test_what_belongs_to_others_is_counted_as_they_change(self, store: SqliteStore) -> None:
        tenant = new_tenant(store)
        entity, other = tenant.entity(), tenant.entity()
        customer, plan = tenant.customer(entity), tenant.plan(amount_currency="EUR")
        subscriptions = [tenant.subscription(customer, plan) for _ in range(3)]
        tenant.insert(entity, other, customer, plan, *subscriptions)

        def of_currency(currency: str) -> int:
            plan_in_currency = related(Plan, "plan_id", eq("amount_currency", currency))
            return tenant.read(lambda tx: tx.count(Subscription, eq("status", "active"), plan_in_currency))

        def issued_by(id: str) -> int:
            return tenant.read(
                lambda tx: tx.count(Subscription, related(Customer, "customer_id", eq("billing_entity_id", id)))
            )

        assert (of_currency("EUR"), of_currency("USD"), issued_by(entity.id), issued_by(other.id)) == (3, 0, 3, 0)
        tenant.write(lambda tx: tx.replace(replace(plan, amount_currency="USD")))
        tenant.write(lambda tx: tx.replace(replace(customer, billing_entity_id=other.id)))
        assert (of_currency("EUR"), of_currency("USD"), issued_by(entity.id), issued_by(other.id)) == (0, 3, 0, 3)
        recounted(store._writer)

    def test_uses_of_a_coupon_are_counted(self, store: SqliteStore) -> None:
        tenant = new_tenant(store)
        entity = tenant.entity()
        customer, gone = tenant.customer(entity), tenant.customer(entity)
        fields: Any = {"organization_id": tenant.id, "created_at": NOW, "updated_at": NOW, "frequency": "forever"}
        coupons = [
            Coupon(
                id=f"{tenant.id}-coupon-{code}",
                name="Spring",
                code=code,
                coupon_type="percentage",
                expiration="no_expiration",
                **fields,
            )
            for code in ("a", "b")
        ]
        uses = [
            AppliedCoupon(
                id=f"{tenant.id}-use-{place}",
                coupon_id=coupon.id,
                customer_id=whose.id,
                status=CouponStatus.ACTIVE,
                **fields,
            )
            for place, (coupon, whose) in enumerate(
                [(coupons[0], customer)] * 3 + [(coupons[1], customer), (coupons[0], gone)]
            )
        ]
        tenant.insert(entity, customer, gone, *coupons, *uses)
        tenant.write(lambda tx: tx.replace(replace(gone, deleted_at=NOW)))
        tenant.write(lambda tx: tx.replace(replace(uses[0], status=CouponStatus.TERMINATED)))
        of_first = related(Coupon, "coupon_id", within("code", (coupons[0].code,)))
        live = related(Customer, "customer_id", missing("deleted_at"))
        newest = [desc("created_at")]

        def count_and_ids(*conditions: Condition) -> tuple[int, set[str]]:
            listed, total = tenant.read(lambda tx: tx.page(AppliedCoupon, *conditions, order=newest, limit=9))
            return total.count, {use.id for use in listed}

        assert count_and_ids(of_first, live) == (3, {use.id for use in uses[:3]})
        assert count_and_ids(of_first, live, eq("status", "active")) == (2, {use.id for use in uses[1:3]})
        of_both = within("coupon_id", tuple(coupon.id for coupon in coupons))
        assert count_and_ids(of_both, live, at_least("created_at", NOW)) == (4, {use.id for use in uses[:4]})
        recounted(store._writer)

    def test_notices_of_providers_are_counted(self, store: SqliteStore) -> None:
        tenant = new_tenant(store)
        statuses = [NoticeStatus.SUCCEEDED, NoticeStatus.FAILED, NoticeStatus.FAILED, NoticeStatus.PENDING]
        notices = [
            ProviderNotice(
                id=f"{tenant.id}-{place}",
                organization_id=tenant.id,
                connection_id="cards",
                event_id=f"evt-{place}",
                type="payment",
                body="{}",
                created_at=second(place),
                updated_at=NOW,
                status=status,
            )
            for place, status in enumerate(statuses)
        ]
        tenant.insert(*notices)
        newest = [desc("created_at")]
        failed = eq("status", NoticeStatus.FAILED)
        assert tenant.read(lambda tx: tx.count(ProviderNotice, failed)) == 2
        page = tenant.read(lambda tx: tx.page(ProviderNotice, failed, order=newest, limit=1, offset=1))
        assert page == ([notices[1]], Total(2))
        tenant.write(lambda tx: tx.replace(replace(notices[1], status=NoticeStatus.SUCCEEDED)))
        tenant.write(lambda tx: tx.delete(notices[0]))
        page = tenant.read(lambda tx: tx.page(ProviderNotice, failed, order=newest, limit=9))
        assert page == ([notices[2]], Total(1))
        assert tenant.read(lambda tx: tx.count(ProviderNotice)) == 3
        recounted(store._writer)

    def test_whole_texts_in_any_case(self, store: SqliteStore) -> None:
        tenant = new_tenant(store)
        entity = tenant.entity()
        customer = tenant.customer(entity)
        numbers = [None, "", "PO-1", "po-1", "Straße", "a\0"]
        invoices = [tenant.invoice(customer, purchase_order_number=number) for number in numbers]
        tenant.insert(entity, customer, *invoices)
        for searched, expected in (("Po-1", 2), ("STRASSE", 1), ("po", 0), ("", 1), ("A\0", 1)):
            assert _number(tenant, Invoice, SHOWN, same_text("purchase_order_number", searched)) == expected, searched
        tenant.write(lambda tx: tx.replace(replace(invoices[2], purchase_order_number="other")))
        assert _number(tenant, Invoice, SHOWN, same_text("purchase_order_number", "PO-1")) == 1

    @given(data=st.data())
    def test_bounds_of_amounts(self, store: SqliteStore, data: st.DataObject) -> None:
        tenant, invoices = _invoices(store, data.draw(st.lists(_CENTS, max_size=8)))
        lowest, highest = data.draw(_CENTS), data.draw(_CENTS)
        for conditions, expected in (
            ([at_least("total_amount_cents", lowest)], [cents for cents in invoices if cents >= lowest]),
            ([at_most("total_amount_cents", highest)], [cents for cents in invoices if cents <= highest]),
            (
                [at_least("total_amount_cents", lowest), at_most("total_amount_cents", highest)],
                [cents for cents in invoices if lowest <= cents <= highest],
            ),
        ):
            assert _number(tenant, Invoice, SHOWN, *conditions) == len(expected)

    @given(data=st.data())
    def test_bounds_of_instants(self, store: SqliteStore, data: st.DataObject) -> None:
        tenant = new_tenant(store)
        entity = tenant.entity()
        customer = tenant.customer(entity)
        days = [day * 86_400 for day in (-1000, -400, -366, -60, -31, -2, -1, 1, 30, 59, 366, 1000)]
        instants = st.sampled_from([*days, -50_000, -45_016, -45_015, 0, 0.5, 3600, 41_384]).map(second)
        fees = [
            tenant.fee(customer, created_at=data.draw(instants), succeeded_at=data.draw(st.none() | instants))
            for _ in range(data.draw(st.integers(0, 8)))
        ]
        tenant.insert(entity, customer, *fees)
        lowest, highest = data.draw(instants), data.draw(instants)
        for column in ("created_at", "succeeded_at"):
            values = [getattr(fee, column) for fee in fees if getattr(fee, column) is not None]
            bounds = [at_least(column, lowest), at_most(column, highest)]
            for conditions, expected in (
                (bounds[:1], [value for value in values if value >= lowest]),
                (bounds[1:], [value for value in values if value <= highest]),
                (bounds, [value for value in values if lowest <= value <= highest]),
            ):
                assert _number(tenant, Fee, *conditions) == len(expected)


SHOWN = within("status", VISIBLE)


def _number(tenant: Tenant, kind: type[Invoice | Fee], *conditions: Condition) -> int:
    """How many records a list has, whose first page is not its last one."""
    listing = table_of(kind).listing
    assert listing is not None
    records, total = tenant.read(lambda tx: tx.page(kind, *conditions, order=listing.order, limit=1))
    assert len(records) == min(total.count, 1)
    return total.count


def _invoices(store: SqliteStore, amounts: list[int]) -> tuple[Tenant, list[int]]:
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity)
    tenant.insert(entity, customer, *(tenant.invoice(customer, total_amount_cents=cents) for cents in amounts))
    return tenant, amounts


class TestEvents:
    @given(data=st.data())
    def test_lists_of_events(self, store: SqliteStore, data: st.DataObject) -> None:
        """However many hours and subscriptions they lie in, and whatever they share."""
        tenant = new_tenant(store)
        seconds = st.sampled_from([-1_800_000_000, -7200, -3600, -1815.123456, -1815.2, 0, 0.5, 1, 3600, 90_000])
        codes, subscriptions = st.sampled_from(["a", "b", "c"]), st.sampled_from(["s", "t", None])
        sent = [
            event(tenant.id, number, {})._replace(
                timestamp=second(data.draw(seconds)),
                code=data.draw(codes),
                external_subscription_id=data.draw(subscriptions),
            )
            for number in range(data.draw(st.integers(0, 16)))
        ]
        tenant.write(lambda tx: tx.events.append(sent))
        wanted = EventFilter(
            code=data.draw(st.none() | codes),
            external_subscription_id=data.draw(subscriptions),
            timestamp_from=data.draw(st.none() | seconds.map(second)),
            timestamp_to=data.draw(st.none() | seconds.map(second)),
        )
        expected = sorted(
            (event for event in sent if _is_wanted(wanted, event)),
            key=lambda event: (-event.timestamp.timestamp(), event.transaction_id),
        )
        offset, limit = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 4))
        assert tenant.read(lambda tx: tx.events.count(wanted)) == len(expected)
        assert tenant.read(lambda tx: tx.events.count(wanted, at_most=3)) == min(3, len(expected))
        page = tenant.read(lambda tx: tx.events.find(wanted, limit=limit, offset=offset))
        assert page == expected[offset : offset + limit]

    def test_events_that_are_undone_are_not_counted(self, own_store: SqliteStore) -> None:
        tenant = new_tenant(own_store)

        def fail(tx: Transaction) -> None:
            tx.events.append([event(tenant.id, number, {}) for number in range(5)])
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            tenant.write(fail)
        tenant.write(lambda tx: tx.events.append([event(tenant.id, number, {}) for number in range(4)]))
        # One of these is there already, so none is stored.
        assert tenant.write(lambda tx: tx.events.append([event(tenant.id, number, {}) for number in (5, 6, 3)])) == [2]
        assert tenant.read(lambda tx: tx.events.count(EventFilter())) == 4


def _is_wanted(wanted: EventFilter, event: Event) -> bool:
    return (
        wanted.code in (None, event.code)
        and wanted.external_subscription_id in (None, event.external_subscription_id)
        and (wanted.timestamp_from is None or wanted.timestamp_from <= event.timestamp)
        and (wanted.timestamp_to is None or event.timestamp <= wanted.timestamp_to)
    )


class TestTotalsThatStop:
    """Searches, and several filters, are counted up to a number."""

    @pytest.fixture
    def box(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenario]:
        monkeypatch.setattr(SqliteLists, "few", 2)
        monkeypatch.setattr(sql_lists, "MOST_COUNTED", 3)
        with Scenario(now="2024-03-05T10:00:00Z") as box:
            for number in range(8):
                box.billing.customers.upsert(
                    external_id=f"c{number}",
                    name="Ada" if number < 7 else "Grace",
                    state="S1" if number else "S2",
                    currency="EUR",
                    metadata=[{"key": "tier", "value": "gold"}],
                )
            yield box

    @pytest.mark.parametrize("filters", ["search_term=ada", "search_term=ad", "metadata[tier]=gold&metadata[no]="])
    def test_pages_go_on_behind_the_last_one_that_was_counted(self, box: Scenario, filters: str) -> None:
        matching = 8 if "metadata" in filters else 7
        shown = []
        for page in range(1, 6):
            listed = box.get(f"/customers?{filters}&per_page=2&page={page}")
            shown += [customer["external_id"] for customer in listed["customers"]]
            if page < 4:
                assert listed["meta"] == {
                    "current_page": page,
                    "next_page": page + 1,
                    "prev_page": page - 1 or None,
                    "total_pages": 2,
                    "total_count": 3,
                    "total_count_is_exact": False,
                }
        assert shown == [f"c{number}" for number in range(matching)]

    def test_events_are_counted_up_to_a_number_of_their_own(
        self, box: Scenario, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events, "MOST_COUNTED", 4)
        box.billing.events.ingest({"transaction_id": f"t{number}", "code": "calls"} for number in range(5))
        pages = [box.get(f"/events?per_page=2&page={page}") for page in (1, 2, 3)]
        assert [[event["transaction_id"] for event in page["events"]] for page in pages] == [
            ["t0", "t1"],
            ["t2", "t3"],
            ["t4"],
        ]
        assert [page["meta"]["total_count"] for page in pages] == [4, 4, 5]
        assert [page["meta"]["next_page"] for page in pages] == [2, 3, None]
        assert [page["meta"].get("total_count_is_exact") for page in pages] == [False, False, None]
        meta = box.get("/events?per_page=2&timestamp_from=2024-03-06T00:00:00Z")["meta"]
        assert (meta["total_count"], "total_count_is_exact" in meta) == (0, False)

    def test_the_last_page_knows_the_total(self, box: Scenario) -> None:
        meta = box.get("/customers?search_term=ada&per_page=2&page=4")["meta"]
        assert (meta["total_count"], meta["next_page"], meta.get("total_count_is_exact")) == (7, None, None)

    @pytest.mark.parametrize(
        ("filters", "total"),
        [("", 8), ("currencies[]=EUR", 8), ("metadata[tier]=gold", 8), ("metadata[no]=", 8), ("states[]=S1", 7)],
    )
    def test_one_filter_is_counted_to_the_end(self, box: Scenario, filters: str, total: int) -> None:
        meta = box.get(f"/customers?{filters}&per_page=2")["meta"]
        assert (meta["total_count"], "total_count_is_exact" in meta) == (total, False)

    def test_a_list_of_the_library_goes_through_all_of_its_pages(self, box: Scenario) -> None:
        found = box.billing.customers.list(search_term="ada", per_page=2)
        assert (found.total_count, found.total_count_is_exact) == (3, False)
        assert len(list(found)) == 7
