"""Prices of plans that wait, in files of a time when a plan could have one such change alone."""

from __future__ import annotations

from datetime import datetime

from usagebill.core.plans import Plan, PriceStep
from usagebill.storage.sqlite.filter_links import Connection
from usagebill.storage.sqlite.rows import codec_of


def keep_waiting_prices(connection: Connection) -> None:
    """A plan's `prices_from` and `prices_before` are its only price step. Databases of version 81 and 82 have them."""
    described = connection.execute("SELECT * FROM plans LIMIT 0").description
    if "prices_from" not in {column[0] for column in described}:
        return
    column = next(column for column in codec_of(Plan).columns if column.name == "price_steps")
    if column.encode is None:
        raise TypeError("price steps are stored as a list")
    waiting = "SELECT id, prices_from, prices_before FROM plans WHERE prices_from IS NOT NULL"
    for id, starts, before in connection.execute(waiting).fetchall():
        instant = datetime.fromisoformat(starts) if isinstance(starts, str) else starts
        steps = (PriceStep(starts=instant, before=before, plan_id=id),)
        connection.execute("UPDATE plans SET price_steps = ? WHERE id = ?", (column.encode(steps), id))
    for former in ("prices_from", "prices_before"):
        connection.execute(f"ALTER TABLE plans DROP COLUMN {former}")
