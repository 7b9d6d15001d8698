"""Searches as SQL on the text index (`text_index`) and on `items` of metadata."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from usagebill.storage.conditions import AllOf, AnyOf, Condition, Negate, Related, Search
from usagebill.storage.listings import SearchedWith
from usagebill.storage.sqlite.packed_counts import numbers_of
from usagebill.storage.tables import table_of

# Shorter texts have their own index.
SHORTEST = 3
# The tokenizer stops at NUL, so the index has this character instead.
_REPLACED = "\N{REPLACEMENT CHARACTER}"
# If more records contain a text, unlisted ones are counted one by one and subtracted.
_MANY = 200_000
# Texts of at least this many letters are searched by only this many of their rarest pieces.
_LONG = 8
_RAREST = 2


def folded(text: str | None) -> str:
    """The case-folded text that searches compare with."""
    return "" if text is None else str(text).casefold().replace("\0", _REPLACED)


def short_tokens(organization_id: str | None, *texts: str | None) -> str:
    """Tokens of every single letter and pair of letters of folded `texts`, and one for the organization."""
    pieces: set[str] = set()
    for text in texts:
        if text:
            pieces.update(text)
            pieces.update(map(operator.add, text, text[1:]))
    tokens = list(map(_hex, pieces))
    if organization_id is not None:
        tokens.append(_organization_token(organization_id))
    return " ".join(tokens)


@lru_cache(maxsize=50_000)
def _hex(letters: str) -> str:
    return letters.encode().hex()


def _organization_token(organization_id: str) -> str:
    # All other tokens are hexadecimal.
    return "o" + organization_id.encode().hex()


def _is_short(term: str) -> bool:
    return 0 < len(term) < SHORTEST


def _token(term: str) -> str:
    """The query of the short-token index for a term."""
    return f'"{term.encode().hex()}"'


def _listed_token(term: str, organization_id: str) -> str:
    """The same among the organization's listed records."""
    return f'{_token(term)} AND "{_organization_token(organization_id)}"'


def short_query(term: str, organization_id: str) -> str | None:
    """The query of the short-token index for a folded term in an organization's listed records; None for longer
    terms."""
    return _listed_token(term, organization_id) if _is_short(term) else None


def is_all(kind: type, columns: Sequence[str], text: str) -> bool:
    """Whether these are all searched columns of the kind and the indexes cover the text."""
    return _is_all(kind, columns) and _is_indexed(kind, columns, text)


def _is_all(kind: type, columns: Sequence[str]) -> bool:
    """Whether the short tokens cover exactly these columns."""
    listing = table_of(kind).listing
    return listing is not None and set(columns) == set(listing.searched) and listing.searched_with is None


def _is_indexed(kind: type, columns: Sequence[str], text: str) -> bool:
    listing = table_of(kind).listing
    return (
        listing is not None
        and bool(listing.searched)
        and set(columns) <= set(listing.searched)
        and "\0" not in text
        and _REPLACED not in text
    )


def phrase(kind: type, columns: Sequence[str], text: str) -> str:
    """The query of the text index for a folded text in these columns."""
    quoted = text.replace('"', '""')
    listing = table_of(kind).listing
    if listing is not None and set(columns) == set(listing.searched):
        # Naming columns makes the search slower.
        return f'"{quoted}"'
    return f'{{{" ".join(columns)}}} : "{quoted}"'


def search_source(
    connection: sqlite3.Connection, kind: type, columns: Sequence[str], term: str
) -> tuple[str, list[Any]]:
    """The records with a folded text in these columns, by the text index: a table of `sequence`, and the bound values.

    By itself, the index would compare the places of every three letters, some of which are common in a long text. So
    only the rarest are searched, and the records that have them are compared with the whole text.
    """
    name = table_of(kind).name
    rarest = _rarest(connection, kind, term)
    if rarest is None:
        query = phrase(kind, columns, term)
        return f'(SELECT s.rowid AS sequence FROM "{name}_search" s WHERE "{name}_search" MATCH ?)', [query]
    query = " AND ".join(phrase(kind, columns, piece) for piece in rarest)
    values: list[Any] = [query]
    tests = _contained(columns, term, values)
    return (
        f'(SELECT x.sequence FROM "{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        f' WHERE "{name}_search" MATCH ? AND ({tests}))'
    ), values


