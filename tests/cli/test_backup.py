"""`usagebill backup`: a whole, sound copy of one instant, made while others write."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import stat
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.scenarios import plan_fields
from tests.test_docs import ROOT

from usagebill import Billing
from usagebill.cli import main
from usagebill.http.metrics import Metrics
from usagebill.process.settings import Settings

pytestmark = pytest.mark.beyond_reference


def back_up(source: Path | str, target: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["backup", str(target), "--db", str(source), *options])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "billing.db"
    with Billing(path) as billing:
        billing.plans.create(**plan_fields(code="pro", amount_cents=3100))
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="acme", external_id="s", plan_code="pro")
    return path


def test_a_copy_is_whole_audited_and_its_owners_alone(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    done = back_up(file, copy, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["file"], told["bytes"]) == (str(copy), copy.stat().st_size)
    (audited,) = told["organizations"]
    assert (audited["found"], audited["subscriptions"]) == (0, 1)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    # One file: nothing beside it that would have to be copied too.
    assert [path.name for path in tmp_path.glob("copy.db*")] == ["copy.db"]
    with Billing(copy, read_only=True) as restored:
        assert [one.external_id for one in restored.subscriptions.list().items] == ["s"]


def test_the_last_backup_without_findings_is_known(file: Path, tmp_path: Path) -> None:
    def known() -> tuple[str | None, str]:
        shown = json.loads(CliRunner().invoke(main, ["status", "--db", str(file), "--json"]).stdout)["last_backup_at"]
        text = CliRunner().invoke(main, ["status", "--db", str(file)]).stdout
        return shown, next(line for line in text.splitlines() if line.startswith("backup"))

    assert known() == (None, "backup    none known")
    begun = datetime.now(UTC).replace(microsecond=0)
    assert back_up(file, tmp_path / "copy.db").exit_code == 0
    shown, line = known()
    assert shown is not None
    assert begun <= datetime.fromisoformat(shown) <= datetime.now(UTC)
    assert line == f"backup    {shown}"
    with Billing(file, settings=Settings(metrics_key="key")) as billing:
        metrics = Metrics(billing, "key").text().decode()
        found = re.search(r"^usagebill_last_backup_timestamp_seconds (\S+)$", metrics, re.MULTILINE)
        assert found is not None
        assert int(float(found[1])) == int(datetime.fromisoformat(shown).timestamp())
    # One that cannot be made leaves it as it is.
    assert back_up(file, tmp_path / "copy.db").exit_code == 1
    assert known()[0] == shown


def test_a_backup_of_other_means_is_noted(file: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["backup", "--done", "--db", str(file)]).exit_code == 0
    with Billing(file, read_only=True) as billing:
        assert billing.store.read(None, lambda tx: tx.last_backup()) is not None
    for arguments in ([], ["--done", str(tmp_path / "copy.db")]):
        assert CliRunner().invoke(main, ["backup", *arguments, "--db", str(file)]).exit_code == 2


def test_what_is_written_meanwhile_is_whole_or_not_in_the_copy(file: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    begun = threading.Event()

    def write() -> None:
        with Billing(file) as billing:
            number = 0
            while not stop.is_set():
                number += 1
                name = f"c{number}"
                billing.customers.upsert(external_id=name, currency="EUR")
                billing.subscriptions.create(external_customer_id=name, external_id=name, plan_code="pro")
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        for number in range(5):
            done = back_up(file, tmp_path / f"copy{number}.db")
            assert done.exit_code == 0, done.output
    finally:
        stop.set()
        writer.join()
    counts = []
    for number in range(5):
        with Billing(tmp_path / f"copy{number}.db", read_only=True) as copy:
            counts.append(copy.subscriptions.list().total_count)
    assert counts == sorted(counts)
    assert counts[0] >= 2


def test_no_file_is_overwritten(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("mine")
    done = back_up(file, other)
    assert (done.exit_code, "there is a file" in done.output) == (1, True)
    assert other.read_text() == "mine"
    assert not list(tmp_path.glob("*.partial"))


def test_a_file_that_is_damaged_gives_no_backup(file: Path, tmp_path: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'customers'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with file.open("r+b") as damaged:
        damaged.seek((page - 1) * size)
        damaged.write(b"\\xff" * 200)
    done = back_up(file, tmp_path / "copy.db")
    assert (done.exit_code, "damaged" in done.output or "malformed" in done.output) == (1, True)
    assert not (tmp_path / "copy.db").exists()


def test_findings_of_the_audit_are_told(file: Path, tmp_path: Path) -> None:
    with Billing(file) as billing:
        billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE invoices SET total_amount_cents = 101")
    connection.close()
    done = back_up(file, tmp_path / "copy.db")
    assert done.exit_code == 1
    assert "101" in done.stdout
    with Billing(file, read_only=True) as billing:
        assert billing.store.read(None, lambda tx: tx.last_backup()) is None
    # It is what the database is, so it is kept.
    assert (tmp_path / "copy.db").exists()
    assert back_up(file, tmp_path / "unaudited.db", "--no-audit").exit_code == 0


def test_a_file_is_backed_up_before_it_is_upgraded(tmp_path: Path) -> None:
    file = tmp_path / "billing.db"
    file.write_bytes(gzip.decompress((ROOT / "tests" / "upgrades" / "v55.db.gz").read_bytes()))
    before = file.read_bytes()
    done = back_up(file, tmp_path / "copy.db", "--json")
    assert done.exit_code == 0, done.output
    assert "schema version 55" in json.loads(done.stdout)["not_audited"]
    assert file.read_bytes() == before
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (55,)


def test_servers_are_backed_up_by_their_own_tools(tmp_path: Path) -> None:
    done = back_up("postgresql://localhost/billing", tmp_path / "copy.db")
    assert (done.exit_code, "docs/postgresql.md#backups" in " ".join(done.output.split())) == (2, True)
