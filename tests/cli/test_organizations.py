"""Organizations come and go: archives that another system goes on from, organizations that stand still, and ones that
are deleted without a row left, and without a row of another touched.
"""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.asgi import send
from tests.postgresql import new_database

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.errors import Forbidden
from usagebill.core.organizations import Organization
from usagebill.fields import ChargeFields, EventFields
from usagebill.http.app import create_app
from usagebill.operations import api_keys, organizations
from usagebill.runtime.clock import ManualClock
from usagebill.storage.addresses import is_url
from usagebill.storage.archives import contents_of, rows_of
from usagebill.storage.stores import store_at

THEN, BILLED = datetime(2026, 1, 15, 12, tzinfo=UTC), datetime(2026, 2, 1, 3, tzinfo=UTC)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "billing.db")
        return
    with new_database() as database:
        yield database


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result.output


def fill(url: str, *, names: tuple[str, ...] = ("first", "second")) -> dict[str, str]:
    """Organizations with a month of usage, its invoice, its PDF and what comes next; the id of each."""
    clock = ManualClock(THEN)
    with Billing(url, clock=clock, deliver=False) as billing:
        made = {"first": billing.organization}
        for name in names[1:]:
            made[name] = billing.store.write(None, partial(organizations.create, now=THEN, name=name))
    for organization in made.values():
        with Billing(url, clock=clock, deliver=False, organization=organization.id) as billing:
            sell(billing)
    clock.set(BILLED)
    for organization in made.values():
        with Billing(url, clock=clock, deliver=False, organization=organization.id) as billing:
            billing.run_due(strict=True)
            for invoice in billing.invoices.list():
                billing.invoices.pdf(invoice.id)
    return {name: organization.id for name, organization in made.items()}


def sell(billing: Billing) -> None:
    billing.customers.upsert(external_id="acme", name="Acme", currency="EUR", metadata=[{"key": "k", "value": "v"}])
    metric = billing.billable_metrics.create(name="GB", code="gb", aggregation_type="sum_agg", field_name="gb")
    charge: ChargeFields = {"billable_metric_id": metric.id, "charge_model": "standard", "properties": {"amount": "2"}}
    billing.plans.create(
        name="Basic",
        code="basic",
        interval="monthly",
        amount_cents=1000,
        amount_currency="EUR",
        pay_in_advance=False,
        charges=[charge],
    )
    billing.webhook_endpoints.create(webhook_url="https://listener.example/hook")
    billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="sub")
    billing.wallets.create(external_customer_id="acme", rate_amount="1", currency="EUR", granted_credits="5")
    use(billing, 20)


def use(billing: Billing, count: int, first: int = 0) -> None:
    at = int(billing.clock.now().timestamp())
    events: list[EventFields] = [
        {
            "transaction_id": f"t{n}",
            "code": "gb",
            "external_subscription_id": "sub",
            "timestamp": at,
            "properties": {"gb": "1.10", "n": n},
        }
        for n in range(first, first + count)
    ]
    billing.events.ingest(events)


def everything(url: str, id: str) -> dict[str, Any]:
    """What an export of the organization has, without what says when it was made."""
    file = Path(f"/tmp/people-{id}.zip")
    try:
        run("organizations", "export", id, "-o", str(file), "--db", url)
        with zipfile.ZipFile(file) as files:
            return {name: files.read(name) for name in files.namelist() if name != "contents.json"}
    finally:
        file.unlink(missing_ok=True)


def audited(url: str, id: str) -> Any:
    with Billing(url, clock=ManualClock(BILLED), deliver=False, organization=id, read_only=True) as billing:
        report = billing.audit()
        return report.findings, report.invoices


def test_an_archive_makes_a_system_that_bills_on_as_the_first_would(url: str, tmp_path: Path) -> None:
    ids = fill(url)
    archive, copy = tmp_path / "first.zip", str(tmp_path / "copy.db")
    run("organizations", "export", ids["first"], "-o", str(archive), "--db", url)
    with zipfile.ZipFile(archive) as files:
        assert ids["second"].encode() not in b"".join(files.read(name) for name in files.namelist())
        assert [name for name in files.namelist() if name.startswith("files/")]
    run("organizations", "import", str(archive), "--db", copy)
    assert without_versions(everything(copy, ids["first"])) == without_versions(everything(url, ids["first"]))
    assert audited(copy, ids["first"]) == audited(url, ids["first"])
    assert audited(copy, ids["first"])[0] == ()
    assert next_month(copy, ids["first"]) == next_month(url, ids["first"])


