"""A file of an older version opens with its rows intact, a newer one is refused, and nothing is left half done."""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.storage.contract import NOW, Tenant, new_tenant
from tests.storage.events_contract import event

from usagebill.core.customers import Address, Customer
from usagebill.core.taxes import Tax
from usagebill.core.webhooks import WebhookMessage
from usagebill.storage.conditions import contains
from usagebill.storage.event_queries import EventFilter
from usagebill.storage.ports import Duplicate
from usagebill.storage.sqlite import SqliteStore, schema


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "billing.db"


def run(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def shape(file: Path) -> tuple[int, list[tuple[str, str]]]:
    """The schema version and the statements that made the schema."""
    connection = sqlite3.connect(file)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    definitions = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
    ).fetchall()
    connection.close()
    return version, definitions


def without_lists(file: Path) -> list[str]:
    """What takes from a file all that makes its lists quick, which versions before had not."""
    connection = sqlite3.connect(file)
    added = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE type = 'trigger' OR (type = 'index' AND sql LIKE 'CREATE INDEX%')"
        " OR (type = 'table' AND (name GLOB '*_counts' OR name GLOB '*_documents' OR name GLOB '*_search'"
        " OR name GLOB '*_values')) ORDER BY type = 'table'"
    ).fetchall()
    connection.close()
    return [f'DROP {kind} "{name}"' for kind, name in added]


def make_older(file: Path, *, more: int = 0) -> tuple[Tenant, Customer, Tax]:
    """A file with some rows as it was one version ago: without a few columns, an index and a table.

    It has so many customers `more`, all called Bob.
    """
    store = SqliteStore(file)
    tenant = new_tenant(store)
    entity = tenant.entity()
    customer = tenant.customer(
        entity, name="Ada", skip_invoice_custom_sections=True, shipping_address=Address(city="Rome")
    )
    tax = tenant.tax("vat")
    tenant.insert(entity, customer, tax, *(tenant.customer(entity, name="Bob") for _ in range(more)))
    tenant.write(lambda tx: tx.events.append([event(tenant.id, 1, {"value": "0.1"})]))
    tenant.write(lambda tx: tx.next_number("invoices"))
    tenant.write(lambda tx: tx.jobs.add(tenant.job("k")))
    store.close()
    run(file, *without_lists(file))
    run(
        file,
        "ALTER TABLE customers DROP COLUMN skip_invoice_custom_sections",
        "ALTER TABLE customers DROP COLUMN shipping_address",
        "ALTER TABLE customers DROP COLUMN metadata",
        "ALTER TABLE customers DROP COLUMN account_type",
        "DROP INDEX taxes_unique_code",
        "DROP TABLE webhook_messages",
    )
    return tenant, customer, tax


def test_an_older_file_is_brought_forward_with_its_rows(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, customer, tax = make_older(file)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    store = SqliteStore(file)
    tenant = Tenant(store, tenant.id)
    # What the file lacked has its field's own default, the rest is as it was.
    expected = replace(customer, skip_invoice_custom_sections=False, shipping_address=Address())
    assert tenant.read(lambda tx: tx.get(Customer, customer.id)) == expected
    assert tenant.read(lambda tx: tx.find(Tax)) == [tax]
    # Lists know what was there before them.
    assert tenant.read(lambda tx: (tx.count(Customer), tx.count(Tax))) == (1, 1)
    for term, number in (("ad", 1), ("ADA", 1), ("bob", 0)):
        searched = contains(("name", "external_id"), term)
        assert tenant.read(lambda tx, searched=searched: tx.count(Customer, searched)) == number  # type: ignore[misc]
    assert tenant.read(lambda tx: tx.events.find(EventFilter())) == [event(tenant.id, 1, {"value": "0.1"})]
    assert tenant.write(lambda tx: tx.next_number("invoices")) == 2
    assert tenant.read(lambda tx: tx.jobs.get("k")) is not None
    with pytest.raises(Duplicate):
        tenant.insert(tenant.tax("vat"))
    changed = replace(expected, account_type="partner", metadata=())
    tenant.write(lambda tx: tx.replace(changed))
    assert tenant.read(lambda tx: tx.find(Customer)) == [changed]
    store.close()
    assert shape(file)[0] == schema.VERSION


def test_a_file_that_was_brought_forward_has_the_schema_of_a_new_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_older(file)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    SqliteStore(file).close()
    SqliteStore(tmp_path / "new.db").close()
    names = [name for name, _ in shape(file)[1]]
    assert names == [name for name, _ in shape(tmp_path / "new.db")[1]]


def test_lists_of_an_older_file_are_filled_where_that_was_interrupted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, _, _ = make_older(file, more=5)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "_FILLED_AT_ONCE", 1)
    fill_slice, slices = schema._fill_slice, itertools.count(1)

    def fail_at(broken: int) -> None:
        def fill(*args: Any) -> None:
            fill_slice(*args)
            if next(slices) == broken:
                raise KeyboardInterrupt

        monkeypatch.setattr(schema, "_fill_slice", fill)

    for broken in (1, 4):
        fail_at(broken)
        with pytest.raises(KeyboardInterrupt):
            SqliteStore(file)
        with pytest.raises(schema.UnfinishedFile, match="goes on"):
            SqliteStore(file, read_only=True)
    store = SqliteStore(file)
    tenant = Tenant(store, tenant.id)
    assert tenant.read(lambda tx: tx.count(Customer)) == 6
    assert tenant.read(lambda tx: tx.count(Customer, contains(("name", "external_id"), "bob"))) == 5
    store.close()
    SqliteStore(file, read_only=True).close()


