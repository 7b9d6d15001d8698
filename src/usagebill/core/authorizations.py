"""Authorizations: an amount that a payment provider briefly holds on a customer's payment method and never takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from usagebill.core.errors import BillingError
from usagebill.core.provider_requests import Done, Payer, Request

# States in which the amount was available.
HELD = ("requires_capture", "succeeded")
# The code of a failure without a payment method, which is reported as an error of the request.
NO_METHOD = "customer_has_no_payment_method"
# After this long without an answer, longer than any answer takes, the hold is looked up; later Stripe ends it itself.
RELEASE_AFTER = timedelta(minutes=10)
HOLD_LASTS = timedelta(days=8)
# Stripe takes keys of up to 255 characters.
_LONGEST_KEY = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorized:
    """The result of a hold: its id at the provider, and the provider's own status."""

    provider_payment_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorize(Request[Authorized]):
    """Hold an amount, in cents of `currency`, without taking it, at most once for each key.

    `provider_method_id` is the method; if null, the customer's default at the provider, else the newest method.
    """

    key: str
    amount_cents: int
    currency: str
    payer: Payer
    metadata: Mapping[str, str]
    provider_method_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHold(Request[Done]):
    """Release the hold of the request with this key. If the provider's id of the hold is unknown, it is looked for
    among the customer's charges from `since` on; it is no error if there is none.
    """

    key: str
    provider_customer_id: str
    since: datetime
    provider_payment_id: str | None = None


class StripeRequired(BillingError):
    """An amount is to be authorized for a customer from whom Stripe does not collect (422)."""

    status = 422

    def __init__(self) -> None:
        super().__init__("stripe_required")
        self.message = "An amount can be authorized for customers of Stripe only"


class AuthorizationRefused(BillingError):
    """A payment provider refuses to authorize an amount (422). `provider` is the code of its connection; `details` are
    its own words: code, message, request_id, http_status and http_body, null if missing.
    """

    status = 422

    def __init__(self, provider: str, details: Mapping[str, object]) -> None:
        super().__init__("provider_error")
        self.provider = provider
        self.details = dict(details)

    def __str__(self) -> str:
        return f"provider_error: {self.provider}: {self.details.get('message')}"


def authorization_key(customer_id: str, request_id: str) -> str:
    """The idempotency key of an authorization: the same for one request, however often it is sent."""
    return f"auth-{customer_id}-{request_id}"[:_LONGEST_KEY]


def authorization_question(customer_id: str) -> tuple[str, str]:
    """The name of the provider request within one unit of work."""
    return ("authorization", customer_id)
