"""Credit notes that voids made, in files of a time when notes did not say so."""

from __future__ import annotations

import sqlite3

from usagebill.storage.sqlite.former_voids import mark_notes_of_voids


def test_notes_of_voids_are_known_by_their_text_and_remainders_by_their_void_at_once() -> None:
    connection = sqlite3.connect(":memory:")
    columns = "id, invoice_id, description, credit_status, created_at, voided_at, credit_amount_cents"
    connection.execute(f"CREATE TABLE credit_notes ({columns}, of_void DEFAULT 0, withdrawn_amount_cents DEFAULT 0)")
    text = "Credit note created due to voided invoice I"
    rows = [
        ("given", "I", text, "available", "t1", None, 300),
        ("remainder", "I", text, "voided", "t1", "t1", 900),
        ("voided by hand", "I", text, "voided", "t1", "t2", 300),
        ("another invoice", "J", text, "voided", "t1", "t1", 300),
        ("plain", "I", None, "available", "t1", None, 300),
    ]
    connection.executemany(f"INSERT INTO credit_notes ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    mark_notes_of_voids(connection)
    marked = connection.execute("SELECT id, of_void, withdrawn_amount_cents FROM credit_notes").fetchall()
    assert marked == [
        ("given", 1, 0),
        ("remainder", 1, 900),
        ("voided by hand", 1, 0),
        ("another invoice", 0, 0),
        ("plain", 0, 0),
    ]
