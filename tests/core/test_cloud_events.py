"""CloudEvents are read as usage events, or refused with what is wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from usagebill.core.cloud_events import NotACloudEvent, usage_event
from usagebill.core.events import parse_timestamp

SENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "7",
    "source": "/meter/eu",
    "type": "storage",
    "subject": "acme-1",
    "time": "2024-03-05T10:00:00.25+02:00",
    "data": {"gb": 1},
}


def test_the_attributes_become_fields() -> None:
    assert usage_event({**SENT, "precisetotalamountcents": "12.5"}) == {
        "transaction_id": "/meter/eu#7",
        "code": "storage",
        "external_subscription_id": "acme-1",
        "timestamp": "1709625600.250000",
        "properties": {"gb": 1},
        "precise_total_amount_cents": "12.5",
    }


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"specversion": "0.3"}, {"specversion": ["value_is_invalid"]}),
        ({"id": ""}, {"id": ["value_is_mandatory"]}),
        ({"source": 7}, {"source": ["value_is_invalid"]}),
        ({"type": None}, {"type": ["value_is_mandatory"]}),
        ({"subject": None}, {"subject": ["value_is_mandatory"]}),
        ({"time": "2024-03-05"}, {"time": ["invalid_format"]}),
        ({"time": "2024-03-05T10:00:00"}, {"time": ["invalid_format"]}),
        ({"time": 1709632800}, {"time": ["invalid_format"]}),
        ({"data": [1]}, {"data": ["value_is_invalid"]}),
        ({"data_base64": "AA=="}, {"data": ["value_is_invalid"]}),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], problems: dict[str, list[str]]) -> None:
    with pytest.raises(NotACloudEvent) as refusal:
        usage_event({**SENT, **changed})
    assert refusal.value.problems == problems


def test_an_event_without_time_or_data_has_none() -> None:
    event = usage_event({name: value for name, value in SENT.items() if name not in ("time", "data")})
    assert (event["timestamp"], event["properties"]) == (None, {})


@given(
    st.integers(-(10**16), 10**16),
    st.integers(-14 * 60, 14 * 60),
)
def test_times_are_read_to_the_microsecond_in_any_zone(microseconds: int, minutes: int) -> None:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    event = usage_event({**SENT, "time": instant.astimezone(timezone(timedelta(minutes=minutes))).isoformat()})
    assert parse_timestamp(str(event["timestamp"])) == instant
