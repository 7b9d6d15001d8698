"""Look-ups: when a provider that has sent no notice is asked about a charge or a refund, and how the wait ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from usagebill.core.payment_providers import KINDS
from usagebill.core.payments import Payment, PaymentPage
from usagebill.core.provider_requests import LookUpPage, PayableType

# The code of a charge that its customer did not confirm in time.
NOT_CONFIRMED = "confirmation_expired"
# The code of a charge that its provider says it never got.
NOT_FOUND = "charge_not_found"
# The code of a page that is paid at its provider, which does not say by which payment.
PAID_WITHOUT_NOTICE = "paid_without_notice"
# A page is looked up every day, and this long after its end.
_PAGES_EVERY = timedelta(days=1)
_AFTER_PAGE = timedelta(hours=1)
_CARDS = ("card", "link")
# A request whose answer was lost may reach the provider this late; before, it may not know the charge yet.
_LANDS_WITHIN = timedelta(minutes=10)
_TRANSFER = "display_bank_transfer_instructions"


class Wait(StrEnum):
    """What a charge or refund under way waits for."""

    CONFIRMATION = "confirmation"  # of the customer, such as 3-D Secure
    CARD = "card"
    DEBIT = "debit"
    TRANSFER = "transfer"  # of money that the customer sends
    REFUND = "refund"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The provider is asked `first` after the charge was sent, then every `every`; after `most` it is to end."""

    first: timedelta
    every: timedelta
    most: timedelta


PATIENCE = {
    Wait.CONFIRMATION: Patience(first=timedelta(hours=1), every=timedelta(hours=6), most=timedelta(hours=24)),
    Wait.CARD: Patience(first=timedelta(hours=1), every=timedelta(hours=6), most=timedelta(days=7)),
    # Banks take up to a week, and holidays longer.
    Wait.DEBIT: Patience(first=timedelta(days=4), every=timedelta(days=1), most=timedelta(days=30)),
    Wait.TRANSFER: Patience(first=timedelta(days=1), every=timedelta(days=1), most=timedelta(days=30)),
    Wait.REFUND: Patience(first=timedelta(days=1), every=timedelta(days=1), most=timedelta(days=30)),
}


class LookStep(StrEnum):
    """What follows when a look-up has not settled a charge."""

    ASK_AGAIN = "ask_again"
    CANCEL = "cancel"  # at the provider; then it is asked again
    END = "end"  # here: nobody can say what became of it


def wait_of(payment: Payment) -> Wait:
    """What a payment under way waits for."""
    if payment.next_action:
        return Wait.TRANSFER if payment.next_action.get("type") == _TRANSFER else Wait.CONFIRMATION
    kind = KINDS.get(payment.payment_provider_type or "")
    type = None if payment.method is None else payment.method.type
    is_debit = (kind is not None and kind.debits) or (type is not None and type not in _CARDS)
    return Wait.DEBIT if is_debit else Wait.CARD


def next_look(wait: Wait, since: datetime, now: datetime) -> datetime:
    """When the provider is asked next about what was sent at `since`. One of the looks is at the end of the wait."""
    patience = PATIENCE[wait]
    first, end = since + patience.first, since + patience.most
    if now < first:
        return first
    return min(now + patience.every, end) if now < end else now + patience.every


def look_after_loss(payment: Payment, now: datetime) -> datetime:
    """When the provider is asked about a charge whose answer was lost, and which is not sent again."""
    return max(now, payment.updated_at + _LANDS_WITHIN)


def look_step(wait: Wait, since: datetime, now: datetime, *, is_known: bool, can_cancel: bool) -> LookStep:
    """What follows when a charge is still under way. `is_known`: the provider says so; else it says nothing of it.

    At the end of the wait it is cancelled, where the provider can do so. If it is still under way a step later, it ends
    here, unless a provider that can cancel says that it is going on: then its outcome will come.
    """
    patience = PATIENCE[wait]
    if now < since + patience.most:
        return LookStep.ASK_AGAIN
    if now >= since + patience.most + patience.every and not (is_known and can_cancel):
        return LookStep.END
    return LookStep.CANCEL if can_cancel else LookStep.ASK_AGAIN


def page_question(page: PaymentPage) -> LookUpPage:
    """The question whether a page was paid."""
    payable_type = PayableType.INVOICE if page.payment_request_id is None else PayableType.PAYMENT_REQUEST
    return LookUpPage(
        page_id=page.id,
        provider_page_id=page.provider_page_id,
        payable_type=payable_type,
        payable_id=page.payment_request_id or page.invoice_id or "",
    )


def next_page_look(page: PaymentPage, now: datetime) -> datetime | None:
    """When the provider is asked next whether a page was paid; None once that was done after its end."""
    last = min(page.expires_at, page.ended_at or page.expires_at) + _AFTER_PAGE
    return min(last, now + _PAGES_EVERY) if now < last else None
