"""Payments compared with a provider's own books."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from usagebill.core.payments import LIVE, Payment, RefundAttempt, TakenBack
from usagebill.core.provider_requests import ProviderCharge
from usagebill.core.statuses import ChargeStatus, PaymentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAudit:
    """The last comparison with a connection's provider: the number of differences, or why there was none."""

    organization_id: str
    connection_code: str
    compared_at: datetime
    differences: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A charge or its refunds on which the provider and we disagree.

    `provider_payment_id` is null for a charge that only we have.
    """

    payment_id: str | None
    provider_payment_id: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.provider_payment_id or '-'} (payment {self.payment_id or '-'}): {self.text}"


def differences(
    payments: Iterable[Payment],
    charges: Iterable[ProviderCharge],
    refunds: Iterable[RefundAttempt] = (),
    *,
    since: datetime,
    until: datetime,
) -> list[Difference]:
    """The differences between our payments through a connection, with their refunds, and its provider's list of
    charges.

    The list has all charges made from `since` on and answered before `until`; it may have later ones too, and so may
    the payments. Charges that moved no money and are not ours, such as abandoned ones, are no difference.
    """
    payments = list(payments)
    ours = {payment.provider_payment_id: payment for payment in payments if payment.provider_payment_id is not None}
    unanswered = {payment.id: payment for payment in payments if payment.unanswered}
    listed = {charge.provider_payment_id: charge for charge in charges}
    refunds_of: dict[str, list[RefundAttempt]] = {}
    for refund in refunds:
        refunds_of.setdefault(refund.payment_id, []).append(refund)
    differing = []
    for id, charge in listed.items():
        payment = ours.get(id) or unanswered.get(charge.metadata.get("svc_payment_id", ""))
        if payment is None:
            texts = [_unknown(charge)]
        else:
            texts = [_differing(payment, charge), _refunds_differing(refunds_of.get(payment.id, ()), charge)]
        payment_id = None if payment is None else payment.id
        differing += [
            Difference(payment_id=payment_id, provider_payment_id=id, text=text) for text in texts if text is not None
        ]
    for id, payment in ours.items():
        is_due = since <= payment.created_at and payment.updated_at < until
        if is_due and id not in listed and payment.payment_status == ChargeStatus.SUCCEEDED:
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
    # What the bank took back may be listed as before.
    is_taken = payment.status in tuple(TakenBack)
    if payment.payment_status != charge.payment_status and charge.payment_status not in LIVE and not is_taken:
        return f"{charge.payment_status.value} there, {payment.payment_status.value} here"
    return None


def _refunds_differing(refunds: Sequence[RefundAttempt], charge: ProviderCharge) -> str | None:
    """The difference between the refunded amount in the list and ours, as text; None if it lies between our successful
    refunds and those plus the pending ones, or the list does not state it.
    """
    if charge.refunded_cents is None:
        return None
    refunded = sum(refund.amount_cents for refund in refunds if refund.refund_status == PaymentStatus.SUCCEEDED)
    under_way = sum(refund.amount_cents for refund in refunds if refund.refund_status == PaymentStatus.PENDING)
    if refunded <= charge.refunded_cents <= refunded + under_way:
        return None
    here = f"{refunded} to {refunded + under_way}" if under_way else str(refunded)
    return f"{charge.refunded_cents} {charge.currency} refunded there, {here} here"
