"""Random lives of debts at five accounts of three providers, and both books compared at the end.

python -m tests.payment_lives --seed 17           the life of a seed in plain words, and what it breaks
python -m tests.payment_lives --lives 500         a long run, from a seed derived from the time
python -m tests.payment_lives --postgresql        on PostgreSQL, with two workers
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from traceback import format_exc

from tests.payment_lives.life import Life
from tests.postgresql import new_database

STEPS = 150


def broken(life: Life, steps: int) -> list[str]:
    """What a life breaks; a crash is one."""
    try:
        return life.play(steps)
    except Exception:
        return [f"crash: {format_exc()[-2000:]}"]


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.payment_lives", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="tell the life of this seed")
    parser.add_argument("--lives", type=int, default=50, help="how many lives")
    parser.add_argument("--from-seed", type=int, help="the first seed")
    parser.add_argument("--steps", type=int, default=STEPS, help="how long each is")
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL, with two workers")
    chosen = parser.parse_args()
    first = chosen.from_seed if chosen.from_seed is not None else int(time.time()) * 1000
    seeds = range(first, first + chosen.lives) if chosen.seed is None else [chosen.seed]
    failed = 0
    for seed in seeds:
        with new_database() if chosen.postgresql else nullcontext(":memory:") as database:
            life = Life(seed, database, workers=2 if chosen.postgresql else 1)
            found = broken(life, chosen.steps)
        if chosen.seed is not None:
            print("\n".join(life.told))
        failed += bool(found)
        for text in found:
            print(f"seed {seed}: BROKEN {text}", flush=True)
    print(f"{len(seeds)} lives from seed {seeds[0]}: {failed} with a difference")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
