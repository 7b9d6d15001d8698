"""CPU time of `import usagebill.core`, of every module below it and of `import usagebill.billing`, beyond the
interpreter's own start.

Prints each figure with its limit: 50 ms for `usagebill.core`, which imports nothing by itself, 300 ms for all of its
modules together and 700 ms for the whole library, mostly for creating some 530 record classes and 160 input classes.
Then how many modules of our own the library loads: it should be 400. Best of several fresh interpreters, with compiled
modules.
"""

from __future__ import annotations

import os
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
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    modules = [found.name for found in pkgutil.walk_packages(usagebill.core.__path__, "usagebill.core.")]
    start = cpu_ms("pass")
    print(f"{'interpreter start':24} {start:6.1f} ms")
    for name, statement, most in (
        ("usagebill.core", "import usagebill.core", 50),
        ("every core module", "import " + ", ".join(modules), 300),
        ("usagebill.billing", "import usagebill.billing", 700),
    ):
        beyond = cpu_ms(statement) - start
        print(f"{name:24} {beyond:6.1f} ms beyond that: {beyond / most:.2f} of the {most} ms it may take")
    counting = "import sys, usagebill.billing; print(sum(name.startswith('usagebill') for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", counting], check=True, capture_output=True, text=True).stdout
    print(f"{'modules of our own':24} {int(loaded):6} of the 400 it may load")


if __name__ == "__main__":
    main()
