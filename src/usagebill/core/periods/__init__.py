"""Periods: the days and instants for which a subscription is billed, and when billing runs.

`calendar` defines intervals and local days, `boundaries` the six instants of a billing record, `schedule` the clock.
Every instant is an aware UTC datetime; every decision about dates is made in the customer's time zone.
"""

from usagebill.core.periods.boundaries import (
    Boundaries as Boundaries,
    Cycle as Cycle,
    Succession as Succession,
    Window as Window,
    advance_window as advance_window,
    after_last_billed as after_last_billed,
    billed_through as billed_through,
    billing_boundaries as billing_boundaries,
    current_billing_period as current_billing_period,
    current_boundaries as current_boundaries,
    day_before_next as day_before_next,
    downgrade_plan_date as downgrade_plan_date,
    ended_on_boundary_day as ended_on_boundary_day,
    ends_with_upgrade as ends_with_upgrade,
    first_opening as first_opening,
    from_start as from_start,
    is_empty as is_empty,
    is_same_end as is_same_end,
    is_same_period as is_same_period,
    max_zone_shift as max_zone_shift,
    opens_interval as opens_interval,
    reenters_billed_period as reenters_billed_period,
    usage_windows as usage_windows,
    with_days as with_days,
    without_days_billed as without_days_billed,
)
from usagebill.core.periods.calendar import (
    LONG_INTERVALS as LONG_INTERVALS,
    BillingTime as BillingTime,
    Interval as Interval,
    Period as Period,
    add_months as add_months,
    day_end as day_end,
    day_start as day_start,
    next_period as next_period,
    period_containing as period_containing,
    previous_period as previous_period,
)
