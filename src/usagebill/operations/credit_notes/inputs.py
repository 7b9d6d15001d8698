"""Inputs for creating and estimating credit notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from usagebill.core import limits
from usagebill.inputs import ABSENT, Input, Maybe


@Input
class CreditNoteInput:
    """`items`: objects of `fee_id` and `amount_cents`, before taxes and coupons. The three amounts are with taxes."""

    invoice_id: Maybe[str] = ABSENT
    reason: Maybe[str] = ABSENT
    description: Maybe[str] = ABSENT
    credit_amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = ABSENT
    refund_amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = ABSENT
    offset_amount_cents: Maybe[Annotated[int, limits.INVOICE_PART]] = ABSENT
    items: Maybe[object] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT


@Input
class CreditNoteEstimateInput:
    """`items` as in `CreditNoteInput`."""

    invoice_id: Maybe[str] = ABSENT
    items: Maybe[object] = ABSENT
