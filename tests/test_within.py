"""`billing.within`: an application's rows and its billing commit together or not at all, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from tests.postgresql import new_database, server_url
from tests.scenarios import plan_fields
from tests.test_docs import blocks
from usagebill import Billing
from usagebill.core.errors import BillingError
from usagebill.storage.ports import UnusableTransaction
from usagebill.storage.postgresql.databases import temporary_database

pytestmark = pytest.mark.second_engine

Connection = psycopg.Connection[Any]


@pytest.fixture
def url() -> Iterator[str]:
    with temporary_database(server_url()) as made:
        with psycopg.connect(made) as connection:
            connection.execute("CREATE TABLE orders (id text PRIMARY KEY)")
        yield made
        with psycopg.connect(made) as connection:
            connection.execute("DROP TABLE orders")


@pytest.fixture
def messages() -> list[Any]:
    return []


@pytest.fixture
def billing(url: str, messages: list[Any]) -> Iterator[Billing]:
    with Billing(url, on_message=messages.append, deliver=False) as opened:
        opened.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
        opened.customers.upsert(external_id="acme", currency="EUR")
        opened.plans.create(**plan_fields(code="pro"))
        opened.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme-pro")
        messages.clear()
        yield opened


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with psycopg.connect(url) as opened:
        yield opened


def call(transaction_id: str) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "code": "calls", "external_subscription_id": "acme-pro"}


def transactions(billing: Billing) -> set[str]:
    return {event.transaction_id for event in billing.events.list()}


def orders(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {id for (id,) in connection.execute("SELECT id FROM orders")}


def test_order_and_its_event_commit_together(url: str, billing: Billing, connection: Connection) -> None:
    connection.execute("INSERT INTO orders VALUES ('order-1')")
    billing.within(connection).events.create(**call("order-1"))
    assert transactions(billing) == set(), "nobody else sees it before the commit"

    connection.commit()

    assert (orders(url), transactions(billing)) == ({"order-1"}, {"order-1"})


def test_neither_is_there_after_a_rollback(url: str, billing: Billing, connection: Connection) -> None:
    connection.execute("INSERT INTO orders VALUES ('order-1')")
    billing.within(connection).events.create(**call("order-1"))
    connection.rollback()

    assert (orders(url), transactions(billing)) == (set(), set())
    billing.events.create(**call("order-1"))


def test_block_that_fails_takes_the_event_with_it(url: str, billing: Billing) -> None:
    with psycopg.connect(url, autocommit=True) as connection:

        def order() -> None:
            with connection.transaction():
                connection.execute("INSERT INTO orders VALUES ('order-1')")
                billing.within(connection).events.create(**call("order-1"))
                connection.execute("INSERT INTO orders VALUES ('order-1')")

        with pytest.raises(psycopg.errors.UniqueViolation):
            order()
        assert (orders(url), transactions(billing)) == (set(), set())

        with connection.transaction():
            inside = billing.within(connection)
            inside.events.create(**call("first"))
            with connection.transaction(force_rollback=True):
                inside.events.create(**call("second"))
                assert {event.transaction_id for event in inside.events.list()} == {"first", "second"}
            assert {event.transaction_id for event in inside.events.list()} == {"first"}

    assert transactions(billing) == {"first"}


def test_refused_operation_is_undone_alone(url: str, billing: Billing, connection: Connection) -> None:
    inside = billing.within(connection)
    connection.execute("INSERT INTO orders VALUES ('order-1')")
    inside.events.create(**call("order-1"))
    with pytest.raises(BillingError) as refusal:
        inside.events.create(**call("order-1"))
    assert refusal.value.code == "validation_errors"
    with pytest.raises(BillingError, match="pro"):
        inside.plans.create(**plan_fields(code="pro"))
    connection.commit()

    assert (orders(url), transactions(billing)) == ({"order-1"}, {"order-1"})


def test_numbers_have_no_gap_after_a_rollback(billing: Billing, connection: Connection) -> None:
    billing.add_ons.create(name="Setup", code="setup", amount_cents=10_000, amount_currency="EUR")
    sold: dict[str, Any] = {"external_customer_id": "acme", "currency": "EUR", "fees": [{"add_on_code": "setup"}]}

    undone = billing.within(connection).invoices.create_one_off(**sold)
    connection.rollback()
    kept = billing.within(connection).invoices.create_one_off(**sold)
    assert [fee.amount_cents for fee in kept.fees] == [10_000]
    connection.commit()

    assert undone.number == kept.number
    assert billing.invoices.get(kept.id).total_amount_cents == 10_000
    assert [fee.amount_cents for fee in kept.fees] == [10_000], "read outside of any transaction"
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_listener_hears_of_it_after_the_commit(
    billing: Billing, connection: Connection, messages: list[dict[str, Any]]
) -> None:
    inside = billing.within(connection)
    inside.customers.upsert(external_id="hooli", currency="EUR")
    assert messages == []
    connection.commit()
    inside.committed()
    assert [message["webhook_type"] for message in messages] == ["customer.created"]
    inside.committed()
    assert len(messages) == 1


def test_thread_that_would_wait_for_itself_is_refused(billing: Billing, connection: Connection) -> None:
    billing.within(connection).events.create(**call("order-1"))
    with pytest.raises(UnusableTransaction, match="has not ended"):
        billing.events.create(**call("order-2"))
    connection.commit()

    billing.events.create(**call("order-2"))
    # Another transaction of the same connection has no lock.
    connection.execute("SELECT 1")
    billing.events.create(**call("order-3"))
    assert transactions(billing) == {"order-1", "order-2", "order-3"}


def test_connection_keeps_what_its_owner_has_set(url: str, billing: Billing) -> None:
    with psycopg.connect(url, row_factory=dict_row, prepare_threshold=0) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute("INSERT INTO orders VALUES (%s)", ("order-1",))
        inside = billing.within(connection)
        inside.events.create(**call("order-1"))
        assert inside.events.get("order-1").transaction_id == "order-1"
        assert connection.execute("SHOW synchronous_commit").fetchone() == {"synchronous_commit": "on"}
        connection.execute("INSERT INTO orders VALUES (%s)", ("order-2",))
        connection.execute("DO $$ BEGIN RAISE NOTICE 'heard'; END $$")
        assert notices == ["heard"]
        assert connection.execute("SELECT %s::json AS parsed", ('{"a": 1}',)).fetchone() == {"parsed": {"a": 1}}
    assert orders(url) == {"order-1", "order-2"}


def sqlalchemy_engine(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))


def test_connection_of_sqlalchemy(url: str, billing: Billing) -> None:
    engine = sqlalchemy_engine(url)
    with engine.connect() as connection:
        billing.within(connection).events.create(**call("alone"))
        connection.commit()
        connection.execute(sqlalchemy.text("INSERT INTO orders VALUES ('order-1')"))
        billing.within(connection).events.create(**call("order-1"))
        connection.rollback()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO orders VALUES ('order-2')"))
        billing.within(connection).events.create(**call("order-2"))
    engine.dispose()
    assert (orders(url), transactions(billing)) == ({"order-2"}, {"alone", "order-2"})


def test_session_of_sqlalchemy(url: str, billing: Billing) -> None:
    engine = sqlalchemy_engine(url)
    with Session(engine) as session:
        session.execute(sqlalchemy.text("INSERT INTO orders VALUES ('order-1')"))
        event = billing.within(session).events.create(**call("order-1"))
        session.commit()
        assert billing.view(event)["transaction_id"] == "order-1"

    def fail() -> None:
        with Session(engine) as session, session.begin():
            billing.within(session).events.create(**call("order-2"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    engine.dispose()
    assert (orders(url), transactions(billing)) == ({"order-1"}, {"order-1"})


def test_what_cannot_be_taken_part_in_is_refused_in_words(url: str, billing: Billing) -> None:
    def refused(connection: object, words: str) -> None:
        with pytest.raises(UnusableTransaction, match=words):
            billing.within(connection).events.create(**call("refused"))

    with psycopg.connect(url, autocommit=True) as connection:
        refused(connection, "commits each statement")
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        refused(connection, "READ COMMITTED")
    with psycopg.connect(url) as connection:
        connection.read_only = True
        refused(connection, "read-only")
    with psycopg.connect(url) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing")
        refused(connection, "roll it back")
        connection.rollback()
        with connection.pipeline():
            refused(connection, "pipeline")
    refused(connection, "is closed")
    with new_database() as other, psycopg.connect(other) as connection:
        refused(connection, "another database")
    refused(object(), r"not builtins\.object")
    assert transactions(billing) == set()
    with Billing() as in_memory, pytest.raises(UnusableTransaction, match="postgresql://"):
        in_memory.within(connection)


def test_document_is_not_drawn_while_the_organization_is_locked(billing: Billing, connection: Connection) -> None:
    billing.add_ons.create(name="Setup", code="setup", amount_cents=10_000, amount_currency="EUR")
    invoice = billing.invoices.create_one_off(
        external_customer_id="acme", currency="EUR", fees=[{"add_on_code": "setup"}]
    )
    with pytest.raises(UnusableTransaction, match="outside your transaction"):
        billing.within(connection).invoices.pdf(invoice.id)


def test_function_of_the_guide_places_an_order(url: str, billing: Billing, connection: Connection) -> None:
    guide = Path(__file__).parent.parent / "docs" / "guides" / "inside-your-program.md"
    names: dict[str, Any] = {}
    [place_order] = [block for block in blocks(guide.read_text(encoding="utf-8"), "python") if "within" in block.text]
    exec(place_order.text, names)

    names["place_order"](connection, billing, "order-1")

    assert (orders(url), transactions(billing)) == ({"order-1"}, {"order-1"})
    with pytest.raises(BillingError):
        billing.events.create(**call("order-1"))
    with psycopg.connect(url) as clean, clean.transaction():
        clean.execute("DELETE FROM orders")
    with pytest.raises(BillingError, match="transaction_id"):
        names["place_order"](connection, billing, "order-1")
    connection.rollback()
    assert orders(url) == set()
