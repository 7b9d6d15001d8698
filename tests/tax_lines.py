"""One answer to how much tax there is at each rate: the document, its XML, the `taxes` export and the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TypeVar

from usagebill.core.credit_notes import CreditNote
from usagebill.core.currencies import exponent, major_from_cents
from usagebill.core.documents.electronic import ElectronicDocument, credit_note_document, invoice_document
from usagebill.core.fees import AppliedTax, Fee, TaxKey
from usagebill.core.invoices.records import Invoice
from usagebill.core.ledger import Account, Movement
from usagebill.core.numbers import total
from usagebill.operations.documents.sources import credit_note_source, invoice_source
from usagebill.operations.exports import EXPORTS
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq

Taxes = dict[TaxKey, int]
K = TypeVar("K")
V = TypeVar("V")


def agree_on_taxes(reader: Reader) -> None:
    """Assert that every issued invoice and credit note has lines of tax that add up, and that all others repeat."""
    exported: dict[tuple[object, object], Taxes] = defaultdict(dict)
    for row in EXPORTS["taxes"].rows(reader, None, None):
        if row["tax_code"] is not None and row["document_type"] != "void":
            key = str(row["tax_code"]), Decimal(str(row["tax_rate"]))
            exported[row["document_type"], row["number"]][key] = int(str(row["tax_amount_cents"]))
    posted: dict[str, Taxes] = defaultdict(dict)
    for movement in reader.tx.find(Movement):
        assert movement.account != Account.ROUNDING, movement
        if movement.account in (Account.TAX, Account.INPUT_TAX) and movement.tax_code and movement.tax_rate is not None:
            taxes = posted[movement.document_id]
            key = movement.tax_code, movement.tax_rate
            taxes[key] = taxes.get(key, 0) + movement.amount_cents
    for invoice in reader.tx.find(Invoice, eq("status", "finalized")):
        lines = _lines(invoice.applied_taxes)
        assert sum(lines.values()) == invoice.taxes_amount_cents
        assert exported["invoice", invoice.number] == lines
        # The side says who owes the tax: the entity, or the seller of a self-billed invoice.
        sign = 1 if invoice.self_billed else -1
        assert _nonzero(posted[invoice.id]) == {key: sign * cents for key, cents in _nonzero(lines).items()}
        source = invoice_source(reader, invoice)
        _in_xml(invoice_document(source), source.fees, lines)
        for fee in source.fees:
            assert sum(line.amount_cents for line in fee.applied_taxes) == fee.taxes_amount_cents
    for note in reader.tx.find(CreditNote, eq("status", "finalized"), eq("of_void", False)):
        lines = _lines(note.applied_taxes)
        assert sum(lines.values()) == note.taxes_amount_cents
        assert exported["credit_note", note.number] == {key: -cents for key, cents in lines.items()}
        sign = -1 if note.self_billed else 1
        assert _nonzero(posted[note.id]) == {key: sign * cents for key, cents in _nonzero(lines).items()}
        of_note = credit_note_source(reader, note)
        _in_xml(credit_note_document(of_note), of_note.invoice.fees, lines)


def _lines(applied: Iterable[AppliedTax]) -> Taxes:
    return {line.key: line.amount_cents for line in applied}


def _nonzero(taxes: Mapping[K, V]) -> dict[K, V]:
    return {key: amount for key, amount in taxes.items() if amount}


def _in_xml(document: ElectronicDocument, fees: Iterable[Fee], lines: Taxes) -> None:
    """The XML's categories add up, and each has the lines of its taxes, if no tax is in two categories.

    XML has two decimals, and rounds dinars of three.
    """
    if exponent(document.currency) > 2:
        return
    stated = {group.rate: group.tax for group in document.groups if group.rate}
    whole = major_from_cents(sum(lines.values()), document.currency)
    assert total(stated.values()) == document.taxes == whole
    taken_together = {frozenset(line.key for line in fee.applied_taxes) for fee in fees if fee.taxes_rate}
    if len(frozenset().union(*taken_together)) == sum(map(len, taken_together)):
        by_rate: dict[Decimal, Decimal] = defaultdict(Decimal)
        for keys in taken_together:
            cents = sum(lines.get(key, 0) for key in keys)
            by_rate[total(rate for _, rate in keys)] += major_from_cents(cents, document.currency)
        assert _nonzero(stated) == _nonzero(by_rate)
