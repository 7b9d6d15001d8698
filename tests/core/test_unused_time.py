"""What is given back of a fee paid in advance: for an early end, and for a subscription that became active late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import fee, item, note, settle

from usagebill.core.credit_note_balance import Balance
from usagebill.core.credit_notes import CreditNote, Parts
from usagebill.core.fees import Fee
from usagebill.core.invoices.life_cycle import InvoiceStatus
from usagebill.core.periods import BillingTime, Cycle, Interval, Succession
from usagebill.core.statuses import PaymentStatus
from usagebill.core.unused_time import carried_amount, carried_credit, late_activation_credit, termination_credit

START = datetime(2024, 5, 1, tzinfo=UTC)
DAYS = 31
A_DAY_CENTS = 100
PLAN_CENTS = DAYS * A_DAY_CENTS


def paid_fee(**fields: Any) -> Fee:
    """The fee of May, in advance."""
    dates = {"from_datetime": START, "to_datetime": datetime(2024, 5, 31, 23, 59, 59, tzinfo=UTC)}
    return fee(PLAN_CENTS, fee_type="subscription", **{**dates, **fields})


def balance(*notes: CreditNote, line: Fee | None = None, paid_cents: int = PLAN_CENTS) -> Balance:
    issued = settle([line or paid_fee()])
    status = PaymentStatus.SUCCEEDED if paid_cents == PLAN_CENTS else PaymentStatus.PENDING
    invoice = replace(
        issued.invoice, status=InvoiceStatus.FINALIZED, payment_status=status, total_paid_amount_cents=paid_cents
    )
    return Balance(invoice=invoice, fees=tuple(issued.fees), notes=notes)


def cycle(**fields: Any) -> Cycle:
    values: dict[str, Any] = {
        "interval": Interval.MONTHLY,
        "billing_time": BillingTime.CALENDAR,
        "pay_in_advance": True,
        "subscription_at": START,
        "started_at": START,
        "tz": UTC,
        **fields,
    }
    return Cycle(**values)


def noon(day: int) -> datetime:
    return datetime(2024, 5, day, 12, tzinfo=UTC)


def given_back(of: Balance, ended_at: datetime, option: str = "credit", **fields: Any) -> tuple[Decimal, Parts] | None:
    owed = termination_credit(of, of.fees[0], PLAN_CENTS, cycle(**fields), ended_at, option=option)
    return None if owed is None or owed.parts is None else (owed.amount, owed.parts)


@pytest.mark.parametrize(
    ("of", "ended_on", "option", "unused_days", "parts"),
    [
        (balance(), 11, "credit", 20, Parts(credit=2000)),
        (balance(), 11, "refund", 20, Parts(refund=2000)),
        (balance(), 11, "offset", 20, Parts(refund=2000)),
        # Unpaid: nothing can be paid back, and it may settle the invoice.
        (balance(paid_cents=0), 11, "credit", 20, Parts(credit=2000)),
        (balance(paid_cents=0), 11, "refund", 20, Parts(credit=2000)),
        (balance(paid_cents=0), 11, "offset", 20, Parts(offset=2000)),
        # 1500 were paid, 1100 of them are used.
        (balance(paid_cents=1500), 11, "refund", 20, Parts(credit=2000 - 400, refund=400)),
        (balance(paid_cents=1500), 11, "offset", 20, Parts(credit=2000 - 400 - 1600, refund=400, offset=1600)),
        # 2900 of 3100 were refunded before, without anything being credited of the fee.
        (balance(note("n", 0, refund_amount_cents=2900)), 11, "refund", 20, Parts(credit=1800, refund=200)),
        (balance(), 1, "credit", 30, Parts(credit=3000)),
        (balance(), 30, "credit", 1, Parts(credit=100)),
    ],
)
def test_an_early_end_gives_back_the_days_that_are_left(
    of: Balance, ended_on: int, option: str, unused_days: int, parts: Parts
) -> None:
    assert given_back(of, noon(ended_on), option) == (unused_days * A_DAY_CENTS, parts)


@pytest.mark.parametrize(
    ("of", "ended_at"),
    [
        # Nothing is left of the last day, of a period that is over, or of a fee that is credited already.
        (balance(), noon(31)),
        (balance(), noon(31) + timedelta(days=3)),
        (balance(note("n", 0, items=(item("fee", str(PLAN_CENTS)),))), noon(11)),
        (balance(line=paid_fee(to_datetime=None)), noon(11)),
    ],
)
def test_an_end_of_which_nothing_is_left_gives_nothing_back(of: Balance, ended_at: datetime) -> None:
    assert given_back(of, ended_at) is None


def test_the_day_of_an_upgrade_is_given_back_too() -> None:
    owed = given_back(balance(), noon(11), succession=Succession.UPGRADE)
    assert owed == (21 * A_DAY_CENTS, Parts(credit=2100))


@given(
    ended_on=st.integers(1, 30),
    paid_cents=st.integers(0, PLAN_CENTS),
    refunded_cents=st.integers(0, PLAN_CENTS),
    option=st.sampled_from(["credit", "refund", "offset"]),
)
def test_the_parts_are_all_of_what_is_given_back_and_never_more_than_was_paid_is_refunded(
    ended_on: int, paid_cents: int, refunded_cents: int, option: str
) -> None:
    refunded = min(refunded_cents, paid_cents)
    of = balance(note("n", 0, refund_amount_cents=refunded), paid_cents=paid_cents)
    owed = given_back(of, noon(ended_on), option)
    assert owed is not None
    amount, parts = owed
    assert amount == (DAYS - ended_on) * A_DAY_CENTS
    assert parts.total == amount
    assert min(parts.credit, parts.refund, parts.offset) >= 0
    assert parts.refund + refunded <= paid_cents
    assert parts.offset <= of.invoice.due_cents


@pytest.mark.parametrize(
    ("until", "days"),
    [
        (date(2024, 5, 2), 1),
        (date(2024, 5, 11), 10),
        (date(2024, 6, 1), DAYS),
        # Not more than the fee is of.
        (date(2024, 7, 15), DAYS),
        (date(2024, 5, 1), None),
        (date(2024, 4, 20), None),
    ],
)
def test_a_subscription_that_became_active_late_gets_the_days_before_back(until: date, days: int | None) -> None:
    of = balance()
    owed = late_activation_credit(of, of.fees[0], PLAN_CENTS, cycle(), until)
    assert (owed and owed.amount) == (None if days is None else days * A_DAY_CENTS)
    assert owed is None or owed.parts is None


def test_days_that_were_credited_before_are_not_given_back_again() -> None:
    of = balance(note("n", 0, items=(item("fee", str(PLAN_CENTS - 250)),)))
    owed = late_activation_credit(of, of.fees[0], PLAN_CENTS, cycle(), date(2024, 5, 11))
    assert owed is not None
    assert owed.amount == 250


@pytest.mark.parametrize(
    ("days_left", "held", "prorated", "cents"),
    [
        (16, "1", True, 1600),
        # Of two units that were paid for, one is left.
        (16, "0.5", True, 800),
        (16, "0", True, None),
        (0, "1", True, None),
        (40, "1", True, PLAN_CENTS),
        # The next plan bills the whole price again.
        (16, "1", False, PLAN_CENTS),
        (16, "0.5", False, PLAN_CENTS // 2),
    ],
)
def test_recurring_usage_that_the_next_plan_bills_again_is_credited(
    days_left: int, held: str, prorated: bool, cents: int | None
) -> None:
    of = balance()
    fee = of.fees[0]
    amount = carried_amount(fee, days=DAYS, days_left=days_left, held=Decimal(held), prorated=prorated)
    owed = carried_credit(of, fee, amount)
    assert (None if owed is None else owed.amount) == cents


@pytest.mark.parametrize(("given_back", "cents"), [(1000, 600), (1599, 1), (1600, None), (2500, None)])
def test_recurring_usage_that_was_given_back_before_is_not_credited_again(given_back: int, cents: int | None) -> None:
    line = paid_fee(id="fee")
    of = balance(note("note", given_back, items=(item("fee", str(given_back)),)), line=line)
    owed = carried_credit(of, of.fees[0], Decimal(1600))
    assert (None if owed is None else owed.amount) == cents
