"""The shortest life that still breaks a sum in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.lives.life import Life, PlanTerms


def kind_of(violation: str) -> str:
    """The sum that is broken, and on what."""
    name, _, detail = violation.partition(": ")
    if name == "what it costs":
        return f"{name}: {detail.partition(', ')[2].partition(':')[0]}"
    if name == "while it ran":
        return f"{name}: {' '.join(word for word in detail.split() if word.isalpha())[:40]}"
    return name


def kinds_of(violations: list[str]) -> set[str]:
    return {kind_of(violation) for violation in violations}


def shrunk(life: Life, fails: Callable[[Life], bool], at_most: int = 400) -> Life:
    """`life` without the steps and terms that its failure does not need."""
    tries = 0
    shorter = True
    while shorter:
        shorter = False
        for candidate in _shorter(life):
            tries += 1
            if tries > at_most:
                return life
            if fails(candidate):
                life, shorter = candidate, True
                break
    return life


def _shorter(life: Life) -> Iterator[Life]:
    count = len(life.steps)
    for size in (count // 2, count // 4):
        if size > 1:
            for start in range(0, count, size):
                yield replace(life, steps=life.steps[:start] + life.steps[start + size :])
    for place in reversed(range(count)):
        yield replace(life, steps=life.steps[:place] + life.steps[place + 1 :])
    plainer = (
        replace(life, grace=0),
        replace(life, tax=""),
        replace(life, wallet=0),
        replace(life, anniversary=False),
        replace(life, zone="UTC"),
        replace(life, beside=None, steps=tuple(step for step in life.steps if step.what != "beside")),
    )
    yield from (candidate for candidate in plainer if candidate != life)
    for coupon in life.coupons:
        yield replace(life, coupons=tuple(other for other in life.coupons if other != coupon))
        if "." in coupon:
            unlimited = coupon.partition(".")[0]
            yield replace(life, coupons=tuple(unlimited if other == coupon else other for other in life.coupons))
    for place, plan in enumerate(life.plans):
        for simpler in _simpler(plan):
            yield replace(life, plans=(*life.plans[:place], simpler, *life.plans[place + 1 :]))


def _simpler(plan: PlanTerms) -> Iterator[PlanTerms]:
    plainer = (
        replace(plan, trial=0),
        replace(plan, commitment=0),
        replace(plan, thresholds=()),
        replace(plan, recurring_threshold=0),
        replace(plan, fixed=None, fixed_ahead=False, fixed_prorated=False),
        replace(plan, ahead=False),
        replace(plan, split=False),
    )
    yield from (candidate for candidate in plainer if candidate != plan)
    if plan.amount and plan.amount != 3100:
        yield replace(plan, amount=0)
        yield replace(plan, amount=3100)
    for code in plan.charges:
        yield replace(plan, charges=tuple(other for other in plan.charges if other != code))