def _is_long(term: str) -> bool:
    """Whether searching for the rarest pieces of a folded text is faster."""
    return len(term) >= _LONG


def _rarest(connection: sqlite3.Connection, kind: type, term: str) -> list[str] | None:
    """The pieces that the fewest records contain; None if the text is short, or common pieces are unknown."""
    if not _is_long(term) or not hasattr(connection, "total_changes"):
        return None
    pieces = dict.fromkeys(term[start : start + SHORTEST] for start in range(len(term) - SHORTEST + 1))
    numbers = numbers_of(connection, table_of(kind).name, pieces)
    if not numbers:
        return None
    return sorted(pieces, key=lambda piece: numbers.get(piece, 0))[:_RAREST]


def text_sql(kind: type, columns: Sequence[str], text: str, table: str, values: list[Any]) -> str | None:
    """The condition that a column of the record contains `text`, by the ids from the index; None without an index."""
    ids = found_sql(kind, columns, text, table, values)
    return None if ids is None else f"{table}.id IN ({ids})"


def found_sql(kind: type, columns: Sequence[str], text: str, table: str, values: list[Any]) -> str | None:
    """The ids of the records of the organization of `table` that contain `text`; None without an index."""
    term = text.casefold()
    if not _is_indexed(kind, columns, text):
        return None
    name = table_of(kind).name
    of_organization = f"x.organization_id = {table}.organization_id"
    if _is_short(term):
        values.append(_token(term))
        source = f'"{name}_short" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        among = "" if _is_all(kind, columns) else f" AND ({_contained(columns, term, values)})"
        return f'SELECT x.id FROM {source} WHERE "{name}_short" MATCH ? AND {of_organization}{among}'
    if not term:
        return f'SELECT x.id FROM "{name}_texts" x WHERE {of_organization}'
    values.append(phrase(kind, columns, term))
    return (
        f'SELECT x.id FROM "{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        f' WHERE "{name}_search" MATCH ? AND {of_organization}'
    )


def holds_text_sql(kind: type, columns: Sequence[str], text: str, table: str, values: list[Any]) -> str | None:
    """The same, looked up for one record."""
    if not _is_indexed(kind, columns, text):
        return None
    tests = _contained(columns, text.casefold(), values)
    return f'EXISTS (SELECT 1 FROM "{table_of(kind).name}_texts" x WHERE x.id = {table}.id AND ({tests}))'


def same_text_sql(kind: type, column: str, text: str, table: str, values: list[Any], gathered: bool) -> str | None:
    """The condition that the column equals `text`, ignoring case; None without an index."""
    listing = table_of(kind).listing
    if listing is None or column not in listing.folded or not text or "\0" in text or _REPLACED in text:
        return None
    values.append(text.casefold())
    tests = f'x."{column}" = ? AND x."{column}" != \'\''
    if gathered:
        return f'{table}.id IN (SELECT x.id FROM "{table_of(kind).name}_texts" x WHERE {tests})'
    return f'EXISTS (SELECT 1 FROM "{table_of(kind).name}_texts" x WHERE x.id = {table}.id AND {tests})'


def _contained(columns: Sequence[str], term: str, values: list[Any], row: str = "x") -> str:
    values.extend([term] * len(columns))
    return " OR ".join(f'instr({row}."{column}", ?) > 0' for column in columns)


def count_found(
    connection: sqlite3.Connection, kind: type, columns: Sequence[str], text: str, organization_id: str
) -> int | None:
    """The number of listed records that contain the text; None without an index."""
    if not _is_indexed(kind, columns, text):
        return None
    name, term = table_of(kind).name, text.casefold()
    values: list[Any] = []
    if _is_short(term) and _is_all(kind, columns):
        return _count_short(connection, name, term, organization_id)
    if len(term) < SHORTEST:
        source, tests = f'"{name}_texts" x', f"({_contained(columns, term, values)})"
    elif _is_alone(connection, organization_id):
        if not broad_search(connection, kind, columns, text, _MANY):
            hidden = f'SELECT x.sequence FROM "{name}_texts" x INDEXED BY "{name}_texts_hidden" WHERE x.shown = 0'
            shown = connection.execute(
                f'SELECT COUNT(*) FROM "{name}_search" s WHERE "{name}_search" MATCH ? AND s.rowid NOT IN ({hidden})',
                (phrase(kind, columns, term),),
            ).fetchone()
            return int(shown[0])
        tests = _contained(columns, term, values)
        matching, hidden = connection.execute(
            f'SELECT (SELECT COUNT(*) FROM "{name}_search" WHERE "{name}_search" MATCH ?), (SELECT COUNT(*)'
            f' FROM "{name}_texts" x INDEXED BY "{name}_texts_hidden" WHERE x.shown = 0 AND ({tests}))',
            (phrase(kind, columns, term), *values),
        ).fetchone()
        return int(matching - hidden)
    else:
        source = f'"{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
        tests = f'"{name}_search" MATCH ?'
        values.append(phrase(kind, columns, term))
    row = connection.execute(
        f"SELECT COUNT(*) FROM {source} WHERE {tests} AND x.organization_id = ? AND x.shown = 1",
        (*values, organization_id),
    ).fetchone()
    return int(row[0])


