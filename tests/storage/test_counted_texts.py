"""Texts that many records have are counted beforehand, by facets; any count equals one over the records."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.storage.contract import NOW, Tenant, new_tenant

from usagebill.core.customers import Customer, MetadataItem
from usagebill.core.entitlements import Feature
from usagebill.core.invoices.life_cycle import VISIBLE
from usagebill.core.invoices.records import Invoice
from usagebill.storage.conditions import Compare, Condition, Item, any_of, contains, desc, eq, negate, related, within
from usagebill.storage.listings import CountFault
from usagebill.storage.ports import Snapshot, Transaction
from usagebill.storage.sqlite import SqliteStore, counted_texts, lists, record_sets, searches, text_counts, value_sets
from usagebill.storage.sqlite.counted_texts import CommonTexts, common_pieces
from usagebill.storage.tables import CUSTOMER_COLUMNS, Table, table_of

_NEWEST = (desc("created_at"),)
_SEARCHED = ("name", "firstname", "lastname", "legal_name", "external_id", "email")
_NAMES = st.sampled_from(
    [None, "", "Ada", "ADA Lovelace", "Lovelac elace", "Straße", "Ada & Ada", "Grace", "a\0b", "x_%"]
)
TIERS = st.sampled_from([None, "gold", "silver", ""])
METADATA = st.sampled_from([(), ("gold",), ("silver",)]).map(
    lambda values: tuple(MetadataItem(id="m", key="tier", value=value, created_at=NOW) for value in values)
)
_INSTANTS = st.sampled_from([NOW, NOW - timedelta(days=40), NOW - timedelta(days=41), NOW - timedelta(days=700)])
_NUMBERS = st.sampled_from(["A-1", "ada-12", "x_%", "ß", "A-2"])
_TERMS = (
    "a",
    "d",
    "ad",
    "ada",
    "ada l",
    "lovelace",
    "Ada Lovelace",
    "ss",
    "strass",
    "A-",
    "A-1",
    "x_%",
    "no such",
    "\0",
    "e",
    "customer",
)


@pytest.fixture(scope="module")
def early() -> Iterator[None]:
    """Texts are counted from the first record on, two records at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_LEAST", 1), ("_WORTHWHILE", 1), ("_AT_ONCE", 2), ("_SAMPLE", 50), ("_SHARE", 0.2)):
            patch.setattr(counted_texts, name, value)
        patch.setattr(value_sets, "_LEAST", 2)
        yield


@pytest.fixture
def store(early: None) -> Iterator[SqliteStore]:
    opened = SqliteStore(":memory:")
    yield opened
    opened.close()


def _is_in(term: str, record: Any, columns: tuple[str, ...]) -> bool:
    return any(term.casefold() in (getattr(record, column) or "").casefold() for column in columns)


def catch_up(store: SqliteStore) -> None:
    while store.roll_up_usage():
        pass


def recounted(store: SqliteStore, kind: type) -> None:
    """Once all is caught up with, the counts are those of the records as they are."""
    catch_up(store)
    connection, name = store._writer, table_of(kind).name
    common = [text for (text,) in connection.execute(f'SELECT text FROM "{name}_common" ORDER BY place')]

    def kept(suffix: str, key: str) -> Counter[tuple[object, ...]]:
        rows = connection.execute(f'SELECT numbers, {key} FROM "{name}_common_{suffix}"').fetchall()
        return Counter(
            {
                (text, *values): number
                for numbers, *values in rows
                for text, number in zip(common, array("i", numbers), strict=True)
                if number
            }
        )

    table = table_of(kind)
    texts = ", ".join(counted_texts.searched_texts(table, "x", "c"))
    rows = connection.execute(
        f'SELECT p.code, {texts} FROM "{name}_texts" x{counted_texts.texts_join(table, "x")}'
        f' LEFT JOIN "{name}_profiled" p ON p.sequence = x.sequence WHERE x.shown'
    ).fetchall()
    expected = Counter(
        (text, code)
        for code, *of_record in rows
        for text in common
        if any(text in value for value in of_record if value)
    )
    assert kept("counts", "code") == expected
    in_slots: Counter[tuple[object, ...]] = Counter()
    for ranged, slot in counted_texts.range_slots(table):
        rows = connection.execute(
            f'SELECT f.organization_id, {slot}, {texts} FROM "{name}_texts" x{counted_texts.texts_join(table, "x")}'
            f' JOIN "{name}_profiled" p ON p.sequence = x.sequence JOIN "{name}_profiles" f ON f.code = p.code'
            " WHERE x.shown"
        ).fetchall()
        in_slots.update(
            (text, organization_id, ranged, value)
            for organization_id, value, *of_record in rows
            for text in common
            if value is not None and any(text in value for value in of_record if value)
        )
    assert kept("slots", "organization_id, ranged, slot") == in_slots
    assert not connection.execute(f'SELECT 1 FROM "{name}_common_changed"').fetchall()
    _sets_recounted(connection, table, common)


