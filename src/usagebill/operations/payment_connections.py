"""Connections to payment providers, managed by the operator of the installation."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.payment_providers import KINDS, KINDS as PAYMENT_KINDS, PaymentConnection, connection_errors
from usagebill.core.payment_tasks import AskPaymentProvider
from usagebill.core.payments import PaymentMethod
from usagebill.core.provider_requests import ProviderErrand
from usagebill.operations.backlog import Unrelated, after_backlog, of_everyone, without_backlog
from usagebill.queries.connections import connection_by_code, connections_of
from usagebill.requests.inputs import ABSENT, Input, Maybe, changes, described, is_given, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import eq


@Input
class PaymentConnectionInput:
    """The account and its credentials; the kind decides which are required (`ProviderKind`)."""

    kind: Maybe[str] = described("The kind of provider.", values=tuple(PAYMENT_KINDS), required="create")
    code: Maybe[str] = described(required="create")
    name: Maybe[str] = ABSENT
    url: Maybe[str] = described("The URL of the provider's API.", default="its public address")
    live: Maybe[bool] = described("Whether it is the provider's live environment.", default="true")
    success_redirect_url: Maybe[str] = described("Where the provider's pages send customers back to.")
    supports_3ds: Maybe[bool] = described("Whether cards are confirmed by 3-D Secure.", default="false")
    require_terms_of_service_consent: Maybe[bool] = described(
        "Whether pages ask for consent to your terms.", default="false"
    )
    live_prefix: Maybe[str] = described("The prefix of your live URL, from the provider.")
    merchant_account: Maybe[str] = described("Your account with the provider.")
    flow_id: Maybe[str] = described("The flow of payment pages.")
    secret_key: Maybe[str] = described("The provider's secret key.", example="sk_test_1", secret=True)
    webhook_secret: Maybe[str] = described("The key that the provider signs its messages with.", secret=True)
    access_token: Maybe[str] = described("The provider's access token.", secret=True)
    api_key: Maybe[str] = described(secret=True)
    hmac_key: Maybe[str] = described("The key that the provider signs its messages with.", secret=True)
    client_id: Maybe[str] = described("Your id with the provider.", secret=True)
    client_secret: Maybe[str] = described("Your secret with the provider.", secret=True)
    signature_key: Maybe[str] = described("The key that the provider signs its messages with.", secret=True)


_CREDENTIALS = tuple(sorted({name for kind in KINDS.values() for name in (*kind.required, *kind.optional)}))
_SETTINGS = ("name", "url", "live", "success_redirect_url", "live_prefix")
_SWITCHES = ("supports_3ds", "require_terms_of_service_consent")


@without_backlog(Unrelated.NEW)
def create(work: Work, request: PaymentConnectionInput) -> PaymentConnection:
    """A new connection. Raises `Invalid`, also if a connection of any kind has the code."""
    code = value_or(request.code, "")
    connection = PaymentConnection(
        id=work.new_id(),
        organization_id=work.organization.id,
        kind=value_or(request.kind, ""),
        code=code,
        name=value_or(request.name, code),
        created_at=work.now,
        updated_at=work.now,
    )
    connection = _changed(connection, request)
    _check(connection)
    if work.tx.first(PaymentConnection, eq("code", code)) is not None:
        raise Invalid(code="value_already_exist")
    work.tx.insert(connection)
    _connect(work, connection)
    return connection


def _changed(connection: PaymentConnection, request: PaymentConnectionInput) -> PaymentConnection:
    sent = changes(request, *_SETTINGS) | {
        name: bool(value) for name, value in changes(request, *_SWITCHES, "live").items()
    }
    # An empty text clears the credential.
    sent |= {name: sent[name] or None for name in ("url", "success_redirect_url", "live_prefix") if name in sent}
    credentials = dict(connection.credentials)
    for name in _CREDENTIALS:
        value = getattr(request, name)
        if is_given(value) and value:
            credentials[name] = value
        elif value == "":
            credentials.pop(name, None)
    return replace(connection, **sent, credentials=credentials)


def _check(connection: PaymentConnection) -> None:
    problems = connection_errors(connection)
    if problems:
        raise Invalid(problems)


def _connect(work: Work, connection: PaymentConnection) -> None:
    """Schedule the request for the provider's key, if its notices cannot be verified without it."""
    if connection.traits.fetches and not connection.accepts_notices:
        work.schedule(AskPaymentProvider(errand=ProviderErrand.CONNECT, subject_id=connection.id), work.now)


def list_all(reader: Reader) -> list[PaymentConnection]:
    """All connections, oldest first."""
    return connections_of(reader, PaymentConnection)


def get(reader: Reader, code: str) -> PaymentConnection:
    """The connection with this code. Raises `NotFound`."""
    return connection_by_code(reader, PaymentConnection, code)


@after_backlog(of_everyone)
def update(work: Work, code: str, request: PaymentConnectionInput) -> PaymentConnection:
    """Change the sent fields of a connection; an empty credential is cleared. Its kind and code stay.

    Raises `NotFound` and `Invalid`.
    """
    before = get(work, code)
    connection = replace(_changed(before, request), connect_error=None, updated_at=work.now)
    _check(connection)
    work.tx.replace(connection)
    _connect(work, connection)
    return connection


@after_backlog(of_everyone)
def delete(work: Work, code: str) -> PaymentConnection:
    """Delete a connection, its customers' links to it and their payment methods. Payments stay."""
    connection = get(work, code)
    deleted = replace(connection, deleted_at=work.now, updated_at=work.now)
    work.tx.replace(deleted)
    for method in work.tx.find(PaymentMethod, eq("connection_id", connection.id)):
        work.tx.replace(replace(method, is_default=False, deleted_at=work.now, updated_at=work.now))
    for customer in work.tx.find(Customer, eq("payment_connection_id", connection.id), deleted=True):
        work.tx.replace(replace(unlinked(customer), updated_at=work.now))
    if connection.webhook_id is not None:
        work.schedule(AskPaymentProvider(errand=ProviderErrand.DISCONNECT, subject_id=connection.id), work.now)
    return deleted


def unlinked(customer: Customer) -> Customer:
    """The customer without a link to a payment provider."""
    return replace(
        customer,
        payment_provider=None,
        payment_provider_code=None,
        provider_customer_id=None,
        payment_connection_id=None,
        provider_payment_methods=(),
        sync_with_provider=None,
    )
