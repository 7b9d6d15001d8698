"""Packed counts of common texts (`counted_texts`): those of one combination of facets, or one slot, are one value."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable

# Signed numbers of four bytes: no file has as many records.
NUMBER = "i"
WIDTH = 4


def numbers_of(connection: sqlite3.Connection, name: str, texts: Iterable[str]) -> dict[str, int]:
    """The number of counted records with each of the texts that is common in a table."""
    rows = connection.execute(
        f'SELECT n.text, n.place FROM "{name}_common" n WHERE n.text IN (SELECT value FROM json_each(?))',
        (json.dumps(list(texts)),),
    ).fetchall()
    places = dict(rows)
    totals = dict.fromkeys(places, 0)
    for (packed,) in connection.execute(f'SELECT numbers FROM "{name}_common_counts"') if places else ():
        numbers = array(NUMBER, packed)
        for text, place in places.items():
            totals[text] += numbers[place]
    return totals
