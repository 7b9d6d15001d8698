"""Progressive billing: usage is invoiced as soon as it passes a threshold, not only at the end of its period.

A subscription's lifetime usage is the usage before it was imported (historical), the usage its invoices have billed,
and that of the running period. Fixed thresholds are passed once in a lifetime, a recurring one repeatedly after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from usagebill.core.fees import Fee, FeeType, TaxKeys
from usagebill.core.numbers import ONE, ZERO, add, divide, multiply, round_to, subtract, total, truncate_cents
from usagebill.core.plans import UsageThreshold
from usagebill.core.taxes import net_of_coupons

_SHARE_DECIMALS = 5
# Shares are rounded: what is less than this many cents is not left over.
NOTHING = Decimal("0.01")

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifetimeUsage:
    """Usage of a subscription before it was imported (cents).

    A lifetime spans all subscriptions that followed each other by plan changes; `subscription_id` is one of them.
    """

    id: str
    organization_id: str
    subscription_id: str
    external_subscription_id: str
    created_at: datetime
    updated_at: datetime
    external_historical_usage_amount_cents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The progress of lifetime usage to a threshold: a ratio from 0 to 1, and when it was reached."""

    amount_cents: int
    ratio: Decimal
    reached_at: datetime | None


def _fixed(thresholds: Iterable[UsageThreshold]) -> list[UsageThreshold]:
    return sorted(
        (threshold for threshold in thresholds if not threshold.recurring), key=lambda threshold: threshold.amount_cents
    )


def _recurring(thresholds: Iterable[UsageThreshold]) -> UsageThreshold | None:
    return next((threshold for threshold in thresholds if threshold.recurring), None)


def passed_thresholds(
    thresholds: Sequence[UsageThreshold], *, invoiced_cents: int, current_cents: int, billed_cents: int
) -> list[UsageThreshold]:
    """The thresholds that usage has passed since it was last invoiced, smallest first, a recurring one at the end.

    `invoiced_cents` is historical and invoiced lifetime usage, `current_cents` all usage of the running period, and
    `billed_cents` the part of it that the period's last progressive billing invoice has billed.
    """
    current = current_cents - billed_cents
    if current < 0:
        return []
    invoiced = invoiced_cents + billed_cents
    total = invoiced + current
    fixed = _fixed(thresholds)
    recurring = _recurring(thresholds)
    largest = fixed[-1].amount_cents if fixed else 0
    if invoiced < largest:
        passed = [threshold for threshold in fixed if invoiced < threshold.amount_cents <= total]
        if recurring is not None and total - largest >= recurring.amount_cents:
            passed.append(recurring)
        return passed
    if recurring is None:
        return []
    since = invoiced % recurring.amount_cents
    return [recurring] if current + since >= recurring.amount_cents else []


def completions(
    thresholds: Sequence[UsageThreshold], total_cents: int, reached: Mapping[int, datetime], now: datetime
) -> list[Completion]:
    """The thresholds that `total_cents` of lifetime usage has passed, then the progress to the next one.

    `reached` maps amounts of lifetime usage to the instant of an invoice for at least that much; thresholds without one
    were reached now.
    """
    fixed = _fixed(thresholds)
    recurring = _recurring(thresholds)
    progress = []
    last = 0
    is_open = True
    for threshold in fixed:
        if threshold.amount_cents <= total_cents:
            progress.append(_reached(threshold.amount_cents, reached, now))
            last = threshold.amount_cents
        elif is_open:
            ratio = divide(Decimal(total_cents - last), Decimal(threshold.amount_cents - last))
            progress.append(Completion(amount_cents=threshold.amount_cents, ratio=ratio, reached_at=None))
            is_open = False
        else:
            progress.append(Completion(amount_cents=threshold.amount_cents, ratio=ZERO, reached_at=None))
    if recurring is None:
        return progress
    step = recurring.amount_cents
    if not is_open:
        return [*progress, Completion(amount_cents=fixed[-1].amount_cents + step, ratio=ZERO, reached_at=None)]
    times = (total_cents - last) // step
    progress += [_reached(last + number * step, reached, now) for number in range(1, times + 1)]
    beyond = (total_cents - last) % step
    progress.append(
        Completion(
            amount_cents=last + (times + 1) * step, ratio=divide(Decimal(beyond), Decimal(step)), reached_at=None
        )
    )
    return progress


