"""What importing the library, or its client, leaves to whoever first needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = {"cryptography", "jwt", "reportlab", "rich", "sqlite_utils", "structlog"}


# What serves: a client has no use for it.
SERVING = {
    *("jinja2", "prometheus_client", "reportlab", "starlette", "uvicorn"),
    *("usagebill.billing", "usagebill.console", "usagebill.http.app", "usagebill.outside", "usagebill.portal"),
    *("usagebill.printing", "usagebill.storage.postgresql", "usagebill.storage.sqlite", "usagebill.system"),
}


def imported(program: str) -> set[str]:
    """The modules that a new process has after a program."""
    shown = f"{program}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_a_client_is_imported_without_what_serves() -> None:
    pytest.importorskip("httpx")
    assert SERVING & imported("import usagebill.client") == set()
    program = "from usagebill.client import Client; Client('http://localhost', 'key').customers.upsert"
    assert SERVING & imported(program) == set()


def test_the_library_is_imported_without_what_most_processes_never_need() -> None:
    assert LATER & imported("import usagebill.billing") == set()
