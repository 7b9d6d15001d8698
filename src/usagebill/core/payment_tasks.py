"""Tasks that talk to payment providers: charges, and all other requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from usagebill.core.provider_requests import PayableType, ProviderErrand
from usagebill.core.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPaymentProvider(Task):
    """Send a payment provider a request other than a charge.

    `attempts` counts those without an answer so far; `request_key` is the idempotency key, the same for all of them.
    The last four fields identify the hold to be released (`ReleaseHold`).
    """

    kind = "ask_payment_provider"
    subject_field = "subject_id"
    identity = ("errand", "subject_id")
    leased = True

    errand: ProviderErrand
    subject_id: str
    request_key: str | None = None
    attempts: int = 0
    connection_id: str | None = None
    provider_customer_id: str | None = None
    provider_payment_id: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectPayment(Task):
    """Charge the amount due on an invoice or payment request. There is at most one such job waiting or running for
    each.

    `method_kind` and `method_id` are the caller's choice of payment method.
    """

    kind = "collect_payment"
    subject_field = "payable_id"
    identity = ("payable_id",)
    leased = True

    payable_type: PayableType
    payable_id: str
    method_kind: str | None = None
    method_id: str | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireActivation(Task):
    """A subscription has waited for its first payment as long as its rule allows."""

    kind = "expire_activation"
    subject_field = "customer_id"
    identity = ("subscription_id",)

    customer_id: str
    subscription_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleActivation(Task):
    """The invoice that a subscription waits for was paid, or its payment failed."""

    kind = "settle_activation"
    subject_field = "customer_id"
    identity = ("invoice_id", "payment_status")

    customer_id: str
    invoice_id: str
    payment_status: str