def _reached(amount_cents: int, reached: Mapping[int, datetime], now: datetime) -> Completion:
    earliest = min((at for amount, at in reached.items() if amount >= amount_cents), default=now)
    return Completion(amount_cents=amount_cents, ratio=ONE, reached_at=earliest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveFee:
    """A usage fee of a progressive billing invoice: the cents of usage so far that the last of these invoices lists for
    it (0 on the others), and those that this one bills itself: less what was billed before, coupons and what it gave
    back, which is `given_back_cents` before coupons. `taxes` are those on them.
    """

    charge_id: str
    charge_filter_id: str | None
    grouped_by: Mapping[str, str | None]
    amount_cents: int
    net_cents: Decimal = ZERO
    given_back_cents: Decimal = ZERO
    taxes: TaxKeys = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduction:
    """The `cents` that an invoice deducts of what was billed before, its `fees` with their shares of them, and the
    `surplus`: the cents that were billed for usage that is no more, by the taxes on them.
    """

    fees: list[Fee]
    cents: int
    surplus: Mapping[TaxKeys, int]


# The place of an invoice among others: the creation of the first one in that place, and its id.
Place = tuple[datetime, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledAhead:
    """A progressive billing invoice of a period that is in force: the cents of usage so far that it lists, and those of
    them that it bills itself.

    A regenerated invoice has the place of the voided one.
    """

    place: Place
    usage_cents: int
    billed_cents: int


def already_billed(ahead: Sequence[BilledAhead], place: Place, usage_cents: int) -> int:
    """The cents that the progressive billing invoices in force have billed of the period's `usage_cents` until a place.

    Usage that later ones list beyond those is not meant, though they have billed it. Each later one leaves room only
    for what those until it have not billed of its own usage: so voided invoices may be regenerated in any order, those
    in force bill no usage twice whichever others are void, and together bill it once.
    """
    billed = sum(other.billed_cents for other in ahead if other.place <= place)
    most = max(0, billed)
    for later in sorted((other for other in ahead if other.place > place), key=lambda other: other.place):
        billed += later.billed_cents
        most = max(most, billed - max(0, later.usage_cents - usage_cents))
    return most


def fees_billed_before(fees: Iterable[Fee], billed: Sequence[ProgressiveFee], subscription_id: str) -> list[Fee]:
    """Those of `fees` whose charges a progressive billing invoice has billed."""
    charges = {fee.charge_id for fee in billed}
    return [
        fee
        for fee in fees
        if fee.subscription_id == subscription_id and fee.fee_type == FeeType.CHARGE and fee.charge_id in charges
    ]


def paid_ahead(fees: Sequence[Fee], billed: Sequence[ProgressiveFee], returned_cents: int) -> dict[str, Decimal]:
    """The cents (less coupons) that were billed before of each of `fees`, by id, less those by which its usage has
    fallen since. Of these, `returned_cents` went back to coupons: they had not been paid.
    """
    fee_of = _by_usage(fees)
    amount_of = {fee.id: Decimal(fee.amount_cents) for fee in fees}
    listed: dict[str, Decimal] = {}
    paid: dict[str, Decimal] = {}
    for earlier in billed:
        fee_id = fee_of.get(_usage(earlier))
        if fee_id is not None:
            # A draft that is settled again has given back what fell.
            left = subtract(Decimal(earlier.amount_cents), earlier.given_back_cents)
            listed[fee_id] = add(listed.get(fee_id, ZERO), left)
            paid[fee_id] = add(paid.get(fee_id, ZERO), max(earlier.net_cents, ZERO))
    fallen = {id: max(subtract(cents, amount_of[id]), ZERO) for id, cents in listed.items()}
    unpaid = {
        id: divide(multiply(fallen[id], max(subtract(cents, paid[id]), ZERO)), cents)
        for id, cents in listed.items()
        if cents > ZERO
    }
    returned = _scaled(unpaid, Decimal(returned_cents))
    return {
        id: kept
        for id in returned
        if (kept := min(subtract(paid[id], max(subtract(fallen[id], returned[id]), ZERO)), amount_of[id])) > ZERO
    }


def deduction(
    fees: Sequence[Fee],
    billed: Sequence[ProgressiveFee],
    billed_cents: int,
    taxes: Mapping[str, TaxKeys] | None,
    *,
    most_cents: int,
) -> Deduction:
    """What `fees` owe no more, as `billed_cents` (less coupons) of `billed` have been paid: at most `most_cents`.

    `fees` are `fees_billed_before` with their shares of coupons, `taxes` their taxes by fee id; None if these are not
    known. Each fee is deducted what was billed for its own charge, filter and group. What was billed beyond its amount
    is taken from the open amounts of fees with the same taxes, and is surplus if there are none: on other fees it would
    change the taxes that are due. Shares have five decimals and add up to the deducted cents.
    """
    fee_of = _by_usage(fees)
    room = {fee.id: _open(fee) for fee in fees}
    shares = dict.fromkeys(room, ZERO)
    beyond: dict[TaxKeys, Decimal] = {}
    for earlier in billed:
        fee_id = fee_of.get(_usage(earlier))
        net = max(earlier.net_cents, ZERO)
        share = ZERO if fee_id is None else min(net, subtract(room[fee_id], shares[fee_id]))
        if fee_id is not None:
            shares[fee_id] = add(shares[fee_id], share)
        key = earlier.taxes if taxes is not None else frozenset()
        beyond[key] = add(beyond.get(key, ZERO), subtract(net, share))
    # Of usage that other invoices deduct as well, these fees come first.
    wanted = max(subtract(Decimal(billed_cents), total(shares.values())), ZERO)
    beyond = _scaled(beyond, wanted) if total(beyond.values()) > wanted else beyond
    for key, cents in beyond.items():
        same = [fee.id for fee in fees if taxes is None or taxes.get(fee.id, frozenset()) == key]
        spread = _spread(cents, {id: subtract(room[id], shares[id]) for id in same})
        shares |= {id: add(shares[id], share) for id, share in spread.items()}
        beyond[key] = subtract(cents, total(spread.values()))
    surplus = {key: truncate_cents(cents) for key, cents in beyond.items()}
    most_cents = min(most_cents, truncate_cents(add(total(net_of_coupons(fee) for fee in fees), NOTHING)))
    deducted_cents = max(min(billed_cents - sum(surplus.values()), most_cents), 0)
    if deducted_cents < billed_cents - sum(surplus.values()):
        key = max(surplus, key=lambda key: surplus[key], default=frozenset())
        surplus[key] = surplus.get(key, 0) + billed_cents - sum(surplus.values()) - deducted_cents
    missing = subtract(Decimal(deducted_cents), total(shares.values()))
    if missing < ZERO:
        shares = _scaled(shares, Decimal(deducted_cents))
    else:
        spread = _spread(missing, {id: subtract(room[id], shares[id]) for id in room})
        shares |= {id: add(shares[id], share) for id, share in spread.items()}
    return Deduction(
        fees=[_with_share(fee, shares[fee.id]) for fee in fees],
        cents=deducted_cents,
        surplus={key: cents for key, cents in surplus.items() if cents > 0},
    )


def _scaled(parts: Mapping[_Key, Decimal], wanted: Decimal) -> dict[_Key, Decimal]:
    """The parts, in the same proportions, so that they add up to `wanted`."""
    whole = total(parts.values())
    return {key: divide(multiply(part, wanted), whole) if whole > ZERO else ZERO for key, part in parts.items()}


def _spread(cents: Decimal, room: Mapping[_Key, Decimal]) -> dict[_Key, Decimal]:
    """Cents in proportion to the room for them; no more than that."""
    return _scaled(room, min(cents, total(room.values())))


def _by_usage(fees: Iterable[Fee]) -> dict[tuple[object, ...], str]:
    return {_usage(fee): fee.id for fee in fees if fee.true_up_parent_fee_id is None}


def _usage(fee: Fee | ProgressiveFee) -> tuple[object, ...]:
    return fee.charge_id, fee.charge_filter_id, tuple(sorted(fee.grouped_by.items()))


def _open(fee: Fee) -> Decimal:
    return max(net_of_coupons(fee), ZERO)


def _with_share(fee: Fee, cents: Decimal) -> Fee:
    share = min(round_to(cents, _SHARE_DECIMALS), _open(fee))
    return replace(fee, precise_coupons_amount_cents=add(fee.precise_coupons_amount_cents, share))
