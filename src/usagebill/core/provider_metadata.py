"""Metadata of charges and pages at payment providers, which match their notices to records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from usagebill.core.provider_requests import Payable, PayableType, Payer

# Marks a payment on a hosted page, which we may not have seen before.
ONE_TIME = "one-time"
# The number of keys that GoCardless stores.
_GOCARDLESS_KEYS = 3


def charge_metadata(kind: str, payable: Payable, payer: Payer, payment_id: str) -> dict[str, str]:
    """Metadata of a charge at a provider of this kind."""
    metadata = _invoice(payable, payer) if payable.type is PayableType.INVOICE else _request(payable, payer)
    if kind == "gocardless":
        return dict(list(metadata.items())[:_GOCARDLESS_KEYS])
    if kind == "stripe":
        metadata |= {
            "svc_payment_id": payment_id,
            "svc_payable_id": payable.id,
            "svc_payable_type": payable.type.value,
            "svc_organization_id": payer.organization_id,
            "svc_billing_entity_id": payable.billing_entity_id,
        }
    return metadata


def page_metadata(payable: Payable, payer: Payer) -> dict[str, str]:
    """Metadata of a page for a single payment."""
    metadata = _invoice(payable, payer) if payable.type is PayableType.INVOICE else _request(payable, payer)
    return metadata | {"payment_type": ONE_TIME}


def _invoice(payable: Payable, payer: Payer) -> dict[str, str]:
    metadata = {"svc_invoice_id": payable.id, "svc_customer_id": payer.customer_id}
    if payable.issuing_date is not None:
        metadata["invoice_issuing_date"] = payable.issuing_date.isoformat()
    if payable.invoice_type is not None:
        metadata["invoice_type"] = payable.invoice_type
    return metadata


def _request(payable: Payable, payer: Payer) -> dict[str, str]:
    return {
        "svc_customer_id": payer.customer_id,
        "svc_payable_id": payable.id,
        "svc_payable_type": payable.type.value,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPayable:
    """The record named by returned metadata. `creates`: the payment may be one that we have not seen before."""

    payable_type: PayableType | None
    payable_id: str | None
    payment_id: str | None
    creates: bool


def named_payable(metadata: Mapping[str, object]) -> NamedPayable:
    """The record named by the metadata that a provider returns; values that are not text are ignored."""

    def text(name: str) -> str | None:
        value = metadata.get(name)
        return value if isinstance(value, str) and value else None

    payable_type, payable_id = PayableType.INVOICE, text("svc_invoice_id")
    if text("svc_payable_type") == PayableType.PAYMENT_REQUEST:
        payable_type, payable_id = PayableType.PAYMENT_REQUEST, text("svc_payable_id")
    payable_id = payable_id or text("svc_payable_id")
    return NamedPayable(
        payable_type=None if payable_id is None else payable_type,
        payable_id=payable_id,
        payment_id=text("svc_payment_id"),
        creates=text("payment_type") == ONE_TIME,
    )
