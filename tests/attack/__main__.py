"""A long attack on the API of a sandbox.

python -m tests.attack --requests 100000 --seed 7     that many requests, evenly over all operations
"""

from __future__ import annotations

import argparse
import logging
import sys

import structlog

from tests.attack.fuzzing import Target
from tests.scenarios import Scenario


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.attack", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=10_000, help="how many requests, about")
    parser.add_argument("--seed", type=int, default=0, help="draws other requests")
    parser.add_argument("--rounds", type=int, default=1, help="as many sandboxes, each attacked in full")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    found: dict[str, str] = {}
    for number in range(chosen.rounds):
        with Scenario(now="2024-03-05T10:00:00Z") as box:
            target = Target(box)
            each = max(chosen.requests // chosen.rounds // len(target.operations), 1)
            for operation in target.operations:
                for fault in target.attack(operation, each, chosen.seed + number):
                    title = fault.partition("\n")[0]
                    if found.setdefault(title, fault) is fault:
                        print(fault, "\n", flush=True)
            answered = ", ".join(f"{status}: {count}" for status, count in sorted(target.statuses.items()))
            print(f"seed {chosen.seed + number}: {target.statuses.total()} requests; {answered}", flush=True)
    print(f"{len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
