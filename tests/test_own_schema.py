"""A schema of our own in the database of an application, whose tables and search path are whatever they are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.postgresql import new_database
from tests.scenarios import plan_fields
from tests.test_docs import blocks
from usagebill import Billing
from usagebill.cli.main import main
from usagebill.core.errors import BillingError
from usagebill.storage.addresses import in_schema
from usagebill.storage.ports import Opening, UnusableTransaction
from usagebill.storage.sqlite.schema import ForeignFile, NoSystem

pytestmark = pytest.mark.second_engine

# Tables of an application, of which some have the names of ours.
APPLICATION = (
    "CREATE TABLE orders (id text PRIMARY KEY)",
    "CREATE TABLE customers (id integer PRIMARY KEY, email text)",
    "CREATE TABLE events (at timestamptz, payload jsonb)",
    "CREATE TABLE changes (id integer PRIMARY KEY)",
    "CREATE SCHEMA app",
    "CREATE TABLE app.invoices (id integer PRIMARY KEY)",
    "INSERT INTO customers VALUES (1, 'jane@acme.example')",
)


@pytest.fixture
def url() -> Iterator[str]:
    with new_database() as made:
        with psycopg.connect(made) as connection:
            for statement in APPLICATION:
                connection.execute(statement.encode())
        yield made


def with_plan(billing: Billing) -> None:
    billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
    billing.customers.upsert(external_id="acme", name="Acme", currency="EUR")
    billing.plans.create(**plan_fields(code="pro"))
    billing.subscriptions.create(external_customer_id="acme", plan_code="pro", external_id="acme-pro")


@pytest.fixture
def billing(url: str) -> Iterator[Billing]:
    with Billing(url, schema="billing", deliver=False) as opened:
        with_plan(opened)
        yield opened


def call(transaction_id: str) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "code": "calls", "external_subscription_id": "acme-pro"}


def stored(billing: Billing) -> set[str]:
    return {event.transaction_id for event in billing.events.list()}


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def sqlalchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def tables_of_the_application(url: str) -> list[tuple[Any, ...]]:
    return rows(
        url,
        "SELECT table_schema, table_name, column_name FROM information_schema.columns"
        " WHERE table_schema IN ('public', 'app') ORDER BY 1, 2, 3",
    )


def test_tables_of_an_application_stay_as_they_are(url: str) -> None:
    before = tables_of_the_application(url)
    with pytest.raises(ForeignFile, match=r"--schema billing"):
        Billing(url)

    with Billing(url, schema="billing", deliver=False) as billing:
        with_plan(billing)
        billing.events.create(**call("one"))
        assert [customer.name for customer in billing.customers.list(search_term="acm")] == ["Acme"]
        assert billing.audit().found == 0

    assert tables_of_the_application(url) == before
    assert rows(url, "SELECT * FROM customers") == [(1, "jane@acme.example")]
    assert rows(url, "SELECT external_id FROM billing.customers") == [("acme",)]
    with Billing(url, schema="billing", deliver=False) as billing:
        assert stored(billing) == {"one"}


def test_two_systems_beside_each_other_have_the_same_rules(url: str, billing: Billing) -> None:
    with Billing(url, schema="sandbox", deliver=False) as other:
        with_plan(other)
        other.events.create(**call("theirs"))
        billing.events.create(**call("ours"))
        assert (stored(billing), stored(other)) == ({"ours"}, {"theirs"})
    rules = "SELECT conname FROM pg_constraint WHERE connamespace = '{}'::regnamespace ORDER BY 1"
    indexes = "SELECT indexname FROM pg_indexes WHERE schemaname = '{}' ORDER BY 1"
    for found in (rules, indexes):
        assert rows(url, found.format("sandbox")) == rows(url, found.format("billing"))


def test_schema_that_is_missing_is_made_only_where_a_system_may_be(url: str) -> None:
    with pytest.raises(NoSystem):
        Billing(url, schema="billing", opening=Opening(creates=False))
    assert rows(url, "SELECT 1 FROM pg_namespace WHERE nspname = 'billing'") == []


@pytest.mark.parametrize("name", ["Billing", "pg_billing", "1st", "a b", "x" * 64, 'a"; DROP SCHEMA app; --', ""])
def test_names_that_sql_would_have_to_quote_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a schema"):
        Billing("postgresql://localhost/shop", schema=name)


def test_file_has_no_schemas() -> None:
    with pytest.raises(ValueError, match="postgresql://"):
        Billing(schema="billing")


def test_options_of_an_address_are_kept() -> None:
    assert in_schema("postgresql://db/shop?options=-cwork_mem%3D8MB&sslmode=require", "billing") == (
        "postgresql://db/shop?sslmode=require&options=-cwork_mem%3D8MB%20-csearch_path%3Dbilling"
    )


def test_commands_find_the_schema(url: str, billing: Billing) -> None:
    billing.events.create(**call("one"))
    for arguments, environment in ((["--schema", "billing"], {}), ([], {"USAGEBILL_SCHEMA": "billing"})):
        shown = CliRunner().invoke(main, ["status", "--db", url, *arguments], env=environment)
        assert "events    1" in shown.output
    refused = CliRunner().invoke(main, ["audit", "--db", url, "--schema", "No"])
    assert refused.exit_code == 2
    assert "cannot be the name of a schema" in refused.output


def test_row_security_covers_the_schema_alone(url: str, billing: Billing) -> None:
    turned = CliRunner().invoke(main, ["row-security", "on", "--db", url, "--schema", "billing"])
    assert (turned.exit_code, turned.exception) == (0, None)
    protected = rows(
        url,
        "SELECT relnamespace::regnamespace::text, count(*) FROM pg_class WHERE relrowsecurity GROUP BY 1 ORDER BY 1",
    )
    assert [name for name, _ in protected] == ["billing"]
    with Billing(url, schema="billing", deliver=False) as opened:
        opened.events.create(**call("one"))
        assert stored(opened) == {"one"}


@pytest.mark.parametrize("path", ['"$user", public', "app, public", "app", ""])
def test_transaction_of_the_application_finds_its_own_tables_and_ours(url: str, billing: Billing, path: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SELECT set_config('search_path', %s, FALSE)", (path,))
        connection.execute("INSERT INTO public.orders VALUES ('order-1')")
        inside = billing.within(connection)
        inside.events.create(**call("order-1"))
        with pytest.raises(BillingError):
            inside.events.create(**call("order-1"))
        assert connection.execute("SHOW search_path").fetchone() == (path,)
        connection.execute("INSERT INTO public.orders VALUES ('order-2')")
        inside.customers.upsert(external_id="hooli")
        connection.commit()
        assert connection.execute("SHOW search_path").fetchone() == (path,)
    assert rows(url, "SELECT id FROM orders ORDER BY 1") == [("order-1",), ("order-2",)]
    assert stored(billing) == {"order-1"}
    assert {customer.external_id for customer in billing.customers.list()} == {"acme", "hooli"}


def test_session_of_sqlalchemy(url: str, billing: Billing) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url))
    with Session(engine) as session:
        session.execute(sqlalchemy.text("INSERT INTO orders VALUES ('order-1')"))
        billing.within(session).events.create(**call("order-1"))
        session.execute(sqlalchemy.text("INSERT INTO orders VALUES ('order-2')"))
        session.commit()
    engine.dispose()
    assert stored(billing) == {"order-1"}


def test_asynchronous_session_of_sqlalchemy(url: str, billing: Billing) -> None:
    async def order(id: str, *, commits: bool) -> None:
        engine = create_async_engine(sqlalchemy_url(url))
        async with AsyncSession(engine) as session:
            await session.execute(sqlalchemy.text("INSERT INTO orders VALUES (:id)"), {"id": id})
            await session.run_sync(lambda opened: billing.within(opened).events.create(**call(id)))
            with pytest.raises(UnusableTransaction, match="run_sync"):
                billing.within(session).events.create(**call("other"))
            await (session.commit() if commits else session.rollback())
        async with engine.begin() as connection:
            await connection.execute(sqlalchemy.text("INSERT INTO orders VALUES (:id)"), {"id": f"{id}-more"})
            await connection.run_sync(lambda opened: billing.within(opened).events.create(**call(f"{id}-more")))
        await engine.dispose()

    asyncio.run(order("kept", commits=True))
    asyncio.run(order("undone", commits=False))
    assert rows(url, "SELECT id FROM orders ORDER BY 1") == [("kept",), ("kept-more",), ("undone-more",)]
    assert stored(billing) == {"kept", "kept-more", "undone-more"}


def test_asynchronous_connection_of_psycopg(url: str, billing: Billing) -> None:
    async def order() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            inside = billing.within(connection)
            with pytest.raises(UnusableTransaction, match="your first statement"):
                inside.events.create(**call("early"))
            await connection.execute("INSERT INTO orders VALUES ('order-1')")
            await asyncio.to_thread(inside.events.create, **call("order-1"))
            await connection.execute("INSERT INTO orders VALUES ('order-2')")
            inside.events.create(**call("order-2"))
            await connection.commit()
            await connection.execute("INSERT INTO orders VALUES ('order-3')")
            await asyncio.to_thread(inside.events.create, **call("order-3"))
            await connection.rollback()

    asyncio.run(order())
    assert rows(url, "SELECT id FROM orders ORDER BY 1") == [("order-1",), ("order-2",)]
    assert stored(billing) == {"order-1", "order-2"}


GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "in-your-database.md"
FASTAPI, DJANGO, PSYCOPG = (block.text for block in blocks(GUIDE.read_text(encoding="utf-8"), "python"))


def test_fastapi_application_of_the_guide(url: str, billing: Billing) -> None:
    names: dict[str, Any] = {}
    exec(FASTAPI, names)
    # Its event is there, so its order is not made.
    billing.events.create(**call("order-2"))

    async def sent() -> list[Any]:
        app = names["shop"](url)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client,
        ):
            orders = [await client.post(f"/orders/{order}") for order in ("order-1", "order-1", "order-2")]
            health = await client.get("/billing/health")
        assert orders[0].json() == {"placed": "order-1"}
        return [answer.status_code for answer in (*orders, health)]

    assert asyncio.run(sent()) == [200, 500, 500, 200]
    assert rows(url, "SELECT id FROM orders") == [("order-1",)]
    assert stored(billing) == {"order-1", "order-2"}


def test_psycopg_function_of_the_guide(url: str, billing: Billing) -> None:
    names: dict[str, Any] = {}
    exec(PSYCOPG, names)
    with psycopg.connect(url, autocommit=True) as connection:
        names["place_order"](connection, billing, "order-1")
        billing.events.create(**call("order-2"))
        with pytest.raises(BillingError):
            names["place_order"](connection, billing, "order-2")
    assert rows(url, "SELECT id FROM orders") == [("order-1",)]


# Django's settings are those of a whole process.
RUN_DJANGO = """
import sys

