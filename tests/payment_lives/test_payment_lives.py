"""Random lives of debts: what providers took and gave is what our books say, whatever went wrong."""

from __future__ import annotations

import pytest

from tests.examples import mostly_slow
from tests.payment_lives.life import Life
from tests.postgresql import new_database

STEPS = 150


@pytest.mark.parametrize("seed", mostly_slow(range(4), 0))
def test_both_books_agree_at_the_end_of_a_random_life(seed: int) -> None:
    found = Life(seed, ":memory:").play(STEPS)
    assert not found, f"python -m tests.payment_lives --seed {seed} --steps {STEPS}\n" + "\n".join(found)


@pytest.mark.second_engine
@pytest.mark.parametrize("seed", range(100, 102))
def test_both_books_agree_with_two_workers_on_postgresql(seed: int) -> None:
    with new_database() as database:
        found = Life(seed, database, workers=2).play(STEPS)
    assert not found, "\n".join(found)


def test_a_seed_is_always_the_same_life() -> None:
    first, second = Life(7, ":memory:"), Life(7, ":memory:")
    assert (first.play(60), first.told) == (second.play(60), second.told)