def _sets_recounted(connection: Any, table: Table, common: list[str]) -> None:
    name = table.name
    texts = ", ".join(counted_texts.searched_texts(table, "x", "c"))
    expected: dict[int, set[int]] = {}
    for sequence, code, *of_record in connection.execute(
        f'SELECT p.sequence, p.code, {texts} FROM "{name}_profiled" p JOIN "{name}_texts" x ON x.sequence = p.sequence'
        f"{counted_texts.texts_join(table, 'x')}"
    ).fetchall():
        for number in value_sets.facets_of_codes(connection, table, [code])[code]:
            expected.setdefault(record_sets.value_set(number), set()).add(sequence)
        for place, text in enumerate(common):
            if any(text in value for value in of_record if value):
                expected.setdefault(record_sets.place_set(place), set()).add(sequence)
    numbers = {tuple(row[1:]): row[0] for row in connection.execute(f'SELECT * FROM "{name}_sets"').fetchall()}
    for ranged, slot in counted_texts.set_slots(table):
        for sequence, organization_id, value in connection.execute(
            f'SELECT p.sequence, f.organization_id, {slot} FROM "{name}_profiled" p'
            f' JOIN "{name}_profiles" f ON f.code = p.code'
        ).fetchall():
            number = record_sets.slot_set(numbers[organization_id, ranged, value])
            expected.setdefault(number, set()).add(sequence)
    for number, organization_id, ranged, value in connection.execute(f'SELECT * FROM "{name}_sets"').fetchall():
        column, _, key = ranged.partition(" ")
        if column == "metadata":
            having = connection.execute(
                f"SELECT x.place FROM {name}_metadata x JOIN {name}_profiled p ON p.sequence = x.place"
                " WHERE x.organization_id = ? AND x.key = ? AND (x.value = ? OR ? = x'')".format(name),
                (organization_id, key, value, value),
            )
            expected.setdefault(record_sets.value_set(number), set()).update(place for (place,) in having)
    kept: dict[int, set[int]] = {}
    for key, bits in connection.execute(f'SELECT id, bits FROM "{name}_set_bits"').fetchall():
        first = key >> 40 << 13
        places = {first + place for place in record_sets.places_in(int.from_bytes(bits, "little"))}
        kept.setdefault(key & (1 << 40) - 1, set()).update(places)
    assert {number: places for number, places in kept.items() if places} == {
        number: places for number, places in expected.items() if places
    }


def _faults(tenant: Tenant) -> list[CountFault]:
    return tenant.read(lambda tx: list(tx.list_counts.faults()))


