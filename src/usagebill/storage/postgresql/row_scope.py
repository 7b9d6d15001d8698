"""The organization whose rows a transaction sees if row security is on (`row_security`)."""

from __future__ import annotations

from typing import Any

import psycopg

# The server's policies compare each row with this setting of the transaction.
SETTING = "usagebill.organization"
# Its value for work across organizations: due jobs, keys, migrations.
EVERYBODY = "*"
_RESTRICT = f"SELECT set_config('{SETTING}', %s, TRUE)".encode()


class RowScope:
    """The organization of a transaction's statements; None for all organizations."""

    def __init__(self, organization_id: str | None, applied: list[str | None] | None = None) -> None:
        self._shown = EVERYBODY if organization_id is None else organization_id
        # The setting now, shared by all scopes of the transaction; None: unknown.
        self._applied: list[str | None] = [None] if applied is None else applied

    def of(self, organization_id: str | None) -> RowScope:
        """The scope of another organization in the same transaction."""
        return RowScope(organization_id, self._applied)

    def apply(self, driver: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Restrict the transaction to the rows of this organization."""
        if self._applied[0] != self._shown:
            driver.execute(_RESTRICT, (self._shown,))
            self._applied[0] = self._shown

    def forget(self) -> None:
        """Call this after a savepoint was rolled back, and the setting with it."""
        self._applied[0] = None
