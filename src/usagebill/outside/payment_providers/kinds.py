"""The adapter of each kind of payment provider."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from usagebill.core.payment_providers import PaymentConnection
from usagebill.core.provider_requests import (
    FailureKind,
    Notice,
    NoticeRejected,
    Outcome,
    ProviderFailed,
    ProviderFailure,
    Request,
    Unhandled,
)
from usagebill.outside.payment_providers.adyen import AdyenProvider
from usagebill.outside.payment_providers.cashfree import CashfreeProvider
from usagebill.outside.payment_providers.flutterwave import FlutterwaveProvider
from usagebill.outside.payment_providers.gocardless import GoCardlessProvider
from usagebill.outside.payment_providers.http import ProviderHttp
from usagebill.outside.payment_providers.moneyhash import MoneyHashProvider
from usagebill.outside.payment_providers.port import PaymentProvider, answer_of
from usagebill.outside.payment_providers.stripe import StripeProvider

A = TypeVar("A")

ADAPTERS: Mapping[str, type[PaymentProvider]] = {
    "stripe": StripeProvider,
    "gocardless": GoCardlessProvider,
    "adyen": AdyenProvider,
    "cashfree": CashfreeProvider,
    "flutterwave": FlutterwaveProvider,
    "moneyhash": MoneyHashProvider,
}


class HttpPaymentProviders:
    """All kinds of payment provider, over the network. `timeout` is in seconds, for a whole request."""

    def __init__(self, timeout: float) -> None:
        self._http = ProviderHttp(timeout)
        self._providers = {kind: adapter(self._http) for kind, adapter in ADAPTERS.items()}

    def close(self) -> None:
        """Abort the requests in flight."""
        self._http.close()

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        """The answer of the connection's provider. Raises `ProviderFailed`."""
        return answer_of(self._of(connection), connection, request)

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        """The events of a message that comes from the provider. Raises `NoticeRejected`."""
        try:
            return self._of(connection).notices(connection, headers, body, now)
        except NoticeRejected:
            raise
        except Exception as problem:
            # Anybody can post here: a message that cannot be parsed is not the provider's.
            raise NoticeRejected(f"it cannot be read: {type(problem).__name__}") from None

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        """Translate an event. Raises `ProviderFailed` if the provider is needed for it and does not answer."""
        try:
            return self._of(connection).outcomes(connection, notice, now)
        except (ValueError, TypeError, LookupError, ArithmeticError) as problem:
            return (Unhandled(reason=f"it cannot be understood: {problem}", known=False),)

    def _of(self, connection: PaymentConnection) -> PaymentProvider:
        provider = self._providers.get(connection.kind)
        if provider is None:
            message = f"nothing speaks to {connection.kind}"
            raise ProviderFailed(ProviderFailure(kind=FailureKind.NOT_SUPPORTED, code=None, message=message))
        return provider
