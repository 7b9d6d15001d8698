"""How the counts of common texts (`counted_texts`) are packed, a combination of facets or a slot in one value."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable

__all__ = ["NUMBER", "WIDTH", "numbers_of"]

# Numbers with their sign, in four bytes: no file holds as many records as these count.
NUMBER = "i"
WIDTH = 4


def numbers_of(connection: sqlite3.Connection, name: str, texts: Iterable[str]) -> dict[str, int]:
    """In how many records of a table, as they were counted, those of the texts are that are common."""
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