@pytest.mark.second_engine
def test_an_archive_of_a_file_is_stored_in_postgresql(tmp_path: Path) -> None:
    path, archive = str(tmp_path / "billing.db"), tmp_path / "first.zip"
    ids = fill(path)
    run("organizations", "export", ids["first"], "-o", str(archive), "--db", path)
    with new_database() as url:
        run("organizations", "import", str(archive), "--db", url)
        assert without_versions(everything(url, ids["first"])) == without_versions(everything(path, ids["first"]))
        assert audited(url, ids["first"]) == audited(path, ids["first"])
        assert next_month(url, ids["first"]) == next_month(path, ids["first"])


def without_versions(found: dict[str, Any]) -> dict[str, Any]:
    """Versions count the writes of a database, and start anew."""
    numbers = json.loads(found["numbers.json"])
    for name in [name for name in numbers if "/" in name or name in ("entitlements", "version")]:
        del numbers[name]
    return {**found, "numbers.json": numbers}


def next_month(url: str, id: str) -> Any:
    """The next invoice, of usage before and after."""
    clock = ManualClock(BILLED)
    with Billing(url, clock=clock, deliver=False, organization=id) as billing:
        use(billing, 3, first=100)
        while (due := billing.next_due()) is not None and due <= datetime(2026, 3, 1, 3, tzinfo=UTC):
            clock.set(max(due, clock.now()))
            billing.run_due(strict=True)
        clock.set(datetime(2026, 3, 1, 3, tzinfo=UTC))
        newest = billing.invoices.list().items[0]
        assert billing.audit().findings == ()
        return newest.number, newest.total_amount_cents, [fee.amount_cents for fee in newest.fees]


def test_an_archive_is_stored_in_a_new_database_only(url: str, tmp_path: Path) -> None:
    ids = fill(url, names=("first",))
    archive = tmp_path / "first.zip"
    run("organizations", "export", ids["first"], "-o", str(archive), "--db", url)
    assert "import into a new one" in run("organizations", "import", str(archive), "--db", url, code=1)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(archive.read_bytes()[:-100])
    assert "no archive" in run("organizations", "import", str(broken), "--db", str(tmp_path / "new.db"), code=1)


