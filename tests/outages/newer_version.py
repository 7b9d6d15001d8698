"""`usagebill` as a later version would be: `python -m tests.outages.newer_version KIND COMMAND ...`.

Its schema is one version higher. `rolling` adds a table, which processes of this version can go on beside; `breaking`
says nothing of the kind.
"""

from __future__ import annotations

import sys

from usagebill.storage.sqlite import engine, schema

schema.VERSION += 1
engine.VERSION = schema.VERSION  # type: ignore[attr-defined]
if sys.argv.pop(1) == "rolling":
    schema.ROLLING |= {schema.VERSION}

from usagebill.cli import main  # noqa: E402 (it takes its own copy of the version)

if __name__ == "__main__":
    main()