import django
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **eval(sys.argv[2])}})
django.setup()
from django.db import IntegrityError

from usagebill import Billing
from usagebill.core.errors import BillingError

billing = Billing(sys.argv[1], schema="billing", deliver=False)
"""
CALL_DJANGO = """
print(place_order(None, "order-1").content.decode())
for order, problem in (("order-1", IntegrityError), ("order-2", BillingError)):
    try:
        place_order(None, order)
    except problem:
        print("refused")
"""


def test_django_view_of_the_guide(url: str, billing: Billing, tmp_path: Path) -> None:
    billing.events.create(**call("order-2"))
    words = conninfo_to_dict(url)
    database = {"NAME": words["dbname"], "USER": words["user"], "HOST": words["host"]}
    (tmp_path / "run.py").write_text(f"{RUN_DJANGO}\n{DJANGO}\n{CALL_DJANGO}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "run.py", url, repr(database)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ['{"placed": "order-1"}', "refused", "refused"]
    assert rows(url, "SELECT id FROM orders") == [("order-1",)]
    assert stored(billing) == {"order-1", "order-2"}


def test_file_is_moved_into_the_schema(url: str, tmp_path: Path) -> None:
    with Billing(tmp_path / "billing.db", deliver=False) as file:
        with_plan(file)
        file.events.create(**call("one"))
    moved = CliRunner().invoke(
        main, ["move-to-postgresql", "--from", str(tmp_path / "billing.db"), "--to", url, "--schema", "billing"]
    )
    assert moved.output.endswith("moved, and the same on both sides\n")
    with Billing(url, schema="billing", deliver=False) as billing:
        assert stored(billing) == {"one"}
    assert rows(url, "SELECT * FROM customers") == [(1, "jane@acme.example")]
