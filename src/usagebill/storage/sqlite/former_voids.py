"""Credit notes that voids made, in files of a time when notes did not say so."""

from __future__ import annotations

from usagebill.storage.sqlite.filter_links import Connection


def mark_notes_of_voids(connection: Connection) -> None:
    """Notes that were made by the void of their invoice are known by the text that they got; those for the remainder
    were voided at once.
    """
    of_void = "description = 'Credit note created due to voided invoice ' || invoice_id"
    connection.execute(f"UPDATE credit_notes SET of_void = 1 WHERE {of_void}")
    connection.execute(
        "UPDATE credit_notes SET withdrawn_amount_cents = credit_amount_cents"
        f" WHERE {of_void} AND credit_status = 'voided' AND voided_at = created_at"
    )
