"""The totals that lists keep: the audit compares them with the records on both engines, and they can be corrected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.postgresql import new_database

from usagebill import Billing
from usagebill.cli import main
from usagebill.fields import CustomerMetadataFields
from usagebill.operations.organizations import create
from usagebill.runtime.clock import ManualClock


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.second_engine)])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A file, or a database, with three customers, two of them in Germany."""
    with ExitStack() as stack:
        url = str(tmp_path / "billing.db") if request.param == "sqlite" else stack.enter_context(new_database())
        fill(url)
        yield url


def fill(url: str) -> None:
    with Billing(url, clock=ManualClock(datetime(2024, 3, 1, tzinfo=UTC)), deliver=False) as billing:
        for name, country in (("ada", "DE"), ("grace", "DE"), ("edsger", "NL")):
            plan: list[CustomerMetadataFields] = [{"key": "plan", "value": "gold"}]
            billing.customers.upsert(external_id=name, currency="EUR", country=country, metadata=plan)


def execute(url: str, statement: str) -> None:
    """Run a statement in a transaction of its own, as another program could."""
    with Billing(url, deliver=False) as billing:
        billing._system.transact(lambda tx: tx._connection.execute(statement))  # type: ignore[attr-defined]


def germans(url: str) -> int:
    with Billing(url, deliver=False) as billing:
        return billing.customers.list(countries=["DE"]).total_count


def run(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == code, done.output
    (organization,) = json.loads(done.stdout)["organizations"]
    return organization


# The list of customers shows three more in Germany than there are.
WRONG_COUNT = "UPDATE customers_counts SET n = n + 3 WHERE country = 'DE'"


def test_a_wrong_total_is_named_by_the_audit_and_corrected_from_the_command_line(file: str) -> None:
    assert run("audit", "--db", file)["found"] == 0
    execute(file, WRONG_COUNT)
    assert germans(file) == 2 + 3
    report = run("audit", "--db", file, "--no-recount", code=1)
    (finding,) = report["findings"]
    assert (finding["check"], finding["subject"], finding["subject_id"]) == (
        "list_counts",
        "list of customers,",
        report["id"],
    )
    assert "country=DE, currency=EUR" in finding["detail"]
    assert (finding["expected"], finding["found"]) == ("2", "5")
    assert run("repair", "lists", "--db", file)["corrected"] == ["customers"]
    assert germans(file) == 2
    assert run("audit", "--db", file)["found"] == 0
    assert run("repair", "lists", "--db", file)["corrected"] == []


def test_a_count_that_is_missing_or_of_no_record_is_named_too(file: str) -> None:
    execute(file, "UPDATE customers_counts SET country = 'FR' WHERE country = 'NL'")
    with Billing(file, deliver=False) as billing:
        findings = {
            "FR" if "country=FR" in finding.detail else "NL": (finding.expected, finding.found)
            for finding in billing.audit().findings
        }
        assert findings == {"FR": ("0", "1"), "NL": ("1", "0")}
        assert billing.lists.recount() == ["customers"]
        assert billing.audit().found == 0


def test_totals_of_other_organizations_are_left_alone(file: str) -> None:
    clock = ManualClock(datetime(2024, 3, 1, tzinfo=UTC))
    with Billing(file, clock=clock, deliver=False) as billing:
        other = billing._system.transact(lambda tx: create(tx, clock.now(), "Other")).id
    with Billing(file, organization=other, clock=clock, deliver=False) as billing:
        billing.customers.upsert(external_id="alan", currency="EUR", country="DE")
    execute(file, WRONG_COUNT)
    with Billing(file, clock=clock, deliver=False) as first:
        assert first.lists.recount() == ["customers"]
        assert first.audit().found == 0
    with Billing(file, organization=other, clock=clock, deliver=False) as second:
        (finding,) = second.audit().findings
        assert (finding.expected, finding.found) == ("1", "4")
        assert second.lists.recount() == ["customers"]
        assert second.customers.list().total_count == 1
        assert second.audit().found == 0


def test_metadata_that_lists_do_not_find_is_named_and_found_again(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    fill(path)
    execute(path, "DELETE FROM customers_values WHERE value = 'gold'")
    with Billing(path, deliver=False) as billing:
        assert billing.customers.list(metadata={"plan": "gold"}).total_count == 0
        (finding,) = billing.audit().findings
        assert (finding.detail, finding.expected, finding.found) == ("metadata plan=gold", "3", "0")
        assert billing.lists.recount() == ["customers"]
        assert billing.customers.list(metadata={"plan": "gold"}).total_count == 3
        assert billing.audit().found == 0


def test_texts_that_searches_do_not_find_are_named_and_found_again(tmp_path: Path) -> None:
    path = str(tmp_path / "billing.db")
    fill(path)
    execute(path, "UPDATE customers_documents SET document = 'nobody' WHERE document LIKE '%ada%'")
    with Billing(path, deliver=False) as billing:
        assert billing.customers.list(search_term="ada").total_count == 0
        id = billing.customers.get("ada").id
        findings = {(finding.detail, finding.expected, finding.found) for finding in billing.audit().findings}
        assert findings == {(f"document of {id}", "0", "1"), (f"document of {id}", "1", "0")}
        assert billing.lists.recount() == ["customers"]
        assert billing.customers.list(search_term="ada").total_count == 1
        assert billing.audit().found == 0
