"""Comparisons of price lists as JSON."""

from __future__ import annotations

from typing import TypedDict

from usagebill.core.numbers import decimal_text
from usagebill.core.price_comparisons import ComparedLine, ComparedSubscription, ComparisonSummary
from usagebill.runtime.work import Reader
from usagebill.views.formats import DecimalText, Instant, instant_text


class ComparedLineView(TypedDict):
    kind: str
    code: str | None
    units: DecimalText
    old_cents: int
    new_cents: int
    difference_cents: int


class ComparedSubscriptionView(TypedDict):
    external_customer_id: str
    external_subscription_id: str
    from_date: str
    to_date: str
    ending_at: Instant | None
    overridden: bool
    old_cents: int
    new_cents: int
    difference_cents: int


class ChangePreviewView(TypedDict):
    from_date: str
    to_date: str
    currency: str
    subscriptions_count: int
    more_count: int
    less_count: int
    rise_cents: int
    overridden_count: int
    old_cents: int
    new_cents: int
    difference_cents: int
    lines: list[ComparedLineView]
    largest: list[ComparedSubscriptionView]
    fixed_terms: list[ComparedSubscriptionView]


def change_preview_view(_: Reader, preview: ComparisonSummary) -> ChangePreviewView:
    """What a change of a plan comes to."""
    return {
        "from_date": preview.start.isoformat(),
        "to_date": preview.end.isoformat(),
        "currency": preview.currency,
        "subscriptions_count": preview.subscriptions_count,
        "more_count": preview.more_count,
        "less_count": preview.less_count,
        "rise_cents": preview.rise_cents,
        "overridden_count": preview.overridden_count,
        "old_cents": preview.old_cents,
        "new_cents": preview.new_cents,
        "difference_cents": preview.difference_cents,
        "lines": [compared_line_view(line) for line in preview.lines],
        "largest": [_subscription_view(row) for row in preview.largest],
        "fixed_terms": [_subscription_view(row) for row in preview.fixed_terms],
    }


def compared_line_view(line: ComparedLine) -> ComparedLineView:
    """A line under both price lists; `code` is null unless a metric or an add-on is priced."""
    return {
        "kind": line.kind.value,
        "code": line.code or None,
        "units": decimal_text(line.units),
        "old_cents": line.old_cents,
        "new_cents": line.new_cents,
        "difference_cents": line.difference_cents,
    }


def _subscription_view(row: ComparedSubscription) -> ComparedSubscriptionView:
    return {
        "external_customer_id": row.external_customer_id,
        "external_subscription_id": row.external_subscription_id,
        "from_date": row.start.isoformat(),
        "to_date": row.end.isoformat(),
        "ending_at": instant_text(row.ending_at),
        "overridden": row.overridden,
        "old_cents": row.old_cents,
        "new_cents": row.new_cents,
        "difference_cents": row.difference_cents,
    }
