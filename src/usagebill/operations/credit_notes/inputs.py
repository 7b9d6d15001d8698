"""Inputs for creating and estimating credit notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from usagebill.core import limits
from usagebill.requests.inputs import ABSENT, Input, Maybe, described


@Input
class CreditNoteInput:
    """The three amounts are with taxes."""

    invoice_id: Maybe[str] = described(required="create")
    reason: Maybe[str] = ABSENT
    description: Maybe[str] = ABSENT
    credit_amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = described(
        "The amount credited to later invoices, with taxes.", unit="cents", example=100
    )
    refund_amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = described(
        "The refunded amount, with taxes.", unit="cents"
    )
    offset_amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = described(
        "The amount deducted from the unpaid invoice, with taxes.", unit="cents"
    )
    items: Maybe[object] = described(
        "The fees that are credited: objects of `fee_id` and `amount_cents`, before taxes and coupons.",
        default="all fees, each by the same share",
    )
    metadata: Maybe[Mapping[str, object]] = ABSENT


@Input
class CreditNoteEstimateInput:
    """`items` as in `CreditNoteInput`."""

    invoice_id: Maybe[str] = described(required="create")
    items: Maybe[object] = described(required="create")
