"""The migrations of rows that both engines run, by version of the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from usagebill.storage.sqlite.filter_links import Connection, add_filter_links
from usagebill.storage.sqlite.former_prices import keep_waiting_prices
from usagebill.storage.sqlite.former_voids import mark_notes_of_voids
from usagebill.storage.sqlite.root_keys import make_root_keys
from usagebill.storage.sqlite.signing_keys import drop_shared_key


def _drop_write_counts(connection: Connection) -> None:
    """Numbers of commits by kind of record, which told processes what others had written."""
    connection.execute("DELETE FROM sequences WHERE name LIKE 'writes/%'")


ROW_STEPS: Mapping[int, Callable[[Connection], None]] = {
    47: add_filter_links,
    51: mark_notes_of_voids,
    53: make_root_keys,
    54: drop_shared_key,
    62: _drop_write_counts,
    83: keep_waiting_prices,
}
