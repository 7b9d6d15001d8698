"""Webhooks: the catalogue of events, endpoints, messages and their signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from usagebill.core.errors import Invalid
from usagebill.core.tasks import DeliverWebhook

ENDPOINTS_AT_MOST = 10
# The prefix of delivery lanes; each endpoint has a lane.
DELIVERY_LANES = f"{DeliverWebhook.kind}/"
# How long a message is kept after its last attempt, and how much of a response is kept with it (characters).
HISTORY = timedelta(days=90)
LONGEST_RESPONSE = 10_000
_LONGEST_WAIT_SECONDS = 6 * 60 * 60
SUCCESS_STATUSES = frozenset({200, 201, 202, 204})


class SignatureAlgorithm(StrEnum):
    """How messages to an endpoint are signed."""

    JWT = "jwt"
    HMAC = "hmac"


SIGNATURE_ALGORITHMS = tuple(SignatureAlgorithm)


class MessageStatus(StrEnum):
    """The state of a message's delivery."""

    PENDING = "pending"
    RETRYING = "retrying"  # the last attempt failed, and another follows
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # no attempt is left


# Statuses of messages that are attempted again, and of those that are not.
UNSETTLED_MESSAGES = (MessageStatus.PENDING, MessageStatus.RETRYING)
SETTLED_MESSAGES = (MessageStatus.SUCCEEDED, MessageStatus.FAILED)

