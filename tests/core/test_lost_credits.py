"""Credits of ended wallets: lost with which invoices, and given back by which credit notes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.core.builders import NOW, inbound, invoice, note

from usagebill.core.lost_credits import is_lost


@pytest.mark.parametrize(
    ("status", "credited", "with_void", "lost"),
    [
        ("finalized", 0, False, False),
        ("voided", 0, False, True),
        ("closed", 0, False, True),
        ("voided", 999, False, True),
        ("voided", 1000, False, False),
        # The note that was issued with the void decided what is given back.
        ("voided", 1, True, False),
    ],
)
def test_credits_are_lost_with_an_invoice_unless_a_note_gave_them_back(
    status: str, credited: int, with_void: bool, lost: bool
) -> None:
    voided = invoice(status=status, voided_at=NOW if with_void else NOW + timedelta(hours=1))
    notes = [replace(note("note", 0), total_amount_cents=credited, created_at=NOW)] if credited else []
    assert is_lost(inbound("spent", 1000), voided, notes) is lost
