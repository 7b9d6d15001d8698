"""The commands of the page about backups of PostgreSQL: a dump of rows behind row security is whole, and a server goes
back to any second.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.outages.servers import OwnServer, eventually, own_server, running, servers_folder
from tests.scenarios import plan_fields
from tests.service import command_here
from tests.test_docs import ROOT, blocks
from usagebill import Billing
from usagebill.core.customers import Customer

pytestmark = [pytest.mark.slow, pytest.mark.second_engine]

PAGE = (ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
DUMP, RESTORE, BASE, COPY, DONE = (block.text for block in blocks(PAGE.partition("\n## Backups\n")[2], "sh")[:5])
(ARCHIVING,) = (block.text for block in blocks(PAGE.partition("\n## Back to any second\n")[2], "ini"))


def run(script: str, server: OwnServer, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a block of the page as a shell does that stops at errors."""
    program = folder / "usagebill"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m usagebill "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    known = {
        **server.environment,
        **environment,
        "PATH": f"{folder}:{server.environment['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    return subprocess.run(
        ["sh", "-euc", script], cwd=folder, env=known, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_dump_of_rows_behind_row_security_is_whole_and_can_be_restored(tmp_path: Path) -> None:
    with own_server() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE billing LOGIN CREATEDB")
            connection.execute("CREATE DATABASE billing OWNER billing")
        url = server.url.replace("postgres@", "billing@").rpartition("/")[0]
        database, restored = f"{url}/billing", f"{url}/restored"
        with Billing(database) as billing:
            billing.plans.create(**plan_fields(code="pro", amount_cents=3100))
            for number in range(20):
                billing.customers.upsert(external_id=f"c{number}", currency="EUR")
            billing.subscriptions.create(external_customer_id="c0", external_id="s", plan_code="pro")
        command_here("row-security", "on", "--db", database)
        # What the page warns of.
        plain = run(
            'pg_dump --format=custom --file=plain.dump "$USAGEBILL_DB"', server, tmp_path, USAGEBILL_DB=database
        )
        assert (plain.returncode, "row-level security" in plain.stderr) == (1, True)

        dumped = run(DUMP, server, tmp_path, USAGEBILL_DB=database)
        assert dumped.returncode == 0, dumped.stderr
        assert [path.name for path in tmp_path.glob("billing.dump*")] == ["billing.dump"]
        assert (tmp_path / "billing.dump").stat().st_mode & 0o077 == 0
        with Billing(database, read_only=True) as billing:
            assert billing.store.read(None, lambda tx: tx.last_backup()) is not None
        done = run(RESTORE, server, tmp_path, USAGEBILL_SERVER=f"{url}/postgres", RESTORED_DB=restored)
        assert done.returncode == 0, done.stderr
        assert "0 found" in done.stdout
        with Billing(restored, read_only=True) as copy:
            assert copy.customers.list().total_count == 20
            assert copy.reading(lambda reader: reader.tx.count(Customer)) == 20
            assert [one.external_id for one in copy.subscriptions.list().items] == ["s"]
        # And it is walled as before.
        assert command_here("row-security", "--db", restored).startswith("row security is on")


def test_a_dump_that_fails_is_not_taken_for_a_backup(tmp_path: Path) -> None:
    with own_server() as server:
        missing = server.url.rpartition("/")[0] + "/missing"
        failed = run(DUMP, server, tmp_path, USAGEBILL_DB=missing)
    assert failed.returncode != 0
    assert not (tmp_path / "billing.dump").exists()


def value(server: OwnServer, question: str) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return str(row[0])


def bill(billing: Billing, name: str) -> str:
    """A customer with a bill, and an event; the number of the bill."""
    billing.customers.upsert(external_id=name, currency="EUR")
    billing.subscriptions.create(external_customer_id=name, external_id=name, plan_code="pro")
    billing.events.ingest([{"transaction_id": name, "external_subscription_id": name, "code": "calls"}])
    billing.run_due()
    (invoice,) = billing.invoices.list(external_customer_id=name).items
    return invoice.number


def test_a_server_goes_back_to_a_second_and_on_from_there(tmp_path: Path) -> None:
    with servers_folder() as backup:
        (backup / "wal").mkdir()
        (backup / "wal").chmod(0o777)
        settings = [
            "=".join(part.strip() for part in line.replace("/backup", str(backup)).split("=", 1)).replace("'", "")
            for line in ARCHIVING.splitlines()
        ]
        with running(OwnServer(backup / "server", settings)) as server:
            with Billing(server.url) as billing:
                billing.plans.create(**plan_fields(code="pro", amount_cents=3100, pay_in_advance=True))
                billing.billable_metrics.create(name="Calls", code="calls", aggregation_type="count_agg")
                before = [bill(billing, "in-the-base-backup")]
                server.run("sh", "-euc", BASE.replace("/backup", str(backup)), USAGEBILL_SERVER=server.url)
                before.append(bill(billing, "in-the-log"))
                moment = value(server, "SELECT clock_timestamp()")
                taken_back = bill(billing, "after-that-second")
            segment = value(server, "SELECT pg_walfile_name(pg_switch_wal())")
            eventually(lambda: (backup / "wal" / segment).exists())
            assert value(server, "SELECT failed_count FROM pg_stat_archiver") == "0"
            # And then its disk is gone.
            server.stop()
            server.run("sh", "-euc", COPY.replace("/backup", str(backup)), GO_BACK_TO=moment)
            with running(OwnServer(backup / "restored", settings)) as restored:
                eventually(lambda: value(restored, "SELECT pg_is_in_recovery()") == "False")
                done = run(DONE, restored, tmp_path, RESTORED_SERVER=restored.url, RESTORED_DB=restored.url)
                assert (done.returncode, "0 found" in done.stdout) == (0, True), done.stderr
                with Billing(restored.url) as billing:
                    assert sorted(one.number for one in billing.invoices.list().items) == sorted(before)
                    assert {one.transaction_id for one in billing.events.list().items} == {
                        "in-the-base-backup",
                        "in-the-log",
                    }
                    # What was taken back is done again, with the number that it had.
                    assert bill(billing, "after-that-second") == taken_back
                    assert bill(billing, "later") not in {*before, taken_back}
                    assert billing.audit().findings == ()
                assert "recovery" not in (backup / "restored" / "postgresql.auto.conf").read_text(encoding="utf-8")
                segment = value(restored, "SELECT pg_walfile_name(pg_switch_wal())")
                eventually(lambda: (backup / "wal" / segment).exists())
