"""The ledger of files of a time when there was none: a job per customer posts the documents of the past."""

from __future__ import annotations

from uuid import uuid4

from usagebill.core.tasks import PostPast
from usagebill.storage.sqlite.filter_links import Connection


def post_past(connection: Connection) -> None:
    """Schedule the postings of each customer, as of its creation: they come before everything else that is due."""
    customers = connection.execute("SELECT id, organization_id, created_at FROM customers").fetchall()
    for id, organization_id, created_at in customers:
        connection.execute(
            "INSERT INTO jobs (id, organization_id, kind, subject_id, key, due_at, run_at, created_at, immediate, lane,"
            " payload, attempts, failed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '', '{}', 0, ?)",
            (
                str(uuid4()),
                organization_id,
                PostPast.kind,
                id,
                PostPast(customer_id=id).key,
                created_at,
                created_at,
                created_at,
                False,
                False,
            ),
        )
