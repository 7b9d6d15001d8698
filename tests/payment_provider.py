"""A payment provider in this process that keeps its own books and fails as the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar, cast

from usagebill.core.payment_providers import PaymentConnection, charge_status
from usagebill.core.provider_requests import (
    Charge,
    Charged,
    FailureKind,
    ListCharges,
    ListMethods,
    LookUpCharge,
    LookUpRefund,
    MethodDetails,
    Methods,
    Notice,
    NoticeRejected,
    Outcome,
    PaymentMoved,
    ProviderCharge,
    ProviderCharges,
    ProviderFailed,
    ProviderFailure,
    Refund,
    Refunded,
    RefundMoved,
    Request,
)
from usagebill.core.statuses import ChargeStatus, PaymentStatus

A = TypeVar("A")
# The key that signs its messages.
PRESENT = "genuine"


class Killed(BaseException):
    """The process died between the provider's answer and our record of it."""


@dataclass(frozen=True)
class Booked:
    """A charge or a refund in the provider's books. `status` is in the provider's terms."""

    id: str
    key: str
    request: Any
    status: str


def _same(request: Any) -> Any:
    """A request without the times at which it is sent, and was first sent."""
    return replace(request, since=None, at=None)


def _no(kind: FailureKind, code: str) -> ProviderFailed:
    return ProviderFailed(ProviderFailure(kind=kind, code=code, message=code.replace("_", " ")))


