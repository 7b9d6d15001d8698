"""Periods: which days a subscription is billed for, from which instant to which, and when the billing runs.

`calendar` knows intervals and local days, `boundaries` the six instants of a billing record, `schedule` the clock.
Every instant is an aware UTC datetime; every decision about dates is taken in the customer's time zone.
"""

from usagebill.core.periods.boundaries import (
    Boundaries,
    Cycle,
    Succession,
    Window,
    advance_window,
    begun,
    billing_boundaries,
    current_billing_period,
    current_boundaries,
    day_before_next,
    downgrade_plan_date,
    ended_on_boundary_day,
    is_back,
    is_same_end,
    is_same_period,
    last_billed_day,
    opens_interval,
    resumed,
)
from usagebill.core.periods.calendar import (
    BillingTime,
    Interval,
    Period,
    add_months,
    day_end,
    day_start,
    next_period,
    period_containing,
    previous_period,
)

__all__ = [
    "BillingTime",
    "Boundaries",
    "Cycle",
    "Interval",
    "Period",
    "Succession",
    "Window",
    "add_months",
    "advance_window",
    "begun",
    "billing_boundaries",
    "current_billing_period",
    "current_boundaries",
    "day_before_next",
    "day_end",
    "day_start",
    "downgrade_plan_date",
    "ended_on_boundary_day",
    "is_back",
    "is_same_end",
    "is_same_period",
    "last_billed_day",
    "next_period",
    "opens_interval",
    "period_containing",
    "previous_period",
    "resumed",
]