class _History:
    """Customers and their invoices, written in any order; now and then some are counted."""

    def __init__(self, store: SqliteStore, data: st.DataObject) -> None:
        self.store, self.data = store, data
        self.tenant: Tenant = new_tenant(store)
        self.other: Tenant = new_tenant(store)
        self.entity = self.tenant.entity()
        self.tenant.insert(self.entity)
        self.people: list[Customer] = []
        self.invoices: list[Invoice] = []
        stranger = self.other.entity()
        self.other.insert(stranger, self.other.customer(stranger, name="Ada"))

    def faults(self) -> list[CountFault]:
        """What an audit of both organizations finds, whether or not all changes are counted."""
        return [fault for tenant in (self.tenant, self.other) for fault in _faults(tenant)]

    def step(self) -> None:
        draw = self.data.draw
        actions = ["customer", "count"]
        if self.people:
            actions += ["rename", "hide", "invoice", "invoice", "orphan"]
        if self.invoices:
            actions += ["change", "change", "remove"]
        match draw(st.sampled_from(actions)):
            case "customer":
                country = draw(st.sampled_from(["DE", "FR"]))
                person = self.tenant.customer(
                    self.entity,
                    name=draw(_NAMES),
                    country=country,
                    metadata=draw(METADATA),
                    created_at=draw(_INSTANTS),
                )
                self.people.append(person)
                self.tenant.insert(self.people[-1])
            case "count":
                for _ in range(draw(st.integers(1, 4))):
                    self.store.roll_up_usage()
            case "rename":
                self._replace_person(
                    name=draw(_NAMES), country=draw(st.sampled_from(["DE", "FR"])), metadata=draw(METADATA)
                )
            case "hide":
                self._replace_person(deleted_at=draw(st.sampled_from([None, NOW])))
            case "invoice" | "orphan" as action:
                person = draw(st.sampled_from(self.people))
                if action == "orphan":
                    person = self.tenant.customer(self.entity, name=draw(_NAMES), country="DE")
                    self.people.append(person)
                invoice = self.tenant.invoice(
                    person,
                    number=draw(_NUMBERS),
                    status=draw(_STATUSES),
                    currency="EUR",
                    issuing_date=draw(_DATES),
                    total_amount_cents=draw(_AMOUNTS),
                    metadata=draw(METADATA),
                )
                self.invoices.append(invoice)
                # Its customer may be written after it.
                self.tenant.insert(*([invoice] if action == "invoice" else [person, invoice]))
            case "change":
                place = draw(st.integers(0, len(self.invoices) - 1))
                changes: dict[str, Any] = {
                    "number": draw(_NUMBERS),
                    "status": draw(_STATUSES),
                    "issuing_date": draw(_DATES),
                    "total_amount_cents": draw(_AMOUNTS),
                    "metadata": draw(METADATA),
                }
                changed = replace(self.invoices[place], **changes, currency=draw(st.sampled_from(["EUR", "USD"])))
                self.invoices[place] = changed
                self.tenant.write(lambda tx: tx.replace(changed))
            case "remove":
                gone = self.invoices.pop(draw(st.integers(0, len(self.invoices) - 1)))
                self.tenant.write(lambda tx: tx.delete(gone))

    def _replace_person(self, **changes: Any) -> None:
        place = self.data.draw(st.integers(0, len(self.people) - 1))
        changed = self.people[place] = replace(self.people[place], **changes)
        self.tenant.write(lambda tx: tx.replace(changed))

    def matching_customers(self, term: str, country: str | None, tier: str | None = None) -> set[str]:
        return {
            person.id
            for person in self.people
            if person.deleted_at is None
            and _is_in(term, person, _SEARCHED)
            and country in (None, person.country)
            and has_tier(person, tier)
        }

    def matching_invoices(
        self, term: str, currency: str | None, bounds: tuple[Condition, ...] = (), tier: str | None = None
    ) -> set[str]:
        people = {person.id: person for person in self.people}
        return {
            invoice.id
            for invoice in self.invoices
            if invoice.status in VISIBLE
            and currency in (None, invoice.currency)
            and all(_lies_within(invoice, bound) for bound in bounds)
            and has_tier(invoice, tier)
            and (_is_in(term, invoice, ("number",)) or _is_in(term, people[invoice.customer_id], CUSTOMER_COLUMNS))
        }

    def check(self) -> None:
        newest = (desc("created_at"),)
        latest = (desc("issuing_date"), desc("created_at"))
        conditions: list[Condition]
        bounds, tier = self.data.draw(_BOUNDS), self.data.draw(TIERS)
        for wanted in (None, "FR"):
            conditions = [*([eq("country", wanted)] if wanted else []), *of_tier(tier)]
            self._holds(Customer, conditions, newest, self.matching_customers("", wanted, tier))
        for wanted in (None, "USD"):
            conditions = [within("status", VISIBLE), *([eq("currency", wanted)] if wanted else [])]
            conditions += [*bounds, *of_tier(tier)]
            self._holds(Invoice, conditions, latest, self.matching_invoices("", wanted, bounds, tier))
        for term in _TERMS:
            for country in (None, "FR"):
                conditions = [
                    contains(_SEARCHED, term),
                    *([eq("country", country)] if country else []),
                ]
                conditions += of_tier(tier)
                self._holds(Customer, conditions, newest, self.matching_customers(term, country, tier))
            for currency in (None, "USD"):
                searched = any_of(
                    contains(("number",), term), related(Customer, "customer_id", contains(CUSTOMER_COLUMNS, term))
                )
                conditions = [within("status", VISIBLE), searched, *([eq("currency", currency)] if currency else [])]
                self._holds(Invoice, conditions, latest, self.matching_invoices(term, currency))
                conditions += [*bounds, *of_tier(tier)]
                self._holds(Invoice, conditions, latest, self.matching_invoices(term, currency, bounds, tier))

    def _holds(self, kind: Any, conditions: list[Condition], order: Any, expected: set[str]) -> None:
        def ask(tx: Any) -> tuple[int, list[str], list[str]]:
            whole = tx.find(kind, *conditions, order=order, limit=99)
            page = tx.find(kind, *conditions, order=order, limit=2, offset=1)
            number: int = tx.count(kind, *conditions)
            return number, [record.id for record in whole], [record.id for record in page]

        number, listed, page = self.tenant.read(ask)
        written: list[Any] = [*self.people, *self.invoices]
        records = {record.id: record for record in written}
        in_order = sorted(expected)
        in_order.sort(key=lambda id: [getattr(records[id], item.column) for item in order], reverse=True)
        assert number == len(expected), (kind, conditions)
        assert listed == in_order, (kind, conditions)
        assert page == in_order[1:3], (kind, conditions)