@dataclass
class UnsteadyProvider:
    """Answers charges one after another as in `script`, then always as its last entry; refunds likewise.

    `succeeded`, `processing`, `declined`; `away`: never received; `lost`: accepted, but the answer lost; `killed`:
    accepted, but the process dies. After the last two, `then` has the status of the accepted request.
    """

    script: list[str] = field(default_factory=lambda: ["succeeded"])
    then: str = "succeeded"
    charges: dict[str, Booked] = field(default_factory=dict)
    refunds: dict[str, Booked] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    # Called once, while a request is in flight.
    meanwhile: Callable[[], object] | None = None

    def ask(self, connection: PaymentConnection, request: Request[A]) -> A:
        self.calls.append(request)
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        if isinstance(request, Charge):
            return cast(A, self._charge(request))
        if isinstance(request, Refund):
            return cast(A, self._refund(request))
        if isinstance(request, ListMethods):
            return cast(A, Methods(methods=(MethodDetails(provider_method_id="pm_1", type="card"),)))
        if isinstance(request, ListCharges):
            return cast(A, ProviderCharges(charges=tuple(self._listed(charge) for charge in self.charges.values())))
        if isinstance(request, LookUpCharge):
            found = self._found(request)
            return cast(A, None if found is None else self._moved(found))
        if isinstance(request, LookUpRefund):
            (refund,) = [item for item in self.refunds.values() if item.id == request.provider_refund_id]
            return cast(A, self._refund_moved(refund.id, refund.status))
        raise _no(FailureKind.NOT_SUPPORTED, "feature_not_supported")

    def _found(self, request: LookUpCharge) -> Booked | None:
        """By its own id, else by ours, as at Stripe."""
        known = request.provider_payment_id
        for charge in self.charges.values():
            if charge.id == known or (known is None and charge.request.payment_id == request.payment_id):
                return charge
        return None

    def _next(self) -> str:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def _taken(self, books: dict[str, Booked], request: Any, start: str, status: str) -> Booked:
        known = books.get(request.key)
        if known is not None:
            # No provider accepts the same key with another request.
            assert _same(known.request) == _same(request)
            return known
        booked = Booked(f"{start}_{len(books) + 1}", request.key, request, status)
        books[request.key] = booked
        return booked

    def _outcome(self, books: dict[str, Booked], request: Any, start: str) -> Booked:
        known = books.get(request.key)
        outcome = self._next()
        if outcome == "away":
            raise _no(FailureKind.UNREACHABLE, "network_error")
        if outcome in ("lost", "killed"):
            self._taken(books, request, start, self.then)
            if outcome == "killed":
                raise Killed
            raise _no(FailureKind.UNREACHABLE, "network_error")
        if outcome == "declined" and known is None:
            raise _no(FailureKind.DECLINED, "card_declined")
        return self._taken(books, request, start, outcome if outcome != "declined" else self.then)

    def _charge(self, request: Charge) -> Charged:
        booked = self._outcome(self.charges, request, "ch")
        status = charge_status("stripe", booked.status)
        assert status is not None
        return Charged(provider_payment_id=booked.id, status=booked.status, payment_status=status)

    def _refund(self, request: Refund) -> Refunded:
        booked = self._outcome(self.refunds, request, "re")
        word = "pending" if booked.status == "processing" else booked.status
        return Refunded(provider_refund_id=booked.id, status=word, refund_status=PaymentStatus(word))

    def _listed(self, charge: Booked) -> ProviderCharge:
        status = charge_status("stripe", charge.status)
        assert status is not None
        return ProviderCharge(
            provider_payment_id=charge.id,
            amount_cents=charge.request.amount_cents,
            currency=charge.request.currency,
            payment_status=status,
            created_at=charge.request.payable.created_at,
            metadata=charge.request.metadata,
        )

    # Reports

    def end(self, books: dict[str, Booked], status: str) -> None:
        """Give all pending entries of these books this status."""
        for key, booked in books.items():
            if booked.status == "processing":
                books[key] = replace(booked, status=status)

    def messages(self) -> list[bytes]:
        """A message about each charge and refund in its current state."""
        bookings = [("charge", charge) for charge in self.charges.values()]
        bookings += [("refund", refund) for refund in self.refunds.values()]
        return [json.dumps([kind, booked.id, booked.key, booked.status]).encode() for kind, booked in bookings]

    def notices(
        self, connection: PaymentConnection, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> tuple[Notice, ...]:
        if headers.get("signature") != PRESENT:
            raise NoticeRejected("it is not signed")
        return (Notice(id=body.decode(), type="moved", body=body.decode()),)

    def outcomes(self, connection: PaymentConnection, notice: Notice, now: datetime) -> tuple[Outcome, ...]:
        kind, id, key, status = json.loads(notice.body)
        if kind == "refund":
            return (self._refund_moved(id, status),)
        return (self._moved(replace(self.charges[key], status=status)),)

    def _refund_moved(self, id: str, status: str) -> RefundMoved:
        word = "pending" if status == "processing" else status
        return RefundMoved(provider_refund_id=id, status=word, refund_status=PaymentStatus(word))

    def _moved(self, booked: Booked) -> PaymentMoved:
        payment_status = charge_status("stripe", booked.status)
        assert payment_status is not None
        charge = booked.request
        return PaymentMoved(
            provider_payment_id=booked.id,
            status=booked.status,
            payment_status=payment_status,
            payable_type=charge.payable.type,
            payable_id=charge.payable.id,
            payment_id=charge.payment_id,
        )

    def succeeded_cents(self, payable_id: str) -> list[int]:
        """The charges of an invoice or payment request that succeeded, in its own books."""
        return [
            charge.request.amount_cents
            for charge in self.charges.values()
            if charge.request.payable.id == payable_id
            and charge_status("stripe", charge.status) == ChargeStatus.SUCCEEDED
        ]


def connect(box: Any, **settings: Any) -> str:
    """Link acme, with a card, to a Stripe account; returns the path for messages."""
    path: str = box.connect_payment_provider(
        "stripe", code="main", url="https://stripe.example", secret_key="sk", webhook_secret="wh", **settings
    )
    account = {"payment_provider": "stripe", "payment_provider_code": "main", "provider_customer_id": "cus_1"}
    box.customer(net_payment_term=0, billing_configuration=account)
    return path
