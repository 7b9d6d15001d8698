"""Statuses of more than one kind of record: of payments, of a provider's taxes, and of synced documents."""

from __future__ import annotations

from enum import StrEnum


class PaymentStatus(StrEnum):
    """Whether an invoice, a fee or a payment is paid. Only a fee is `refunded`."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUNDED = "refunded"


class ChargeStatus(StrEnum):
    """The state of a payment. `processing`: the provider has it and will report; `pending`: nobody has accepted
    it yet.
    """

    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


# The statuses of an invoice's payment, and of a credit note's refund.
INVOICE_PAYMENT_STATUSES = (PaymentStatus.PENDING, PaymentStatus.SUCCEEDED, PaymentStatus.FAILED)


class TaxStatus(StrEnum):
    """Whether a tax provider has determined the taxes of an invoice."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class SyncStatus(StrEnum):
    """Whether an accounting system or CRM has the current version of a document."""

    PENDING = "pending"
    RETRYING = "retrying"  # the last attempt failed, and another follows
    SYNCED = "synced"
    FAILED = "failed"  # no attempt is left
