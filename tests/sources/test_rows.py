"""What is imported is billed once, in its period, or refused with its line; and what one command writes, another reads.

Tables here are as spreadsheets, pandas and warehouses really write them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, strategies as st
from pyarrow import parquet
from tests.examples import examples
from tests.scenarios import charge_on, plan_fields

from usagebill import Billing
from usagebill.cli import main
from usagebill.core.cloud_events import usage_event
from usagebill.core.event_sources import LONGEST_PAYLOAD
from usagebill.fields import EventFields
from usagebill.runtime.clock import ManualClock
from usagebill.sources.files import Unreadable, source_name, take_file
from usagebill.sources.intake import Intake, Outcome
from usagebill.sources.payloads import arrival_of

HEADER = "transaction_id,code,external_subscription_id,timestamp,gb\n"
TIME = "2024-02-05T10:00:00Z"


@pytest.fixture
def billing(tmp_path: Path) -> Iterator[Billing]:
    with Billing(tmp_path / "billing.db") as billing:
        yield billing


def taken(billing: Billing, path: Path) -> Outcome:
    outcome = Outcome()
    take_file(Intake(billing, source_name(path), lists_refused=False), path, outcome)
    return outcome


def imported(billing: Billing, tmp_path: Path, content: str | bytes, name: str = "usage.csv") -> Outcome:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return taken(billing, path)


def refusal(billing: Billing, tmp_path: Path, content: str | bytes, name: str = "usage.csv") -> str:
    """Why nothing of the file can be read; nothing of it was stored."""
    with pytest.raises(Unreadable) as problem:
        imported(billing, tmp_path, content, name)
    assert billing.events.list().total_count == 0
    return str(problem.value)


def ids(billing: Billing) -> list[str]:
    return sorted(event.transaction_id for event in billing.events.list(per_page=1000))


# Time


@pytest.mark.parametrize("cell", ["", "NULL", "null", "11/5/2026 10:00", "05.11.2026", "1704067200,5"])
def test_a_row_without_a_readable_time_is_refused_with_its_line(billing: Billing, tmp_path: Path, cell: str) -> None:
    time = f'"{cell}"' if "," in cell else cell
    outcome = imported(billing, tmp_path, f"{HEADER}a,gb,s,{time},1\nb,gb,s,{TIME},1\n")
    assert (ids(billing), list(outcome.refused)) == (["b"], [2])
    assert list(outcome.refused[2]) == ["timestamp"]


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        ('"2024-02-05 10:00:00 UTC"', "names its time zone; write 2024-02-05T10:00:00Z"),
        ('"11/5/2026 10:00"', "which number is the month"),
        ("1704067200123", "milliseconds; send Unix seconds: 1704067200"),
        ("1704067200123456", "microseconds; send Unix seconds: 1704067200"),
        ("null", "value_is_mandatory"),
        ('""', "value_is_mandatory"),
        ('"yesterday"', "is no time"),
        ('"2024-02-30T10:00:00Z"', "is no time"),
        ('"2024-02-05T10:00:00 Europe/Berlin"', "is no time"),
        ('"Tue 2/5/2024"', "is no time"),
        ('"2024-02-05 10:00:00.000 -0800"', "blank before its offset; write 2024-02-05T10:00:00.000-08:00"),
        ("20240205", "looks like a date; write 2024-02-05T00:00:00Z"),
        ("20240205103000", "looks like a date; write 2024-02-05T10:30:00Z"),
        ("45327.41667", "a date as spreadsheets store it"),
        ('"1.70713E+09"', "rounded by a spreadsheet"),
        ('"1,70713E+12"', "rounded by a spreadsheet"),
    ],
)
@pytest.mark.parametrize("name", ["usage.csv", "usage.jsonl"])
def test_a_time_that_cannot_be_read_says_what_was_probably_meant(
    billing: Billing, tmp_path: Path, name: str, sent: str, cause: str
) -> None:
    lines = (
        f"{HEADER}a,gb,s,{sent.replace('null', '')},1\n"
        if name.endswith("csv")
        else f'\n{{"transaction_id": "a", "code": "gb", "timestamp": {sent}}}\n'
    )
    assert cause in str(imported(billing, tmp_path, lines, name).refused[2]["timestamp"])


def test_what_looks_like_a_date_is_none_beyond_the_calendar(billing: Billing, tmp_path: Path) -> None:
    rows = "".join(f"{time},gb,s, {time},1\n" for time in ("20241305", "18991231", "1707127200", "1.7071272E9"))
    assert imported(billing, tmp_path, HEADER + rows).refused == {}
    assert {event.timestamp.year for event in billing.events.list()} == {1970, 2024}


@pytest.mark.parametrize("field", ["transaction_id", "external_subscription_id", "precise_total_amount_cents"])
def test_a_number_that_a_spreadsheet_rounded_is_no_id(billing: Billing, tmp_path: Path, field: str) -> None:
    # Saved from 1234567890123456 and 1234567890123457: two events that would be one.
    row = {"transaction_id": "a", "code": "gb", "timestamp": TIME, field: "1.23457E+15"}
    table = ",".join(row) + "\n" + (",".join(row.values()) + "\n") * 2
    assert [list(problem) for problem in imported(billing, tmp_path, table).refused.values()] == [[field], [field]]


def test_no_event_of_a_source_is_dated_by_its_arrival(billing: Billing, tmp_path: Path) -> None:
    plain = {"transaction_id": "a", "code": "gb"}
    cloud = {"specversion": "1.0", "id": "1", "source": "m", "type": "gb", "subject": "s"}
    for sent in (plain, {**plain, "timestamp": None}, {**plain, "Timestamp": TIME}):
        assert list(arrival_of(0, json.dumps(sent).encode()).problem or {}) == ["timestamp"]
    assert arrival_of(0, json.dumps(cloud).encode()).problem == {"time": ["value_is_mandatory"]}
    path = tmp_path / "usage.parquet"
    columns = {
        "transaction_id": ["a", "b"],
        "code": ["gb", "gb"],
        "timestamp": [None, datetime(2024, 2, 5, tzinfo=UTC)],
    }
    parquet.write_table(pyarrow.table(columns), path)
    assert (list(taken(billing, path).refused), ids(billing)) == ([1], ["b"])


# Headers


@pytest.mark.parametrize(
    ("content", "causes"),
    [
        ("transaction_id,code,Timestamp,gb\na,gb,0,1\n", ["'Timestamp' must be written 'timestamp'"]),
        ("transaction_id, code,timestamp,gb\na,gb,0,1\n", ["' code' must be written 'code'"]),
        ("transaction_id,code,time,gb\na,gb,0,1\n", ["no column 'timestamp'", "'time'"]),
        ("transaction_id,code,External Subscription ID,timestamp\na,gb,s,0\n", ["'external_subscription_id'"]),
        ("transaction_id,code,timestamp,gb,gb\na,gb,0,1,\n", ["'gb' stands there 2 times"]),
        ("Usage report March\ntransaction_id,code,timestamp\na,gb,0\n", ["no column 'transaction_id'", "title"]),
        ("sep=,\ntransaction_id,code,timestamp\na,gb,0\n", ["for Excel"]),
        ("transaction_id;code;timestamp;gb\na;gb;0;1,5\n", ["separated by ';'", "point"]),
        ('"EXTF";700;21;"Buchungsstapel";13\n"Umsatz";"Soll/Haben"\n', ["separated by ';'"]),
        ("transaction_id,code,timestamp,,\na,gb,0,,\n", ["2 columns have no name"]),
        (b"\x1f\x8b\x08\x00", ["compressed"]),
        (b"PK\x03\x04\x14\x00", ["Excel"]),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", ["Excel"]),
        (b"PAR1\x15", ["name it .parquet"]),
        ("transaction_id\tcode\ttimestamp\na\tgb\t0\n", ["separated by tabs"]),
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ("transaction_id,code,timestamp\na,gb,0\n".encode("utf-16"), ["UTF-16"]),
        ("transaction_id,code,timestamp\ra,gb,0\r", ["CR alone"]),
    ],
)
def test_a_table_that_is_none_of_events_says_so_before_anything_is_stored(
    billing: Billing, tmp_path: Path, content: str | bytes, causes: list[str]
) -> None:
    problem = refusal(billing, tmp_path, content)
    assert all(cause in problem for cause in causes), problem


def test_columns_of_parquet_are_checked_like_a_header(billing: Billing, tmp_path: Path) -> None:
    path = tmp_path / "usage.parquet"
    parquet.write_table(pyarrow.table({"transaction_id": ["a"], "code": ["gb"], "TIMESTAMP": [0]}), path)
    with pytest.raises(Unreadable, match="'TIMESTAMP' must be written 'timestamp'"):
        taken(billing, path)


def test_json_lines_have_two_names_and_no_brackets(billing: Billing, tmp_path: Path) -> None:
    line = json.dumps({"transaction_id": "a", "code": "gb", "timestamp": 0})
    assert imported(billing, tmp_path, "\ufeff" + line + "\n", "usage.ndjson").ingested == 1
    assert imported(billing, tmp_path, line.replace('"a"', '"b"') + "\n", "usage.NDJSON").refused == {}
    with pytest.raises(Unreadable, match="one JSON array"):
        imported(billing, tmp_path, f"[{line}]", "usage.jsonl")
    with pytest.raises(Unreadable, match="empty"):
        imported(billing, tmp_path, "", "empty.jsonl")


# Rows


def test_a_byte_that_is_no_text_is_its_rows_affair(billing: Billing, tmp_path: Path) -> None:
    rows = [f"{number:03},gb,s,{TIME},1\n".encode() for number in range(1000)]
    rows[500] = rows[500].replace(b",s,", b",caf\xe9,")
    outcome = imported(billing, tmp_path, HEADER.encode() + b"".join(rows))
    assert (outcome.ingested, list(outcome.refused)) == (999, [502])
    assert "byte 0xe9 is not UTF-8" in str(outcome.refused[502])
    lines = [json.dumps({"transaction_id": f"j{number}", "code": "gb", "timestamp": 0}).encode() for number in range(9)]
    lines[4] = lines[4].replace(b"gb", b"\xff")
    outcome = imported(billing, tmp_path, b"\n".join(lines), "usage.jsonl")
    assert (outcome.ingested, list(outcome.refused)) == (8, [5])


def test_a_field_that_is_too_long_is_its_rows_affair(billing: Billing, tmp_path: Path) -> None:
    long = "x" * 131_073
    outcome = imported(billing, tmp_path, f"{HEADER}a,gb,s,{TIME},{long}\nb,gb,s,{TIME},1\n")
    assert (ids(billing), list(outcome.refused)) == (["b"], [2])
    assert "131072 characters" in str(outcome.refused[2])


@pytest.mark.parametrize(
    "following",
    ["b,gb,s,0,1\nc,gb,s,0,2\n", 'b,gb,"s",0,1\nc,gb,s,0,"2"\n', 'b,gb,s,0,"1\n2"\nc,gb,s,0,"a ""b"""\n'],
)
def test_a_quote_that_is_never_closed_takes_its_own_line_alone(
    billing: Billing, tmp_path: Path, following: str
) -> None:
    outcome = imported(billing, tmp_path, f'{HEADER}a,gb,"s,0,1\n{following}')
    assert (ids(billing), list(outcome.refused)) == (["b", "c"], [2])
    assert "quote" in str(outcome.refused[2])


