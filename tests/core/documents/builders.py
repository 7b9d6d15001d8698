"""Invoices and credit notes for tests of documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from usagebill.core.billing_entities import BillingEntity
from usagebill.core.credit_notes import CreditNote, CreditNoteItem
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource
from usagebill.core.fees import AppliedTax, Fee, FeeItem, TaxKey
from usagebill.core.invoices.records import BillingPeriod, Credit, Invoice
from usagebill.core.numbers import round_cents, total
from usagebill.core.taxes import lines_in_cents, net_of_coupons, net_of_part

NOW = datetime(2024, 2, 1, tzinfo=UTC)


def entity(**fields: Any) -> BillingEntity:
    values: dict[str, Any] = {
        "id": "e",
        "organization_id": "o",
        "code": "lumen",
        "name": "Lumen",
        "legal_name": "Lumen SAS",
        "country": "FR",
        "email": "billing@lumen.example",
        "phone": "+33 1 00 00 00 00",
        "address_line1": "1 rue de la Paix",
        "city": "Paris",
        "zipcode": "75002",
        "tax_identification_number": "FR123456789",
        "einvoicing": True,
        "invoice_footer": "Thank you",
        "document_number_prefix": "LUM",
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return BillingEntity(**values)


def tax(rate: str, base: int, cents: int, **fields: Any) -> AppliedTax:
    values: dict[str, Any] = {
        "id": f"t{rate}",
        "tax_id": None,
        "name": "VAT",
        "code": f"vat_{rate}",
        "rate": Decimal(rate),
        "description": None,
        "amount_cents": cents,
        "amount_currency": "EUR",
        "base_amount_cents": base,
        "precise_amount_cents": base * Decimal(rate) / 100,
        "created_at": NOW,
        **fields,
    }
    return AppliedTax(**values)


def fee(id: str, cents: int, rate: str = "20", *, coupons: str = "0", **fields: Any) -> Fee:
    """A fee of one unit, taxed at `rate` after its share of coupons."""
    kind = fields.pop("fee_type", "add_on")
    item = FeeItem(type=kind, item_type="AddOn", id=id, code=id, name=f"Item {id}", invoice_display_name=f"Shown {id}")
    taxed = Decimal(cents) - Decimal(coupons)
    taxes = taxed * Decimal(rate) / 100
    values: dict[str, Any] = {
        "id": id,
        "organization_id": "o",
        "customer_id": "c",
        "fee_type": kind,
        "item": item,
        "amount_cents": cents,
        "precise_amount_cents": Decimal(cents),
        "precise_unit_amount": Decimal(cents) / 100,
        "currency": "EUR",
        "units": Decimal(1),
        "taxes_rate": Decimal(rate),
        "taxes_precise_amount_cents": taxes,
        "applied_taxes": (tax(rate, int(taxed), round_cents(taxes)),) if taxes else (),
        "precise_coupons_amount_cents": Decimal(coupons),
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Fee(**values)


def credit(kind: str, name: str, cents: int, **fields: Any) -> Credit:
    values: dict[str, Any] = {
        "id": f"credit-{name}",
        "amount_cents": cents,
        "amount_currency": "EUR",
        "before_taxes": kind != "credit_note",
        "item_id": "i",
        "item_type": kind,
        "item_code": name,
        "item_name": name,
        "created_at": NOW,
        **fields,
    }
    return Credit(**values)


def period(subscription_id: str, charges_from: datetime, **fields: Any) -> BillingPeriod:
    values: dict[str, Any] = {
        "id": f"period-{subscription_id}",
        "organization_id": "o",
        "invoice_id": "i",
        "subscription_id": subscription_id,
        "external_subscription_id": subscription_id,
        "plan_id": "p",
        "timestamp": NOW,
        "invoicing_reason": "subscription_periodic",
        "charges_from_datetime": charges_from,
        "created_at": NOW,
        **fields,
    }
    return BillingPeriod(**values)


CUSTOMER: dict[str, object] = {
    "external_id": "acme",
    "name": "Acme",
    "legal_name": "Acme GmbH",
    "firstname": "Ada",
    "lastname": "Byron",
    "legal_number": "HRB 7",
    "address_line1": "Allee 1",
    "city": "Berlin",
    "zipcode": "10115",
    "country": "DE",
    "email": "ada@acme.example,bob@acme.example",
    "tax_identification_number": "DE999",
    "metadata": [
        {"key": "Cost centre", "value": "77", "display_in_invoice": True, "created_at": "2024-01-02T00:00:00Z"},
        {"key": "Project", "value": "Apollo", "display_in_invoice": True, "created_at": "2024-01-01T00:00:00Z"},
        {"key": "Secret", "value": "x", "display_in_invoice": False, "created_at": "2024-01-01T00:00:00Z"},
    ],
}


def tax_lines(nets: list[tuple[Fee, Decimal]], cents: int | None) -> tuple[AppliedTax, ...]:
    """The tax lines of a document over net cents of fees, whose taxes are `cents`."""
    exact: dict[TaxKey, Decimal] = {}
    lines: dict[TaxKey, AppliedTax] = {}
    for line, net in nets:
        for applied in line.applied_taxes:
            lines.setdefault(applied.key, applied)
            exact[applied.key] = exact.get(applied.key, Decimal(0)) + net * line.taxes_base_rate * applied.rate / 100
    whole = round_cents(total(exact.values())) if cents is None else cents
    amounts = lines_in_cents(list(exact.values()), whole if exact else 0)
    return tuple(replace(lines[key], amount_cents=amount) for key, amount in zip(exact, amounts, strict=True))


def source(fees: tuple[Fee, ...] = (), *, locale: str = "en", **fields: Any) -> InvoiceSource:
    """The source of an invoice over `fees`; other arguments are fields of the invoice."""
    parts = {
        name: fields.pop(name)
        for name in ("entity", "customer", "periods", "subscription_names", "plans", "coupons", "zone")
        if name in fields
    }
    values: dict[str, Any] = {
        "id": "invoice-1",
        "organization_id": "o",
        "customer_id": "c",
        "billing_entity_id": "e",
        "invoice_type": "one_off",
        "status": "finalized",
        "currency": "EUR",
        "number": "LUM-001-001",
        "issuing_date": date(2024, 2, 1),
        "payment_due_date": date(2024, 3, 2),
        "net_payment_term": 30,
        "created_at": NOW,
        "updated_at": NOW,
        "fees_amount_cents": sum(line.amount_cents for line in fees),
        "applied_taxes": tax_lines([(line, net_of_coupons(line)) for line in fees], fields.get("taxes_amount_cents")),
        **fields,
    }
    return InvoiceSource(
        invoice=Invoice(**values),
        fees=fees,
        locale=locale,
        country_names={"FR": "France", "DE": "Germany"},
        **{"entity": entity(), "customer": CUSTOMER, "zone": UTC, **parts},
    )


def note_source(of: InvoiceSource, items: dict[str, int], **fields: Any) -> CreditNoteSource:
    """The source of a credit note over cents of fees, by fee id."""
    values: dict[str, Any] = {
        "id": "note-1",
        "organization_id": "o",
        "customer_id": "c",
        "invoice_id": of.invoice.id,
        "billing_entity_id": "e",
        "number": "LUM-001-001-CN001",
        "sequential_id": 1,
        "issuing_date": date(2024, 2, 10),
        "currency": "EUR",
        "reason": "other",
        "created_at": NOW,
        "updated_at": NOW,
        "items": tuple(
            CreditNoteItem(
                id=f"item-{id}",
                fee_id=id,
                amount_cents=cents,
                precise_amount_cents=Decimal(cents),
                amount_currency="EUR",
                created_at=NOW,
            )
            for id, cents in items.items()
        ),
        **fields,
    }
    fees = {line.id: line for line in of.fees}
    nets = [(fees[id], net_of_part(fees[id], Decimal(cents))) for id, cents in items.items() if id in fees]
    values.setdefault("applied_taxes", tax_lines(nets, values.get("taxes_amount_cents")))
    return CreditNoteSource(note=CreditNote(**values), invoice=of)
