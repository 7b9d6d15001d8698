"""Files of events are imported completely and once, however often they are imported."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.scenarios import charge_on, plan_fields

from usagebill import Billing
from usagebill.cli import main
from usagebill.fields import MetricFilterFields

TABLE = """transaction_id,code,external_subscription_id,timestamp,gb,region
a,storage,acme,1704067200,10.5,eu
b,storage,acme,2024-01-02T00:00:00Z,,us
"""


@pytest.fixture
def db(tmp_path: Path) -> str:
    path = tmp_path / "billing.db"
    Billing(path).close()
    return str(path)


def run(*arguments: str, code: int = 0) -> Any:
    report = run_whole(*arguments, code=code)
    return {name: report[name] for name in ("imported", "duplicates", "refused")}


def run_whole(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, ["events", "import", *arguments, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_a_table_is_imported_with_its_other_columns_as_properties(db: str, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text(TABLE)
    assert run(str(file), "--db", db) == {"imported": 2, "duplicates": 0, "refused": []}
    with Billing(db) as billing:
        first, second = billing.events.get("a"), billing.events.get("b")
    assert (first.code, first.external_subscription_id) == ("storage", "acme")
    assert first.properties == {"gb": "10.5", "region": "eu"}
    assert second.properties == {"region": "us"}
    assert [event.timestamp for event in (first, second)] == [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 2, tzinfo=UTC),
    ]


def test_importing_again_skips_what_is_known(db: str, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text(TABLE)
    run(str(file), "--db", db)
    file.write_text(TABLE + "c,storage,acme,1704240000,1,\n")
    assert run(str(file), "--db", db) == {"imported": 1, "duplicates": 2, "refused": []}
    with Billing(db) as billing:
        assert billing.events.list().total_count == 3


def test_lines_of_json_are_imported_and_bad_ones_named(db: str, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    lines = [
        '{"transaction_id": "a", "code": "storage", "timestamp": 1704067200.25, "properties": {"gb": 0.1}}',
        '{"transaction_id": "b", "timestamp": 1704067200}',
        "",
        "{oops",
        "[]",
        '{"transaction_id": "a", "code": "storage", "timestamp": 1704067201}',
        '{"transaction_id": "c", "code": "storage", "timestamp": "2024-13-01"}',
        '{"transaction_id": "d", "code": "storage"}',
    ]
    file.write_text("\n".join(lines))
    output = run(str(file), "--db", db, code=1)
    assert (output["imported"], output["duplicates"]) == (1, 1)
    assert sorted(row["line"] for row in output["refused"]) == [2, 4, 5, 7, 8]
    refused = next(row for row in output["refused"] if row["line"] == 2)
    assert refused["problem"] == {"code": ["value_is_mandatory"]}
    assert refused["message"].startswith("code: is missing; send it")
    with Billing(db) as billing:
        assert billing.view(billing.events.get("a"))["timestamp"] == "2024-01-01T00:00:00.250Z"


def test_large_files_come_in_batches(db: str, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(
        "\n".join(json.dumps({"transaction_id": str(n), "code": "hit", "timestamp": n}) for n in range(2500))
    )
    assert run(str(file), "--db", db)["imported"] == 2500


def test_people_get_a_sentence(db: str, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text(TABLE + ",,,,,\n")
    done = CliRunner().invoke(main, ["events", "import", str(file), "--db", db])
    assert done.stdout == (
        "2 imported, 0 known already and skipped, 1 refused\n"
        "2 events of no subscription: acme\n"
        "not billed as things stand: `usagebill events unbilled` says which and why\n"
    )
    assert "line 4" in done.stderr
    file.rename(tmp_path / "events.xlsx")
    assert CliRunner().invoke(main, ["events", "import", str(tmp_path / "events.xlsx"), "--db", db]).exit_code == 2


def test_a_refusal_that_names_its_remedy_says_nothing_else(db: str, tmp_path: Path) -> None:
    file = tmp_path / "EVENTS.CSV"
    file.write_text(TABLE.replace("1704067200", "2024-01-01 00:00:00 UTC"))
    done = CliRunner().invoke(main, ["events", "import", str(file), "--db", db])
    problem = "timestamp: '2024-01-01 00:00:00 UTC' names its time zone; write 2024-01-01T00:00:00Z"
    assert done.stderr == f"  line 2: {problem}\n"
    assert "1 imported" in done.stdout


def test_rows_with_more_or_fewer_values_than_the_header_are_refused(db: str, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("transaction_id,code,timestamp,gb\n1,gb,0,5\n2,gb,0\n3,gb,0,5,6\n")
    done = CliRunner().invoke(main, ["events", "import", str(file), "--db", db, "--json"])
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert (report["imported"], [row["line"] for row in report["refused"]]) == (1, [3, 4])


@pytest.mark.parametrize("name", ["events.csv", "events.jsonl"])
def test_a_binary_file_is_refused_in_one_line(db: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\xff\xfe\x00")
    done = CliRunner().invoke(main, ["events", "import", str(file), "--db", db])
    assert (done.exit_code, "cannot be read:" in done.output) == (1, True)
    assert "Traceback" not in done.output


@pytest.fixture
def priced(db: str) -> str:
    """A file with a metered subscription since 1 January 2024, and a metric with two regions."""
    with Billing(db) as billing:
        regions: list[MetricFilterFields] = [{"key": "region", "values": ["eu", "us"]}]
        metric = billing.billable_metrics.create(
            name="GB", code="storage", aggregation_type="sum_agg", field_name="gb", filters=regions
        )
        billing.plans.create(**plan_fields(charge_on(metric.id, amount="1")))
        billing.customers.upsert(external_id="acme", currency="EUR")
        now = billing.clock.now()
        billing.subscriptions.create(
            external_customer_id="acme", plan_code="basic", external_id="acme", subscription_at=now.isoformat()
        )
    return db


def test_an_import_says_which_events_are_not_billed(priced: str, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    with Billing(priced) as billing:
        now = int(billing.clock.now().timestamp())
    rows = [
        ("a", "storage", "acme", "1", "eu"),
        ("b", "storage", "nosub", "1", "eu"),
        ("c", "storage", "nosub", "1", "eu"),
        ("d", "storag", "acme", "1", "eu"),
        ("e", "storage", "acme", "", "eu"),
        ("f", "storage", "acme", "2", "eu-wets"),
    ]
    head = "transaction_id,code,external_subscription_id,timestamp,gb,region\n"
    file.write_text(head + "".join(f"{id},{code},{to},{now},{gb},{region}\n" for id, code, to, gb, region in rows))
    report = run_whole(str(file), "--db", priced)
    assert report["imported"] == 6
    assert {(row["reason"], row["external_subscription_id"], row["events_count"]) for row in report["unbilled"]} == {
        ("subscription_not_found", "nosub", 2),
        ("billable_metric_not_found", "acme", 1),
        ("property_missing", "acme", 1),
    }
    assert report["undeclared_filter_values"] == [
        {"code": "storage", "key": "region", "value": "eu-wets", "events_count": 1}
    ]
    file.write_text(head + "".join(f"{id}2,{code},{to},{now},{gb},{region}\n" for id, code, to, gb, region in rows))
    result = CliRunner().invoke(main, ["events", "import", str(file), "--db", priced])
    assert result.exit_code == 0
    for line in (
        "2 events of no subscription: nosub",
        "1 event of no billable metric: storag",
        "1 event without the property that their metric needs: storage",
        "1 event of storage with region=eu-wets, which no filter declares: billed at the default price",
        "not billed as things stand: `usagebill events unbilled` says which and why",
    ):
        assert line in result.output.splitlines()


def test_unbilled_events_are_listed_with_what_would_help(priced: str, tmp_path: Path) -> None:
    def unbilled(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["events", "unbilled", "--db", priced, *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert unbilled() == "every event is billed, or will be\n"
    with Billing(priced) as billing:
        billing.events.create(transaction_id="a", code="storage", external_subscription_id="acne")
        billing.events.create(transaction_id="b", code="storage", external_subscription_id="acme")
    shown = unbilled()
    assert "subscription_not_found" in shown
    assert "was 'acme' meant?" in shown
    assert "needs the property 'gb'" in shown
    report = json.loads(unbilled("--json", "--subscription", "acme"))
    assert report["total_count"] == 1
    assert [row["transaction_id"] for row in report["events"]] == ["b"]
    assert [kind["reason"] for kind in report["kinds"]] == ["property_missing"]
    assert "1 of 2; --limit shows more" in unbilled("--limit", "1")
