"""Numbers of invoices: in which series an invoice counts, what its number reads, and what the audit says of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.core.builders import invoice, parties

from usagebill.core.audit import Numbered
from usagebill.core.invoices.numbering import customer_series, entity_series, series_of, with_numbers
from usagebill.core.number_audit import audited_last_number, audited_number

MAY = datetime(2024, 5, 31, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("document_numbering", "numbers", "number", "of_entity"),
    [
        ("per_customer", (7, 12), "E-003-007", 12),
        ("per_billing_entity", (7, 12), "E-202405-012", 12),
        # A self-billed invoice counts for the customer alone.
        ("per_customer", (7,), "E-003-007", None),
        ("per_billing_entity", (7,), "E-003-007", None),
        ("per_billing_entity", (7, 1234), "E-202405-1234", 1234),
    ],
)
def test_what_a_number_reads(
    document_numbering: str, numbers: tuple[int, ...], number: str, of_entity: int | None
) -> None:
    of = parties(entity={"document_numbering": document_numbering}, sequential_id=3)
    numbered = with_numbers(invoice(), numbers, customer=of.customer, entity=of.entity, month=MAY)
    assert (numbered.number, numbered.sequential_id, numbered.entity_sequential_id) == (number, 7, of_entity)
    issued = invoice(
        number=numbered.number,
        sequential_id=numbered.sequential_id,
        entity_sequential_id=numbered.entity_sequential_id,
        self_billed=of_entity is None,
    )
    assert list(audited_number(of.customer, issued)) == []


@pytest.mark.parametrize("self_billed", [False, True])
def test_every_invoice_counts_for_its_customer_and_all_but_self_billed_ones_for_the_entity(self_billed: bool) -> None:
    of = parties()
    series = series_of(invoice(self_billed=self_billed), of.customer, of.entity)
    assert series[0] == customer_series("entity", "customer")
    assert series[1:] == (() if self_billed else (entity_series("entity"),))


@pytest.mark.parametrize(
    ("number", "of_customer", "of_entity"),
    [("E-003-008", 7, 12), ("E-202405-013", 7, 12), ("E-003-007", None, None), ("E-003-007", 7, None)],
)
def test_a_number_that_names_no_position_is_found(number: str, of_customer: int | None, of_entity: int | None) -> None:
    issued = invoice(number=number, sequential_id=of_customer, entity_sequential_id=of_entity)
    assert [finding.check for finding in audited_number(parties(sequential_id=3).customer, issued)] == ["number"]


@pytest.mark.parametrize(("given", "checks"), [(5, []), (6, ["number_gap"]), (4, ["number_repeated"])])
def test_the_last_invoice_has_the_number_that_was_given_last(given: int, checks: list[str]) -> None:
    last = Numbered(id="invoice", number="E-003-005", series="customer acme", position=5)
    assert [finding.check for finding in audited_last_number(last, given)] == checks
