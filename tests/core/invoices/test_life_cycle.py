"""The life of an invoice."""

from __future__ import annotations

import pytest

from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.life_cycle import TRANSITIONS, InvoiceEvent, InvoiceStatus, transition


def test_every_move_of_the_table_is_made_and_no_other() -> None:
    for status in InvoiceStatus:
        for event in InvoiceEvent:
            if (status, event) in TRANSITIONS:
                assert transition(status, event) is TRANSITIONS[status, event]
            else:
                with pytest.raises(NotAllowed):
                    transition(status, event)


def test_nothing_leaves_the_ends_and_an_issued_invoice_can_only_be_voided() -> None:
    ends = {InvoiceStatus.VOIDED, InvoiceStatus.CLOSED, InvoiceStatus.DELETED}
    assert not [move for move in TRANSITIONS if move[0] in ends]
    assert [move[1] for move in TRANSITIONS if move[0] is InvoiceStatus.FINALIZED] == [InvoiceEvent.VOID]


def test_every_state_is_reached_from_the_first() -> None:
    reached = {InvoiceStatus.GENERATING}
    for _ in InvoiceStatus:
        reached |= {after for (before, _), after in TRANSITIONS.items() if before in reached}
    assert reached == set(InvoiceStatus)


@pytest.mark.parametrize(
    ("status", "event", "code"),
    [
        (InvoiceStatus.DRAFT, InvoiceEvent.VOID, "not_voidable"),
        (InvoiceStatus.VOIDED, InvoiceEvent.VOID, "not_voidable"),
        (InvoiceStatus.FINALIZED, InvoiceEvent.DELETE, "not_deletable"),
        (InvoiceStatus.FINALIZED, InvoiceEvent.RETRY, "invalid_status"),
    ],
)
def test_what_is_refused_says_why(status: InvoiceStatus, event: InvoiceEvent, code: str) -> None:
    with pytest.raises(NotAllowed, match=code):
        transition(status, event)