def test_a_disabled_organization_stands_still_until_it_is_enabled(url: str) -> None:
    ids = fill(url)
    with Billing(url, clock=ManualClock(BILLED), deliver=False, organization=ids["first"]) as billing:
        _, key = billing.writing(lambda work: api_keys.create(work))
    run("organizations", "disable", ids["first"], "--db", url)
    status = CliRunner().invoke(main, ["status", "--db", url]).output
    assert f"({ids['first']}) since" in status
    assert "its jobs stand still" in status
    clock = ManualClock(BILLED)
    with Billing(url, clock=clock, deliver=False, organization=ids["first"]) as billing:
        answer = send(create_app(billing), "GET", "/api/v1/customers", headers={"authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["code"]) == (403, "organization_disabled")
        with pytest.raises(Forbidden, match="organization_disabled"):
            billing.customers.upsert(external_id="new")
        clock.set(datetime(2026, 3, 1, 3, tzinfo=UTC))
        billing.run_due()
        assert len(billing.invoices.list().items) == 1
        jobs = billing.reading(lambda reader: reader.tx.jobs.every())
        waiting = [job for job in jobs if job.error == "organization_disabled"]
        assert waiting
        assert {job.attempts for job in waiting} == {0}
    with Billing(url, clock=clock, deliver=False, organization=ids["second"]) as billing:
        assert len(billing.invoices.list().items) == 2
    run("organizations", "enable", ids["first"], "--db", url)
    with Billing(url, clock=clock, deliver=False, organization=ids["first"]) as billing:
        billing.run_due(strict=True)
        first = billing.invoices.list().items[0]
        answer = send(create_app(billing), "GET", "/api/v1/customers", headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == 200
    with Billing(url, clock=clock, deliver=False, organization=ids["second"]) as billing:
        second = billing.invoices.list().items[0]
    assert (first.total_amount_cents, first.issuing_date) == (second.total_amount_cents, second.issuing_date)


def test_a_deleted_organization_leaves_no_row_and_touches_no_other(url: str, tmp_path: Path) -> None:
    ids = fill(url)
    archive = tmp_path / "second.zip"
    run("organizations", "disable", ids["second"], "--db", url)
    run("organizations", "export", ids["second"], "-o", str(archive), "--db", url)
    before = everything(url, ids["first"])
    run("organizations", "delete", ids["second"], "--export", str(archive), "--yes", "--db", url)
    assert tables_with(url, ids["second"]) == set()
    assert everything(url, ids["first"]) == before
    assert audited(url, ids["first"])[0] == ()
    # Events of the other are numbered on, so that nothing takes them for counted.
    assert next_month(url, ids["first"])[1] == 1000 + 3 * 220
    run("organizations", "delete", ids["second"], "--export", str(archive), "--yes", "--db", url, code=1)


def tables_with(url: str, id: str) -> set[str]:
    """The tables with a row that has the id in any column."""
    store: Any = store_at(url)
    try:
        if is_url(url):
            sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        else:
            sql = "SELECT name FROM sqlite_schema WHERE type = 'table'"

        def ask(query: str) -> list[Any]:
            if is_url(url):
                return list(store.ask(lambda connection: connection.execute(query).fetchall()))
            return list(store.read(None, lambda tx: tx._connection.execute(query).fetchall()))

        return {
            name
            for (name,) in ask(sql)
            for row in ask(f'SELECT * FROM "{name}"')
            if any(id in str(cell) for cell in row)
        }
    finally:
        store.close()


def test_an_organization_is_deleted_after_a_whole_export_only(url: str, tmp_path: Path) -> None:
    ids = fill(url)
    early, other, good = (str(tmp_path / f"{name}.zip") for name in ("early", "other", "good"))
    run("organizations", "export", ids["second"], "-o", early, "--db", url)
    run("organizations", "export", ids["first"], "-o", other, "--db", url)
    refused = run("organizations", "delete", ids["second"], "--export", early, "--yes", "--db", url, code=1)
    assert "organization_not_disabled" in refused
    run("organizations", "disable", ids["second"], "--db", url)
    for archive in (early, other):
        refused = run("organizations", "delete", ids["second"], "--export", archive, "--yes", "--db", url, code=1)
        assert "archive_incomplete" in refused
    run("organizations", "export", ids["second"], "-o", good, "--db", url)
    aborted = CliRunner().invoke(main, ["organizations", "delete", ids["second"], "--export", good, "--db", url], "n\n")
    assert aborted.exit_code == 1
    with Billing(url, deliver=False, organization=ids["second"], read_only=True) as billing:
        assert billing.store.read(None, lambda tx: tx.count(Organization)) == 2
        with open(good, "rb") as file:
            contents = contents_of(file)
        assert contents.rows == billing.store.read(ids["second"], rows_of)
        assert (contents.rows["events"], contents.rows["organizations"]) == (20, 1)


def test_an_unknown_organization_is_named(url: str, tmp_path: Path) -> None:
    fill(url, names=("first",))
    for command in ("disable", "enable", "export"):
        assert "no organization has the id nobody" in run("organizations", command, "nobody", "--db", url, code=1)


def test_a_vacuumed_file_forgets_a_deleted_organization(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    ids = fill(path)
    archive = str(tmp_path / "second.zip")
    run("organizations", "disable", ids["second"], "--db", path)
    run("organizations", "export", ids["second"], "-o", archive, "--db", path)
    run("organizations", "delete", ids["second"], "--export", archive, "--yes", "--db", path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("VACUUM")
    connection.close()
    assert ids["second"].encode() not in Path(path).read_bytes()
