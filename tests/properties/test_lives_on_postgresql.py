"""The lives of the other modules once more, on a PostgreSQL server, compared with the same models and audited.

They have fewer examples: each of their many commits takes a server several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, strategies as st

from tests.examples import body_of, examples
from tests.lives.life import life_of
from tests.lives.play import play
from tests.postgresql import server_url
from tests.properties import (
    test_lives,
    test_number_ranges,
    test_payment_lives,
    test_phase_lives,
    test_recounts,
    test_request_payments,
    test_subscription_lives,
    test_wallet_lives,
)
from tests.properties.priced_lives import PricedLife, priced_lives
from tests.properties.strategies import Life, lives
from tests.properties.wallet_lives import WalletLife, wallet_lives

pytestmark = [pytest.mark.slow, pytest.mark.second_engine, pytest.mark.beyond_reference]

_few = examples(3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_several = examples(5, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module", autouse=True)
def on_a_server() -> Iterator[None]:
    """Each `Sandbox` works on the server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("USAGEBILL_SANDBOX_DATABASE", server_url())
        yield


@_few
@given(lives(8))
def test_doing_everything_late_gives_the_same_invoices(life: Life) -> None:
    body_of(test_lives.test_doing_everything_late_gives_the_same_invoices)(life)


@_few
@given(lives(8), st.integers(0, 10_000))
def test_a_process_that_dies_before_a_commit_changes_nothing(life: Life, seed: int) -> None:
    body_of(test_lives.test_a_process_that_dies_before_a_commit_changes_nothing)(life, seed)


@_few
@given(lives(8))
def test_a_grace_period_changes_no_fee(life: Life) -> None:
    body_of(test_lives.test_a_grace_period_changes_no_fee)(life)


@_few
@given(lives(8), st.integers(0, 10_000))
def test_a_tax_provider_that_answers_in_the_end_has_taxed_all_as_if_it_always_had(life: Life, seed: int) -> None:
    body_of(test_lives.test_a_tax_provider_that_answers_in_the_end_has_taxed_all_as_if_it_always_had)(life, seed)


@_few
@given(wallet_lives(24))
def test_every_credit_is_accounted_for_at_every_moment(life: WalletLife) -> None:
    body_of(test_wallet_lives.test_every_credit_is_accounted_for_at_every_moment)(life)


@_few
@given(wallet_lives(16), st.integers(0, 10_000))
def test_a_process_that_dies_loses_and_repeats_no_credit(life: WalletLife, seed: int) -> None:
    body_of(test_wallet_lives.test_a_process_that_dies_loses_and_repeats_no_credit)(life, seed)


@_several
@given(st.integers(0, 10**9))
def test_the_ledger_says_what_a_whole_life_of_plans_coupons_notes_and_voids_says(seed: int) -> None:
    assert play(life_of(seed)).findings == []


@pytest.mark.parametrize(
    "life_holds",
    [
        test_subscription_lives.test_working_late_gives_the_same_invoices,
        test_subscription_lives.test_usage_is_billed_once_and_without_holes,
        test_subscription_lives.test_every_day_of_a_plan_in_arrears_is_billed_once,
        test_subscription_lives.test_what_is_kept_of_a_plan_in_advance_is_the_days_used,
    ],
)
@_several
@given(life=test_subscription_lives.lives)
def test_subscriptions_are_billed_for_their_usage_and_days(
    life_holds: Callable[..., None], life: test_subscription_lives.Life
) -> None:
    body_of(life_holds)(life)


@_several
@given(
    script=st.lists(test_payment_lives._OUTCOMES, min_size=1, max_size=12),
    steps=test_payment_lives._STEPS,
    well=st.booleans(),
)
def test_both_books_agree_whatever_goes_wrong(script: list[str], steps: list[tuple[str, int]], well: bool) -> None:
    body_of(test_payment_lives.test_both_books_agree_whatever_goes_wrong)(script, steps, well)


@_several
@given(st.lists(test_request_payments._STEPS, min_size=1, max_size=12))
def test_every_cent_received_is_on_an_invoice_and_has_a_receipt(steps: list[tuple[str, object, object]]) -> None:
    body_of(test_request_payments.test_every_cent_received_is_on_an_invoice_and_has_a_receipt)(steps)


@_few
@given(priced_lives(), st.booleans())
def test_a_recount_of_what_was_billed_by_the_rules_finds_nothing(life: PricedLife, jump: bool) -> None:
    body_of(test_recounts.test_a_recount_of_what_was_billed_by_the_rules_finds_nothing)(life, jump)


@pytest.mark.parametrize("currency", ["JPY", "KWD"])
@pytest.mark.parametrize("least", [True, False])
def test_everything_at_once_at_its_edge_is_billed_to_the_end(currency: str, least: bool) -> None:
    test_number_ranges.test_everything_at_once_at_its_edge_is_billed_to_the_end(currency, least)


def test_a_contract_with_phases_is_billed_by_each_in_turn() -> None:
    test_phase_lives.test_a_fixed_contract_holds()
