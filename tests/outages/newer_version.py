"""`usagebill` as a later version would be: `python -m tests.outages.newer_version KIND COMMAND ...`.

Its schema is one version higher. `rolling` adds a table of records, which processes of this version can go on beside;
`breaking` says nothing of the kind.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime

from usagebill.storage import tables
from usagebill.storage.listings import Listing

KIND = sys.argv.pop(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What this version does not know."""

    id: str
    organization_id: str
    created_at: datetime
    amount_cents: int = 0


if KIND == "rolling":
    added = tables.Table(kind=Addition, name="additions", listing=Listing(), indexes=(("amount_cents",),))
    tables.TABLES += (added,)
    tables._BY_KIND[Addition] = added

# Those take their own copy of the tables, and of the version.
from usagebill.storage.sqlite import engine, schema  # noqa: E402

schema.VERSION += 1
engine.VERSION = schema.VERSION  # type: ignore[attr-defined]
if KIND == "rolling":
    schema.ROLLING |= {schema.VERSION}

from usagebill.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
