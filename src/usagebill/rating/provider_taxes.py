"""Requests to tax providers, and the taxes of fees that are shown but not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.customers import Customer, timezone
from usagebill.core.days import local_date
from usagebill.core.errors import Invalid, TooManyProviderRequests
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoices.records import Invoice
from usagebill.core.tax_providers import (
    FailureKind,
    ProviderFailure,
    ProviderTaxes,
    Purpose,
    TaxConnection,
    TaxedItem,
    TaxedParty,
    TaxQuestion,
    address_of,
    fee_items,
    issuing_date_told,
    items_taxes_cents,
    provider_taxed,
)
from usagebill.queries.customers import entity_of
from usagebill.queries.tax_connections import connection_of
from usagebill.runtime.work import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxRequest:
    """A tax question and the connection that it goes to."""

    connection: TaxConnection
    question: TaxQuestion


def question(
    reader: Reader,
    customer: Customer,
    connection: TaxConnection,
    purpose: Purpose,
    items: tuple[TaxedItem, ...],
    invoice: Invoice | None = None,
    *,
    currency: str | None = None,
    number: str | None = None,
    document_id: str | None = None,
    request_id: str | None = None,
) -> TaxRequest:
    """The request to `connection` about `items` of the customer, dated as `invoice`, or today without one."""
    today = local_date(reader.now, ZoneInfo(timezone(customer, entity_of(reader, customer))))
    link = next((link for link in customer.integration_customers if link.connection_id == connection.id), None)
    tax_question = TaxQuestion(
        purpose=purpose,
        document_id=document_id,
        number=number,
        issuing_date=issuing_date_told(connection.kind, today if invoice is None else invoice.issuing_date, today),
        currency=currency or (customer.currency or "USD" if invoice is None else invoice.currency),
        party=TaxedParty(
            external_id=customer.external_id,
            provider_id=customer.external_id if link is None else link.external_customer_id,
            name=customer.legal_name or customer.name or customer.external_id,
            tax_identification_number=customer.tax_identification_number or None,
            address=address_of(customer),
        ),
        items=items,
        request_id=request_id,
    )
    return TaxRequest(connection=connection, question=tax_question)


def _answer_now(
    reader: Reader, customer: Customer, connection: TaxConnection, items: tuple[TaxedItem, ...], currency: str
) -> ProviderTaxes | ProviderFailure:
    asked = question(reader, customer, connection, Purpose.DRAFT, items, currency=currency)
    return reader.answer_to(asked.connection, asked.question)


def _in_order(fees: Sequence[Fee], item_codes: Mapping[str, str]) -> tuple[tuple[TaxedItem, ...], list[str]]:
    """The fees keyed by position, because fees that are not stored get a new id each time."""
    names = {fee.id: str(position) for position, fee in enumerate(fees, start=1)}
    return fee_items(fees, item_codes, named_by=lambda fee: names[fee.id]), list(names.values())


def estimated(reader: Reader, customer: Customer, fees: Sequence[Fee]) -> list[Fee] | None:
    """The fees (not stored) with the taxes that the customer's provider gives, without taxes if it gives none.

    None if the customer has no provider.
    """
    connection = connection_of(reader, customer)
    if connection is None:
        return None
    if not fees:
        return []
    items, names = _in_order(fees, connection.item_codes)
    answer = _answer_now(reader, customer, connection, items, fees[0].currency)
    if isinstance(answer, ProviderFailure):
        return list(fees)
    taxes = {item.item_id: item for item in answer.items}
    return [provider_taxed(fee, taxes[name], reader.now, reader.new_id) for fee, name in zip(fees, names, strict=True)]


def usage_taxes(
    reader: Reader, customer: Customer, currency: str, amounts: Sequence[tuple[str, str, int, Decimal]]
) -> int | None:
    """The taxes, in cents, on usage that is not billed yet; None if the customer has no provider.

    `amounts` are (code, name, cents, units), one for each charge. Raises `Invalid` if the provider gives none, and
    `TooManyProviderRequests` over its rate limit.
    """
    connection = connection_of(reader, customer)
    if connection is None:
        return None
    items = tuple(
        TaxedItem(
            id=str(position),
            code=connection.item_codes.get(code, code),
            fee_type=FeeType.CHARGE,
            name=name,
            units=units,
            amount_cents=cents,
        )
        for position, (code, name, cents, units) in enumerate(amounts, start=1)
    )
    if not items:
        return 0
    answer = _answer_now(reader, customer, connection, items, currency)
    if isinstance(answer, ProviderTaxes):
        return items_taxes_cents({item.id: Decimal(item.amount_cents) for item in items}, answer)
    if answer.kind is FailureKind.THROTTLED:
        raise TooManyProviderRequests(connection.kind)
    raise Invalid(tax_error=answer.message or answer.code)
