"""The lines of a voided invoice as those of the one that is made in its place."""

from __future__ import annotations

from decimal import Decimal

from tests.core.builders import NOW, fee, fees, invoice, settle, tax

from usagebill.core.invoices.regeneration import copied_line, relinked
from usagebill.core.taxes import net_of_coupons


def test_a_copy_has_nothing_taken_off_taxed_or_paid() -> None:
    taxed = settle([fee(1000, payment_status="succeeded", succeeded_at=NOW)], [tax("20")]).fees[0]
    copy = copied_line(taxed, invoice(id="again", self_billed=True), id="copy", now=NOW)
    assert (copy.invoice_id, copy.self_billed, copy.original_fee_id) == ("again", True, taxed.id)
    assert (copy.amount_cents, copy.units, copy.item) == (1000, taxed.units, taxed.item)
    assert (copy.taxes_amount_cents, copy.taxes_rate, copy.applied_taxes) == (0, 0, ())
    assert (copy.payment_status, copy.succeeded_at) == ("pending", None)
    assert net_of_coupons(copy) == Decimal(1000)


def test_a_copy_of_a_copy_names_the_first_line() -> None:
    once = copied_line(fee(1000, id="first"), invoice(id="second"), id="a", now=NOW)
    assert copied_line(once, invoice(id="third"), id="b", now=NOW).original_fee_id == "first"


def test_a_minimum_follows_the_copy_of_its_line_or_stands_alone() -> None:
    line, minimum, other = fees(700, 300, 50)
    kept = [
        ("old line", copied_line(line, invoice(), id="line", now=NOW)),
        ("old minimum", fee(300, id="minimum", true_up_parent_fee_id="old line")),
        (None, other),
    ]
    assert [(copy.id, copy.true_up_parent_fee_id) for copy in relinked(kept)] == [
        ("line", None),
        ("minimum", "line"),
        (other.id, None),
    ]
    alone = relinked(kept[1:])[0]
    assert (minimum.amount_cents, alone.true_up_parent_fee_id) == (alone.amount_cents, None)