def _count_short(connection: sqlite3.Connection, name: str, term: str, organization_id: str) -> int:
    row = connection.execute(
        f'SELECT COUNT(*) FROM "{name}_short" WHERE "{name}_short" MATCH ?', (_listed_token(term, organization_id),)
    )
    return int(row.fetchone()[0])


def _is_alone(connection: sqlite3.Connection, organization_id: str) -> bool:
    """Whether the file has a single organization, so that no texts of others must be excluded."""
    return connection.execute("SELECT id FROM organizations LIMIT 2").fetchall() == [(organization_id,)]


# Searches in a record and in the one that it is searched with


def searched_together(kind: type, condition: Condition) -> str | None:
    """The text, if the condition searches all searched columns of the record and of the one it is searched with, and
    the indexes cover it.
    """
    match condition:
        case AnyOf((Search(columns, text), Related(party, column, (Search(party_columns, same),)))) if same == text:
            listing = table_of(kind).listing
            joined = None if listing is None else listing.searched_with
            if listing is None or joined != SearchedWith(party, column, party_columns):
                return None
            whole = set(columns) == set(listing.searched) and bool(text)
            return (
                text if whole and _is_indexed(kind, columns, text) and _is_indexed(party, party_columns, text) else None
            )
    return None


def together_sql(kind: type, text: str, table: str, values: list[Any], gathered: bool) -> str | None:
    """The condition that the record or the one it is searched with contains `text`; None if the parts of the condition
    are as fast."""
    name, term = table_of(kind).name, text.casefold()
    if gathered and not _is_short(term):
        return None
    if gathered:
        values.append(_token(term))
        return (
            f'{table}.id IN (SELECT x.id FROM "{name}_short" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
            f' WHERE "{name}_short" MATCH ? AND x.organization_id = {table}.organization_id)'
        )
    listing = table_of(kind).listing
    assert listing is not None
    assert listing.searched_with is not None
    tests = _contained(listing.searched, term, values)
    with_tests = _contained(listing.searched_with.columns, term, values, "c")
    return (
        f'EXISTS (SELECT 1 FROM "{name}_texts" x LEFT JOIN "{_party(kind)}_texts" c ON c.sequence = x.party'
        f" WHERE x.id = {table}.id AND ({tests} OR {with_tests}))"
    )


def _party(kind: type) -> str:
    listing = table_of(kind).listing
    assert listing is not None
    assert listing.searched_with is not None
    return table_of(listing.searched_with.kind).name


