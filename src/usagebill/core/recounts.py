"""Recounting: whether an issued line still follows from its events, its plan and its days.

A recomputed line either agrees, or differs and yields a finding, or cannot be judged because its inputs have changed:
such a line is counted as left out, with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from usagebill.core.audit import Finding
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.charge_ledger import group_text
from usagebill.core.events import Event
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.life_cycle import ISSUED
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ZERO, decimal_text, parse_decimal, round_cents, round_to
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.removed_events import RemovedEvents
from usagebill.core.subscription_fees import prorated
from usagebill.core.subscriptions import Subscription, subscription_at

# A plan change counts from the midnight before the job that makes it: in between, either plan may have billed an event.
_PLAN_CHANGE = timedelta(hours=26)

# Credits for the time after an end that was paid in advance: lines of credit notes, recounted beside fees.
UNUSED_TIME: Final = "unused_time"
# Kinds of recounted lines, under their names in reports.
KINDS: Final[Mapping[str, str]] = {
    "usage": "usage fees",
    "usage_in_advance": "usage fees in advance",
    "subscription": "subscription fees",
    "fixed_charge": "fixed charge fees",
    "commitment": "commitment fees",
    UNUSED_TIME: "credits for unused time",
}

# Reasons why a line cannot be judged.
CHANGED: Final = "billed before price versions were kept, and the charge, metric or plan has changed since"
AGAIN_BY_HAND: Final = "put by hand on an invoice that takes the place of a void one"
SAME_INSTANT: Final = "events came in at the very instant of the count"
WHILE_MADE: Final = "events came in before the count whose instant is not kept"
INVOICES_CHANGED: Final = "fees or invoices that were counted with it have changed since"
MOVED: Final = "the customer has moved to another time zone in the period"
EVENTS_REMOVED: Final = "their events were removed; they are as they were recounted then"
UNKNOWN_PERIOD: Final = "the records do not say for which period"

_COMPARED: Final = (
    "units",
    "events_count",
    "total_aggregated_units",
    "precise_amount_cents",
    "amount_cents",
    "from_datetime",
    "to_datetime",
    "charges_from_datetime",
    "charges_to_datetime",
)
_PRECISE_DECIMALS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Lines of a kind (`KINDS`) that could not be recounted, and why."""

    kind: str
    reason: str
    count: int


def kind_of(fee: Fee) -> str | None:
    """The kind (`KINDS`) under which the fee is recounted; None for fees that derive from nothing else."""
    if fee.fee_type == FeeType.CHARGE:
        return "usage_in_advance" if fee.event_transaction_id is not None else "usage"
    return fee.fee_type if fee.fee_type in KINDS else None


def line_key(fee: Fee) -> tuple[object, ...]:
    """The key of a line: a billing period has one line for each."""
    return (
        fee.fee_type,
        fee.charge_id,
        fee.charge_filter_id,
        fee.fixed_charge_id,
        group_text(fee.grouped_by),
        fee.true_up_parent_fee_id is not None,
        fee.event_transaction_id,
        fee.charges_from_datetime,
    )


