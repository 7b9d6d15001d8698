"""Files are ingested completely and once, as far as they are written, however often reading is interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, strategies as st
from pyarrow import parquet
from tests.examples import examples

from usagebill import Billing
from usagebill.sources import files
from usagebill.sources.files import Unreadable, source_name, take_file
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.watching import WatchedDirectory


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    with Billing(tmp_path / "billing.db") as billing:
        yield billing


def taken(billing: Billing, path: Path, **options: Any) -> Outcome:
    outcome = Outcome()
    take_file(Intake(billing, source_name(path)), path, outcome, **options)
    return outcome


def ids(billing: Billing) -> list[str]:
    return sorted(event.transaction_id for event in billing.events.list(per_page=1000))


def lines(*numbers: int) -> str:
    return "".join(
        json.dumps({"transaction_id": f"{number:03}", "code": "gb", "timestamp": 0}) + "\n" for number in numbers
    )


class _Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_file_is_taken_on_from_where_a_crash_left_it(
    billing: Billing, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BATCH", 3)
    path = tmp_path / f"events{suffix}"
    rows = [
        {"transaction_id": f"{number:03}", "code": "gb", "timestamp": 0, "note": "two\nlines"} for number in range(10)
    ]
    if suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(
            "transaction_id,code,timestamp,note\n"
            + "".join(f'{row["transaction_id"]},gb,0,"two\nlines"\n' for row in rows)
        )

    batches = 0

    def die(position: int) -> None:
        nonlocal batches
        batches += 1
        if batches == 2:
            raise _Killed

    with pytest.raises(_Killed):
        taken(billing, path, progress=die)
    assert len(ids(billing)) == 6
    after = taken(billing, path)
    assert (after.ingested, after.duplicates, after.refused) == (4, 0, {})
    assert ids(billing) == [f"{number:03}" for number in range(10)]
    again = taken(billing, path)
    assert (again.ingested, again.duplicates) == (0, 0)


@given(st.lists(st.integers(0, 12), max_size=6))
@examples(25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_growing_file_is_taken_wherever_it_was_looked_at(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("growing")
    path = directory / "events.csv"
    whole = 'transaction_id,code,timestamp,note\n1,gb,0,a\n2,gb,0,"b\n""c"""\n3,gb,0,d\n4,gb,0,ü\n'.encode()
    with Billing(directory / "billing.db") as billing:
        for cut in sorted(cuts):
            path.write_bytes(whole[: cut * 5])
            taken(billing, path, is_complete=False)
        path.write_bytes(whole)
        taken(billing, path)
        notes = {event.transaction_id: event.properties["note"] for event in billing.events.list()}
    assert notes == {"1": "a", "2": 'b\n"c"', "3": "d", "4": "ü"}


def test_another_file_of_the_same_name_is_taken_from_its_beginning(billing: Billing, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(lines(1, 2, 3))
    taken(billing, path)
    path.write_text(lines(4, 5, 6, 7))
    assert taken(billing, path).ingested == 4
    path.write_text(lines(8))
    assert taken(billing, path).ingested == 1
    assert ids(billing) == [f"{number:03}" for number in range(1, 9)]


def test_parquet_columns_are_fields_and_properties(billing: Billing, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    columns: dict[str, Any] = {
        "transaction_id": ["a", "b"],
        "code": ["gb", "gb"],
        "external_subscription_id": ["acme", None],
        "timestamp": [datetime(2024, 3, 5, 10, 0, 0, 250_000, tzinfo=UTC), datetime(2024, 3, 6, tzinfo=UTC)],
        "properties": [{"region": "eu", "tags": ["x"]}, None],
        "gb": pyarrow.array([Decimal("0.10"), Decimal("12345678901234567890.12")], pyarrow.decimal128(38, 2)),
        "ratio": [0.1, None],
    }
    parquet.write_table(pyarrow.table(columns), path)
    assert taken(billing, path).ingested == 2
    first, second = billing.events.get("a"), billing.events.get("b")
    assert first.properties == {"region": "eu", "tags": ["x"], "gb": Decimal("0.10"), "ratio": Decimal("0.1")}
    assert first.timestamp == columns["timestamp"][0]
    assert (first.external_subscription_id, second.external_subscription_id) == ("acme", None)
    assert second.properties == {"gb": Decimal("12345678901234567890.12")}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_what_is_no_such_file_says_so(billing: Billing, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"events{suffix}"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Unreadable):
        taken(billing, path)


# Watched


def outcomes(scanned: dict[str, Outcome]) -> dict[str, tuple[int, int]]:
    return {name: (outcome.ingested, len(outcome.refused)) for name, outcome in scanned.items()}


def test_files_of_a_directory_are_taken_as_they_come_and_grow(billing: Billing, tmp_path: Path) -> None:
    directory = tmp_path / "inbox"
    directory.mkdir()
    (directory / "a.jsonl").write_text(lines(1, 2))
    (directory / ".hidden.jsonl").write_text(lines(9))
    (directory / "notes.txt").write_text("not ours")
    watched = WatchedDirectory(billing, directory, settled_after=0)
    assert outcomes(watched.scan()) == {"a.jsonl": (2, 0)}
    assert watched.scan() == {}
    with (directory / "a.jsonl").open("a") as file:
        file.write(lines(3) + "{oops\n")
    (directory / ".hidden.jsonl").rename(directory / "b.jsonl")
    assert outcomes(watched.scan()) == {"a.jsonl": (1, 1), "b.jsonl": (1, 0)}
    # Another process goes on where this one was.
    assert WatchedDirectory(billing, directory, settled_after=0).scan() == {}
    assert ids(billing) == ["001", "002", "003", "009"]
    (refused,) = billing.event_sources.refused()
    assert (refused.position, refused.payload) == (4, "{oops\n")


def test_a_line_without_its_end_waits_until_nobody_writes_any_more(billing: Billing, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("transaction_id,code,timestamp,gb\n1,gb,0,5\n2,gb,0,12")
    assert outcomes(WatchedDirectory(billing, tmp_path, settled_after=10**9).scan()) == {"a.csv": (1, 0)}
    with path.open("a") as file:
        file.write("3\n3,gb,0,7")
    assert outcomes(WatchedDirectory(billing, tmp_path, settled_after=10**9).scan()) == {"a.csv": (1, 0)}
    assert billing.events.get("2").properties == {"gb": "123"}
    assert outcomes(WatchedDirectory(billing, tmp_path, settled_after=0).scan()) == {"a.csv": (1, 0)}
    assert ids(billing) == ["1", "2", "3"]


def test_a_bad_file_keeps_no_other_and_is_listed(billing: Billing, tmp_path: Path) -> None:
    directory = tmp_path / "inbox"
    directory.mkdir()
    (directory / "a.parquet").write_bytes(b"no parquet")
    (directory / "b.jsonl").write_text(lines(1))
    watched = WatchedDirectory(billing, directory, settled_after=0)
    assert outcomes(watched.scan()) == {"a.parquet": (0, 1), "b.jsonl": (1, 0)}
    assert watched.scan() == {}
    (refused,) = billing.event_sources.refused()
    assert (refused.source, refused.problem) == (source_name(directory / "a.parquet"), {"file": ["unreadable"]})
