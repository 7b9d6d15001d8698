"""weighted_sum_agg: a level that events change, averaged over the seconds of the period."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from usagebill.core.aggregation.metric import Window
from usagebill.core.aggregation.tally import AggregateResult, Aggregation
from usagebill.core.events import Event, numeric_value
from usagebill.core.instants import MICROSECOND
from usagebill.core.numbers import CONTEXT, ZERO, add, ceil_to, divide, multiply, round_to, subtract

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_OF_A_DAY = 86400
_DECIMALS = 20


def quotient(numerator: Decimal, denominator: Decimal) -> Decimal:
    """`numerator / denominator`, half away from zero at the number of decimals that weighted sums have always shown.

    With both written in base 10000: w the place of the leading digit, L its value, q the difference of the places, one
    less if the numerator's L is not larger; decimals = max(16 - 4 q, those of either, 0).
    """
    if numerator.is_zero():
        return ZERO
    places, leading = zip(*(_leading_digit(number.copy_abs()) for number in (numerator, denominator)), strict=True)
    weight = places[0] - places[1] - (1 if leading[0] <= leading[1] else 0)
    decimals = max(16 - 4 * weight, _decimals(numerator), _decimals(denominator), 0)
    return round_to(divide(numerator, denominator), decimals)


def _leading_digit(number: Decimal) -> tuple[int, int]:
    place = number.adjusted() // 4
    return place, int(CONTEXT.scaleb(number, -4 * place))


def _decimals(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """The sum of the changes, the sum of change x microseconds since 1970, the number of changes, and the last
    timestamp.

    These determine the area under the level: each change contributes itself times the time from it to the end.
    """

    change: Decimal = ZERO
    moment: Decimal = ZERO
    events_count: int = 0
    last_at: datetime | None = None
    amount_cents: Decimal = ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Aggregation[Weighted]):
    """The changes of a level by `field_name`, and their moments, from which `weighed` computes the average level.

    Events before `start` count as if they were at that instant; None: each at its own timestamp.
    """

    field_name: str | None
    start: datetime | None

    def empty(self) -> Weighted:
        return Weighted()

    def of(self, event: Event) -> Weighted:
        value = numeric_value(event, self.field_name)
        if value is None:
            return Weighted()
        at = event.timestamp if self.start is None else max(event.timestamp, self.start)
        return Weighted(
            change=value,
            moment=multiply(value, _microseconds(at)),
            events_count=1,
            last_at=event.timestamp,
            amount_cents=event.precise_total_amount_cents or ZERO,
        )

    def merge(self, left: Weighted, right: Weighted) -> Weighted:
        return Weighted(
            change=add(left.change, right.change),
            moment=add(left.moment, right.moment),
            events_count=left.events_count + right.events_count,
            last_at=max((at for at in (left.last_at, right.last_at) if at is not None), default=None),
            amount_cents=add(left.amount_cents, right.amount_cents),
        )

    def result(self, state: Weighted) -> AggregateResult:
        return AggregateResult(
            units=state.change,
            events_count=state.events_count,
            amount_cents=state.amount_cents,
            last_at=state.last_at,
            moment=state.moment,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSum(Changes):
    """The average level over a period of `period_days` days of 86,400 seconds.

    The level is `initial` at `start`; each event changes it by its `field_name`; it is held until `end` rounded up to
    the whole second. units = sum of level x seconds / (period_days x 86,400), rounded up at 20 decimals. Events must
    lie in [start, end]; those of the second of `start` before it change the level at `start`. events_count are the
    numeric events, `level` is what it stands at in the end.
    """

    start: datetime
    end: datetime
    period_days: int
    initial: Decimal = ZERO

    def result(self, state: Weighted) -> AggregateResult:
        end = self.end + (timedelta(seconds=1) if self.end.microsecond else timedelta(0))
        end_at = _microseconds(end.replace(microsecond=0))
        carried = multiply(self.initial, subtract(end_at, _microseconds(self.start)))
        changed = subtract(multiply(state.change, end_at), state.moment)
        area = CONTEXT.scaleb(add(carried, changed), -6)
        return AggregateResult(
            units=ceil_to(quotient(area, Decimal(self.period_days * _SECONDS_OF_A_DAY)), _DECIMALS),
            events_count=state.events_count,
            amount_cents=state.amount_cents,
            level=add(self.initial, state.change),
            last_at=state.last_at,
        )


def weighed(tally: AggregateResult, window: Window, initial: Decimal = ZERO) -> AggregateResult:
    """The result of a weighted sum over `window` from level `initial`, of the changes that an engine has tallied."""
    weighted = WeightedSum(
        field_name=None, start=window.start, end=window.end, period_days=window.period_days, initial=initial
    )
    changes = Weighted(
        change=tally.units,
        moment=tally.moment,
        events_count=tally.events_count,
        last_at=tally.last_at,
        amount_cents=tally.amount_cents,
    )
    return weighted.result(changes)


def _microseconds(instant: datetime) -> Decimal:
    return Decimal((instant - _EPOCH) // MICROSECOND)
