"""Random lives, and those that once broke a sum."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples import mostly_slow
from tests.lives.life import from_json, life_of, story, to_json
from tests.lives.play import play
from tests.lives.shrink import shrunk
from tests.lives.sums import violations

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
LIVES = 5
# The same lives in every run.
FIRST_SEED = 1_000_000
# And new ones for each state of the files, by the seed that `scripts/test` takes from them: whoever changes something
# tries lives that nobody has tried, and gets the same ones again. Without that seed they begin here.
FIRST_NEW_SEED = 10_000_000


@pytest.mark.parametrize("part", mostly_slow(range(12), 0))
def test_every_sum_holds_over_random_lives(part: int) -> None:
    _hold(FIRST_SEED + part * LIVES)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_every_sum_holds_over_new_random_lives(part: int, pytestconfig: pytest.Config) -> None:
    of_files = int(pytestconfig.getoption("--hypothesis-seed") or 0)
    _hold(FIRST_NEW_SEED + of_files + part * LIVES)


def _hold(first: int) -> None:
    for seed in range(first, first + LIVES):
        found = violations(life_of(seed))
        assert not found, f"python -m tests.lives --seed {seed}\n" + "\n".join(found)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_life_that_once_broke_a_sum_breaks_none(path: Path) -> None:
    life = from_json(path.read_text())
    found = violations(life)
    assert not found, "\n".join([story(life), *found])


def test_a_seed_is_always_the_same_life() -> None:
    assert life_of(4711) == life_of(4711)
    assert life_of(4711) != life_of(4712)


@pytest.mark.parametrize("seed", range(5))
def test_a_life_is_the_same_read_from_its_text(seed: int) -> None:
    assert from_json(to_json(life_of(seed))) == life_of(seed)


def test_a_life_is_shortened_to_the_steps_that_matter() -> None:
    life = next(life for life in map(life_of, range(100)) if sum(step.what == "use" for step in life.steps) > 3)
    shorter = shrunk(life, lambda candidate: any(step.what == "use" for step in candidate.steps))
    assert [step.what for step in shorter.steps] == ["use"]
    assert shorter.coupons == ()


def test_what_happens_in_a_life_can_be_told_and_played_twice() -> None:
    life = life_of(3)
    assert life.zone in story(life)
    first, second = play(life), play(life)
    assert [sent.id for sent in first.events] == [sent.id for sent in second.events]
    assert sum(fee.amount_cents for fee in first.fees) == sum(fee.amount_cents for fee in second.fees)