def count_together(connection: sqlite3.Connection, kind: type, text: str, organization_id: str) -> int:
    """The number of listed records with the text in themselves or in the record they are searched with: the sum of both
    counts, less the records with both, which are counted one by one.
    """
    listing = table_of(kind).listing
    assert listing is not None
    assert listing.searched_with is not None
    name, party, term = table_of(kind).name, _party(kind), text.casefold()
    if _is_short(term):
        return _count_short(connection, name, term, organization_id)
    columns, party_columns = listing.searched, listing.searched_with.columns
    with_text = count_found(connection, kind, columns, text, organization_id) or 0
    of_party = (
        f'FROM "{party}_search" s CROSS JOIN "{name}_texts" x INDEXED BY "{name}_texts_party" ON x.party = s.rowid'
        f' AND x.shown = 1 WHERE "{party}_search" MATCH ?'
    )
    of_parties = phrase(listing.searched_with.kind, party_columns, term)
    alone = _is_alone(connection, organization_id)
    of_organization, values = (
        ("", [of_parties]) if alone else (" AND x.organization_id = ?", [of_parties, organization_id])
    )
    belonging = connection.execute(f"SELECT COUNT(*) {of_party}{of_organization}", values).fetchone()[0]
    if not with_text or not belonging:
        return int(with_text + belonging)
    values = []
    if with_text <= belonging:
        values = [phrase(kind, columns, term), organization_id]
        both = (
            f'FROM "{name}_search" s CROSS JOIN "{name}_texts" x ON x.sequence = s.rowid'
            f' CROSS JOIN "{party}_texts" c ON c.sequence = x.party WHERE "{name}_search" MATCH ?'
            f" AND x.organization_id = ? AND x.shown = 1 AND ({_contained(party_columns, term, values, 'c')})"
        )
    else:
        values = [of_parties, organization_id]
        both = f"{of_party} AND x.organization_id = ? AND ({_contained(columns, term, values)})"
    return int(with_text + belonging - connection.execute(f"SELECT COUNT(*) {both}", values).fetchone()[0])


def broad_search(connection: sqlite3.Connection, kind: type, columns: Sequence[str], text: str, limit: int) -> bool:
    """Whether `text` is in more than `limit` records of the file."""
    term = text.casefold()
    if not _is_indexed(kind, columns, text):
        return False
    if not term:
        return True
    values: list[Any]
    if _is_short(term):
        index = f"{table_of(kind).name}_short"
        source, values = f'"{index}" WHERE "{index}" MATCH ?', [_token(term)]
    else:
        source, values = search_source(connection, kind, columns, term)
    counted = connection.execute(f"SELECT COUNT(*) FROM (SELECT 1 FROM {source} LIMIT ?)", (*values, limit + 1))
    return bool(counted.fetchone()[0] > limit)


def is_broad(connection: sqlite3.Connection, kind: type, conditions: Sequence[Condition], limit: int) -> bool:
    """Whether a walk soon meets matching records: all conditions are negated, or search a text that more than `limit`
    records have.
    """
    return all(
        isinstance(condition, Negate) or searches_broadly(connection, kind, condition, limit)
        for condition in conditions
    )


def searches_broadly(connection: sqlite3.Connection, kind: type, condition: Condition, limit: int) -> bool:
    """Whether the condition searches a text that more than `limit` records have."""
    match condition:
        case Search(columns, text):
            return broad_search(connection, kind, columns, text, limit)
        case AnyOf(several) | AllOf(several):
            return any(searches_broadly(connection, kind, inner, limit) for inner in several)
        case Related(related_kind, _, several):
            return any(searches_broadly(connection, related_kind, inner, limit) for inner in several)
    return False


def _item_tests(
    kind: type, column: str, members: tuple[tuple[str, object], ...] | str, values: list[Any]
) -> tuple[str, str] | None:
    listing = table_of(kind).listing
    if listing is None or column not in listing.items or listing.keys or isinstance(members, str):
        return None
    item = dict(members)
    if not item.keys() <= {"key", "value"} or "key" not in item:
        return None
    values.append(item["key"])
    tests = "x.key = ?"
    if "value" in item:
        values.append(item["value"])
        tests += " AND x.value = ?"
    return f"{table_of(kind).name}_{column}", tests


def items_sql(
    kind: type, column: str, members: tuple[tuple[str, object], ...] | str, table: str, values: list[Any]
) -> str | None:
    """The condition that a list of the record has the item, by the ids from an index; None without one."""
    indexed = _item_tests(kind, column, members, values)
    if indexed is None:
        return None
    name, tests = indexed
    return f'{table}.id IN (SELECT x.id FROM "{name}" x WHERE x.organization_id = {table}.organization_id AND {tests})'


def holds_items_sql(
    kind: type, column: str, members: tuple[tuple[str, object], ...] | str, table: str, values: list[Any]
) -> str | None:
    """The same, looked up in one record."""
    indexed = _item_tests(kind, column, members, values)
    if indexed is None:
        return None
    _, tests = indexed
    tests = tests.replace("x.key", "json_extract(x.value, '$.key')").replace(
        "x.value =", "json_extract(x.value, '$.value') ="
    )
    return f"""EXISTS (SELECT 1 FROM json_each(coalesce({table}."{column}", '[]')) x WHERE {tests})"""
