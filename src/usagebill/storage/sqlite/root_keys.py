"""Root keys of organizations, in files of a time when there were none."""

from __future__ import annotations

import secrets

from usagebill.core.derived_keys import ROOT_KEY_BYTES
from usagebill.storage.sqlite.filter_links import Connection


def make_root_keys(connection: Connection) -> None:
    """Give a random root key to every organization without one."""
    without = connection.execute("SELECT id FROM organizations WHERE root_key IS NULL OR root_key = ''").fetchall()
    for (id,) in without:
        key = secrets.token_hex(ROOT_KEY_BYTES)
        connection.execute("UPDATE organizations SET root_key = ? WHERE id = ?", (key, id))
