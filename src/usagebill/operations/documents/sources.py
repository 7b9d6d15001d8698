"""Sources: the records that documents are drawn from, looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zoneinfo import ZoneInfo

from usagebill.core.aggregation import AGGREGATIONS, Accumulation
from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.coupons import AppliedCoupon
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer
from usagebill.core.documents.lines import is_average
from usagebill.core.documents.locales import written
from usagebill.core.documents.sources import CreditNoteSource, InvoiceSource, ReceiptSource
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import BilledPlan, BillingPeriod, Invoice
from usagebill.core.payment_receipts import PaymentReceipt
from usagebill.core.plans import Charge, FixedCharge
from usagebill.operations.issuers import issuer
from usagebill.printing.countries import country_name
from usagebill.queries.customers import customer_of, zone_of
from usagebill.queries.payments import paid_invoices, payment_of_receipt
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import asc, eq
from usagebill.views.customers import customer_summary
from usagebill.views.invoices import billed_plan, subscription_name


def invoice_source(reader: Reader, invoice: Invoice, note: CreditNote | None = None) -> InvoiceSource:
    """An issued invoice with the records that its documents show: its own copies, or those of its credit note."""
    customer = (note.customer_snapshot if note else None) or invoice.customer_snapshot or _customer(reader, invoice)
    version_id = (note.issuer_version_id if note else None) or invoice.issuer_version_id
    entity = issuer(reader, invoice.billing_entity_id, version_id)
    locale = written(_locale(customer) or entity.document_locale, reader.settings.document_formats)
    fees = tuple(reader.tx.find(Fee, eq("invoice_id", invoice.id), order=[asc("created_at"), asc("id")]))
    periods = tuple(reader.tx.find(BillingPeriod, eq("invoice_id", invoice.id), order=[asc("created_at"), asc("id")]))
    plans: dict[str, BilledPlan] = {}
    names: dict[str, str] = {}
    for period in periods:
        plan = period.plan or billed_plan(reader, period)
        if plan is not None:
            plans[period.subscription_id] = plan
        names[period.subscription_id] = subscription_name(reader, period, kept=True)
    applied = [reader.tx.get(AppliedCoupon, line.source_id) for line in invoice.credits if line.source_id]
    codes = {str(code) for code in (entity.country, customer.get("country")) if code}
    averaged, per_second = _prorated(reader, fees)
    return InvoiceSource(
        invoice=invoice,
        fees=fees,
        entity=entity,
        customer=customer,
        locale=locale,
        zone=ZoneInfo(invoice.timezone),
        periods=periods,
        subscription_names=names,
        plans=plans,
        coupons={coupon.id: coupon for coupon in applied if coupon is not None},
        country_names={code: country_name(code, locale) for code in codes},
        averaged=averaged,
        per_second=per_second,
    )


def credit_note_source(reader: Reader, note: CreditNote) -> CreditNoteSource:
    """An issued credit note with the records that its documents show."""
    invoice = reader.tx.get(Invoice, note.invoice_id)
    if invoice is None:
        raise LookupError(f"credit note {note.id} has lost its invoice")
    return CreditNoteSource(note=note, invoice=invoice_source(reader, invoice, note))


def receipt_source(reader: Reader, receipt: PaymentReceipt) -> ReceiptSource:
    """A payment receipt with the records that its documents show."""
    payment = payment_of_receipt(reader, receipt)
    customer = customer_of(reader, receipt)
    kept = receipt.customer_snapshot or customer_summary(reader, customer)
    entity = issuer(reader, receipt.billing_entity_id, receipt.issuer_version_id)
    locale = written(_locale(kept) or entity.document_locale, reader.settings.document_formats)
    codes = {str(code) for code in (entity.country, kept.get("country")) if code}
    return ReceiptSource(
        receipt=receipt,
        payment=payment,
        # The payment is described in the receipt's language.
        invoices=tuple(
            replace(invoice_source(reader, invoice), locale=locale) for invoice in paid_invoices(reader, payment)
        ),
        entity=entity,
        customer=kept,
        locale=locale,
        zone=zone_of(reader, customer),
        country_names={code: country_name(code, locale) for code in codes},
        of_request=payment.payment_request_id is not None,
    )


def _customer(reader: Reader, invoice: Invoice) -> Mapping[str, object]:
    customer = reader.tx.get(Customer, invoice.customer_id, deleted=True)
    if customer is None:
        raise LookupError(f"invoice {invoice.id} has lost its customer")
    return customer_summary(reader, customer)


def _locale(customer: Mapping[str, object]) -> str | None:
    configuration = customer.get("billing_configuration")
    locale = configuration.get("document_locale") if isinstance(configuration, Mapping) else None
    return locale if isinstance(locale, str) else None


def _prorated(reader: Reader, fees: tuple[Fee, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of fees prorated by the day whose unit price is an average, and of charges weighted by the second."""
    averaged, per_second = set(), set()
    for fee in fees:
        then = reader.as_of(fee.price_version)
        if fee.charge_id:
            charge = then.tx.get(Charge, fee.charge_id, deleted=True)
            metric = None if charge is None else then.tx.get(BillableMetric, charge.billable_metric_id, deleted=True)
            if metric is not None and AGGREGATIONS[metric.aggregation_type].accumulation is Accumulation.LEVEL:
                per_second.add(fee.charge_id)
            elif charge is not None and charge.prorated:
                chosen = (filter_ for filter_ in charge.filters if filter_.id == fee.charge_filter_id)
                if is_average(fee, next((filter_.properties for filter_ in chosen), charge.properties)):
                    averaged.add(fee.id)
        elif fee.fixed_charge_id:
            fixed = then.tx.get(FixedCharge, fee.fixed_charge_id, deleted=True)
            if fixed is not None and fixed.prorated and is_average(fee, fixed.properties):
                averaged.add(fee.id)
    return frozenset(averaged), frozenset(per_second)
