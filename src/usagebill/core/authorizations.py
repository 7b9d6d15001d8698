"""Authorizations: an amount that a payment provider holds on a customer's method for a moment, and never takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from usagebill.core.errors import BillingError
from usagebill.core.provider_requests import Done, Payer, Request

__all__ = [
    "HELD",
    "HOLD_LASTS",
    "NO_METHOD",
    "RELEASE_AFTER",
    "AuthorizationRefused",
    "Authorize",
    "Authorized",
    "ReleaseHold",
    "StripeRequired",
    "authorization_key",
    "authorization_question",
]

# The states in which the amount was there.
HELD = ("requires_capture", "succeeded")
# The code of a failure without a payment method, which is reported as an error of the request.
NO_METHOD = "customer_has_no_payment_method"
# When a hold is looked for whose answer has not come, longer than any answer takes; after that Stripe ends it itself.
RELEASE_AFTER = timedelta(minutes=10)
HOLD_LASTS = timedelta(days=8)
# Stripe takes keys of up to 255 characters.
_LONGEST_KEY = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorized:
    """What came of it: the provider's id of the hold, and its own word for the state."""

    provider_payment_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorize(Request[Authorized]):
    """Hold an amount, in cents of `currency`, without taking it, at most once for each key.

    `provider_method_id` is the method; if it is null, the customer's default at the provider, else its newest.
    """

    key: str
    amount_cents: int
    currency: str
    payer: Payer
    metadata: Mapping[str, str]
    provider_method_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseHold(Request[Done]):
    """Let go of what the request of this key holds. Where the provider's id of it is not known, the customer's charges
    from `since` on are looked through for it; none is no error.
    """

    key: str
    provider_customer_id: str
    since: datetime
    provider_payment_id: str | None = None


class StripeRequired(BillingError):
    """An amount is to be authorized for a customer whom Stripe does not collect from (422)."""

    status = 422

    def __init__(self) -> None:
        super().__init__("stripe_required")
        self.message = "An amount can be authorized for customers of Stripe only"


class AuthorizationRefused(BillingError):
    """A payment provider does not authorize an amount (422). `provider` is the code of its connection; `details` are
    its words: code, message, request_id, http_status and http_body, null where there is none.
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
    """What names the question to the provider within one unit of work."""
    return ("authorization", customer_id)
