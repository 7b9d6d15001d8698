"""The index of texts: what searches look in, and how it is written with the records.

For a kind that is searched, `<table>_texts` holds the searched columns with their case folded (`texts.folded`), and
those of which a whole text is asked for, of all records; `shown` are those that lists show. `<table>_search` has the
places of every three letters of the searched ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from usagebill.storage.sqlite.counts import shown_columns, shown_sql
from usagebill.storage.tables import Table

__all__ = ["add_texts_sql", "hidden_index_sql", "remove_texts_sql", "text_columns", "text_definitions"]


def text_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of everything that the texts of a table need, in the order to make them."""
    listing = table.listing
    if listing is None:
        return
    if listing.searched:
        yield from _search_definitions(table)


def _search_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    assert table.listing is not None
    name, columns = table.name, table.listing.searched
    texts, search = f"{name}_texts", f"{name}_search"
    stored = _stored(table)
    declared = "".join(f', "{column}" TEXT NOT NULL' for column in stored)
    yield (
        "table",
        texts,
        (
            f'CREATE TABLE "{texts}" (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,'
            f" organization_id TEXT NOT NULL, shown INTEGER NOT NULL{declared})"
        ),
    )
    listed = ", ".join(f'"{column}"' for column in columns)
    yield (
        "table",
        search,
        f'CREATE VIRTUAL TABLE "{search}" USING fts5({listed}, content="{texts}", content_rowid="sequence",'
        ' tokenize="trigram case_sensitive 1")',
    )
    for column in table.listing.folded:
        index = f"{texts}_{column}"
        yield "index", index, f'CREATE INDEX "{index}" ON "{texts}" ("{column}") WHERE "{column}" != \'\''
    new = ", ".join(f'new."{column}"' for column in columns)
    old = ", ".join(f'old."{column}"' for column in columns)
    add = f'INSERT INTO "{search}" (rowid, {listed}) VALUES (new.sequence, {new});'
    remove = f'INSERT INTO "{search}" ("{search}", rowid, {listed}) VALUES (\'delete\', old.sequence, {old});'
    differs = " OR ".join(f'old."{column}" IS NOT new."{column}"' for column in columns)
    for event, when, actions in (
        ("insert", "", add),
        ("delete", "", remove),
        ("update", f" WHEN {differs}", f"{remove} {add}"),
    ):
        trigger = f"{texts}_{event}"
        begins = f'CREATE TRIGGER "{trigger}" AFTER {event.upper()} ON "{texts}"{when}'
        yield "trigger", trigger, f"{begins} BEGIN {actions} END"


def hidden_index_sql(table: Table) -> str:
    """The statement that makes the index of texts that lists do not show: few, so that they are soon left out."""
    return f'CREATE INDEX IF NOT EXISTS "{table.name}_texts_hidden" ON "{table.name}_texts" (shown) WHERE shown = 0'


def text_columns(table: Table) -> list[str]:
    """The columns whose change may change texts."""
    assert table.listing is not None
    listing = table.listing
    return [*listing.searched, *listing.folded, *shown_columns(table)] if listing.searched else []


def remove_texts_sql(table: Table) -> Iterator[str]:
    """Statements that take away the texts of the record with one id."""
    assert table.listing is not None
    if table.listing.searched:
        yield f'DELETE FROM "{table.name}_texts" WHERE id = ?'


def add_texts_sql(table: Table, tests: str = "t.id IN (SELECT value FROM json_each(?))") -> Iterator[str]:
    """Statements that add the texts of the records whose ids a JSON list has."""
    listing = table.listing
    assert listing is not None
    if listing.searched:
        stored = _stored(table)
        names = ", ".join(["id", "organization_id", "shown", *(f'"{column}"' for column in stored)])
        shown = f"({shown_sql(table, 't')}) IS TRUE"
        values = ", ".join(["t.id", "t.organization_id", shown, *(f'folded(t."{column}")' for column in stored)])
        stored = ["shown", *stored]
        changed = ", ".join(f'"{column}" = excluded."{column}"' for column in stored)
        differs = " OR ".join(f'"{column}" IS NOT excluded."{column}"' for column in stored)
        yield (
            f'INSERT INTO "{table.name}_texts" ({names}) SELECT {values} FROM "{table.name}" t WHERE {tests}'
            f" ON CONFLICT (id) DO UPDATE SET {changed} WHERE {differs}"
        )


def _stored(table: Table) -> list[str]:
    # The id is searched like any other column where it is listed, and stands for the record in any case.
    assert table.listing is not None
    return [column for column in (*table.listing.searched, *table.listing.folded) if column != "id"]
