"""Statuses that more than one kind of record has: of payments, of a provider's taxes, and of what is synced."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["INVOICE_PAYMENT_STATUSES", "ChargeStatus", "PaymentStatus", "SyncStatus", "TaxStatus"]


class PaymentStatus(StrEnum):
    """Whether an invoice, a fee or a payment is paid. Only a fee is `refunded`."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUNDED = "refunded"


class ChargeStatus(StrEnum):
    """How a payment stands. `processing`: the provider has it and will say; `pending`: nobody has accepted it yet."""

    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


# What the payment of an invoice, and the refund of a credit note, can be.
INVOICE_PAYMENT_STATUSES = (PaymentStatus.PENDING, PaymentStatus.SUCCEEDED, PaymentStatus.FAILED)


class TaxStatus(StrEnum):
    """Whether a tax provider has given the taxes of an invoice."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class SyncStatus(StrEnum):
    """Whether an accounting system or CRM has a document as it is now."""

    PENDING = "pending"
    RETRYING = "retrying"  # the last attempt failed, another follows
    SYNCED = "synced"
    FAILED = "failed"  # no attempt is left
