"""Look-ups of periods whose events were removed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from usagebill.core.errors import NotAllowed
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BillingPeriod
from usagebill.core.removed_events import RemovedEvents
from usagebill.queries.counted_usage import period_of_fee
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import at_least, at_most, present, within

# No event is removed earlier: the shortest retention is a month.
_KEPT = timedelta(days=28)


def may_be_gone(reader: Reader, instant: datetime) -> bool:
    """Whether events of that instant may have been removed."""
    return instant < reader.now - _KEPT


def removed_in(
    reader: Reader, external_subscription_ids: Collection[str], start: datetime, end: datetime
) -> list[BillingPeriod]:
    """The billing periods of these subscription ids that share time with the window, and whose events were removed."""
    return reader.tx.find(
        BillingPeriod,
        within("external_subscription_id", sorted(external_subscription_ids)),
        at_most("charges_from_datetime", end),
        at_least("charges_to_datetime", start),
        present("events_removed_at"),
    )


def check_events_are_there(
    reader: Reader, external_subscription_id: str, code: str, start: datetime, end: datetime
) -> None:
    """Raises `NotAllowed` for a window of which events with this code were removed: a count would be too low."""
    if not may_be_gone(reader, end):
        return
    key = ("events removed", external_subscription_id, start, end)
    periods = reader.cached(key, lambda: removed_in(reader, [external_subscription_id], start, end))
    if any(series.code == code for period in periods for series in period.removed):
        raise NotAllowed("events_were_removed")


def were_removed(reader: Reader, code: str) -> bool:
    """Whether events with this code were removed of any period."""
    return any(
        series.code == code
        for period in reader.tx.each(BillingPeriod, present("events_removed_at"))
        for series in period.removed
    )


def removed_of(reader: Reader, fee: Fee) -> tuple[datetime, RemovedEvents] | None:
    """Since when the events that a usage fee in arrears counted are removed, and what is kept of those of its period;
    None if they are there.
    """
    period = None if fee.event_transaction_id is not None else period_of_fee(reader, fee)
    if period is None or period.events_removed_at is None or period.counted is None:
        return None
    codes = {charge.code for charge in period.counted.charges if charge.id == fee.charge_id}
    series = next((series for series in period.removed if series.code in codes), None)
    return None if series is None else (period.events_removed_at, series)
