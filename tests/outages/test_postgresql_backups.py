"""The commands of the page about PostgreSQL, on a server whose rows are behind row security: a dump is whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.outages.servers import OwnServer, own_server
from tests.scenarios import plan_fields
from tests.service import command_here
from tests.test_docs import ROOT, blocks
from usagebill import Billing
from usagebill.core.customers import Customer

pytestmark = [pytest.mark.slow, pytest.mark.second_engine]

PAGE = (ROOT / "docs" / "postgresql.md").read_text(encoding="utf-8")
DUMP, RESTORE = (block.text for block in blocks(PAGE.partition("\n## Backups\n")[2], "sh")[:2])


def run(script: str, server: OwnServer, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a block of the page as a shell does that stops at errors."""
    program = folder / "usagebill"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m usagebill "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    known = {
        **os.environ,
        **environment,
        "PATH": f"{folder}:{server.commands}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(server.commands.parent / "lib"),
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
