"""Which events of billed periods nothing can need any more: a table of facts and outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.core.test_life_audit import period

from usagebill.core.counted_usage import CountedCharge, CountedUsage
from usagebill.core.event_retention import Billed, months_before, removable_codes, settled_with
from usagebill.core.events import Event
from usagebill.core.invoices.life_cycle import InvoiceStatus, InvoicingReason
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.removed_events import RemovedEvents, with_removed
from usagebill.core.subscriptions import Subscription, SubscriptionStatus

MAY, JUNE, JULY = (datetime(2024, month, 1, tzinfo=UTC) for month in (5, 6, 7))
INSTANT = timedelta(microseconds=1)
FINAL, DRAFT, VOID = InvoiceStatus.FINALIZED, InvoiceStatus.DRAFT, InvoiceStatus.VOIDED
CLOSED = InvoiceStatus.CLOSED


def charge(code: str, **fields: Any) -> CountedCharge:
    terms = {"recurring": False, "pay_in_advance": False, **fields}
    return CountedCharge(id=code, code=code, aggregation_type="sum_agg", field_name="value", **terms)


def counted(*charges: CountedCharge) -> CountedUsage:
    return CountedUsage(known_at=JULY, charges=charges or (charge("gb"),))


def of(start: datetime, end: datetime, **fields: Any) -> BillingPeriod:
    """The period of the usage from `start` until right before `end`."""
    window = {"charges_from_datetime": start, "charges_to_datetime": end - INSTANT}
    values = {"invoicing_reason": InvoicingReason.PERIODIC, "counted": counted(), **window, **fields}
    return period(5, **{"subscription_to_datetime": end - INSTANT, **values})


def subscription(**fields: Any) -> Subscription:
    values: dict[str, Any] = {
        "id": "subscription",
        "organization_id": "organization",
        "external_id": "sub",
        "customer_id": "customer",
        "plan_id": "plan",
        "status": SubscriptionStatus.ACTIVE,
        "billing_time": "calendar",
        "subscription_at": MAY,
        "started_at": MAY,
        "created_at": MAY,
        "updated_at": MAY,
        **fields,
    }
    return Subscription(**values)


OWN = of(MAY, JUNE)
STAGE = of(MAY, JUNE, id="stage", invoicing_reason=InvoicingReason.PROGRESSIVE_BILLING)
NEXT = of(JUNE, JULY, id="next")
ACTIVE = subscription()


@pytest.mark.parametrize(
    ("others", "subscriptions", "settled"),
    [
        ([(OWN, FINAL)], [ACTIVE], [OWN]),
        # Nothing was owed: it is as final.
        ([(OWN, CLOSED)], [ACTIVE], [OWN]),
        # In its grace period; void, so that it may be made again.
        ([(OWN, DRAFT)], [ACTIVE], []),
        ([(OWN, VOID)], [ACTIVE], []),
        # What a threshold billed ahead of it, and is still open.
        ([(OWN, FINAL), (STAGE, FINAL)], [ACTIVE], [OWN, STAGE]),
        ([(OWN, FINAL), (STAGE, InvoiceStatus.PENDING)], [ACTIVE], []),
        # The next period has a window of its own.
        ([(OWN, FINAL), (NEXT, DRAFT)], [ACTIVE], [OWN]),
        # Another one shares some days.
        ([(OWN, FINAL), (of(JUNE - timedelta(days=1), JULY, id="shares"), FINAL)], [ACTIVE], []),
        # What it counted was not kept.
        ([(replace(OWN, counted=None), FINAL)], [ACTIVE], []),
        # Another subscription of the same id has been billed that far, has not, has ended, or begins afterwards.
        ([(OWN, FINAL)], [ACTIVE, subscription(id="other")], []),
        ([(OWN, FINAL), (replace(NEXT, subscription_id="other"), FINAL)], [ACTIVE, subscription(id="other")], [OWN]),
        ([(OWN, FINAL)], [ACTIVE, subscription(id="other", status=SubscriptionStatus.TERMINATED)], [OWN]),
        ([(OWN, FINAL)], [ACTIVE, subscription(id="other", started_at=JUNE)], [OWN]),
        # It has not started, but will have begun then.
        ([(OWN, FINAL)], [ACTIVE, subscription(id="other", started_at=None, status=SubscriptionStatus.PENDING)], []),
    ],
)
def test_events_go_once_nothing_counts_their_window_again(
    others: list[tuple[BillingPeriod, InvoiceStatus]], subscriptions: list[Subscription], settled: list[BillingPeriod]
) -> None:
    found = settled_with(OWN, [Billed(one, status) for one, status in others], subscriptions)
    assert list(found) == settled


def test_a_threshold_alone_settles_no_period() -> None:
    assert settled_with(STAGE, [Billed(STAGE, FINAL)], [subscription(status=SubscriptionStatus.TERMINATED)]) == ()


def test_the_day_that_an_end_bills_alone_keeps_its_events() -> None:
    ended = of(
        MAY,
        JUNE,
        invoicing_reason=InvoicingReason.TERMINATING,
        subscription_to_datetime=JUNE - timedelta(days=1) - INSTANT,
    )
    assert ended.last_day_from is not None
    assert settled_with(ended, [Billed(ended, FINAL)], []) == ()


@pytest.mark.parametrize(
    ("charges", "needed", "codes"),
    [
        ([charge("gb"), charge("calls")], (), ("calls", "gb")),
        # A level goes on; an event that was paid in advance is known by its transaction id.
        ([charge("gb"), charge("seats", recurring=True)], (), ("gb",)),
        ([charge("gb"), charge("calls", pay_in_advance=True)], (), ("gb",)),
        ([charge("gb"), charge("gb", pay_in_advance=True)], (), ()),
        # By now.
        ([charge("gb"), charge("calls")], ("calls",), ("gb",)),
    ],
)
def test_codes_whose_events_go(charges: list[CountedCharge], needed: tuple[str, ...], codes: tuple[str, ...]) -> None:
    assert removable_codes([replace(OWN, counted=counted(*charges))], needed) == codes


@pytest.mark.parametrize(
    ("now", "months", "before"),
    [
        (datetime(2024, 4, 15, 12, tzinfo=UTC), 1, datetime(2024, 3, 15, 12, tzinfo=UTC)),
        (datetime(2024, 3, 31, tzinfo=UTC), 1, datetime(2024, 2, 29, tzinfo=UTC)),
        (datetime(2024, 1, 31, tzinfo=UTC), 2, datetime(2023, 11, 30, tzinfo=UTC)),
        (datetime(2024, 1, 1, tzinfo=UTC), 13, datetime(2022, 12, 1, tzinfo=UTC)),
    ],
)
def test_months_before(now: datetime, months: int, before: datetime) -> None:
    assert months_before(now, months) == before


def test_a_digest_is_the_same_in_one_step_or_in_many_and_tells_every_event() -> None:
    def event(number: int, value: object) -> Event:
        return Event(f"{number}", "o", f"t{number}", "gb", "sub", MAY, {"value": str(value)}, None, MAY)

    empty = RemovedEvents(code="gb", fees="", field_name="value")
    events = [event(1, "1.5"), event(2, "2"), event(3, "none")]
    whole = with_removed(empty, events)
    assert (whole.events_count, whole.total) == (3, Decimal("3.5"))
    steps = with_removed(with_removed(empty, events[:1]), events[1:])
    assert steps == whole
    assert with_removed(empty, [*events[:2], event(3, "other")]).digest != whole.digest
    assert with_removed(replace(empty, field_name=None), events).total == 0