_STATUSES = st.sampled_from(["finalized", "finalized", "generating"])
_DATES = st.sampled_from(
    [date(2024, 2, 29), *(date(2024, 3, day) for day in (1, 2, 9, 10, 19, 20, 30, 31)), date(2025, 1, 1)]
)
# With 40,500, a slot and the first part of it have amounts.
_AMOUNTS = st.sampled_from([-5, 0, 999, 4900, 40_500, 47_110, 47_119, 47_200, 10**19])


def _bounds(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Condition, ...]]:
    return st.lists(
        st.builds(Compare, st.just(column), st.sampled_from([">=", "<="]), values),
        min_size=1,
        max_size=2,
        unique_by=lambda bound: bound.operator,
    ).map(tuple)


_DATES_ASKED = _bounds("issuing_date", st.dates(date(2024, 2, 1), date(2025, 1, 31)))
_AMOUNTS_ASKED = _bounds("total_amount_cents", _AMOUNTS | st.integers(0, 50_000))
_BOUNDS = st.one_of(
    _DATES_ASKED, _AMOUNTS_ASKED, st.tuples(_DATES_ASKED, _AMOUNTS_ASKED).map(lambda both: both[0] + both[1])
)


def of_tier(tier: str | None) -> list[Condition]:
    """The condition on metadata: a value, or with an empty one that the key is not there."""
    if tier is None:
        return []
    if not tier:
        return [negate(Item("metadata", (("key", "tier"),)))]
    return [Item("metadata", (("key", "tier"), ("value", tier)))]


def has_tier(record: Any, tier: str | None) -> bool:
    values = {item.value for item in record.metadata if item.key == "tier"}
    return tier is None or (tier in values if tier else not values)


def _lies_within(record: Any, bound: Any) -> bool:
    value = getattr(record, bound.column)
    return bool(value >= bound.value if bound.operator == ">=" else value <= bound.value)


def test_nothing_is_counted_once_the_last_record_is_removed(store: SqliteStore) -> None:
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity, name="Ada", country="DE")
    invoice = tenant.invoice(customer, number="A-1")
    tenant.insert(entity, customer, invoice)
    catch_up(store)
    tenant.write(lambda tx: tx.delete(invoice))
    recounted(store, Invoice)


def _delete(feature: Feature, tx: Transaction) -> None:
    tx.delete(feature)


def _search(condition: Condition, tx: Snapshot) -> tuple[int, list[Feature]]:
    return tx.count(Feature, condition), list(tx.find(Feature, condition, order=_NEWEST, limit=9))


