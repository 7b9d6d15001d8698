"""What becomes of an invoice whose turn to be issued it is."""

from __future__ import annotations

import pytest
from tests.core.builders import invoice

from usagebill.core.bills import issuing_event
from usagebill.core.invoices.life_cycle import InvoiceEvent


@pytest.mark.parametrize(
    ("cents", "tax_status", "may_be_empty", "sends_empty", "event"),
    [
        (100, None, True, False, InvoiceEvent.FINALIZE),
        (100, "succeeded", True, False, InvoiceEvent.FINALIZE),
        (100, "pending", True, False, InvoiceEvent.AWAIT_TAXES),
        (0, None, True, False, InvoiceEvent.CLOSE),
        (0, "pending", True, False, InvoiceEvent.CLOSE),
        (0, None, True, True, InvoiceEvent.FINALIZE),
        (0, "pending", True, True, InvoiceEvent.AWAIT_TAXES),
        # A threshold of usage that costs nothing has an invoice all the same.
        (0, None, False, False, InvoiceEvent.FINALIZE),
        (0, "pending", False, False, InvoiceEvent.AWAIT_TAXES),
    ],
)
def test_what_happens_to_an_invoice_that_is_to_be_issued(
    cents: int, tax_status: str | None, may_be_empty: bool, sends_empty: bool, event: InvoiceEvent
) -> None:
    computed = invoice(fees_amount_cents=cents, tax_status=tax_status)
    assert issuing_event(computed, may_be_empty=may_be_empty, sends_empty=sends_empty) is event
