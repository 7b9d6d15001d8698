"""A new version and processes of the one before on one database: nothing is written by old rules, and all say so."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.outages.servers import eventually
from tests.postgresql import new_database
from tests.scenarios import plan_fields
from tests.service import ENVIRONMENT, ROOT, Service, command
from usagebill import Billing
from usagebill.core.errors import SchemaIsNewer
from usagebill.core.processes import Process
from usagebill.storage.every_engine import instant_text
from usagebill.storage.ports import Opening
from usagebill.storage.sqlite import schema
from usagebill.storage.sqlite.schema import InUse, NewerFile, NoSystem, NotUpgraded

pytestmark = [pytest.mark.slow, pytest.mark.second_engine]

NEWER = schema.VERSION + 1


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    with new_database() as url:
        yield url


def program(kind: str) -> tuple[str, str]:
    return ("tests.outages.newer_version", kind)


def newer(kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.run(
        [sys.executable, "-m", *program(kind), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def schema_of(database: str) -> int:
    if database.startswith("postgresql"):
        with psycopg.connect(database) as connection:
            row = connection.execute("SELECT records FROM usagebill_schema").fetchone()
    else:
        with closing(sqlite3.connect(database)) as file:
            row = file.execute("PRAGMA user_version").fetchone()
    assert row is not None
    return int(row[0])


def give_schema(database: str, version: int) -> None:
    """What a restored backup does."""
    if database.startswith("postgresql"):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE usagebill_schema SET records = %s, rolls_from = %s", (version, version))
        return
    with closing(sqlite3.connect(database)) as file:
        file.execute("UPDATE usagebill_schema SET rolls_from = ?", (version,))
        file.execute(f"PRAGMA user_version = {version}")
        file.commit()


def customers(service: Service) -> set[str]:
    found = service.client.get("/api/v1/customers?per_page=100").json()["customers"]
    return {one["external_id"] for one in found}


def upsert(service: Service, id: str) -> Any:
    return service.client.post("/api/v1/customers", json={"customer": {"external_id": id, "name": "Acme"}})


def let_time_pass(database: str) -> None:
    """A minute since the processes were seen that are no longer there."""
    change = "UPDATE processes SET seen_at = "
    ago = instant_text(datetime.now(UTC) - timedelta(minutes=1))
    if database.startswith("postgresql"):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"{change} %s".encode(), (ago,))
        return
    with closing(sqlite3.connect(database)) as file:
        file.execute(f"{change} ?", (ago,))
        file.commit()


def processes(database: str) -> tuple[Process, ...]:
    with Billing(database, read_only=True) as billing:
        return billing._system.ask(lambda tx: tx.processes())


def test_an_upgrade_is_refused_while_an_older_server_runs_and_done_once_it_has_stopped(database: str) -> None:
    with Service(database) as service:
        assert upsert(service, "before").status_code == 200
        (server,) = processes(database)
        assert (server.kind, server.workers, server.schema) == ("server", 1, schema.VERSION)
        for arguments in (("upgrade",), ("serve", "--port", "0")):
            refused = newer("breaking", *arguments, "--db", database)
            assert refused.returncode == 1
            assert f"server {server.name} (usagebill " in refused.stderr
            assert "--upgrade-anyway" in refused.stderr
        assert schema_of(database) == schema.VERSION
        assert upsert(service, "still").status_code == 200
        service.stop()
    assert newer("breaking", "status", "--db", database).returncode == 1  # only read
    refused = newer("breaking", "serve", "--no-upgrade", "--port", "0", "--db", database)
    assert (refused.returncode, "run `usagebill upgrade`" in refused.stderr) == (1, True)
    assert schema_of(database) == schema.VERSION
    done = newer("breaking", "upgrade", "--db", database)
    assert (done.returncode, f"has schema {NEWER}" in done.stdout) == (0, True), done.stderr
    (line,) = [json.loads(line) for line in done.stderr.splitlines() if "schema_upgraded" in line]
    assert (line["former"], line["schema"], line["seconds"] >= 0) == (schema.VERSION, NEWER, True)
    assert schema_of(database) == NEWER
    # And the older version does not start on it.
    assert f"schema version {NEWER}" in command("keys", "list", "--db", database, check=False).stderr


def test_an_old_process_under_a_newer_schema_refuses_everything_and_says_so(database: str) -> None:
    with Service(database) as service:
        assert upsert(service, "before").status_code == 200
        assert service.client.get("/ready").status_code == 200
        done = newer("breaking", "upgrade", "--upgrade-anyway", "--db", database)
        assert done.returncode == 0, done.stderr
        # From the first request on.
        for answer in (upsert(service, "after"), service.client.get("/api/v1/customers")):
            told = answer.json()
            assert (answer.status_code, told["code"]) == (503, "schema_is_newer")
            assert "restart this process" in told["message"]
            assert int(answer.headers["retry-after"]) > 0
        eventually(lambda: service.client.get("/ready").status_code == 503)
        assert service.client.get("/ready").json() == {"status": "schema_is_newer"}
        assert service.client.get("/health").status_code == 200
        # A backup of before was restored: it goes on.
        give_schema(database, schema.VERSION)
        eventually(lambda: service.client.get("/ready").status_code == 200)
        assert customers(service) == {"before"}
        assert upsert(service, "restored").status_code == 200
        _, log = service.stop()
    lines = [line for line in log if line["event"] in ("schema_is_newer", "schema_is_known_again")]
    assert [line["event"] for line in lines] == ["schema_is_newer", "schema_is_known_again"]
    assert lines[0]["reason"] == f"the database has schema {NEWER}, this process knows {schema.VERSION}"
    assert [line for line in log if line["event"] == "request_failed"] == []
    with Billing(database) as billing:
        assert billing.audit().findings == ()


def tables(database: str) -> set[str]:
    if database.startswith("postgresql"):
        with psycopg.connect(database) as connection:
            return {row[0] for row in connection.execute("SELECT tablename FROM pg_tables")}
    with closing(sqlite3.connect(database)) as file:
        return {row[0] for row in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def sell(service: Service, id: str) -> None:
    """A customer with a bill, and an event."""
    assert upsert(service, id).status_code == 200
    ordered = {"external_customer_id": id, "external_id": id, "plan_code": "pro", "billing_time": "anniversary"}
    assert service.client.post("/api/v1/subscriptions", json={"subscription": ordered}).status_code == 200
    sent = {"transaction_id": id, "external_subscription_id": id, "code": "calls"}
    assert service.client.post("/api/v1/events", json={"event": sent}).status_code == 200


def test_an_upgrade_that_only_adds_rolls_from_server_to_server(database: str) -> None:
    sold = set[str]()

    def trade(service: Service, name: str, ended: threading.Event) -> None:
        for number in range(100):
            sell(service, f"{name}-{number}")
            sold.add(f"{name}-{number}")
            # A few each second, so that those who start get their turn.
            if ended.wait(0.2):
                return

    @contextmanager
    def trading(service: Service, name: str) -> Iterator[None]:
        """Customers come by this server, while this goes on, and at least some of them."""
        ended = threading.Event()
        with ThreadPoolExecutor() as pool:
            done = pool.submit(trade, service, name, ended)
            try:
                yield
                eventually(lambda: sum(id.startswith(f"{name}-") for id in list(sold)) >= 5 or done.done())
            finally:
                ended.set()
            done.result()

    with Service(database) as old:
        plan = plan_fields(code="pro", amount_cents=3100, pay_in_advance=True)
        assert old.client.post("/api/v1/plans", json={"plan": plan}).status_code == 200
        with (
            trading(old, "old"),
            Service(database, key=old.key, program=program("rolling")) as new,
            trading(new, "new"),
        ):
            assert schema_of(database) == NEWER
            assert "additions" in tables(database)
            # The older one goes on, also after a restart.
            with Service(database, key=old.key) as again, trading(again, "again"):
                eventually(lambda: {found.schema for found in processes(database)} == {schema.VERSION, NEWER})
                assert [one.client.get("/ready").status_code for one in (old, new, again)] == [200, 200, 200]
        # One after the other is the newer version.
        with Service(database, key=old.key, program=program("rolling")) as last:
            old.stop()
            sell(last, "last")
            eventually(lambda: last.client.get("/api/v1/invoices?per_page=1").json()["meta"]["total_count"] > len(sold))
            _, log = last.stop()
    sold.add("last")
    assert [line for line in log if line["level"] == "error"] == []
    with Billing(database) as billing:
        invoices = billing.invoices.list(per_page=1000).items
        assert sorted(one.customer["external_id"] for one in invoices if one.customer) == sorted(sold)
        assert {one.total_amount_cents for one in invoices} == {3100}
        assert len({one.number for one in invoices}) == len(sold)
        assert {one.transaction_id for one in billing.events.list(per_page=1000).items} == sold
        assert billing.audit().findings == ()


def test_a_killed_server_holds_an_upgrade_up_until_it_counts_as_dead(database: str) -> None:
    service = Service(database)
    with service:
        service.kill()
    refused = newer("breaking", "upgrade", "--db", database)
    assert (refused.returncode, " s ago" in refused.stderr) == (1, True)
    let_time_pass(database)
    assert newer("breaking", "upgrade", "--db", database).returncode == 0


def test_a_program_is_seen_while_it_has_the_database_open_and_refused_once_that_is_newer(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Billing(database) as program:
        program.customers.upsert(external_id="before")
        program._system.presence.note()
        (seen,) = processes(database)
        assert (seen.kind, seen.workers) == ("program", 0)
        if not database.startswith("postgresql"):
            with monkeypatch.context() as later:
                later.setattr(schema, "VERSION", NEWER)
                with pytest.raises(InUse, match=f"program {seen.name}"):
                    Billing(database)
                with pytest.raises(NotUpgraded):
                    Billing(database, opening=Opening(upgrades=False))
        give_schema(database, NEWER)
        with capture_logs() as logs:
            for _ in range(2):
                with pytest.raises(SchemaIsNewer):
                    program.customers.upsert(external_id="after")
                with pytest.raises(SchemaIsNewer):
                    program.customers.list()
        assert [line["event"] for line in logs] == ["schema_is_newer"]
        with pytest.raises(NewerFile):
            Billing(database)
        give_schema(database, schema.VERSION)
        assert [customer.external_id for customer in program.customers.list().items] == ["before"]
    # It has stopped, and leaves nothing to know.
    assert processes(database) == ()


def test_commands_make_no_system_where_there_is_none(database: str) -> None:
    with pytest.raises(NoSystem):
        Billing(database, opening=Opening(creates=False))
    assert not Path(database).exists()
    refused = command("keys", "list", "--db", database, check=False)
    assert refused.returncode in (1, 2)


def test_a_server_is_killed_and_the_one_that_runs_says_so(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    with Service(file, "--workers-in-process", "0") as service:
        worker = subprocess.Popen(
            [sys.executable, "-m", "usagebill", "work", "--db", str(file)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline()
            assert {found.kind for found in processes(str(file))} == {"server", "worker"}
        finally:
            worker.kill()
            worker.communicate()
        let_time_pass(str(file))
        eventually(lambda: any(line["event"] == "process_died" for line in service.logged()))
        (died,) = [line for line in service.logged() if line["event"] == "process_died"]
        assert (died["kind"], died["level"]) == ("worker", "error")
