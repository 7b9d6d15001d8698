"""Lists of credit notes. Notes on drafts are hidden until their invoice is finalized."""

from __future__ import annotations

from usagebill.core.credit_notes import CreditNote, CreditNoteReason, CreditNoteStatus, CreditStatus
from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ceil_to, floor_to
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.filters import (
    CUSTOMER_COLUMNS,
    amount,
    day,
    flag,
    known_values,
    named_entities,
    search_conditions,
)
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import (
    Condition,
    any_of,
    asc,
    at_least,
    at_most,
    desc,
    eq,
    more,
    related,
    same_text,
    within,
)
from usagebill.storage.ports import Page

_TYPES = ("credit", "refund", "offset")


@Input
class CreditNoteFilters:
    """Filters of lists of credit notes; values that no note can have are ignored."""

    external_customer_id: Maybe[str] = ABSENT
    issuing_date_from: Maybe[str] = ABSENT
    issuing_date_to: Maybe[str] = ABSENT
    amount_from: Maybe[str] = ABSENT
    amount_to: Maybe[str] = ABSENT
    credit_status: Maybe[object] = described("Only those with this credit status.", values=tuple(CreditStatus))
    refund_status: Maybe[object] = ABSENT
    reason: Maybe[object] = described("Only those with these reasons.", values=tuple(CreditNoteReason))
    types: Maybe[object] = described("Only those with one of these parts.", values=("credit", "refund", "offset"))
    currency: Maybe[str] = ABSENT
    invoice_number: Maybe[str] = described("Only those of the invoice with this number.")
    purchase_order_number: Maybe[str] = ABSENT
    self_billed: Maybe[object] = ABSENT
    billing_entity_codes: Maybe[tuple[str, ...]] = ABSENT
    search_term: Maybe[str] = ABSENT


def list_all(reader: Reader, options: CreditNoteFilters, paging: Paging) -> Page[CreditNote]:
    """The credit notes that match, latest first."""
    conditions = _conditions(reader, options)
    if options.external_customer_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", options.external_customer_id)))
    return reader.page(CreditNote, *conditions, paging=paging, order=[desc("created_at"), asc("id")])


def list_of_customer(reader: Reader, external_id: str, options: CreditNoteFilters, paging: Paging) -> Page[CreditNote]:
    """The credit notes of one customer, latest first. Raises `NotFound` for an unknown customer."""
    of_customer = eq("customer_id", customer_by_external_id(reader, external_id).id)
    conditions = [of_customer, *_conditions(reader, options)]
    return reader.page(CreditNote, *conditions, paging=paging, order=[desc("created_at"), asc("id")])


def _conditions(reader: Reader, options: CreditNoteFilters) -> list[Condition]:
    problems: dict[str, object] = {}
    lowest = amount("amount_from", options.amount_from, problems)
    highest = amount("amount_to", options.amount_to, problems)
    self_billed = flag("self_billed", options.self_billed, problems)
    since = day("issuing_date_from", options.issuing_date_from, problems)
    until = day("issuing_date_to", options.issuing_date_to, problems)
    if problems:
        raise Invalid(problems)
    conditions: list[Condition] = [eq("status", CreditNoteStatus.FINALIZED)]
    if since is not None:
        conditions.append(at_least("issuing_date", since))
    if until is not None:
        conditions.append(at_most("issuing_date", until))
    if lowest is not None:
        conditions.append(at_least("total_amount_cents", int(ceil_to(lowest, 0))))
    if highest is not None:
        conditions.append(at_most("total_amount_cents", int(floor_to(highest, 0))))
    for column, value, options_known in (
        ("credit_status", options.credit_status, tuple(CreditStatus)),
        ("refund_status", options.refund_status, INVOICE_PAYMENT_STATUSES),
        ("reason", options.reason, tuple(CreditNoteReason)),
    ):
        values = known_values(value, options_known)
        if values is not None:
            conditions.append(within(column, values))
    types = known_values(options.types, _TYPES)
    if types is not None:
        conditions.append(any_of(*(more(f"{kind}_amount_cents", 0) for kind in types)))
    if options.currency:
        conditions.append(eq("currency", options.currency))
    if options.invoice_number:
        conditions.append(related(Invoice, "invoice_id", eq("number", options.invoice_number)))
    if options.purchase_order_number:
        conditions.append(same_text("purchase_order_number", options.purchase_order_number))
    if self_billed is not None:
        conditions.append(eq("self_billed", self_billed))
    if options.billing_entity_codes:
        conditions.append(within("billing_entity_id", named_entities(reader, options.billing_entity_codes)))
    return conditions + search_conditions(options.search_term, ("id", "number"), CUSTOMER_COLUMNS)
