"""Row security: a second wall between organizations, enforced by the server.

Every query names its organization. With row security, a transaction can also read and write only the rows of the
organization that it has named, whatever its queries say. This applies to owners of the tables too, but not to
superusers and users with BYPASSRLS.
"""

from __future__ import annotations

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.postgresql.row_scope import EVERYBODY, SETTING

_POLICY = "usagebill_organization"
_TABLES = (
    "SELECT c.relname, c.relrowsecurity FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped"
    " AND a.attname = 'organization_id' ORDER BY 1"
)


def is_on(connection: Connection) -> bool:
    """Whether row security is on."""
    row = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('events')").fetchone()
    return row is not None and bool(row[0])


def is_subject(connection: Connection) -> bool:
    """Whether row security, if on, applies to the connection's user."""
    row = connection.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
    return row is not None and not row[0]


def turn(connection: Connection, *, on: bool) -> list[str]:
    """Turn row security on or off for every table with rows of organizations; the tables that were changed."""
    changed = []
    for table, protected in connection.execute(_TABLES).fetchall():
        if protected == on:
            continue
        if on:
            connection.execute(
                f'CREATE POLICY {_POLICY} ON "{table}" USING'
                f" ((SELECT current_setting('{SETTING}', TRUE)) IN (organization_id, '{EVERYBODY}'))"
            )
            connection.execute(f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY')
        else:
            connection.execute(f'ALTER TABLE "{table}" DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY')
            connection.execute(f'DROP POLICY {_POLICY} ON "{table}"')
        changed.append(table)
    return changed
