"""CPU time of `import usagebill.core` and of every module below it, beyond the interpreter's own start.

Prints each figure with its limit: 50 ms for `usagebill.core`, which imports nothing by itself, and 300 ms for all of
its modules together, mostly for creating some 150 record classes. Best of several fresh interpreters.
"""

from __future__ import annotations

import pkgutil
import resource
import subprocess
import sys

import usagebill.core

RUNS = 7


def cpu_ms(statement: str) -> float:
    """User and system time of the cheapest of `RUNS` interpreters that run `statement`, in milliseconds."""
    spent: list[float] = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", statement], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return min(spent)


def main() -> None:
    modules = [found.name for found in pkgutil.walk_packages(usagebill.core.__path__, "usagebill.core.")]
    start = cpu_ms("pass")
    print(f"{'interpreter start':24} {start:6.1f} ms")
    for name, statement, most in (
        ("usagebill.core", "import usagebill.core", 50),
        ("every core module", "import " + ", ".join(modules), 300),
    ):
        beyond = cpu_ms(statement) - start
        print(f"{name:24} {beyond:6.1f} ms beyond that: {beyond / most:.2f} of the {most} ms it may take")


if __name__ == "__main__":
    main()
