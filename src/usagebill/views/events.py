"""Events as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NotRequired, TypedDict

from usagebill.core.checks import Admitted
from usagebill.core.errors import PaymentRequired
from usagebill.core.events import Event
from usagebill.core.unbilled import UnbilledEvent, UnbilledTally
from usagebill.process.json_text import encode_json
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Id, Instant, optional_decimal
from usagebill.views.spend_limits import StandingView, standing_view

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = tuple(f":{second:02}" for second in range(60))


class EventView(TypedDict):
    svc_id: Id
    transaction_id: str
    svc_customer_id: None
    code: str
    timestamp: Instant
    precise_total_amount_cents: DecimalText | None
    properties: Mapping[str, object]
    svc_subscription_id: None
    external_subscription_id: str | None
    created_at: Instant
    unbilled: NotRequired[UnbilledView]


class UnbilledView(TypedDict):
    """The reason for which an event is not billed.

    `period_is_open` says whether it would be counted if that changed now; null if it lies in no subscription's time.
    """

    code: str
    message: str
    period_is_open: bool | None


class RefusedUsageView(TypedDict):
    """An event that was not stored, by its position in the request, and the limit that refuses it."""

    position: int
    transaction_id: str
    status: int
    code: str
    limit: StandingView


class SkippedEventView(TypedDict):
    """An event that is stored already, by its position in the request."""

    position: int
    transaction_id: str


class AdmittedView(TypedDict):
    events: list[EventView]
    refused: NotRequired[list[RefusedUsageView]]
    skipped: NotRequired[list[SkippedEventView]]


class UnbilledTallyView(TypedDict):
    reason: str
    external_subscription_id: str | None
    code: str
    events_count: int


class EventsErrors(TypedDict):
    """Transaction ids, by reason, of events that no charge can use."""

    invalid_code: list[str]
    missing_aggregation_property: list[str]
    missing_group_key: None
    invalid_filter_values: list[str]


class EventErrorView(TypedDict):
    """An ingested event and its errors: `message` is JSON, codes by field."""

    status: int
    error: str
    message: str
    event: EventView


def event_error_view(reader: Reader, event: Event, problem: Mapping[str, Sequence[str]]) -> EventErrorView:
    """The errors of an event."""
    return {
        "status": 422,
        "error": "Unprocessable entity",
        "message": encode_json(problem).decode(),
        "event": event_view(reader, event),
    }


def event_view(reader: Reader, event: Event) -> EventView:
    """The event, with its subscription's external id only."""
    return {
        "svc_id": event.id,
        "transaction_id": event.transaction_id,
        "svc_customer_id": None,
        "code": event.code,
        "timestamp": _milliseconds(event.timestamp),
        "precise_total_amount_cents": optional_decimal(event.precise_total_amount_cents),
        "properties": event.properties,
        "svc_subscription_id": None,
        "external_subscription_id": event.external_subscription_id,
        "created_at": _seconds(event.created_at),
    }


def listed_event_view(reader: Reader, item: Event | UnbilledEvent) -> EventView:
    """The event, with the reason if it is unbilled."""
    if isinstance(item, Event):
        return event_view(reader, item)
    reason: UnbilledView = {
        "code": str(item.reason),
        "message": item.message,
        "period_is_open": item.period_is_open,
    }
    return {**event_view(reader, item.event), "unbilled": reason}


def admitted_view(reader: Reader, admitted: Admitted) -> AdmittedView:
    """The events stored, in the order given; those refused if limits were asked for, and those skipped if that was."""
    shown: AdmittedView = {"events": [event_view(reader, event) for event in admitted.events]}
    if admitted.skipped is not None:
        shown["skipped"] = [
            {"position": one.position, "transaction_id": one.transaction_id} for one in admitted.skipped
        ]
    if admitted.refused is None:
        return shown
    refused: list[RefusedUsageView] = [
        {
            "position": one.position,
            "transaction_id": one.transaction_id,
            "status": PaymentRequired.status,
            "code": one.standing.refusal,
            "limit": standing_view(one.standing),
        }
        for one in admitted.refused
    ]
    return {**shown, "refused": refused}


@lru_cache(maxsize=16)
def _seconds(value: datetime) -> str:
    # All events of a batch are received at one instant.
    return value.isoformat(timespec="seconds")[:19] + "Z"


def _milliseconds(value: datetime) -> str:
    # Composed from the cached text of its minute: a quarter of the time of `isoformat`.
    since = value - _EPOCH
    begins = _minute(since.days, since.seconds // 60)
    return f"{begins}{_SECONDS[value.second]}.{value.microsecond // 1000:03}Z"


@lru_cache(maxsize=1024)
def _minute(day: int, minute: int) -> str:
    """The text of a minute of a day (counted from 1970), with which its instants begin."""
    return (_EPOCH + timedelta(days=day, minutes=minute)).isoformat()[:16]


def unbilled_tally_view(reader: Reader, tally: UnbilledTally) -> UnbilledTallyView:
    """The number of events unbilled for one reason."""
    return {
        "reason": str(tally.reason),
        "external_subscription_id": tally.external_subscription_id,
        "code": tally.code,
        "events_count": tally.events_count,
    }
