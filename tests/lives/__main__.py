"""Short random lives of a customer, checked against the sums that hold over each of them.

python -m tests.lives --seed 17                    the life of a seed in plain words, and what it breaks
python -m tests.lives --lives 20000 --jobs 2       a long run, from a seed derived from the time
python -m tests.lives --lives 500 --from-seed 1    a run that can be repeated
python -m tests.lives --file tests/lives/found/x.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from traceback import format_exc

from tests.lives.life import Life, from_json, life_of, story, to_json
from tests.lives.shrink import kinds_of, shrunk
from tests.lives.sums import violations


def broken(life: Life) -> list[str]:
    """The sums that a life breaks; a crash is one."""
    try:
        return violations(life)
    except Exception:
        return [f"crash: {format_exc()[-1500:]}"]


def _of_seed(seed: int) -> tuple[int, list[str]]:
    return seed, broken(life_of(seed))


def _shortest(life: Life, found: list[str], only: str | None) -> Life:
    wanted = {kind for kind in kinds_of(found) if only is None or only in kind}
    return shrunk(life, lambda shorter: bool(wanted & kinds_of(broken(shorter))))


def _show(life: Life, found: list[str]) -> None:
    print(story(life))
    for violation in found:
        print(f"  BROKEN {violation}")


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.lives", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="tell the life of this seed")
    parser.add_argument("--file", type=Path, help="tell a life that was kept")
    parser.add_argument("--lives", type=int, default=200, help="how many lives")
    parser.add_argument("--from-seed", type=int, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for shorter lives")
    parser.add_argument("--only", help="shrink toward violations that contain this")
    parser.add_argument("--keep", type=Path, help="write the shortest failing life there")
    chosen = parser.parse_args()
    if chosen.seed is not None or chosen.file is not None:
        life = life_of(chosen.seed) if chosen.file is None else from_json(chosen.file.read_text())
        found = broken(life)
        _show(life, found)
        if found and not chosen.no_shrink:
            life = _shortest(life, found, chosen.only)
            print("\nThe shortest life that fails like that:\n")
            _show(life, broken(life))
        if chosen.keep is not None:
            chosen.keep.write_text(to_json(life) + "\n")
        return 1 if found else 0
    return _many(chosen)


def _many(chosen: argparse.Namespace) -> int:
    first = int(time.time()) * 1000 if chosen.from_seed is None else chosen.from_seed
    print(f"{chosen.lives} lives from seed {first}", flush=True)
    kinds: Counter[str] = Counter()
    failed: list[int] = []
    started = time.monotonic()
    seeds = range(first, first + chosen.lives)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for done, (seed, found) in enumerate(pool.map(_of_seed, seeds, chunksize=20), 1):
            if found:
                failed.append(seed)
                kinds.update(kinds_of(found))
                print(
                    f"seed {seed}: {found[0][:300]}{f' (and {len(found) - 1} more)' if len(found) > 1 else ''}",
                    flush=True,
                )
            if done % 1000 == 0:
                print(
                    f"  {done} lives, {len(failed)} with a difference, {time.monotonic() - started:.0f} s", flush=True
                )
    print(f"{chosen.lives} lives from seed {first}: {len(failed)} with a difference")
    for kind, times in kinds.most_common():
        print(f"  {times} {kind}")
    if failed and not chosen.no_shrink:
        life = life_of(failed[0])
        found = broken(life)
        life = _shortest(life, found, chosen.only)
        print(f"\nThe shortest life that fails like that of seed {failed[0]}:\n")
        _show(life, broken(life))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
