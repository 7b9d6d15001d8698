"""Whatever happens in a subscription's life, usage is billed once, and when the work is done changes nothing.

Lives have plans of all intervals, in advance and in arrears, with usage and fixed charges of both kinds, trials, plan
changes up and down, ends and new starts with the same external id, a customer who moves between time zones, and
events that come late.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import examples
from tests.properties.strategies import Crash, Life, Played, UnsteadyProvider, lives, play
from tests.provider import refused, throttled, unreachable
from usagebill.core.tax_providers import ProviderFailure

pytestmark = pytest.mark.slow

_moderate = examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def billed_units(played: Played) -> dict[str, Decimal]:
    return {code: units for code, units in played.billed.items() if units}


@pytest.mark.usefixtures("sandbox_engine")
@_moderate
@given(lives())
def test_every_unit_is_billed_once_and_the_audit_finds_nothing(life: Life) -> None:
    played = play(life)
    billed, sent = billed_units(played), dict(played.sent)
    # What comes after its invoice was issued is on none.
    assert billed.pop("late", 0) <= sent.pop("late", 0)
    assert billed == sent
    assert played.findings == []


@_moderate
@given(lives(8))
def test_doing_everything_late_gives_the_same_invoices(life: Life) -> None:
    on_time, late = play(life), play(life, jump=True)
    assert late.sent == on_time.sent
    assert late.invoices == on_time.invoices
    assert late.findings == []


@_moderate
@given(lives(8), st.integers(0, 10_000))
def test_a_process_that_dies_before_a_commit_changes_nothing(life: Life, seed: int) -> None:
    chance = random.Random(seed)
    undisturbed, died = play(life), play(life, dies=lambda: chance.random() < 0.3)
    assert died.invoices == undisturbed.invoices
    assert died.findings == []


def fees(played: Played) -> Counter[object]:
    """All fees but those of events that come late, which drafts take in and issued invoices do not."""
    return Counter(fee for invoice in played.invoices for fee in invoice["fees"] if fee[1] != "late")


@_moderate
@given(lives(8))
def test_a_grace_period_changes_no_fee(life: Life) -> None:
    assert fees(play(replace(life, grace_days=3))) == fees(play(replace(life, grace_days=0)))


@_moderate
@given(lives(8), st.integers(0, 10_000))
def test_a_tax_provider_that_answers_in_the_end_has_taxed_all_as_if_it_always_had(life: Life, seed: int) -> None:
    chance = random.Random(seed)
    failures = (None, unreachable(), throttled(), refused(), refused("limit", "API limit reached"))
    steady = play(life, provider=UnsteadyProvider(lambda: None))

    def fails() -> ProviderFailure | None:
        if chance.random() < 0.1:
            raise Crash
        return chance.choice(failures)

    unsteady = play(life, provider=UnsteadyProvider(fails), dies=lambda: chance.random() < 0.1)
    assert steady.findings == unsteady.findings == []
    assert unsteady.taxed == steady.taxed
    assert unsteady.notes == steady.notes
    assert unsteady.coupons == steady.coupons
