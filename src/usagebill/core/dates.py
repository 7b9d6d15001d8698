"""The dates of an invoice: when it is issued, when it is due, when a draft is to be finalized.

With d the local date of billing and g the grace period in days, a subscription invoice is dated

    start, end, plan change, end of a trial         d + g
    run, next_period_start                          d + g, with keep_anchor d
    run, current_period_end                         d + g (d - 1 if g = 0), with keep_anchor d - 1

and finalized on d + g. Any other invoice is dated and finalized on d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from enum import Enum, StrEnum
from typing import assert_never

from usagebill.core.days import local_date


class IssuingDateAnchor(StrEnum):
    """The day from which a periodic invoice is dated."""

    CURRENT_PERIOD_END = "current_period_end"
    NEXT_PERIOD_START = "next_period_start"


class IssuingDateAdjustment(StrEnum):
    """Whether the date moves with the finalization."""

    KEEP_ANCHOR = "keep_anchor"
    ALIGN_WITH_FINALIZATION_DATE = "align_with_finalization_date"


class Occasion(Enum):
    """The occasion of an invoice, which decides its dates."""

    PERIODIC = "periodic"  # a run
    SUBSCRIPTION = "subscription"  # a start, an end, a plan change, the end of a trial
    IMMEDIATE = "immediate"  # a charge in advance, progressive billing, one-off, credit


@dataclass(frozen=True, slots=True, kw_only=True)
class DatingSettings:
    """The settings of a customer: its own value, else its billing entity's. Terms are in days, never negative."""

    grace_period: int = 0
    net_payment_term: int = 0
    anchor: IssuingDateAnchor = IssuingDateAnchor.NEXT_PERIOD_START
    adjustment: IssuingDateAdjustment = IssuingDateAdjustment.ALIGN_WITH_FINALIZATION_DATE


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceDates:
    """Local dates of the customer."""

    issuing: date
    payment_due: date
    expected_finalization: date


def belated(occasion: Occasion) -> Occasion:
    """The occasion that dates an invoice for time billed belatedly: it has no period end to be dated from."""
    return Occasion.SUBSCRIPTION if occasion is Occasion.PERIODIC else occasion


def issuing_offset(occasion: Occasion, settings: DatingSettings) -> int:
    """Days from the local date of billing to the issuing date."""
    match occasion:
        case Occasion.IMMEDIATE:
            return 0
        case Occasion.SUBSCRIPTION:
            return settings.grace_period
        case Occasion.PERIODIC:
            ends = settings.anchor is IssuingDateAnchor.CURRENT_PERIOD_END
            if settings.adjustment is IssuingDateAdjustment.KEEP_ANCHOR or (ends and settings.grace_period == 0):
                return -1 if ends else 0
            return settings.grace_period
        case _:
            assert_never(occasion)


def _grace(occasion: Occasion, settings: DatingSettings) -> int:
    return 0 if occasion is Occasion.IMMEDIATE else settings.grace_period


def dates_at_creation(occasion: Occasion, settings: DatingSettings, billed_at: datetime, tz: tzinfo) -> InvoiceDates:
    """The dates of a new invoice with billing timestamp `billed_at`."""
    day = local_date(billed_at, tz)
    issuing = day + timedelta(days=issuing_offset(occasion, settings))
    return InvoiceDates(
        issuing=issuing,
        payment_due=issuing + timedelta(days=settings.net_payment_term),
        expected_finalization=day + timedelta(days=_grace(occasion, settings)),
    )


def dates_at_finalization(
    dates: InvoiceDates, occasion: Occasion, settings: DatingSettings, finalized_at: datetime, tz: tzinfo
) -> InvoiceDates:
    """The dates of a draft that is finalized automatically or by hand: it is issued that day, unless it keeps its
    anchor. The due date follows.
    """
    keeps = occasion is Occasion.PERIODIC and settings.adjustment is IssuingDateAdjustment.KEEP_ANCHOR
    issued = dates if keeps else replace(dates, issuing=local_date(finalized_at, tz))
    return dates_with_new_term(issued, settings.net_payment_term)


def dates_with_new_settings(
    dates: InvoiceDates, occasion: Occasion, old: DatingSettings, new: DatingSettings
) -> InvoiceDates:
    """The dates of a draft after its customer's settings changed: each moves by the change of its offset."""
    moved = timedelta(days=issuing_offset(occasion, new) - issuing_offset(occasion, old))
    delayed = timedelta(days=_grace(occasion, new) - _grace(occasion, old))
    shifted = replace(dates, issuing=dates.issuing + moved, expected_finalization=dates.expected_finalization + delayed)
    return dates_with_new_term(shifted, new.net_payment_term)


def dates_with_new_term(dates: InvoiceDates, net_payment_term: int) -> InvoiceDates:
    """The same dates, due `net_payment_term` days after the issuing date."""
    return replace(dates, payment_due=dates.issuing + timedelta(days=net_payment_term))