@pytest.mark.parametrize("read_at_most", [0, 3_000])
def test_records_without_facets_are_searched(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, read_at_most: int
) -> None:
    """Whether their sets are compared or the records themselves, those of other organizations are left out."""
    monkeypatch.setattr(searches, "_READ", read_at_most)
    organizations = [new_tenant(store), new_tenant(store)]
    for place, tenant in enumerate(organizations):
        names = ["Ada", "Ada", "Grace", f"rare {place}", "Ada"]
        features = [
            Feature(
                id=f"{place}-{number}",
                organization_id=tenant.id,
                code=f"c{number}",
                name=name,
                created_at=NOW + timedelta(seconds=number),
                updated_at=NOW,
            )
            for number, name in enumerate(names)
        ]
        tenant.insert(*features)
        catch_up(store)
        tenant.write(partial(_delete, features[-1]))
        catch_up(store)
    for place, tenant in enumerate(organizations):
        for term, matching in {"ada": 2, "race": 1, "rare": 1, f"rare {place}": 1, f"rare {1 - place}": 0}.items():
            condition = contains(("name", "code", "description"), term)
            number, page = tenant.read(partial(_search, condition))
            assert number == len(page) == matching
            assert all(feature.organization_id == tenant.id for feature in page)


@examples(25, deadline=None)
@given(data=st.data())
def test_counts_follow_any_history(early: None, data: st.DataObject) -> None:
    store = SqliteStore(":memory:")
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans(), "sets rather than records are compared, and pages read from them"):
            patch.setattr(searches, "_READ", 0)
            patch.setattr(searches, "_COMPARED", data.draw(st.sampled_from([0, 2_000])))
            patch.setattr(searches, "_NARROWED", data.draw(st.sampled_from([1, 1_500])))
            patch.setattr(searches, "_SORTED", data.draw(st.sampled_from([0, 10_000])))
            patch.setattr(searches, "_GATHERED", data.draw(st.sampled_from([-1_000, 400])))
            patch.setattr(searches, "_STEPS_EACH", data.draw(st.sampled_from([0, 20_000])))
            patch.setattr(searches, "_SORTED_EACH", data.draw(st.sampled_from([1, 100])))
            patch.setattr(lists, "is_common", lambda *_: False)
        _live_and_check(store, data)


def _live_and_check(store: SqliteStore, data: st.DataObject) -> None:
    try:
        history = _History(store, data)
        for _ in range(data.draw(st.integers(1, 14))):
            history.step()
        history.check()
        assert history.faults() == []
        for kind in (Customer, Invoice):
            recounted(store, kind)
        history.check()
        assert history.faults() == []
    finally:
        store.close()


@pytest.mark.parametrize(
    ("damage", "count"),
    [
        ("UPDATE customers_common_counts SET numbers = zeroblob(length(numbers))", "with 'ada', account_type="),
        ("UPDATE customers_set_bits SET bits = zeroblob(length(bits))", "records that the set of 'ada' has too many"),
        (
            "UPDATE customers_sets SET slot = '1999' WHERE ranged = 'created_at/2'",
            "records that the set of created_at=1999 has too many or lacks",
        ),
        ("UPDATE customers_profiled SET r0 = '1999'", "records that searches have under other filters or dates"),
        ("UPDATE customers_sets SET slot = 'FR' WHERE slot = 'DE'", "records that the set of country=DE has too many"),
        (
            "DELETE FROM customers_set_bits WHERE (id & 1099511627775) IN"
            " (SELECT s.id * 3 + 1 FROM customers_sets s WHERE s.ranged = 'metadata tier')",
            "records that the set of metadata[tier]=gold has too many",
        ),
        ("DELETE FROM customers_profiled", "records that searches have under other filters or dates"),
    ],
)
def test_an_audit_finds_and_a_recount_corrects_counts_and_sets_of_common_texts(
    store: SqliteStore, damage: str, count: str
) -> None:
    tenant, other = new_tenant(store), new_tenant(store)
    for owner in (tenant, other):
        entity = owner.entity()
        gold = (MetadataItem(id="m", key="tier", value="gold", created_at=NOW),)
        people = [owner.customer(entity, name=f"Ada {number % 2}", country="DE", metadata=gold) for number in range(6)]
        owner.insert(entity, *people)
    catch_up(store)
    assert _faults(tenant) == _faults(other) == []
    store.write(None, lambda tx: tx._connection.execute(damage))
    assert {fault.listed for fault in _faults(tenant)} == {"customers"}
    assert any(fault.count.startswith(count) for fault in _faults(tenant))
    assert tenant.write(lambda tx: tx.list_counts.recount()) == ["customers"]
    assert tenant.read(lambda tx: tx.count(Customer, contains(_SEARCHED, "ada"), eq("country", "DE"))) == 6
    catch_up(store)
    assert _faults(tenant) == _faults(other) == []


