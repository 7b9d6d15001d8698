"""Dates of invoices: at creation, at finalization, and when settings change in between."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from usagebill.core.dates import (
    DatingSettings,
    IssuingDateAdjustment,
    IssuingDateAnchor,
    Occasion,
    dates_at_creation,
    dates_at_finalization,
    dates_with_new_settings,
)

NEXT, CURRENT = IssuingDateAnchor.NEXT_PERIOD_START, IssuingDateAnchor.CURRENT_PERIOD_END
ALIGN, KEEP = IssuingDateAdjustment.ALIGN_WITH_FINALIZATION_DATE, IssuingDateAdjustment.KEEP_ANCHOR
BILLED_AT = datetime(2024, 6, 21, 0, 10, tzinfo=UTC)
every_settings = st.builds(
    DatingSettings,
    grace_period=st.integers(0, 60),
    net_payment_term=st.integers(0, 90),
    anchor=st.sampled_from(IssuingDateAnchor),
    adjustment=st.sampled_from(IssuingDateAdjustment),
)


def june(day: int) -> date:
    return date(2024, 6, day)


@pytest.mark.parametrize(
    ("occasion", "anchor", "adjustment", "grace", "issuing", "finalization"),
    [
        (Occasion.PERIODIC, NEXT, ALIGN, 3, 24, 24),
        (Occasion.PERIODIC, NEXT, KEEP, 3, 21, 24),
        (Occasion.PERIODIC, CURRENT, KEEP, 3, 20, 24),
        (Occasion.PERIODIC, CURRENT, ALIGN, 0, 20, 21),
        (Occasion.PERIODIC, CURRENT, ALIGN, 3, 24, 24),
        (Occasion.SUBSCRIPTION, CURRENT, KEEP, 3, 24, 24),
        (Occasion.IMMEDIATE, CURRENT, KEEP, 3, 21, 21),
    ],
)
def test_dates_at_creation(
    occasion: Occasion,
    anchor: IssuingDateAnchor,
    adjustment: IssuingDateAdjustment,
    grace: int,
    issuing: int,
    finalization: int,
) -> None:
    settings = DatingSettings(grace_period=grace, net_payment_term=5, anchor=anchor, adjustment=adjustment)
    dates = dates_at_creation(occasion, settings, BILLED_AT, ZoneInfo("UTC"))
    assert dates.issuing == june(issuing)
    assert dates.payment_due == june(issuing + 5)
    assert dates.expected_finalization == june(finalization)


def test_an_invoice_carries_the_local_date() -> None:
    dates = dates_at_creation(Occasion.PERIODIC, DatingSettings(), BILLED_AT, ZoneInfo("America/Bogota"))
    assert dates.issuing == june(20)


def test_a_draft_is_issued_on_the_local_date_of_its_finalization() -> None:
    settings = DatingSettings(grace_period=3, net_payment_term=10)
    tz = ZoneInfo("Asia/Tokyo")
    draft = dates_at_creation(Occasion.PERIODIC, settings, BILLED_AT, tz)
    by_hand = dates_at_finalization(draft, Occasion.PERIODIC, settings, datetime(2024, 6, 22, 20, tzinfo=UTC), tz)
    assert by_hand.issuing == june(23)
    assert by_hand.payment_due == date(2024, 7, 3)


def test_a_periodic_draft_that_keeps_its_anchor_keeps_its_date() -> None:
    settings = DatingSettings(grace_period=3, net_payment_term=10, anchor=CURRENT, adjustment=KEEP)
    tz = ZoneInfo("UTC")
    later = datetime(2024, 6, 24, 0, 20, tzinfo=UTC)
    draft = dates_at_creation(Occasion.PERIODIC, settings, BILLED_AT, tz)
    assert dates_at_finalization(draft, Occasion.PERIODIC, settings, later, tz) == draft
    assert dates_at_finalization(draft, Occasion.SUBSCRIPTION, settings, later, tz).issuing == june(24)


@pytest.mark.parametrize(
    ("anchor", "adjustment", "occasion", "issuing"),
    [
        (CURRENT, KEEP, Occasion.PERIODIC, 20),
        (CURRENT, ALIGN, Occasion.PERIODIC, 23),
        (NEXT, KEEP, Occasion.PERIODIC, 21),
        (NEXT, ALIGN, Occasion.PERIODIC, 23),
        (CURRENT, KEEP, Occasion.SUBSCRIPTION, 23),
        (NEXT, KEEP, Occasion.SUBSCRIPTION, 23),
    ],
)
def test_drafts_move_with_a_new_grace_period(
    anchor: IssuingDateAnchor, adjustment: IssuingDateAdjustment, occasion: Occasion, issuing: int
) -> None:
    old = DatingSettings()
    new = DatingSettings(grace_period=2, anchor=anchor, adjustment=adjustment)
    draft = dates_at_creation(occasion, old, BILLED_AT, ZoneInfo("UTC"))
    moved = dates_with_new_settings(draft, occasion, old, new)
    assert (moved.issuing, moved.expected_finalization) == (june(issuing), june(23))


def test_drafts_move_from_one_grace_period_to_another() -> None:
    old = DatingSettings(grace_period=3)
    new = DatingSettings(grace_period=2, anchor=CURRENT, adjustment=KEEP)
    draft = dates_at_creation(Occasion.PERIODIC, old, datetime(2024, 6, 18, tzinfo=UTC), ZoneInfo("UTC"))
    assert draft.issuing == june(21)
    moved = dates_with_new_settings(draft, Occasion.PERIODIC, old, new)
    assert (moved.issuing, moved.expected_finalization) == (june(17), june(20))


@given(st.sampled_from(Occasion), every_settings, every_settings)
def test_changed_settings_date_a_draft_as_if_they_had_always_applied(
    occasion: Occasion, old: DatingSettings, new: DatingSettings
) -> None:
    utc = ZoneInfo("UTC")
    moved = dates_with_new_settings(dates_at_creation(occasion, old, BILLED_AT, utc), occasion, old, new)
    assert moved == dates_at_creation(occasion, new, BILLED_AT, utc)
