"""What the page about PostgreSQL says of replicas, of TLS, and of PgBouncer: its commands, on servers of the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests.outages.servers import OwnServer, eventually, free_port, own_server, running, servers_folder
from tests.outages.test_postgresql_backups import PAGE, value
from tests.scenarios import plan_fields
from tests.service import Service, command
from tests.test_docs import blocks
from usagebill import Billing
from usagebill.storage.ports import UnusableServer

pytestmark = [pytest.mark.slow, pytest.mark.second_engine]

REPLICA, SYNCHRONOUS, PROMOTE = (
    block.text for block in blocks(PAGE.partition("\n## Replicas and failover\n")[2], "sh")
)
AUTHORITY = blocks(PAGE.partition("\n## TLS with an authority of your own\n")[2], "sh")[0].text


def test_a_replica_takes_over_with_everything_that_was_acknowledged() -> None:
    with servers_folder() as backup, running(OwnServer(backup / "server")) as primary:
        primary.run("sh", "-euc", REPLICA.replace("/backup", str(backup)), USAGEBILL_SERVER=primary.url)
        with running(OwnServer(backup / "replica")) as replica:
            primary.run("sh", "-euc", SYNCHRONOUS, USAGEBILL_SERVER=primary.url)
            eventually(
                lambda: value(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
            )
            hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
            both = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
            acknowledged, stop = set[str](), threading.Event()
            with Service(both) as service:
                web = service.client

                def send() -> None:
                    number = 0
                    while not stop.is_set():
                        sent = {"transaction_id": f"e{number}", "external_subscription_id": "s", "code": "calls"}
                        with suppress(OSError):
                            answer = web.post("/api/v1/events", json={"event": sent})
                            # What was not acknowledged is sent again, until it is.
                            if answer.status_code == 200 or "value_already_exist" in answer.text:
                                acknowledged.add(sent["transaction_id"])
                                number += 1

                sender = threading.Thread(target=send)
                sender.start()
                eventually(lambda: len(acknowledged) > 20)
                primary.stop()
                eventually(lambda: web.get("/ready").status_code == 503)
                before = len(acknowledged)
                replica.run("sh", "-euc", PROMOTE.replace("/backup", str(backup)))
                eventually(lambda: len(acknowledged) > before + 20)
                stop.set()
                sender.join()
                eventually(lambda: web.get("/ready").status_code == 200)
                assert web.get("/api/v1/events?per_page=1").json()["meta"]["total_count"] == len(acknowledged)
            with Billing(replica.url) as billing:
                assert billing.audit().findings == ()


def _with_tls() -> Path:
    """The commands of a PostgreSQL that has TLS: the one that the tests bring has not."""
    for config in ("pg_config", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_config")))):
        with suppress(OSError, subprocess.CalledProcessError):
            told = subprocess.run(
                [config, "--bindir", "--configure"], capture_output=True, text=True, check=True
            ).stdout
            folder = Path(told.split("\n")[0])
            if "openssl" in told and (folder / "initdb").exists():
                return folder
    pytest.skip("no PostgreSQL with TLS here")


def test_a_server_is_known_by_an_authority_of_ones_own() -> None:
    commands = _with_tls()
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    with servers_folder() as folder:
        server = OwnServer(
            folder / "server",
            ["ssl=on", f"ssl_key_file={folder}/server.key", f"ssl_cert_file={folder}/server.pem"],
            commands,
        )
        server.run("sh", "-euc", AUTHORITY, SERVER_NAME="db.example.com")
        (folder / "server" / "pg_hba.conf").write_text("hostssl all all all trust\n", encoding="utf-8")
        server.run("sh", "-euc", "mkdir other && cd other && " + AUTHORITY, SERVER_NAME="db.example.com")
        with running(server):
            place = f"postgresql://postgres@db.example.com:{server.port}/postgres?hostaddr=127.0.0.1"
            url = f"{place}&sslmode=verify-full&sslrootcert={folder}/db-ca.pem"
            with Billing(url) as billing:
                billing.customers.upsert(external_id="acme")
            with psycopg.connect(url) as connection:
                row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
                assert row == (True,)
            for wrong, reason in (
                (url.replace("db-ca.pem", "other/db-ca.pem"), "certificate verify failed"),
                (url.replace("db.example.com", "db2.example.com"), 'does not match host name "db2.example.com"'),
                (f"{place}&sslmode=disable", "no encryption"),
            ):
                refused = command("status", "--db", wrong, check=False)
                assert (refused.returncode, reason in refused.stderr) == (1, True), refused.stderr
                assert "Traceback" not in refused.stderr


@contextmanager
def pooler(server: OwnServer, mode: str, folder: Path) -> Iterator[str]:
    """The address of a PgBouncer in front of the server."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no PgBouncer here")
    port = free_port()
    settings = folder / f"{mode}.ini"
    settings.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = any\nunix_socket_dir =\npool_mode = {mode}\ndefault_pool_size = 50\n",
        encoding="utf-8",
    )
    settings.chmod(0o644)
    user = "nobody" if os.getuid() == 0 else None
    with subprocess.Popen([program, "-q", str(settings)], user=user, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: _listens(port))
            yield f"postgresql://postgres@127.0.0.1:{port}"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with own_server() as server:
        yield server


def test_pgbouncer_in_its_session_mode_is_as_good_as_the_server(server: OwnServer) -> None:
    name = server.new_database().rpartition("/")[2]
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA billing; ALTER DATABASE {name} SET search_path = billing".encode())
    with servers_folder() as folder, pooler(server, "session", folder) as url:
        with Service(f"{url}/{name}") as service:
            web = service.client
            web.post("/api/v1/plans", json={"plan": plan_fields(code="pro", amount_cents=3100, pay_in_advance=True)})

            def use(client: int) -> None:
                for number in range(5):
                    id = f"{client}-{number}"
                    web.post("/api/v1/customers", json={"customer": {"external_id": id, "currency": "EUR"}})
                    ordered = {"external_customer_id": id, "external_id": id, "plan_code": "pro"}
                    web.post("/api/v1/subscriptions", json={"subscription": ordered})

            clients = [threading.Thread(target=use, args=(client,)) for client in range(6)]
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join()
            eventually(lambda: web.get("/api/v1/invoices?per_page=1").json()["meta"]["total_count"] == 30)
            _, log = service.stop()
        assert [line for line in log if line["level"] == "error"] == []
        with Billing(f"{url}/{name}") as billing:
            assert billing.audit().findings == ()
        with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
            Billing(f"{url}/{name}", schema="billing")


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused_with_the_reason(server: OwnServer, mode: str) -> None:
    database = server.new_database()
    name = database.rpartition("/")[2]
    with servers_folder() as folder, pooler(server, mode, folder) as url:
        refused = command("serve", "--port", "0", "--db", f"{url}/{name}", check=False)
        assert (refused.returncode, "pool_mode = session" in refused.stderr) == (1, True), refused.stderr
        for _ in range(3):
            with pytest.raises(UnusableServer):
                Billing(f"{url}/{name}")
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert row == (0,)