def test_each_numbered_step_runs_once_and_in_order(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, _, tax = make_older(file)
    steps = {
        schema.VERSION + 1: lambda connection: connection.execute("UPDATE taxes SET name = name || ' one'"),
        schema.VERSION + 2: lambda connection: connection.execute("UPDATE taxes SET name = name || ' two'"),
    }
    monkeypatch.setattr(schema, "STEPS", steps)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 2)
    for _ in range(2):
        store = SqliteStore(file)
        (migrated,) = Tenant(store, tenant.id).read(lambda tx: tx.find(Tax))
        assert migrated.name == f"{tax.name} one two"
        store.close()


def test_jobs_of_older_files_get_the_lanes_that_they_wait_in(file: Path) -> None:
    store = SqliteStore(file)
    tenant = new_tenant(store)
    message = WebhookMessage(
        id="message",
        organization_id=tenant.id,
        webhook_endpoint_id="endpoint",
        webhook_type="customer.created",
        object_type="customer",
        object_id=None,
        payload="{}",
        endpoint="https://example.com",
        created_at=NOW,
        updated_at=NOW,
    )
    tenant.insert(message)
    jobs = [
        tenant.job("plain"),
        tenant.job("mail", kind="send_email", lane="send_email"),
        tenant.job("hook", kind="deliver_webhook", subject_id="message", lane="deliver_webhook/endpoint"),
    ]
    lost = tenant.job("lost", kind="deliver_webhook", subject_id="deleted", lane="deliver_webhook/gone")
    tenant.write(lambda tx: [tx.jobs.add(job) for job in (*jobs, lost)])
    store.close()
    as_new = shape(file)[1]
    run(
        file,
        "ALTER TABLE jobs ADD COLUMN leased INTEGER NOT NULL DEFAULT 0",
        "UPDATE jobs SET leased = 1 WHERE lane <> ''",
        *[f"DROP INDEX jobs_{name}" for name in ("ready", "held", "immediate", "overdue")],
        "ALTER TABLE jobs DROP COLUMN lane",
        "CREATE INDEX jobs_due ON jobs (failed, leased, due_at, sequence)",
        "CREATE INDEX jobs_next ON jobs (failed, leased, run_at)",
        "CREATE INDEX jobs_immediate ON jobs (failed, leased, due_at, sequence) WHERE immediate = 1",
        "PRAGMA user_version = 2",
    )
    store = SqliteStore(file)
    tenant = Tenant(store, tenant.id)
    assert [tenant.read(lambda tx, job=job: tx.jobs.get(job.key)) for job in jobs] == jobs  # type: ignore[misc]
    assert tenant.read(lambda tx: tx.jobs.get("lost")) is None
    store.close()
    assert [name for name, _ in shape(file)[1]] == [name for name, _ in as_new]


