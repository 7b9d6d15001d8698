"""Events in PostgreSQL's SQL, and the tables of `storage.sql.usage_totals`. Numbers are `numeric`, to the last digit.

Each organization numbers its events, so it has its own place in `usage_rolled_up`; whoever rolls up or edits totals
holds the organization's lock, so that a writer never reads totals of two moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from usagebill.storage.postgresql.connection import Connection
from usagebill.storage.sql.statements import Statement
from usagebill.storage.sql.usage_totals import EDITED, MIN_WAITING, MissingSeries, TotalsDialect


class PostgresDialect(TotalsDialect):
    """See `storage.sql.counting.Dialect` and `storage.sql.usage_totals.TotalsDialect`."""

    numbers_by_organization = True
    apart = " OFFSET 0"
    by_time = listed = marked = ahead = in_advance = newest = "events"
    is_marked = "uncounted"
    rows_in = "json_array_elements({}::json) AS listed (value)"
    is_in_advance = "in_advance"
    texts_in = "json_array_elements_text({}::json)"
    array = "jsonb_build_array"
    least, greatest = "least", "greatest"
    price = "precise_total_amount_cents::numeric"
    is_number = "v IS NOT NULL"
    number = "v"
    total, largest = "SUM(v)", "MAX(v)"
    change, moment = "SUM(weighted)", "SUM(weighted * held_at)"
    names_operation = "(coalesce(texts, properties) ->> 'operation_type') IS NOT NULL"
    month = "to_char(to_timestamp(floor(timestamp / 1000000.0)::double precision) AT TIME ZONE 'UTC', 'YYYYMM')::bigint"
    totals_key = "series, width, bucket, digest"
    # Texts of properties may be longer than an index takes.
    further_totals: ClassVar[Mapping[str, str]] = {
        "digest": "sha256(convert_to(jsonb_build_array(key, value)::text, 'UTF8'))",
    }

    def text(self, statement: Statement, key: str) -> str:
        return f"(coalesce(texts, properties) ->> {statement.bind(key)}::text)"

    def numbers(self, statement: Statement, key: str) -> Mapping[str, str]:
        return {"v": self.weighted(statement, key)}

    def weighted(self, statement: Statement, key: str) -> str:
        return f"(numbers ->> {statement.bind(key)}::text)::numeric"

    def is_one_of(self, statement: Statement, column: str, numbers: Sequence[int]) -> str:
        return f"{column} = ANY({statement.bind(list(numbers))}::bigint[])"

    def is_one_of_rows(self, statement: Statement, texts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        columns = ", ".join(f"{statement.bind(list(column))}::text[]" for column in zip(*rows, strict=True))
        return f"({', '.join(texts)}) IN (SELECT * FROM unnest({columns}))"

    def sum_of(self, column: str) -> str:
        return f"SUM({column})"

    def largest_of(self, column: str) -> str:
        return f"MAX({column})"

    def added(self, one: str, other: str) -> str:
        return f"coalesce({one} + {other}, {one}, {other})"

    def larger(self, one: str, other: str) -> str:
        return f"greatest({one}, {other})"


DIALECT: Final = PostgresDialect()

_C: Final = 'text COLLATE "C"'
TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS usage_series (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, organization_id {_C} NOT NULL,
    external_subscription_id {_C} NOT NULL, code {_C} NOT NULL, kind {_C} NOT NULL, field {_C} NOT NULL,
    keys {_C} NOT NULL, base bigint NOT NULL, built_to bigint);
CREATE INDEX IF NOT EXISTS usage_series_of ON usage_series (organization_id, external_subscription_id, code);
CREATE TABLE IF NOT EXISTS usage_totals (
    series bigint NOT NULL, width bigint NOT NULL, bucket bigint NOT NULL, digest bytea NOT NULL,
    organization_id {_C} NOT NULL, key jsonb NOT NULL, value text NOT NULL, n bigint NOT NULL, total numeric,
    top numeric, moment numeric, paid numeric, first_at bigint NOT NULL, first_sequence bigint NOT NULL,
    last_at bigint NOT NULL, received_at bigint NOT NULL, spoken integer NOT NULL,
    PRIMARY KEY (series, width, bucket, digest)) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS usage_rolled_up (
    organization_id {_C} PRIMARY KEY, sequence bigint NOT NULL) WITH (fillfactor = 50);
"""


def _trigger(name: str, fires: str, body: str) -> tuple[str, str]:
    """The statements for a trigger; its function finds our tables in any schema."""
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT"
        f" AS $$ BEGIN {body} RETURN NULL; END $$",
        f"CREATE OR REPLACE TRIGGER {name} {fires} EXECUTE FUNCTION {name}()",
    )


_DROP_EDITED: Final = "".join(
    f"DELETE FROM {table} t USING usage_rolled_up r"
    f" WHERE r.organization_id = t.organization_id AND r.sequence = {EDITED};"
    for table in ("usage_totals", "usage_series")
)
# None for inserts, which would slow down ingestion. Marks do not affect counts.
_COUNTED_COLUMNS: Final = (
    "sequence, id, organization_id, transaction_id, code, external_subscription_id, timestamp, properties,"
    " precise_total_amount_cents, created_at, texts, numbers"
)
TRIGGERS: Final = (
    *_trigger(
        "usage_events_deleted",
        "AFTER DELETE ON events REFERENCING OLD TABLE AS gone FOR EACH STATEMENT",
        f"UPDATE usage_rolled_up r SET sequence = {EDITED} FROM (SELECT organization_id, MIN(sequence) AS first"
        " FROM gone GROUP BY organization_id) g WHERE g.organization_id = r.organization_id AND g.first <= r.sequence;"
        f" {_DROP_EDITED}",
    ),
    *_trigger(
        "usage_event_changed",
        f"AFTER UPDATE OF {_COUNTED_COLUMNS} ON events FOR EACH ROW",
        f"UPDATE usage_rolled_up SET sequence = {EDITED} WHERE (organization_id = OLD.organization_id AND sequence >="
        " OLD.sequence) OR (organization_id = NEW.organization_id AND sequence >= NEW.sequence);"
        f" IF FOUND THEN {_DROP_EDITED} END IF;",
    ),
    *_trigger(
        "usage_events_truncated",
        "AFTER TRUNCATE ON events FOR EACH STATEMENT",
        f"UPDATE usage_rolled_up SET sequence = {EDITED}; {_DROP_EDITED}",
    ),
)
# Of the running states of versions before 11.
FORMER: Final = (
    "DROP TABLE IF EXISTS usage_states, usage_slots, usage_dropped, usage_series, usage_rolled_up",
    "DROP FUNCTION IF EXISTS usage_series_dropped",
)

_BEHIND: Final = """
SELECT r.organization_id FROM usage_rolled_up r LEFT JOIN sequences q
ON q.organization_id = r.organization_id AND q.name = 'events'
WHERE EXISTS (SELECT 1 FROM usage_series s WHERE s.organization_id = r.organization_id
    AND (q.value - r.sequence >= {} OR s.built_to IS NOT NULL))
ORDER BY q.value - r.sequence DESC NULLS LAST LIMIT 1
"""


def behind(connection: Connection, missing: MissingSeries) -> str | None:
    """An organization for which `UsageTotals.roll_up` has something to do that is worth a transaction."""
    for organization_id in missing.organizations():
        return organization_id
    row = connection.execute(_BEHIND.format(int(MIN_WAITING))).fetchone()
    return None if row is None else str(row[0])
