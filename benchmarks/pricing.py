"""How fast a graduated charge with three ranges is priced on one core, next to the same arithmetic written inline.

Floors: 60,000 prices a second, and 0.3 of the speed of the inline arithmetic, both measured in the same run.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from decimal import Decimal

from usagebill.core.pricing import parse_properties, price
from usagebill.core.usage import Usage

PRICES_A_SECOND = 60_000
SHARE_OF_INLINE = 0.3
REPEATS = 5
ROUND = 50_000

RANGES = [(0, 10, "10", "2"), (11, 20, "5", "3"), (21, None, "2.5", "4")]
UNITS = Decimal("25.5")


TEN, TWENTY = Decimal(10), Decimal(20)
FIRST, SECOND, THIRD = Decimal(10), Decimal(5), Decimal("2.5")
FLAT_FIRST, FLAT_SECOND, FLAT_THIRD = Decimal(2), Decimal(3), Decimal(4)


def inline(units: Decimal) -> Decimal:
    """Three ranges as anybody would write them down."""
    amount = min(units, TEN) * FIRST + FLAT_FIRST
    if units > TEN:
        amount += (min(units, TWENTY) - TEN) * SECOND + FLAT_SECOND
    if units > TWENTY:
        amount += (units - TWENTY) * THIRD + FLAT_THIRD
    return amount


def seconds(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=ROUND, repeat=REPEATS)) / ROUND


def main() -> int:
    ranges = [
        {"from_value": start, "to_value": end, "per_unit_amount": rate, "flat_amount": flat}
        for start, end, rate, flat in RANGES
    ]
    properties = parse_properties("graduated", {"graduated_ranges": ranges}, subunits=100)
    usage = Usage(units=UNITS)
    found = price("graduated", properties, usage)
    if found.amount != inline(UNITS):
        print(f"pricing: {found.amount} is not {inline(UNITS)}")
        return 1
    ours = seconds(lambda: price("graduated", properties, usage))
    theirs = seconds(lambda: inline(UNITS))
    rate, share = 1 / ours, theirs / ours
    print(f"pricing: {rate:,.0f} graduated prices a second (floor {PRICES_A_SECOND:,})")
    print(f"pricing: {share:.2f} of the speed of inline arithmetic (floor {SHARE_OF_INLINE})")
    return 0 if rate >= PRICES_A_SECOND and share >= SHARE_OF_INLINE else 1


if __name__ == "__main__":
    sys.exit(main())
