"""Activity logs: what changed, who changed it, the values before and after, and the activities that a change amounts
to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, cast

from usagebill.core.api_keys import ApiKey
from usagebill.core.coupons import AppliedCoupon, CouponStatus
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.statuses import TaxStatus
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.wallet_transactions import WalletTransaction

# A plan with more charges, or more filters on them, than this is logged without its charges.
LARGEST_PLAN = (50, 100)


class ActivitySource(StrEnum):
    """The origin of a change: a request or library call, a person at the command line, or a due job."""

    API = "api"
    FRONT = "front"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The author of a change. `api_key`, `request_id` and `client` (the user agent) come from the request, if there was
    one; `user_id` and `user_email` from whoever is signed in to the console.
    """

    source: ActivitySource
    api_key: ApiKey | None = None
    user_id: str | None = None
    user_email: str | None = None
    request_id: str | None = None
    client: str | None = None


LIBRARY = Actor(source=ActivitySource.API)
SYSTEM = Actor(source=ActivitySource.SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityLog:
    """One activity. `activity_object` is the record afterwards, as the API shows it; `activity_object_changes` maps
    each field of an update to its values before and after. Both are JSON texts.

    `logged_at` is the instant as of which the change was made, `written_at` when it was actually made.
    """

    id: str
    organization_id: str
    activity_type: str
    activity_source: ActivitySource
    activity_object: str
    activity_object_changes: str
    resource_id: str
    resource_type: str
    logged_at: datetime
    written_at: datetime
    external_customer_id: str | None = None
    external_subscription_id: str | None = None
    api_key_id: str | None = None
    user_email: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A record before and after a unit of work: `old` is None for a new record, `new` for one that was removed."""

    old: Any
    new: Any

    @property
    def record(self) -> Any:
        """The record as it is now, or was before it was removed."""
        return self.old if self.new is None else self.new


# A change of a record -> its activities, in order; possibly none.
Activities = Callable[[Any, Any], Sequence[str]]


def changed_fields(old: object, new: object) -> frozenset[str]:
    """The names of the fields in which two records differ, apart from `updated_at`."""
    kind = cast(Hashable, type(new))
    return frozenset(name for name in _compared(kind) if getattr(old, name) != getattr(new, name))


@cache
def _compared(kind: Hashable) -> tuple[str, ...]:
    return tuple(item.name for item in fields(cast(type, kind)) if item.name != "updated_at")


def changed_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Each key whose value differs -> its values before and after, without `updated_at`."""
    keys = dict.fromkeys((*before, *after))
    return {
        key: [before.get(key), after.get(key)]
        for key in keys
        if key != "updated_at" and before.get(key) != after.get(key)
    }


def record_activities(name: str, *, ignoring: frozenset[str] = frozenset()) -> Activities:
    """`name.created` and `name.updated`, the latter if a field outside `ignoring` changed."""

    def activities(old: Any, new: Any) -> Sequence[str]:
        if new is None:
            return (f"{name}.deleted",)
        if old is None:
            return (f"{name}.created",)
        if old.__class__ is new.__class__ and changed_fields(old, new) <= ignoring:
            return ()
        return (f"{name}.updated",)

    return activities


def definition_activities(
    name: str, *, deleted: str = "deleted_at", ignoring: frozenset[str] = frozenset()
) -> Activities:
    """`name.created`, `name.updated` and, once the field `deleted` is set, `name.deleted`."""
    plain = record_activities(name, ignoring=ignoring | {deleted, "deleted_at"})

    def activities(old: Any, new: Any) -> Sequence[str]:
        if old is not None and new is not None and not getattr(old, deleted) and getattr(new, deleted):
            return (f"{name}.deleted",)
        return plain(old, new)

    return activities


_ISSUED_AS = {InvoiceType.ONE_OFF: "invoice.one_off_created", InvoiceType.CREDIT: "invoice.paid_credit_added"}
_REACHED = {
    InvoiceStatus.VOIDED: "invoice.voided",
    InvoiceStatus.FAILED: "invoice.failed",
    InvoiceStatus.DELETED: "invoice.deleted",
}
_KEPT_WITH_INVOICES = frozenset({"metadata", "payment_dispute_lost_at", "purchase_order_number"})


def _is_ready(invoice: Invoice) -> bool:
    return invoice.status == InvoiceStatus.DRAFT and invoice.tax_status != TaxStatus.PENDING


def invoice_activities(old: Invoice | None, new: Invoice | None) -> Sequence[str]:
    """The activities of an invoice. A draft's new amounts and partial payments are none."""
    if new is None:
        return ()
    types: list[str] = []
    if old is None or old.status != new.status:
        if new.status == InvoiceStatus.DRAFT:
            types.append("invoice.drafted")
        elif new.status == InvoiceStatus.FINALIZED:
            types.append(_ISSUED_AS.get(new.invoice_type, "invoice.created"))
            if new.voided_invoice_id is not None:
                types.append("invoice.regenerated")
        elif new.status in _REACHED:
            types.append(_REACHED[new.status])
    elif new.status in VISIBLE:
        if old.payment_status != new.payment_status:
            types.append("invoice.payment_status_updated")
        if new.payment_overdue and not old.payment_overdue:
            types.append("invoice.payment_overdue")
        if not changed_fields(old, new).isdisjoint(_KEPT_WITH_INVOICES):
            types.append("invoice.updated")
    if _is_ready(new) and (old is None or not _is_ready(old)):
        types.append("invoice.ready_to_finalize")
    if new.pdf_id is not None and (old is None or old.pdf_id is None):
        types.append("invoice.generated")
    return types


_CHANGED_IN_CREDIT_NOTES = frozenset({"metadata", "refund_status", "voided_at", "description"})


def credit_note_activities(old: CreditNote | None, new: CreditNote | None) -> Sequence[str]:
    """The activities of a credit note once it is issued; uses of its balance are none."""
    if new is None or new.status != CreditNoteStatus.FINALIZED:
        return ()
    types: list[str] = []
    if old is None or old.status != new.status:
        types.append("credit_note.created")
    elif not changed_fields(old, new).isdisjoint(_CHANGED_IN_CREDIT_NOTES):
        types.append("credit_note.updated")
    if new.pdf_id is not None and (old is None or old.pdf_id is None):
        types.append("credit_note.generated")
    return types


def receipt_activities(old: PaymentReceipt | None, new: PaymentReceipt | None) -> Sequence[str]:
    """A receipt was issued, or its PDF was made."""
    if new is None:
        return ()
    types = ["payment_receipt.created"] if old is None else []
    if new.pdf_id is not None and (old is None or old.pdf_id is None):
        types.append("payment_receipt.generated")
    return types


_STATUS_ACTIVITIES = {
    SubscriptionStatus.PENDING: "subscription.created",
    SubscriptionStatus.ACTIVE: "subscription.started",
    SubscriptionStatus.TERMINATED: "subscription.terminated",
    SubscriptionStatus.INCOMPLETE: "subscription.incomplete",
    SubscriptionStatus.CANCELED: "subscription.canceled",
}
_NOTED_OF_SUBSCRIPTIONS = frozenset({"trial_ended_at", "termination_announced_at"})


def subscription_activities(old: Subscription | None, new: Subscription | None) -> Sequence[str]:
    """The activities of a subscription; `created` is one that starts later."""
    if new is None:
        return ()
    if old is None or old.status != new.status:
        return (_STATUS_ACTIVITIES[new.status],)
    return () if changed_fields(old, new) <= _NOTED_OF_SUBSCRIPTIONS else ("subscription.updated",)


def applied_coupon_activities(old: AppliedCoupon | None, new: AppliedCoupon | None) -> Sequence[str]:
    """A coupon was applied to a customer, or ended for that customer."""
    if new is None:
        return ()
    if old is None:
        return ("applied_coupon.created",)
    ends = old.status != new.status and new.status == CouponStatus.TERMINATED
    return ("applied_coupon.deleted",) if ends else ()


def wallet_transaction_activities(old: WalletTransaction | None, new: WalletTransaction | None) -> Sequence[str]:
    """Credits were added or removed, settled, or failed; changes of what remains of them are no activity."""
    if new is None:
        return ()
    if old is None:
        return ("wallet_transaction.created",)
    return ("wallet_transaction.updated",) if old.status != new.status else ()