def fees_digest(fees: Iterable[Fee]) -> str:
    """A digest of lines: of everything that a recount compares."""
    lines = sorted(
        json.dumps([line_key(fee), [_canonical(getattr(fee, name)) for name in _COMPARED]], default=str) for fee in fees
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _canonical(value: object) -> object:
    return decimal_text(value) if isinstance(value, Decimal) else value


def removed_findings(number: str, id: str, series: RemovedEvents, stored: Sequence[Fee]) -> Iterator[Finding]:
    """Whether the `stored` lines of a period are those that were counted from the events that were removed."""
    found = fees_digest(stored)
    if found != series.fees:
        detail = f"lines of {series.code}, whose {series.events_count} events were removed"
        yield _finding("fee_recount", number, id, detail, f"digest {series.fees}", f"digest {found}")


def differences(number: str, id: str, expected: Fee | None, stored: Fee | None) -> Iterator[Finding]:
    """The differences between the `stored` line of the invoice `number` (`id`) and the `expected` one from the
    recount.
    """
    if expected is None or stored is None:
        fee = stored or expected
        if fee is not None:
            check = "fee_missing" if stored is None else "fee_recount"
            detail = f"fee of {_named(fee)}"
            yield _finding(check, number, id, detail, _shown(expected), _shown(stored))
        return
    for name in _COMPARED:
        expected_value, actual = getattr(expected, name), getattr(stored, name)
        if name == "total_aggregated_units" and actual is not None:
            # Negative units used to be stored.
            actual = max(actual, ZERO)
        if expected_value != actual:
            yield _finding(
                "fee_recount", number, id, f"fee {stored.id} ({_named(stored)}) {name}", expected_value, actual
            )


def _named(fee: Fee) -> str:
    parts = [fee.item.code]
    if fee.filters:
        parts.append("/".join("+".join(values) for values in fee.filters.values()))
    parts += [f"{name}={value}" for name, value in fee.grouped_by.items()]
    return " ".join(parts)


def _shown(fee: Fee | None) -> str:
    return "no such line" if fee is None else f"{fee.units} units, {fee.amount_cents} cents"


def _finding(check: str, number: str, id: str, detail: str, expected: object, actual: object) -> Finding:
    return Finding(
        check=check,
        subject=f"invoice {number}",
        subject_id=id,
        detail=detail,
        expected=str(expected),
        found=str(actual),
    )


def judged(
    number: str, id: str, expected: Iterable[Fee], stored: Sequence[Fee]
) -> list[tuple[Fee, bool, tuple[Finding, ...]]]:
    """Each line, whether it is stored, and its differences from the recount."""
    expected_by_key = {line_key(fee): fee for fee in expected}
    stored_by_key = {line_key(fee): fee for fee in stored}
    return [
        (
            stored_by_key.get(key) or expected_by_key[key],
            key in stored_by_key,
            tuple(differences(number, id, expected_by_key.get(key), stored_by_key.get(key))),
        )
        for key in dict.fromkeys((*stored_by_key, *expected_by_key))
    ]


def own_copies(number: str, id: str, fee: Fee) -> Iterator[Finding]:
    """A subscription fee is its stored plan amount for its stored days; a commitment fee is its stored gap to the
    minimum. No finding without stored values.
    """
    if fee.fee_type == FeeType.SUBSCRIPTION:
        amount, days, of_days = (
            _whole(fee.amount_details.get("plan_amount_cents")),
            _whole(fee.basis.get("days")),
            _whole(fee.basis.get("period_days")),
        )
        if amount is None or days is None or not of_days or fee.units != 1:
            return
        precise = round_to(prorated(amount, days, of_days), _PRECISE_DECIMALS)
        if precise != fee.precise_amount_cents:
            detail = f"fee {fee.id} ({fee.item.code}) {days} of {of_days} days of {amount}"
            yield _finding("fee_recount", number, id, detail, precise, fee.precise_amount_cents)
    elif fee.fee_type == FeeType.COMMITMENT:
        minimum, days, of_days, used = (
            _whole(fee.basis.get(name)) for name in ("minimum_cents", "days", "period_days", "used_cents")
        )
        if minimum is None or days is None or not of_days or used is None:
            return
        due = round_cents(prorated(minimum, days, of_days))
        if due - used != fee.amount_cents:
            detail = f"fee {fee.id} (minimum commitment) {due} less {used}"
            yield _finding("fee_recount", number, id, detail, due - used, fee.amount_cents)


def _whole(value: object) -> int | None:
    number = value if isinstance(value, Decimal) else parse_decimal(str(value))
    return int(number) if number is not None and number == number.to_integral_value() else None


def touched(
    record: Charge | FixedCharge | BillableMetric | Plan, at: datetime, price_version: int | None = None
) -> bool:
    """Whether the record may have changed since `at`; one of a known price version has not."""
    return price_version is None and (record.updated_at >= at or record.created_at >= at)


def is_changed_beside(other: Invoice, invoice: Invoice, at: datetime) -> bool:
    """Whether another invoice of the customer may count differently for `invoice` now than at `at`."""
    if other.status not in ISSUED or other.created_at == invoice.created_at:
        return True
    return any(instant is not None and instant >= at for instant in (other.finalized_at, other.voided_at))


def is_alone(subscriptions: Sequence[Subscription], subscription: Subscription, event: Event) -> bool:
    """Whether the event is the subscription's, and no other one of the same external id can have been billed for it."""
    if subscription_at(subscriptions, event.timestamp, event.created_at) != subscription:
        return False
    return not any(
        other.id != subscription.id
        and other.started_at is not None
        and other.started_at <= event.timestamp + _PLAN_CHANGE
        and (other.terminated_at is None or other.terminated_at >= event.timestamp - _PLAN_CHANGE)
        for other in subscriptions
    )