# webhook_type -> object_type: the name of the key that holds the object.
OBJECT_TYPES: Mapping[str, str] = {
    "alert.triggered": "triggered_alert",
    "billable_metric.created": "billable_metric",
    "billable_metric.updated": "billable_metric",
    "billable_metric.deleted": "billable_metric",
    "hold.expired": "hold",
    "limit.reached": "reached_limit",
    "limit.reset": "reached_limit",
    "customer.created": "customer",
    "customer.updated": "customer",
    "customer.anonymized": "customer",
    "customer.accounting_provider_created": "customer",
    "customer.accounting_provider_error": "accounting_provider_customer_error",
    "customer.crm_provider_created": "customer",
    "customer.crm_provider_error": "crm_provider_customer_error",
    "customer.payment_provider_created": "customer",
    "customer.payment_provider_error": "payment_provider_customer_error",
    "customer.checkout_url_generated": "payment_provider_customer_checkout_url",
    "customer.tax_provider_error": "tax_provider_customer_error",
    "customer.vies_check": "customer",
    "credit_note.created": "credit_note",
    "credit_note.generated": "credit_note",
    "credit_note.provider_refund_failure": "credit_note_payment_provider_refund_error",
    "dunning_campaign.finished": "dunning_campaign",
    "event.error": "event_error",
    "events.errors": "events_errors",
    "feature.created": "feature",
    "feature.updated": "feature",
    "feature.deleted": "feature",
    "fee.created": "fee",
    "fee.tax_provider_error": "tax_provider_fee_error",
    "integration.provider_error": "provider_error",
    "invoice.created": "invoice",
    "invoice.one_off_created": "invoice",
    "invoice.paid_credit_added": "invoice",
    "invoice.generated": "invoice",
    "invoice.drafted": "invoice",
    "invoice.ready_to_finalize": "invoice",
    "invoice.voided": "invoice",
    "invoice.deleted": "invoice",
    "invoice.payment_dispute_lost": "payment_dispute_lost",
    "invoice.payment_dispute_won": "invoice",
    "invoice.payment_status_updated": "invoice",
    "invoice.payment_overdue": "invoice",
    "invoice.overpaid": "invoice",
    "invoice.payment_failure": "payment_provider_invoice_payment_error",
    "invoice.resynced": "invoice",
    "order.created": "order",
    "order.executed": "order",
    "order_form.created": "order_form",
    "order_form.signed": "order_form",
    "order_form.expired": "order_form",
    "order_form.voided": "order_form",
    "payment.refund_failure": "payment",
    "payment.requires_action": "payment",
    "payment.returned": "payment",
    "payment.succeeded": "payment",
    "payment_provider.error": "payment_provider_error",
    "payment_receipt.created": "payment_receipt",
    "payment_receipt.generated": "payment_receipt",
    "payment_request.created": "payment_request",
    "payment_request.payment_failure": "payment_provider_payment_request_payment_error",
    "payment_request.payment_status_updated": "payment_request",
    "plan.created": "plan",
    "plan.updated": "plan",
    "plan.version_effective": "plan",
    "plan.version_scheduled": "plan",
    "plan.deleted": "plan",
    "quote.created": "quote",
    "quote.approved": "quote",
    "quote.voided": "quote",
    "subscription.started": "subscription",
    "subscription.terminated": "subscription",
    "subscription.canceled": "subscription",
    "subscription.incomplete": "subscription",
    "subscription.updated": "subscription",
    "subscription.termination_alert": "subscription",
    "subscription.trial_ended": "subscription",
    "subscription.usage_threshold_reached": "subscription",
    "wallet.created": "wallet",
    "wallet.updated": "wallet",
    "wallet.terminated": "wallet",
    "wallet.depleted_ongoing_balance": "wallet",
    "wallet_transaction.created": "wallet_transaction",
    "wallet_transaction.updated": "wallet_transaction",
    "wallet_transaction.payment_failure": "payment_provider_wallet_transaction_payment_error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSecret:
    """A secret that signs messages by `hmac` until `expires_at`; None: for good."""

    value: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """`event_types`: None subscribes to all events, an empty list to none. `secrets` are its own, oldest first; an
    endpoint without one has the organization's. `failing_since`: when the first of the attempts failed that have failed
    without one that succeeded since; None if the last one succeeded.
    """

    id: str
    organization_id: str
    webhook_url: str
    created_at: datetime
    updated_at: datetime
    signature_algo: str = SignatureAlgorithm.JWT
    name: str | None = None
    event_types: tuple[str, ...] | None = None
    secrets: tuple[WebhookSecret, ...] = field(default=(), repr=False)
    failing_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """One event for one endpoint. `payload` is the exact body; the id is its unique key on every attempt.

    `retries` counts failed attempts.
    """

    id: str
    organization_id: str
    webhook_endpoint_id: str
    webhook_type: str
    object_type: str
    object_id: str | None
    payload: str
    endpoint: str
    created_at: datetime
    updated_at: datetime
    status: MessageStatus = MessageStatus.PENDING
    retries: int = 0
    http_status: int | None = None
    response: str | None = None
    last_retried_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resent:
    """The number of failed messages to deliver again."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """An RSA key pair that signs an organization's messages, as PEM texts, until `expires_at`; None: for good."""

    id: str
    organization_id: str
    created_at: datetime
    private_key: str = field(repr=False)
    public_key: str
    expires_at: datetime | None = None


_HTTP_URL = re.compile(
    r"(?i:https?)://(?:[^\s/?#@]*@)?(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)(?::[0-9]{1,5})?(?:[/?#]\S*)?"
)


def endpoint_errors(endpoint: WebhookEndpoint) -> dict[str, list[str]]:
    """Errors in the fields of an endpoint, as field -> codes; empty if there are none."""
    errors: dict[str, list[str]] = {}
    if not endpoint.webhook_url:
        errors["webhook_url"] = ["value_is_mandatory", "url_is_invalid"]
    elif not _HTTP_URL.fullmatch(endpoint.webhook_url):
        errors["webhook_url"] = ["url_is_invalid"]
    if endpoint.signature_algo not in SIGNATURE_ALGORITHMS:
        errors["signature_algo"] = ["value_is_invalid"]
    return errors


def normalized_event_types(sent: Sequence[str]) -> tuple[str, ...] | None:
    """Event types as stored: trimmed, in lower case, each once. None (all events) for `["*"]` alone."""
    kept = tuple(dict.fromkeys(name for name in (event_type.strip().lower() for event_type in sent) if name))
    return None if kept == ("*",) else kept


def event_types_errors(event_types: Sequence[str]) -> list[str]:
    """Errors in stored event types: names missing from the catalogue."""
    unknown = [name for name in event_types if name not in OBJECT_TYPES]
    listed = ", ".join(f'"{name}"' for name in unknown)
    return [f"contains invalid types: [{listed}]"] if unknown else []


def sent_event_types(sent: object) -> tuple[str, ...] | None:
    """The event types of a request as stored, None for all of them. Raises `Invalid`."""
    if sent is None:
        return None
    if isinstance(sent, str) or not isinstance(sent, Sequence):
        raise Invalid(event_types="must_be_array")
    event_types = normalized_event_types([str(event_type) for event_type in sent if event_type is not None])
    problems = event_types_errors(event_types or ())
    if problems:
        raise Invalid(event_types=problems)
    return event_types


def endpoint_problems(
    endpoint: WebhookEndpoint,
    before: WebhookEndpoint | None,
    same_url: WebhookEndpoint | None,
    *,
    is_private: bool,
    endpoints: int,
) -> dict[str, list[str]]:
    """The errors of an endpoint to be stored, as field -> codes; `before` is its stored version, None for a new one.

    `same_url` is a stored endpoint with its address, `endpoints` counts the existing ones. `is_private`: the address is
    plainly one that messages may not be sent to. Others are checked at each connection.
    """
    problems = endpoint_errors(endpoint)
    is_new_url = before is None or before.webhook_url != endpoint.webhook_url
    if not problems and is_new_url and is_private:
        problems["webhook_url"] = ["address_not_public"]
    if same_url is not None and same_url.id != endpoint.id:
        problems["webhook_url"] = ["value_already_exist"]
    if before is None and endpoints >= ENDPOINTS_AT_MOST:
        problems["base"] = ["Maximum number of webhook endpoints was reached"]
    return problems


def valid_secrets(endpoint: WebhookEndpoint, shared: str, now: datetime) -> tuple[WebhookSecret, ...]:
    """The secrets that sign an endpoint's messages at `now`, oldest first; the last of them does not expire.

    `shared` is the organization's secret.
    """
    secrets = endpoint.secrets or (WebhookSecret(value=shared),)
    return tuple(secret for secret in secrets if secret.expires_at is None or secret.expires_at > now)


def with_new_secret(
    endpoint: WebhookEndpoint, shared: str, value: str, now: datetime, old_expires_at: datetime | None
) -> WebhookEndpoint:
    """The endpoint with a secret of this value; the present one signs too, until `old_expires_at` (None: no longer).

    Raises `Invalid` if messages are not signed with a secret, or two are valid already.
    """
    if endpoint.signature_algo != SignatureAlgorithm.HMAC:
        raise Invalid(signature_algo="has_no_secret")
    present, *more = valid_secrets(endpoint, shared, now)
    if more:
        raise Invalid(secret="two_secrets_are_valid")
    old = () if old_expires_at is None else (replace(present, expires_at=old_expires_at),)
    return replace(endpoint, secrets=(*old, WebhookSecret(value=value)), updated_at=now)


def valid_keys(keys: Iterable[SigningKey], now: datetime) -> tuple[SigningKey, ...]:
    """The key pairs that sign an organization's messages at `now`, oldest first; the last of them does not expire."""
    valid = [key for key in keys if key.expires_at is None or key.expires_at > now]
    return tuple(sorted(valid, key=lambda key: (key.expires_at is None, key.created_at, key.id)))


def present_key(keys: Iterable[SigningKey], now: datetime) -> SigningKey | None:
    """The key pair that a new one takes the place of; None if there is none. Raises `Invalid` if two are valid."""
    present, *more = valid_keys(keys, now) or (None,)
    if more:
        raise Invalid(key="two_keys_are_valid")
    return present


def header_prefix(id_prefix: str) -> str:
    """The prefix of a message's header names: `X-Svc-` if ids begin with `svc_`."""
    words = [word.capitalize() for word in id_prefix.split("_") if word]
    return "-".join(["X", *words, ""])


def public_key_text(pem: str) -> str:
    """The base64 of a PEM text, a line break after every 60 characters and at the end."""
    encoded = base64.b64encode(pem.encode()).decode()
    return "".join(f"{encoded[start : start + 60]}\n" for start in range(0, len(encoded), 60))


def after_attempt(
    message: WebhookMessage, now: datetime, http_status: int | None, response: str, url: str, attempts: int
) -> WebhookMessage:
    """The message after an attempt to deliver it to `url` was answered with `http_status`, or not at all (None).

    Its status is then `succeeded`, `retrying` if another attempt follows, or `failed` after `attempts` attempts.
    """
    succeeded = http_status in SUCCESS_STATUSES
    retries = message.retries + (not succeeded)
    failed = MessageStatus.RETRYING if retries < attempts else MessageStatus.FAILED
    return replace(
        message,
        status=MessageStatus.SUCCEEDED if succeeded else failed,
        retries=retries,
        http_status=message.http_status if http_status is None else http_status,
        response=response[:LONGEST_RESPONSE],
        last_retried_at=message.last_retried_at if succeeded else now,
        endpoint=url,
        updated_at=now,
    )


def endpoint_after_attempt(endpoint: WebhookEndpoint, message: WebhookMessage) -> WebhookEndpoint:
    """The endpoint once an attempt to deliver this message to it has succeeded or failed."""
    if message.status == MessageStatus.SUCCEEDED:
        return endpoint if endpoint.failing_since is None else replace(endpoint, failing_since=None)
    is_known = endpoint.failing_since is not None or endpoint.webhook_url != message.endpoint
    return endpoint if is_known else replace(endpoint, failing_since=message.updated_at)


def delivery_lane(endpoint_id: str) -> str:
    """The lane of the jobs that deliver to an endpoint."""
    return DELIVERY_LANES + endpoint_id


def listens_to(endpoint: WebhookEndpoint, webhook_type: str) -> bool:
    """Whether the endpoint gets messages of this type."""
    return endpoint.event_types is None or webhook_type in endpoint.event_types


def retry_milliseconds(retries: int, jitter_thousandths: int) -> int:
    """How long to wait after `retries` failed attempts, in milliseconds.

    n^4 seconds, but at most 6 hours, up to 15 % of that more, and 2 seconds; `jitter_thousandths` (0 to 1000) picks the
    point in that range.
    """
    fourth = min(retries**4, _LONGEST_WAIT_SECONDS)
    return 1000 * (fourth + 2) + 150 * fourth * jitter_thousandths // 1000


def sign_hmac(key: str, body: bytes) -> str:
    """Base64 of the HMAC-SHA256 of the body, keyed by the text of the key."""
    return base64.b64encode(hmac.new(key.encode(), body, hashlib.sha256).digest()).decode()
