"""Payments compared with a provider's own books."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from usagebill.core.payments import Payment
from usagebill.core.provider_requests import ProviderCharge
from usagebill.core.statuses import ChargeStatus

__all__ = ["Difference", "differences"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A charge that the provider and we do not agree on. `provider_payment_id` is null for what only we know."""

    payment_id: str | None
    provider_payment_id: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.provider_payment_id or '-'} (payment {self.payment_id or '-'}): {self.text}"


def differences(payments: Iterable[Payment], charges: Iterable[ProviderCharge]) -> list[Difference]:
    """What differs between our payments through a connection and all charges in its provider's books.

    Charges that moved no money and are not ours, such as abandoned ones, are no difference.
    """
    payments = list(payments)
    ours = {payment.provider_payment_id: payment for payment in payments if payment.provider_payment_id is not None}
    unanswered = {payment.id: payment for payment in payments if payment.unanswered}
    listed = {charge.provider_payment_id: charge for charge in charges}
    differing = []
    for id, charge in listed.items():
        payment = ours.get(id) or unanswered.get(charge.metadata.get("svc_payment_id", ""))
        text = _unknown(charge) if payment is None else _differing(payment, charge)
        if text is not None:
            payment_id = None if payment is None else payment.id
            differing.append(Difference(payment_id=payment_id, provider_payment_id=id, text=text))
    for id, payment in ours.items():
        if id not in listed and payment.payment_status == ChargeStatus.SUCCEEDED:
            text = f"{payment.amount_cents} {payment.amount_currency} succeeded here, and are not listed there"
            differing.append(Difference(payment_id=payment.id, provider_payment_id=id, text=text))
    return differing


def _unknown(charge: ProviderCharge) -> str | None:
    if charge.payment_status != ChargeStatus.SUCCEEDED:
        return None
    return f"{charge.amount_cents} {charge.currency} succeeded there, and are not known here"


def _differing(payment: Payment, charge: ProviderCharge) -> str | None:
    if (payment.amount_cents, payment.amount_currency) != (charge.amount_cents, charge.currency):
        theirs, here = f"{charge.amount_cents} {charge.currency}", f"{payment.amount_cents} {payment.amount_currency}"
        return f"{theirs} there, {here} here"
    settled = (ChargeStatus.SUCCEEDED, ChargeStatus.FAILED)
    if payment.payment_status != charge.payment_status and charge.payment_status in settled:
        return f"{charge.payment_status.value} there, {payment.payment_status.value} here"
    return None