def test_steps_are_not_for_new_files(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        raise ArithmeticError

    monkeypatch.setattr(schema, "STEPS", {1: fail, 2: fail})
    monkeypatch.setattr(schema, "VERSION", 2)
    file.touch()
    SqliteStore(file).close()
    assert shape(file)[0] == 2


def statistics(file: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(file)
    stated = connection.execute("SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY tbl, idx").fetchall()
    connection.close()
    return stated


def test_a_new_file_is_complete_when_it_appears(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appeared: list[tuple[int, list[tuple[str, str]]]] = []
    link = os.link

    def noted(source: str, target: str) -> None:
        link(source, target)
        appeared.append(shape(Path(target)))

    monkeypatch.setattr(os, "link", noted)
    SqliteStore(file).close()
    assert appeared == [shape(file)]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    # An empty file, which somebody else made, gets the same.
    empty = file.with_name("empty.db")
    empty.touch()
    SqliteStore(empty).close()
    assert shape(empty) == shape(file)
    assert statistics(empty) == statistics(file)


def test_where_files_cannot_be_linked_a_new_file_is_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteStore(file).close()

    def refuse(source: str, target: str) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    unlinked = file.with_name("unlinked.db")
    SqliteStore(unlinked).close()
    assert shape(unlinked) == shape(file)
    assert stat.S_IMODE(unlinked.stat().st_mode) == stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, unlinked.name]


def test_a_file_that_another_process_made_meanwhile_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[Tenant] = []
    link = os.link

    def late(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        store = SqliteStore(target)
        others.append(new_tenant(store))
        others[0].insert(others[0].tax("vat"))
        store.close()
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    store = SqliteStore(file)
    (tax,) = Tenant(store, others[0].id).read(lambda tx: tx.find(Tax))
    store.close()
    assert tax.code == "vat"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_step_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older(file)
    before = shape(file)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM taxes")
        raise ArithmeticError

    monkeypatch.setattr(schema, "STEPS", {schema.VERSION + 1: fail})
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(ArithmeticError):
        SqliteStore(file)
    assert shape(file) == before
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT COUNT(*) FROM taxes").fetchone() == (1,)
    connection.close()


def test_a_newer_file_is_refused_and_left_alone(file: Path) -> None:
    make_older(file)
    newer = schema.VERSION + 1
    run(file, f"PRAGMA user_version = {newer}", f"UPDATE usagebill_schema SET rolls_from = {newer}")
    before = shape(file)
    with pytest.raises(schema.NewerFile, match=f"schema version {schema.VERSION + 1}; this usagebill knows versions"):
        SqliteStore(file)
    assert shape(file) == before


# A digest of a new file's tables for each version: a change of the records needs a version of its own, so that older
# files are brought forward, and a row here.
TABLES_OF_VERSIONS = {
    1: "a84fafc625bd8ddf",
    2: "6739d7ed14214616",
    3: "15de01ad15221522",
    4: "f561fbb8465a45f6",
    5: "ffad9c86bb99d11c",
    6: "22a040449df67d01",
    7: "dd971dbe417736ec",
    8: "0192df88cd502304",
    9: "8d60afd92e317262",
    10: "52b1ba32d41635dd",
    11: "6b0ecd4bbc077ba8",
    12: "cf718fbf8f20e403",
    13: "9af7122528f17b3f",
    14: "292a906448efdb08",
    15: "dcf5312f3502237f",
    16: "544dd11cbb63d58d",
    17: "409db6a14a844222",
    18: "00b2aabce6b19c09",
    19: "7e426918251a809d",
    20: "b7b1a4bf0d588b42",
    21: "afa9327b521bd88f",
    22: "ac909103de339417",
    23: "f55cca763313cfa8",
    24: "7f01976cf1ec5b9c",
    25: "d8f6dc2a0833373d",
    26: "1242c0b17cb55b1c",
    27: "cbd17c147180799c",
    28: "144a8c0625adb0a2",
    29: "34e8b274880dccfe",
    30: "9f60dd39e9b1d29d",
    31: "dd1048c7323d80eb",
    32: "e72698738eb24dcd",
    33: "d7a5802ac7fb7c86",
    34: "12130ff3fadc5588",
    35: "9e1bb9b27476f0f6",
    36: "fb8c7ee41287673e",
    37: "391b327c5f77710a",
    38: "fd951e2f13c00eaa",
    39: "9be2ef78b9cf70a4",
    40: "d49cad5af3891063",
    41: "d49cad5af3891063",
    42: "83a9ad6f345ffa7c",
    43: "63d804483c69b119",
    44: "d4815ad4b0e8cecb",
    45: "731286b5dd470c88",
    46: "a8d929f82b082b2c",
    47: "a8d929f82b082b2c",
    48: "092d6180bf1d0b2d",
    49: "9fecabdbb8b36b52",
    50: "ab448375161536fc",
    51: "aa42abe80bf3b34d",
    52: "ccde7f1fa12b485c",
    53: "48c4b59ceaae4420",
    54: "48c4b59ceaae4420",
    55: "5461d418f5a03d06",
    56: "bdc22d2348b54115",
    57: "98655444163fbdcf",
    58: "77993c99309ea9a6",
    59: "0fadb8e218c61db9",
    60: "4d7a45ce0706e791",
    61: "61ad6f548fa8d407",
    62: "61ad6f548fa8d407",
    63: "61ad6f548fa8d407",
    64: "ed29f9eb77fb701d",
    65: "2269f7757a9a3a23",
    66: "7b7e6eae7b238a30",
    67: "e82807f5c1f42a3c",
    68: "e3c77bf435c1e479",
    69: "1731bb6de9b0afea",
    70: "1f3980a8b33240b3",
    71: "150f0a7fc4bdcc82",
    72: "f14745afacf4a33d",
    73: "66da8714617ce0f8",
    74: "e9093939285f597b",
    75: "1ce329c66b364139",
    76: "60a47241427cfafc",
    77: "4d792bbc31da4b7d",
    78: "169021e859d07e17",
    79: "acb4795765ebd1ee",
    80: "d76b5e65808c555b",
    81: "820ed5a7f35e349c",
    82: "8db9c712d14e1c54",
    83: "162a04b35eb95d78",
    84: "c72fe97a21ec7960",
    85: "a29c6d16cee05f55",
    86: "4376bfccf6c8cf3d",
    87: "6f69e0c321a6f81c",
    88: "01202bfe5a1f7a38",
}


def test_a_change_of_the_tables_has_a_version_of_its_own(file: Path) -> None:
    SqliteStore(file).close()
    connection = sqlite3.connect(file)
    columns = connection.execute(
        'SELECT s.name, c.name, c.type, c."notnull", c.pk FROM sqlite_schema s, pragma_table_info(s.name) c'
        " WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite%' ORDER BY 1, 2"
    ).fetchall()
    indexes = connection.execute(
        'SELECT s.name, i."unique", i.partial, x.seqno, x.name FROM sqlite_schema s, pragma_index_list(s.name) i,'
        " pragma_index_info(i.name) x WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite%' ORDER BY 1, 2, 3, i.name, 4"
    ).fetchall()
    connection.close()
    digest = hashlib.sha256(repr((columns, indexes)).encode()).hexdigest()[:16]
    assert TABLES_OF_VERSIONS[shape(file)[0]] == digest


def test_an_older_file_holds_payments_without_a_reference_or_an_invoice(file: Path) -> None:
    SqliteStore(file).close()
    run(
        file,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(replace(sql, '\"reference\" TEXT', '\"reference\" TEXT NOT NULL'),"
        " '\"invoice_id\" TEXT', '\"invoice_id\" TEXT NOT NULL') WHERE name = 'payments'",
        "PRAGMA user_version = 13",
    )
    required = (
        "SELECT name FROM pragma_table_info('payments') WHERE \"notnull\" AND name IN ('reference', 'invoice_id')"
    )
    connection = sqlite3.connect(file)
    assert len(connection.execute(required).fetchall()) == 2
    connection.close()
    SqliteStore(file).close()
    connection = sqlite3.connect(file)
    assert connection.execute(required).fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_an_older_file_holds_refunds_without_a_credit_note(file: Path) -> None:
    SqliteStore(file).close()
    run(
        file,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, '\"credit_note_id\" TEXT', '\"credit_note_id\" TEXT NOT NULL')"
        " WHERE name = 'refunds'",
        "PRAGMA user_version = 27",
    )
    required = "SELECT name FROM pragma_table_info('refunds') WHERE \"notnull\" AND name = 'credit_note_id'"
    connection = sqlite3.connect(file)
    assert len(connection.execute(required).fetchall()) == 1
    connection.close()
    SqliteStore(file).close()
    connection = sqlite3.connect(file)
    assert connection.execute(required).fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
