"""The port: the same requests for every kind of payment provider."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from usagebill.core.authorizations import Authorize, Authorized, ReleaseHold
from usagebill.core.payment_providers import PaymentConnection, UnsupportedAmount
from usagebill.core.provider_requests import (
    OUTCOME_UNKNOWN,
    Cancel,
    Charge,
    Charged,
    CheckoutUrl,
    Connect,
    Connected,
    CreateCustomer,
    CustomerCreated,
    Disconnect,
    Done,
    ExpirePage,
    FailureKind,
    ListCharges,
    ListMethods,
    LookUpCharge,
    LookUpPage,
    LookUpRefund,
    Methods,
    Notice,
    Outcome,
    PageUrl,
    PaymentMoved,
    ProviderCharges,
    ProviderFailed,
    ProviderFailure,
    Refund,
    Refunded,
    RefundMoved,
    Request,
    SetupUrl,
    Unhandled,
    UpdateCharge,
    UpdateCustomer,
)
from usagebill.outside.payment_providers.http import ProviderHttp

A = TypeVar("A")


class PaymentProvider(ABC):
    """One kind of payment provider. An adapter overrides what its kind supports.

    Methods may take as long as the HTTP client's timeout allows, and are called while no transaction is open, possibly
    from several threads at once: an adapter keeps no state. They raise `ProviderFailed` and nothing else; `answer_of`
    turns `UnsupportedAmount` into a refusal. An answer that cannot be parsed is `UNREACHABLE`: the request may have
    succeeded.

    Amounts are cents of the currency in requests and answers; `minor_units` and `from_minor_units`, or
    `major_from_cents`, turn them into the provider's form.
    """

    def __init__(self, http: ProviderHttp) -> None:
        self.http = http

    def connect(self, connection: PaymentConnection, request: Connect) -> Connected:
        """See `Connect`. Does nothing for kinds without registration."""
        return Connected()

    def disconnect(self, connection: PaymentConnection, request: Disconnect) -> Done:
        """See `Disconnect`."""
        return Done()

    def create_customer(self, connection: PaymentConnection, request: CreateCustomer) -> CustomerCreated:
        """See `CreateCustomer`. Raises `REFUSED`, `UNAUTHORIZED`, `UNREACHABLE` or `THROTTLED`."""
        raise _unsupported(connection, "customers")

    def update_customer(self, connection: PaymentConnection, request: UpdateCustomer) -> Done:
        """See `UpdateCustomer`. Raises as `create_customer`."""
        return Done()

    def setup_url(self, connection: PaymentConnection, request: SetupUrl) -> PageUrl:
        """See `SetupUrl`. Raises as `create_customer`."""
        raise _unsupported(connection, "pages for payment methods")

    def list_methods(self, connection: PaymentConnection, request: ListMethods) -> Methods:
        """See `ListMethods`. Raises as `create_customer`."""
        return Methods(methods=())

    def charge(self, connection: PaymentConnection, request: Charge) -> Charged:
        """See `Charge`. A charge refused at once is `Charged` with `FAILED` if the provider reports it in an ordinary
        answer, and raises `DECLINED` or `ACTION_REQUIRED` if it reports it as an error.

        Raises `DECLINED`, `ACTION_REQUIRED`, `TOO_SMALL`, `CONFLICT`, `REFUSED` and `UNAUTHORIZED` if nothing was
        charged, `UNREACHABLE` and `THROTTLED` if that is not known.
        """
        raise _unsupported(connection, "charges")

    def update_charge(self, connection: PaymentConnection, request: UpdateCharge) -> Done:
        """See `UpdateCharge`. Raises as `create_customer`."""
        return Done()

    def cancel(self, connection: PaymentConnection, request: Cancel) -> Charged | None:
        """See `Cancel`. That it is too late is None, not an error. Raises as `create_customer`."""
        return None

    def refund(self, connection: PaymentConnection, request: Refund) -> Refunded:
        """See `Refund`. Raises as `create_customer`."""
        raise _unsupported(connection, "refunds")

    def checkout_url(self, connection: PaymentConnection, request: CheckoutUrl) -> PageUrl:
        """See `CheckoutUrl`. Raises as `create_customer`."""
        raise _unsupported(connection, "payment pages")

    def expire_page(self, connection: PaymentConnection, request: ExpirePage) -> Done:
        """See `ExpirePage`. Raises as `create_customer`."""
        return Done()

    def list_charges(self, connection: PaymentConnection, request: ListCharges) -> ProviderCharges:
        """See `ListCharges`; all pages of the provider's list. Raises as `create_customer`."""
        raise _unsupported(connection, "lists of charges")

    def look_up_charge(self, connection: PaymentConnection, request: LookUpCharge) -> PaymentMoved | None:
        """See `LookUpCharge`. Raises as `create_customer`."""
        raise _unsupported(connection, "look-ups of charges")

    def look_up_page(self, connection: PaymentConnection, request: LookUpPage) -> PaymentMoved | None:
        """See `LookUpPage`. Raises as `create_customer`."""
        raise _unsupported(connection, "look-ups of pages")

    def look_up_refund(self, connection: PaymentConnection, request: LookUpRefund) -> RefundMoved:
        """See `LookUpRefund`. Raises as `create_customer`."""
        raise _unsupported(connection, "look-ups of refunds")

    def authorize(self, connection: PaymentConnection, request: Authorize) -> Authorized:
        """See `Authorize`. Raises as `charge`; without a method `REFUSED`, of the code `NO_METHOD`."""
        raise _unsupported(connection, "authorizations")

    def release(self, connection: PaymentConnection, request: ReleaseHold) -> Done:
        """See `ReleaseHold`. Raises as `create_customer`."""
        raise _unsupported(connection, "authorizations")

    @abstractmethod
    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """The events of a message whose signature over the raw `body` is valid. Sends no requests.

        Names of `headers` are in lower case. Signatures are compared in constant time. Raises `NoticeRejected`, also
        if the connection has no secret to verify them with.
        """

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate a notice of this connection; missing details are requested from the provider.

        An event of an unknown type, or without a field that it needs, is `Unhandled(known=False)`. Raises
        `ProviderFailed`; after `UNREACHABLE` and `THROTTLED` it is retried.
        """
        return (Unhandled(reason=f"{notice.type} is not known", known=False),)


def check_age(request: Charge | Refund, keys_last: timedelta) -> None:
    """Raise `FORGOTTEN` if the provider may have forgotten the idempotency key, so that a retry might run twice."""
    if request.age > keys_last:
        message = "it may have been done days ago: look at the provider before you try again"
        raise ProviderFailed(ProviderFailure(kind=FailureKind.FORGOTTEN, code=OUTCOME_UNKNOWN, message=message))


def unsent(request: Charge) -> FailureKind:
    """The kind of failure of a charge that cannot be sent: an earlier attempt at it may have succeeded all the same."""
    return FailureKind.REFUSED if request.since is None else FailureKind.UNREACHABLE


def _unsupported(connection: PaymentConnection, what: str) -> ProviderFailed:
    return ProviderFailed(
        ProviderFailure(
            kind=FailureKind.NOT_SUPPORTED,
            code="feature_not_supported",
            message=f"{connection.kind} has no {what}",
        )
    )


_METHODS: Mapping[type[Request[Any]], Callable[[PaymentProvider, PaymentConnection, Any], Any]] = {
    Connect: lambda provider, *arguments: provider.connect(*arguments),
    Disconnect: lambda provider, *arguments: provider.disconnect(*arguments),
    CreateCustomer: lambda provider, *arguments: provider.create_customer(*arguments),
    UpdateCustomer: lambda provider, *arguments: provider.update_customer(*arguments),
    SetupUrl: lambda provider, *arguments: provider.setup_url(*arguments),
    ListMethods: lambda provider, *arguments: provider.list_methods(*arguments),
    Charge: lambda provider, *arguments: provider.charge(*arguments),
    UpdateCharge: lambda provider, *arguments: provider.update_charge(*arguments),
    Cancel: lambda provider, *arguments: provider.cancel(*arguments),
    Refund: lambda provider, *arguments: provider.refund(*arguments),
    CheckoutUrl: lambda provider, *arguments: provider.checkout_url(*arguments),
    ExpirePage: lambda provider, *arguments: provider.expire_page(*arguments),
    ListCharges: lambda provider, *arguments: provider.list_charges(*arguments),
    LookUpCharge: lambda provider, *arguments: provider.look_up_charge(*arguments),
    LookUpPage: lambda provider, *arguments: provider.look_up_page(*arguments),
    LookUpRefund: lambda provider, *arguments: provider.look_up_refund(*arguments),
    Authorize: lambda provider, *arguments: provider.authorize(*arguments),
    ReleaseHold: lambda provider, *arguments: provider.release(*arguments),
}


def answer_of(provider: PaymentProvider, connection: PaymentConnection, request: Request[A]) -> A:
    """The provider's answer to a request. Raises `ProviderFailed`, and nothing else."""
    try:
        answer: A = _METHODS[type(request)](provider, connection, request)
        return answer
    except ProviderFailed:
        raise
    except UnsupportedAmount as problem:
        failure = ProviderFailure(kind=FailureKind.REFUSED, code=problem.code, message=str(problem))
        raise ProviderFailed(failure) from problem
    except Exception as problem:
        # An adapter failed to parse the answer: the request may have succeeded.
        failure = ProviderFailure(
            kind=FailureKind.UNREACHABLE,
            code="invalid_response",
            message=f"the answer cannot be read: {type(problem).__name__}",
        )
        raise ProviderFailed(failure) from problem
