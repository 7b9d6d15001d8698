"""Keys of webhook signatures, in files of a time when all organizations shared one."""

from __future__ import annotations

from usagebill.storage.sqlite.filter_links import Connection


def drop_shared_key(connection: Connection) -> None:
    """The shared key becomes that of the only organization. If there are several, each gets a new one when it needs
    one.
    """
    only = "(SELECT max(id) FROM organizations HAVING count(*) = 1)"
    connection.execute(f"UPDATE signing_keys SET organization_id = {only} WHERE {only} IS NOT NULL")
    connection.execute(f"DELETE FROM signing_keys WHERE {only} IS NULL")
