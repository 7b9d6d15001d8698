"""A customer: the bill as it stands, and everything there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from usagebill.console.pages.page import Page
from usagebill.console.seat import Listed, Seat
from usagebill.console.visits import Visit
from usagebill.core.errors import BillingError, Forbidden
from usagebill.core.subscriptions import SubscriptionStatus

# The most subscriptions whose usage is counted for one page.
_MOST_COUNTED = 10
_LATEST = 8
_ACTIVITIES = 20


def running_bills(seat: Seat, customer: Mapping[str, Any], subscriptions: Listed) -> Iterator[Mapping[str, Any]]:
    """The usage so far of each active subscription, as it would be billed now, in the customer's time zone; or why it
    cannot be told.
    """
    zone = customer["applicable_timezone"]
    active = [item for item in subscriptions.items if item["status"] == SubscriptionStatus.ACTIVE]
    for subscription in active[:_MOST_COUNTED]:
        name = subscription["external_id"]
        try:
            usage = seat.ask("usage.current", customer["external_id"], external_subscription_id=name)
            yield {"subscription": subscription, "usage": usage, "problem": "", "zone": zone}
        except Forbidden:
            return
        except BillingError as problem:
            yield {
                "subscription": subscription,
                "usage": None,
                "problem": problem.message or problem.code,
                "zone": zone,
            }


def _shown(visit: Visit) -> Response:
    seat, id = visit.seat, visit.named("key")
    customer = seat.ask("customers.get", id)
    every = [status.value for status in SubscriptionStatus]
    subscriptions = seat.listed("subscriptions.list_of_customer", id, status=every, per_page=50)
    of_customer = {
        "Invoices": ("invoices", "invoices.list_of_customer"),
        "Wallets": ("wallets", "wallets.list_of_customer"),
        "Payments": ("payments", "payments.list_of_customer"),
        "Credit notes": ("credit-notes", "credit_notes.list_of_customer"),
        "Applied coupons": ("applied-coupons", "applied_coupons.list_of_customer"),
    }
    activities = (
        seat.listed("activity_logs.list", external_customer_id=id, per_page=_ACTIVITIES)
        if seat.may("activity_logs.list")
        else None
    )
    return visit.page(
        "customer.html",
        customer=customer,
        subscriptions=subscriptions,
        bills=list(running_bills(seat, customer, subscriptions)),
        sections=[
            (title, path, seat.listed(operation, id, per_page=_LATEST))
            for title, (path, operation) in of_customer.items()
            if seat.may(operation)
        ],
        activities=activities,
    )


PAGES = (Page("/customers/{key:path}", _shown),)
