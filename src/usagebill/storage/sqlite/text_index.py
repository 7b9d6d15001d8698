"""The text index of searches, written with the records.

For a kind that is searched, `<table>_texts` has the case-folded (`texts.folded`) columns that are searched, or compared
as a whole, for all records; `shown` marks listed ones. `<table>_search` indexes every three letters of the searched
columns. `<table>_short` indexes every one and two letters (`texts.short_tokens`), with those of the record that a
record is searched with (`party` is its place in the texts), and the organization of listed records. Triggers keep the
indexes up to date.
"""

from __future__ import annotations

from collections.abc import Iterator

from usagebill.storage.sqlite.counts import shown_columns, shown_sql
from usagebill.storage.tables import Table, table_of


def text_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    """Type, name and statement of every schema object for the texts of a table, in order of creation."""
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
    if table.listing.searched_with is not None:
        declared = f", party INTEGER{declared}"
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
    yield from _short_definitions(table)


def _short_definitions(table: Table) -> Iterator[tuple[str, str, str]]:
    assert table.listing is not None
    texts, short, joined = f"{table.name}_texts", f"{table.name}_short", table.listing.searched_with
    yield (
        "table",
        short,
        f"CREATE VIRTUAL TABLE \"{short}\" USING fts5(tokens, content='', detail=none, columnsize=0, tokenize='ascii')",
    )
    watched = ["shown", *table.listing.searched, *(["party"] if joined else [])]
    differs = " OR ".join(f'old."{column}" IS NOT new."{column}"' for column in watched)
    add, remove = _short_sql(table, "new", ""), _short_sql(table, "old", "delete")
    for event, when, actions in (
        ("insert", "", add),
        ("delete", "", remove),
        ("update", f" WHEN {differs}", f"{remove} {add}"),
    ):
        trigger = f"{short}_{event}"
        yield (
            "trigger",
            trigger,
            f'CREATE TRIGGER "{trigger}" AFTER {event.upper()} ON "{texts}"{when} BEGIN {actions} END',
        )
    if joined is None:
        return
    index = f"{texts}_party"
    yield "index", index, f'CREATE INDEX "{index}" ON "{texts}" (party, shown)'
    party = table_of(joined.kind).name
    differs = " OR ".join(f'old."{column}" IS NOT new."{column}"' for column in joined.columns)
    # These triggers belong to the table of the party's texts: if it is dropped, they are too, and all of this is
    # recreated.
    for event, when, actions in (
        (
            "AFTER INSERT",
            # Documents are rarely written earlier than their customers.
            f' WHEN EXISTS (SELECT 1 FROM "{texts}" WHERE party IS NULL)',
            f'UPDATE "{texts}" SET party = new.sequence WHERE id IN (SELECT t.id FROM "{table.name}" t'
            f' WHERE t.organization_id = new.organization_id AND t."{joined.column}" = new.id);',
        ),
        (
            "AFTER UPDATE",
            f" WHEN {differs}",
            f"{_short_of_party_sql(table, 'old', 'delete')} {_short_of_party_sql(table, 'new', '')}",
        ),
        # Before the change, because the removed tokens are computed from the current row.
        ("BEFORE DELETE", "", f'UPDATE "{texts}" SET party = NULL WHERE party = old.sequence;'),
    ):
        trigger = f"{short}_of_{party}_{event.split()[1].lower()}"
        yield "trigger", trigger, f'CREATE TRIGGER "{trigger}" {event} ON "{party}_texts"{when} BEGIN {actions} END'


def _tokens_sql(table: Table, row: str, party: str) -> str:
    assert table.listing is not None
    joined = table.listing.searched_with
    texts = [f'{row}."{column}"' for column in table.listing.searched]
    texts += [f'{party}."{column}"' for column in joined.columns] if joined else []
    return f"short_tokens(iif({row}.shown, {row}.organization_id, NULL), {', '.join(texts)})"


def _short_sql(table: Table, row: str, command: str) -> str:
    """A trigger's statement that adds the short tokens of a row of texts, or applies a command to them."""
    assert table.listing is not None
    joined = table.listing.searched_with
    source = ""
    if joined is not None:
        source = f' FROM (SELECT 1) LEFT JOIN "{table_of(joined.kind).name}_texts" c ON c.sequence = {row}.party'
    return f"{_into_short(table, command)}{row}.sequence, {_tokens_sql(table, row, 'c')}{source};"


def _short_of_party_sql(table: Table, party: str, command: str) -> str:
    """The same for all rows of a changed party."""
    source = f'FROM "{table.name}_texts" x WHERE x.party = {party}.sequence'
    return f"{_into_short(table, command)}x.sequence, {_tokens_sql(table, 'x', party)} {source};"


def _into_short(table: Table, command: str) -> str:
    short = f"{table.name}_short"
    if not command:
        return f'INSERT INTO "{short}" (rowid, tokens) SELECT '
    return f"""INSERT INTO "{short}" ("{short}", rowid, tokens) SELECT '{command}', """


def hidden_index_sql(table: Table) -> str:
    """The statement that creates the index of unlisted texts: they are few, so excluding them is fast."""
    return f'CREATE INDEX IF NOT EXISTS "{table.name}_texts_hidden" ON "{table.name}_texts" (shown) WHERE shown = 0'


def text_columns(table: Table) -> list[str]:
    """The columns that texts depend on."""
    assert table.listing is not None
    listing = table.listing
    if not listing.searched:
        return []
    party = [listing.searched_with.column] if listing.searched_with else []
    # Searched records are sorted by their counted values.
    return [*listing.searched, *party, *listing.folded, listing.order[0].column, *shown_columns(table)]


def remove_texts_sql(table: Table) -> Iterator[str]:
    """Statements that remove the texts of the record with an id."""
    assert table.listing is not None
    if table.listing.searched:
        yield f'DELETE FROM "{table.name}_texts" WHERE id = ?'


def add_texts_sql(table: Table, tests: str = "t.id IN (SELECT value FROM json_each(?))") -> Iterator[str]:
    """Statements that add the texts of the records in a JSON list of ids."""
    listing = table.listing
    assert listing is not None
    if listing.searched:
        stored = _stored(table)
        shown = f"({shown_sql(table, 't')}) IS TRUE"
        values = ["t.id", "t.organization_id", *(f'folded(t."{column}")' for column in stored), shown]
        stored.append("shown")
        if (joined := listing.searched_with) is not None:
            party = f'"{table_of(joined.kind).name}_texts" c WHERE c.id = t."{joined.column}"'
            values.append(f"(SELECT c.sequence FROM {party} AND c.organization_id = t.organization_id)")
            stored.append("party")
        names = ", ".join(f'"{column}"' for column in ("id", "organization_id", *stored))
        changed = ", ".join(f'"{column}" = excluded."{column}"' for column in stored)
        differs = " OR ".join(f'"{column}" IS NOT excluded."{column}"' for column in stored)
        yield (
            f'INSERT INTO "{table.name}_texts" ({names}) SELECT {", ".join(values)} FROM "{table.name}" t WHERE {tests}'
            f" ON CONFLICT (id) DO UPDATE SET {changed} WHERE {differs}"
        )


def _stored(table: Table) -> list[str]:
    # The id identifies the record, and may be a searched column too.
    assert table.listing is not None
    return [column for column in (*table.listing.searched, *table.listing.folded) if column != "id"]