def test_a_long_tail_after_an_open_quote_is_searched_no_further_than_a_row_may_be_long(
    billing: Billing, tmp_path: Path
) -> None:
    plain = "".join(f"{number:06},gb,s,0,1\n" for number in range(2 * LONGEST_PAYLOAD // 16))
    outcome = imported(billing, tmp_path, f'{HEADER}a,gb,"s,0,1\n{plain}z,gb,"s",0,1\n')
    assert (outcome.ingested, list(outcome.refused)) == (plain.count("\n") + 1, [2])


def test_lines_of_a_row_are_named_by_the_first_and_read_once(billing: Billing, tmp_path: Path) -> None:
    outcome = imported(billing, tmp_path, f'{HEADER}a,gb,s,,"one\ntwo"\nb,gb,s,0,"one\n\ntwo"\nc,gb\n')
    assert (ids(billing), sorted(outcome.refused)) == (["b"], [2, 7])
    assert billing.events.get("b").properties == {"gb": "one\n\ntwo"}


def test_a_nan_names_its_column(billing: Billing, tmp_path: Path) -> None:
    path = tmp_path / "usage.parquet"
    columns = {"transaction_id": ["a", "b"], "code": ["gb", "gb"], "timestamp": [0, 0], "gb": [float("nan"), 1.0]}
    parquet.write_table(pyarrow.table(columns), path)
    assert list(taken(billing, path).refused[1]) == ["gb"]
    line = '{"transaction_id": "a", "code": "gb", "timestamp": 0, "properties": {"gb": NaN}}'
    assert "'gb' is NaN" in str(arrival_of(0, line.encode()).problem)


def test_a_line_is_read_as_a_row_is(billing: Billing, tmp_path: Path) -> None:
    # As pandas writes it; and as it is sent over HTTP.
    row = {"transaction_id": "a", "code": "gb", "external_subscription_id": "s", "timestamp": 0, "gb": 1.5, "eu": None}
    wrapped = {"event": {**row, "transaction_id": "b", "properties": {"region": "eu"}}}
    twice = {**row, "transaction_id": "c", "properties": {"gb": 2}}
    lines = "".join(json.dumps(line) + "\n" for line in (row, wrapped, twice))
    outcome = imported(billing, tmp_path, lines, "usage.jsonl")
    assert outcome.refused == {3: {"properties": ["'gb' is in them and beside them"]}}
    assert billing.events.get("a").properties == {"gb": Decimal("1.5")}
    assert billing.events.get("b").properties == {"gb": Decimal("1.5"), "region": "eu"}


def test_properties_that_are_no_object_are_not_dropped(billing: Billing, tmp_path: Path) -> None:
    head = '{"transaction_id": "a", "code": "gb", "timestamp": 0, "properties": '
    for properties in ('"gb=5"', "[1]", "5", '"[]"'):
        assert list(arrival_of(0, f"{head}{properties}}}".encode()).problem or {}) == ["properties"]
    assert (arrival_of(0, (head + json.dumps('{"gb": 0.10}') + "}").encode()).event or {})["properties"] == {
        "gb": Decimal("0.10")
    }
    table = 'transaction_id,code,timestamp,properties,gb\na,gb,0,"{""gb"": 1}",1\nb,gb,0,"{""eu"": 1}",1\n'
    assert list(imported(billing, tmp_path, table).refused) == [2]
    assert billing.events.get("b").properties == {"eu": 1, "gb": "1"}


# Numbers of Parquet


@pytest.mark.parametrize("kind", [pyarrow.float32(), pyarrow.float64()])
def test_binary_floats_are_what_their_writer_printed(billing: Billing, tmp_path: Path, kind: Any) -> None:
    tenths = [0.1, 0.7, 16777216.0, 3.4e38, -1e-7]
    path = tmp_path / "usage.parquet"
    columns = {
        "transaction_id": [str(number) for number in range(len(tenths))],
        "code": ["gb"] * len(tenths),
        "timestamp": [0] * len(tenths),
        "gb": pyarrow.array(tenths, kind),
        "parts": pyarrow.array([[value] for value in tenths], pyarrow.list_(kind)),
        "nested": pyarrow.array([{"gb": value} for value in tenths], pyarrow.struct([("gb", kind)])),
    }
    parquet.write_table(pyarrow.table(columns), path)
    assert taken(billing, path).ingested == len(tenths)
    for number, value in enumerate(tenths):
        exact = Decimal(repr(value))
        expected = {"gb": exact, "parts": [exact], "nested": {"gb": exact}}
        assert billing.events.get(str(number)).properties == expected


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@examples(200, deadline=None)
def test_every_float_is_read_as_a_decimal_that_is_it_again(value: float) -> None:
    from usagebill.sources.parquet import _shortest

    read = _shortest(value, "f", 9)
    assert pyarrow.array([float(read)], pyarrow.float32())[0].as_py() == value
    assert len(read.normalize().as_tuple().digits) <= 9


@pytest.mark.parametrize("kind", [pyarrow.decimal128(38, 30), pyarrow.decimal256(76, 60), pyarrow.decimal128(9, 0)])
def test_decimals_of_any_scale_are_exact(billing: Billing, tmp_path: Path, kind: Any) -> None:
    value = Decimal(7).scaleb(-kind.scale)
    path = tmp_path / "usage.parquet"
    table = {"transaction_id": ["a"], "code": ["gb"], "timestamp": [0], "gb": pyarrow.array([value], kind)}
    parquet.write_table(pyarrow.table(table), path)
    taken(billing, path)
    assert billing.events.get("a").properties == {"gb": value}


# CloudEvents

names = st.text(st.sampled_from("ab#%&/2"), min_size=1, max_size=5)


@given(st.lists(st.tuples(names, names), min_size=2, max_size=40, unique=True))
@examples(200)
def test_two_cloud_events_never_get_one_id(pairs: list[tuple[str, str]]) -> None:
    def id_of(source: str, id: str) -> object:
        sent = {"specversion": "1.0", "source": source, "id": id, "type": "gb", "subject": "s"}
        return usage_event(sent)["transaction_id"]

    assert len({id_of(*pair) for pair in pairs}) == len(pairs)
    assert all(id_of(source, id) == f"{source}#{id}" for source, id in pairs if "#" not in id)


# There and back

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
stored_texts = texts.filter(lambda text: text.strip() != "")
numbers = st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
events = st.fixed_dictionaries(
    {
        "code": stored_texts | st.sampled_from(["=1+1", "+1", "-1", "@a", "'=1", "'"]),
        "external_subscription_id": st.none() | stored_texts | st.sampled_from(["=A1", "'-1", "\t=1"]),
        "timestamp": st.integers(0, 4_102_444_800 * 10**6).map(lambda microseconds: Decimal(microseconds).scaleb(-6)),
        "properties": st.dictionaries(texts | st.just("created_at"), values, max_size=4),
        "precise_total_amount_cents": st.none() | numbers,
    }
)
Stored = list[tuple[object, ...]]


def stored(billing: Billing) -> Stored:
    return sorted(
        (
            event.transaction_id,
            event.code,
            event.external_subscription_id or "",
            event.timestamp,
            json.dumps(event.properties, sort_keys=True, default=str),
            event.precise_total_amount_cents,
        )
        for event in billing.events.list(per_page=1000)
    )


def command(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(("form", "options"), [("csv", []), ("csv", ["--raw"]), ("parquet", [])])
@given(sent=st.lists(events, min_size=1, max_size=4))
@examples(15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_exported_can_be_imported(
    tmp_path_factory: pytest.TempPathFactory, form: str, options: list[str], sent: list[Mapping[str, Any]]
) -> None:
    directory = tmp_path_factory.mktemp("round")
    table = str(directory / f"events.{form}")
    with Billing(directory / "source.db") as source:
        source.events.ingest(cast(Any, {**event, "transaction_id": f"{number}"}) for number, event in enumerate(sent))
        before = stored(source)
    assert len(before) == len(sent)
    command("export", "events", "--db", str(directory / "source.db"), "--format", form, "--output", table, *options)
    Billing(directory / "two.db").close()
    command("events", "import", table, "--db", str(directory / "two.db"), *options)
    with Billing(directory / "two.db") as two:
        assert stored(two) == before


def test_an_export_bills_the_same_where_it_is_imported(tmp_path: Path) -> None:
    # Seven events of 1 GB at 1.00, three of them with `created_at` among their properties: 7.00.
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))

    def owed(billing: Billing) -> int:
        return billing.usage.current("acme", external_subscription_id="acme").amount_cents

    def priced(path: Path) -> Billing:
        billing = Billing(path, clock=clock)
        metric = billing.billable_metrics.create(
            name="GB", code="gb", aggregation_type="sum_agg", field_name="gb", rounding_function="round"
        )
        billing.plans.create(**plan_fields(charge_on(metric.id, amount="1")))
        billing.customers.upsert(external_id="acme", currency="EUR")
        billing.subscriptions.create(external_customer_id="acme", plan_code="basic", external_id="acme")
        return billing

    table = str(tmp_path / "events.csv")
    with priced(tmp_path / "source.db") as source:
        clock.set(datetime(2024, 1, 9, tzinfo=UTC))
        generator = random.Random(7)
        for number in range(7):
            properties: dict[str, Any] = {"gb": 1, **({"created_at": "x"} if number % 2 else {})}
            event: EventFields = {
                "transaction_id": str(generator.random()),
                "code": "gb",
                "external_subscription_id": "acme",
                "timestamp": 1704200000,
                "properties": properties,
            }
            source.events.ingest([event])
        assert owed(source) == 700
    command("export", "events", "--db", str(tmp_path / "source.db"), "--output", table)
    clock.set(datetime(2024, 1, 1, tzinfo=UTC))
    priced(tmp_path / "two.db").close()
    clock.set(datetime(2024, 1, 9, tzinfo=UTC))
    command("events", "import", table, "--db", str(tmp_path / "two.db"))
    with Billing(tmp_path / "two.db", clock=clock) as two:
        assert owed(two) == 700
