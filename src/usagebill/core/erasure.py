"""Erasure: what is removed of a person's records when a customer is anonymized, and what of its documents later.

Every text of a customer's records is in one of three groups. `PERSONAL` is erased at once. `ISSUED` belongs to
invoices, credit notes and receipts, which the law wants kept for some years, and is erased after them. The rest (ids,
codes, states, currencies) says nothing about a person, and is kept: bills are counted by it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from dataclasses import MISSING, dataclass, fields, replace
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar, cast

from usagebill.core.adjusted_fees import AdjustedFee
from usagebill.core.alerts import Alert
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.customers import Customer
from usagebill.core.fees import Fee, FeeItem
from usagebill.core.holds import Hold
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.ledger import DocumentType, Movement
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.payment_requests import PaymentRequest
from usagebill.core.payments import Payment, PaymentMethod, PaymentPage, RefundAttempt, is_under_way
from usagebill.core.recurring_rules import RecurringTransactionRule
from usagebill.core.spend_limits import SpendLimit
from usagebill.core.statuses import PaymentStatus
from usagebill.core.subscriptions import Subscription, SubscriptionStatus
from usagebill.core.sync_connections import SyncedDocument
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet, WalletStatus

R = TypeVar("R")

# Kind -> the fields that are erased when the customer is anonymized.
PERSONAL: Mapping[type, tuple[str, ...]] = {
    Customer: (
        "name",
        "firstname",
        "lastname",
        "email",
        "phone",
        "url",
        "logo_url",
        "legal_name",
        "legal_number",
        "tax_identification_number",
        "address_line1",
        "address_line2",
        "city",
        "state",
        "zipcode",
        "shipping_address",
        "provider_customer_id",
        "metadata",
        "vat_check",
        "integration_customers",
        "tax_error",
    ),
    Subscription: ("name", "cancellation_reason", "purchase_order_number"),
    Invoice: ("metadata", "customer_search"),
    CreditNote: ("metadata",),
    Payment: ("provider_customer_id", "method", "next_action", "sent"),
    PaymentMethod: ("details",),
    PaymentPage: ("url",),
    PaymentRequest: ("email",),
    SyncedDocument: ("external_id", "error_message"),
    Alert: ("name",),
    Hold: ("properties",),
    SpendLimit: ("group",),
    Wallet: ("name", "purchase_order_number", "metadata"),
    WalletTransaction: ("name", "purchase_order_number", "metadata"),
    Movement: ("number",),
    RecurringTransactionRule: ("transaction_name", "transaction_metadata", "purchase_order_number"),
}

# Kind -> the fields that are erased once the documents have been kept long enough.
ISSUED: Mapping[type, tuple[str, ...]] = {
    Invoice: ("customer_snapshot", "purchase_order_number", "error_details", "pdf_id", "xml_id"),
    CreditNote: ("customer_snapshot", "description", "purchase_order_number", "error_details", "pdf_id", "xml_id"),
    PaymentReceipt: ("customer_snapshot", "pdf_id", "xml_id"),
    Payment: ("reference", "error_code"),
    RefundAttempt: ("error_code",),
    BillingPeriod: ("subscription_snapshot",),
    Fee: ("description",),
    Movement: ("number",),
    AdjustedFee: ("invoice_display_name",),
}

# Movements of these documents are numbered by the code of a wallet, those of payments by their reference.
_NAMED_BY_WALLET = (DocumentType.TOP_UP, DocumentType.CREDIT_USE, DocumentType.WALLET)
# What documents show of other records: the field -> the members of it that are erased, at any depth.
_SHOWN: Mapping[str, frozenset[str]] = {
    "customer_snapshot": frozenset({*PERSONAL[Customer], "external_id"}),
    "subscription_snapshot": frozenset({*PERSONAL[Subscription], "external_customer_id"}),
}


def anonymous_id(customer_id: str) -> str:
    """The external id of an anonymized customer."""
    return f"anonymized-{customer_id}"


def anonymized(record: R, now: datetime) -> R:
    """The record without what says who the person is. The customer itself is deleted too, and its external id is free
    again.
    """
    if isinstance(record, Movement) and record.document_type not in _NAMED_BY_WALLET:
        return record
    names = PERSONAL.get(type(record), ())
    blank: dict[str, Any] = {name: _defaults(cast(Hashable, type(record)))[name] for name in names}
    match record:
        case Customer():
            blank |= {
                "external_id": anonymous_id(record.id),
                "anonymized_at": now,
                "deleted_at": record.deleted_at or now,
                "updated_at": now,
            }
        case Wallet():
            # Made of its name, unless one was sent.
            blank["code"] = anonymous_id(record.id)
        case PaymentMethod():
            blank |= {"provider_method_id": anonymous_id(record.id), "deleted_at": record.deleted_at or now}
    return _replaced(record, blank)


def expired(record: R) -> R:
    """The record of an anonymized customer without what its documents said about the person."""
    if isinstance(record, Movement) and record.document_type != DocumentType.PAYMENT:
        return record
    blank: dict[str, Any] = {}
    for name in ISSUED.get(type(record), ()):
        value = getattr(record, name)
        shown = _SHOWN.get(name)
        blank[name] = _without(value, shown) if shown and value else _defaults(cast(Hashable, type(record)))[name]
    if isinstance(record, Fee):
        # Its texts may be those of a subscription, or written for one invoice.
        item = record.item
        blank["item"] = FeeItem(type=item.type, item_type=item.item_type, id=item.id, code=item.code, name=item.code)
    return _replaced(record, blank)


def _replaced(record: R, blank: Mapping[str, object]) -> R:
    changed = {name: value for name, value in blank.items() if getattr(record, name) != value}
    # Records are dataclasses, which the type of any record does not say.
    return replace(record, **changed) if changed else record  # type: ignore[type-var]


@cache
def _defaults(kind: Hashable) -> Mapping[str, object]:
    """What each field of a kind of record is without a value; an empty text where one is required."""
    defaults: dict[str, object] = {}
    for item in fields(cast(type, kind)):
        if item.default_factory is not MISSING:
            defaults[item.name] = item.default_factory()
        else:
            defaults[item.name] = "" if item.default is MISSING else item.default
    return defaults


def _without(shown: Mapping[str, object], names: Set[str]) -> dict[str, object]:
    """A record as a document shows it, with all its fields, but without the values of these; countries stay, as taxes
    are recounted by them.
    """
    return {name: _emptied(name, value) if name in names else _inside(value, names) for name, value in shown.items()}


def _inside(value: object, names: Set[str]) -> object:
    return _without(value, names) if isinstance(value, Mapping) else value


def _emptied(name: str, value: object) -> object:
    match value:
        case Mapping():
            return {inner: item if inner == "country" else _emptied(inner, item) for inner, item in value.items()}
        case list() | tuple():
            return []
        case _:
            return "" if name.startswith("external_") else None


# When


def first_day_kept(today: date, years: int) -> date:
    """The first day of issue whose documents are still kept: they are, for `years` after the end of their year."""
    return date(max(1, today.year - years), 1, 1)


def obstacle(
    subscriptions: Set[SubscriptionStatus],
    invoices: tuple[Invoice, ...],
    payments: tuple[Payment, ...],
    refunds: tuple[RefundAttempt, ...],
    wallets: tuple[Wallet, ...],
    notes: tuple[CreditNote, ...],
) -> str | None:
    """The code of the reason why a customer with these records cannot be anonymized yet; None if it can be."""
    if subscriptions - {SubscriptionStatus.TERMINATED, SubscriptionStatus.CANCELED}:
        return "customer_has_subscriptions"
    if any(map(_is_open, invoices)):
        return "customer_has_open_invoices"
    if any(map(is_under_way, payments)) or any(refund.refund_status == PaymentStatus.PENDING for refund in refunds):
        return "customer_has_open_payments"
    if any(wallet.status == WalletStatus.ACTIVE and wallet.balance_cents for wallet in wallets):
        return "customer_has_credits"
    if any(note.status == CreditNoteStatus.FINALIZED and note.balance_amount_cents for note in notes):
        return "customer_has_credits"
    return None


_ENDED = (InvoiceStatus.VOIDED, InvoiceStatus.CLOSED, InvoiceStatus.DELETED)


def _is_open(invoice: Invoice) -> bool:
    if invoice.status in _ENDED:
        return False
    return invoice.status != InvoiceStatus.FINALIZED or (
        invoice.due_cents > 0 and invoice.payment_status != PaymentStatus.SUCCEEDED
    )


# Traces

_NAMED_BY_EXTERNAL_ID = ("customers", "subscriptions")
# What a text about an anonymized person becomes.
LEFT_OUT = {"left_out": "the customer was anonymized"}


@dataclass(frozen=True, slots=True)
class Person:
    """By what texts name a person: the ids of its records, and the external ids of the customer and subscriptions."""

    ids: frozenset[str]
    external_ids: frozenset[str]

    def is_in(self, value: object, key: str = "") -> bool:
        """Whether a JSON value names the person: with an id anywhere, with an external id in a field for one."""
        match value:
            case str():
                return value in self.ids or (key.startswith("external_") and value in self.external_ids)
            case Mapping():
                return any(self.is_in(item, str(name)) for name, item in value.items())
            case list() | tuple():
                return any(self.is_in(item, key) for item in value)
        return False

    def is_in_path(self, path: str) -> bool:
        """Whether the path of a request names the person."""
        return self.without(path) != path

    def without(self, path: str) -> str:
        """The decoded path of a request with `anonymized` for each external id of the person, and for the ids of its
        records.

        Ids of records stay as they are in all other places: they name nobody outside.
        """
        for external_id in sorted(self.external_ids, key=len, reverse=True):
            if "/" in external_id:
                for resource in _NAMED_BY_EXTERNAL_ID:
                    path = path.replace(f"/{resource}/{external_id}", f"/{resource}/anonymized")
        parts = path.split("/")
        named = ["", *parts[:-1]]
        return "/".join(
            "anonymized"
            if part in self.ids or (before in _NAMED_BY_EXTERNAL_ID and part in self.external_ids)
            else part
            for before, part in zip(named, parts, strict=True)
        )
