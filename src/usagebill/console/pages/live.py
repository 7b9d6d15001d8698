"""Events as they arrive: where each is counted and what that comes to so far, or why it is not billed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.rendering import money
from usagebill.console.seat import Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden

# Subscriptions whose usage is counted for one look: the page looks again every two seconds.
_MOST_COUNTED = 10


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event, and (charge, its amount in the running period) of each charge that counts it."""

    event: Mapping[str, Any]
    counted: Sequence[tuple[str, str]]


def _arrivals(seat: Seat) -> Sequence[Arrival]:
    events = seat.ask("events.newest")
    names = list(dict.fromkeys(event["external_subscription_id"] for event in events if "unbilled" not in event))
    lines = {name: _charges(seat, name) for name in names[:_MOST_COUNTED]}
    return [Arrival(event, lines.get(event["external_subscription_id"], {}).get(event["code"], ())) for event in events]


def _charges(seat: Seat, subscription_id: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """By metric: the charges of a subscription and their amounts; nothing if they cannot be told."""
    try:
        customer = seat.ask("subscriptions.get", subscription_id)["external_customer_id"]
        usage = seat.ask("usage.current", customer, external_subscription_id=subscription_id)
    except Forbidden:
        raise
    except BillingError:
        # It has ended, or is not active yet: its events are on an invoice, or wait for their period.
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    for line in usage["charges_usage"]:
        metric = line["billable_metric"]
        name = line["charge"]["invoice_display_name"] or metric["name"]
        found.setdefault(metric["code"], []).append((name, money(line["amount_cents"], usage["currency"])))
    return found


def _shown(visit: Visit) -> Response:
    return visit.page("live.html", arrivals=_arrivals(visit.seat), now=visit.billing.clock.now().isoformat())


PAGES = (Page("/live", _shown),)