def test_a_rename_reaches_the_documents_that_are_counted(store: SqliteStore) -> None:
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(entity, name="Ada")
    tenant.insert(entity, customer, *(tenant.invoice(customer, number=f"X-{number}") for number in range(5)))
    catch_up(store)
    searched = any_of(contains(("number",), "ada"), related(Customer, "customer_id", contains(CUSTOMER_COLUMNS, "ada")))

    def number() -> int:
        return tenant.read(lambda tx: tx.count(Invoice, within("status", VISIBLE), searched))

    assert number() == 5
    tenant.write(lambda tx: tx.replace(replace(customer, name="Grace")))
    assert number() == 0
    recounted(store, Invoice)
    assert number() == 0
    tenant.write(lambda tx: tx.replace(replace(customer, name="Ada Lovelace")))
    assert number() == 5


def test_the_counts_are_what_is_asked(store: SqliteStore) -> None:
    """Common texts are looked up: neither the index of texts nor a record is read."""
    tenant = new_tenant(store)
    entity = tenant.entity()
    tenant.insert(entity, *(tenant.customer(entity, name=f"Ada {number % 2}", country="DE") for number in range(6)))
    catch_up(store)
    statements: list[str] = []

    def ask(tx: Any) -> int:
        tx._connection.set_trace_callback(statements.append)
        try:
            return int(tx.count(Customer, contains(_SEARCHED, "ada"), eq("country", "DE")))
        finally:
            tx._connection.set_trace_callback(None)

    assert tenant.read(ask) == 6
    assert any("customers_common_counts" in statement for statement in statements)
    assert not any("MATCH" in statement for statement in statements)


def test_a_number_that_is_used_again_is_looked_at(store: SqliteStore) -> None:
    """The last record goes for good, and the next one gets its number in the index."""
    tenant = new_tenant(store)
    entity = tenant.entity()
    people = [tenant.customer(entity, name="Ada") for _ in range(4)]
    tenant.insert(entity, *people)
    catch_up(store)
    tenant.write(lambda tx: tx.delete(people[-1]))
    catch_up(store)
    tenant.insert(tenant.customer(entity, name="Grace"))
    assert tenant.read(lambda tx: tx.count(Customer, contains(_SEARCHED, "grace"))) == 1
    assert tenant.read(lambda tx: tx.count(Customer, contains(_SEARCHED, "ada"))) == 3
    recounted(store, Customer)


def test_with_too_much_to_catch_up_with_texts_are_counted_in_other_ways(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_counts, "_FEW", 2)
    tenant = new_tenant(store)
    entity = tenant.entity()
    tenant.insert(entity, *(tenant.customer(entity, name="Ada") for _ in range(4)))
    catch_up(store)
    tenant.insert(*(tenant.customer(entity, name="Ada") for _ in range(3)))
    assert tenant.read(lambda tx: tx.count(Customer, contains(_SEARCHED, "ada"))) == 7


@given(records=st.lists(st.lists(st.text("ab ", max_size=6), max_size=3), max_size=8), least=st.integers(1, 4))
def test_common_pieces_are_those_that_so_many_records_contain(records: list[list[str]], least: int) -> None:
    pieces: Counter[str] = Counter()
    for record in records:
        pieces.update(
            {
                text[start:end]
                for text in record
                for start in range(len(text))
                for end in range(start + 1, len(text) + 1)
            }
        )
    assert sorted(common_pieces(records, least)) == sorted(piece for piece, n in pieces.items() if n >= least)
    common = CommonTexts(common_pieces(records, least))
    for record in records:
        held = {
            place for place, piece in enumerate(common_pieces(records, least)) if any(piece in text for text in record)
        }
        assert common.held(record) == held
    few = common_pieces(records, least, 5)
    assert len(few) <= 5
    assert set(few) <= {piece for piece, n in pieces.items() if n >= least}
