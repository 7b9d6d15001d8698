"""Lists of invoices."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.customers import Customer
from usagebill.core.errors import Invalid
from usagebill.core.invoices.life_cycle import VISIBLE, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import ceil_to, floor_to
from usagebill.core.statuses import INVOICE_PAYMENT_STATUSES
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.filters import (
    CUSTOMER_COLUMNS,
    amount,
    choices,
    day,
    either,
    flag,
    metadata_conditions,
    named_entities,
    search_conditions,
)
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import (
    Condition,
    all_of,
    any_of,
    asc,
    at_least,
    at_most,
    desc,
    eq,
    less_than_column,
    missing,
    more,
    ne,
    negate,
    present,
    related,
    same_text,
    within,
)
from usagebill.storage.ports import Page

_SETTLEMENTS = ("payment", "credit_note")


@Input
class InvoiceFilters:
    """Filters of lists of invoices. Amounts are totals in cents; both bounds are inclusive."""

    external_customer_id: Maybe[str] = ABSENT
    customer_external_id: Maybe[str] = described("Only those of this customer, by your own id.")
    status: Maybe[object] = described("Only those with these statuses.", values=tuple(InvoiceStatus))
    statuses: Maybe[object] = described("The same as `status`.", values=tuple(InvoiceStatus))
    payment_status: Maybe[object] = described(
        "Only those with these payment statuses.", values=INVOICE_PAYMENT_STATUSES
    )
    payment_statuses: Maybe[object] = described(
        "Only those with one of these payment statuses.", values=INVOICE_PAYMENT_STATUSES
    )
    payment_overdue: Maybe[object] = described("Only overdue ones, or only others.")
    payment_dispute_lost: Maybe[object] = described("Only those with a lost dispute, or only others.")
    partially_paid: Maybe[object] = described("Only partially paid ones, or only others.")
    overpaid: Maybe[object] = described("Only those that were paid beyond what is due, or only others.")
    self_billed: Maybe[object] = ABSENT
    invoice_type: Maybe[str] = described("Only those of this type.", values=tuple(InvoiceType))
    currency: Maybe[str] = ABSENT
    issuing_date_from: Maybe[str] = ABSENT
    issuing_date_to: Maybe[str] = ABSENT
    amount_from: Maybe[str] = ABSENT
    amount_to: Maybe[str] = ABSENT
    purchase_order_number: Maybe[str] = ABSENT
    settlements: Maybe[object] = described(
        "Only those settled by payments, credit notes or both.", values=("payment", "credit_note")
    )
    billing_entity_codes: Maybe[tuple[str, ...]] = ABSENT
    metadata: Maybe[Mapping[str, object]] = ABSENT
    search_term: Maybe[str] = ABSENT


def list_all(reader: Reader, options: InvoiceFilters, paging: Paging) -> Page[Invoice]:
    """The invoices that match, the latest issuing date first."""
    conditions = _conditions(reader, options)
    external_id = options.external_customer_id or options.customer_external_id
    if external_id:
        conditions.append(related(Customer, "customer_id", eq("external_id", external_id)))
    return _page(reader, conditions, options, paging, of_customer=bool(external_id))


def list_of_customer(reader: Reader, external_id: str, options: InvoiceFilters, paging: Paging) -> Page[Invoice]:
    """The invoices of one customer. Raises `NotFound` for an unknown customer."""
    customer = customer_by_external_id(reader, external_id)
    conditions = [eq("customer_id", customer.id), *_conditions(reader, options)]
    return _page(reader, conditions, options, paging, of_customer=True)


def _page(
    reader: Reader, conditions: list[Condition], options: InvoiceFilters, paging: Paging, *, of_customer: bool
) -> Page[Invoice]:
    columns = () if of_customer else CUSTOMER_COLUMNS
    conditions += search_conditions(options.search_term, ("number",), columns)
    return reader.page(Invoice, *conditions, paging=paging, order=[desc("issuing_date"), desc("created_at"), asc("id")])


def _conditions(reader: Reader, options: InvoiceFilters) -> list[Condition]:
    problems: dict[str, object] = {}
    statuses = choices("status", either(options.status, options.statuses), VISIBLE, problems)
    payment_statuses = choices(
        "payment_status", either(options.payment_status, options.payment_statuses), INVOICE_PAYMENT_STATUSES, problems
    )
    settlements = choices("settlements", options.settlements, _SETTLEMENTS, problems)
    flags = {
        name: flag(name, getattr(options, name), problems)
        for name in ("payment_overdue", "payment_dispute_lost", "partially_paid", "overpaid", "self_billed")
    }
    bounds = {name: amount(name, getattr(options, name), problems) for name in ("amount_from", "amount_to")}
    metadata = metadata_conditions(options.metadata, problems)
    since = day("issuing_date_from", options.issuing_date_from, problems)
    until = day("issuing_date_to", options.issuing_date_to, problems)
    if problems:
        raise Invalid(problems)
    conditions = [within("status", statuses if statuses is not None else VISIBLE), *metadata]
    if options.billing_entity_codes:
        conditions.append(within("billing_entity_id", named_entities(reader, options.billing_entity_codes)))
    if payment_statuses is not None:
        conditions.append(within("payment_status", payment_statuses))
    if settlements is not None:
        conditions.append(any_of(*(_SETTLED_BY[kind] for kind in settlements)))
    if options.invoice_type:
        conditions.append(eq("invoice_type", options.invoice_type))
    if options.currency:
        conditions.append(eq("currency", options.currency))
    if options.purchase_order_number:
        conditions.append(same_text("purchase_order_number", options.purchase_order_number))
    conditions += _flag_conditions(flags)
    if (lowest := bounds["amount_from"]) is not None:
        conditions.append(at_least("total_amount_cents", int(ceil_to(lowest, 0))))
    if (highest := bounds["amount_to"]) is not None:
        conditions.append(at_most("total_amount_cents", int(floor_to(highest, 0))))
    if since is not None:
        conditions.append(at_least("issuing_date", since))
    if until is not None:
        conditions.append(at_most("issuing_date", until))
    return conditions


_SETTLED_BY: Mapping[str, Condition] = {
    "payment": more("total_paid_amount_cents", 0),
    "credit_note": more("total_offset_amount_cents", 0),
}


_OVERPAID = all_of(
    ne("status", InvoiceStatus.VOIDED),
    less_than_column("total_amount_cents", "total_paid_amount_cents", "total_offset_amount_cents"),
)


def _flag_conditions(flags: Mapping[str, bool | None]) -> list[Condition]:
    conditions: list[Condition] = [
        eq(name, flags[name]) for name in ("payment_overdue", "self_billed") if flags[name] is not None
    ]
    disputed = flags["payment_dispute_lost"]
    if disputed is not None:
        conditions.append(present("payment_dispute_lost_at") if disputed else missing("payment_dispute_lost_at"))
    partly = flags["partially_paid"]
    if partly is not None:
        paid = all_of(
            more("total_paid_amount_cents", 0), less_than_column("total_paid_amount_cents", "total_amount_cents")
        )
        conditions.append(paid if partly else negate(paid))
    overpaid = flags["overpaid"]
    if overpaid is not None:
        conditions.append(_OVERPAID if overpaid else negate(_OVERPAID))
    return conditions
