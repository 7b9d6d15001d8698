"""What `import usagebill.billing` leaves to whoever first needs it."""

from __future__ import annotations

import subprocess
import sys

LATER = {"cryptography", "jwt", "reportlab", "rich", "sqlite_utils", "structlog"}


def test_the_library_is_imported_without_what_most_processes_never_need() -> None:
    program = "import sys, usagebill.billing; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert LATER.intersection(done.stdout.split()) == set()
