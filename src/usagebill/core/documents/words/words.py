"""The words that documents need in each language."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Texts, named by their meaning. Names in braces are filled in: each language uses those that English uses."""

    # Titles.
    invoice: str
    tax_invoice: str
    paid_invoice: str
    paid_tax_invoice: str
    advance_invoice: str
    self_billing_invoice: str
    credit_note: str

    # Header.
    number: str
    credit_note_number: str
    invoice_number: str
    order_number: str
    issue_date: str
    supply_date: str
    payment_term: str
    days: str
    issuer: str
    recipient: str
    credited_to: str
    tax_id: str
    page_of: str
    due: str

    # Table.
    item: str
    units: str
    unit_price: str
    tax_rate: str
    amount: str
    fees_of: str
    period: str
    details: str
    subscription: str
    plan: str
    weekly: str
    monthly: str
    quarterly: str
    semiannual: str
    yearly: str

    # Lines.
    true_up: str
    true_up_note: str
    commitment: str
    events: str
    average: str
    per_second: str
    first_units: str
    next_units: str
    units_above: str
    flat_first: str
    flat_next: str
    flat_above: str
    per_unit: str
    flat_all: str
    free_units: str
    package: str
    package_size: str
    percentage: str
    fixed_fee: str
    adjustment: str
    subtotal: str
    conversion: str
    prepaid_fee: str
    paid_on: str

    # Totals.
    billed_already: str
    coupon: str
    excluding_taxes: str
    tax_on: str
    no_tax: str
    including_taxes: str
    credit_notes: str
    prepaid: str
    free_credits: str
    total: str
    paid_already: str
    coupons: str
    credited: str
    refunded: str
    offset: str

    # Why something is credited.
    reason: str
    duplicated_charge: str
    product_unsatisfactory: str
    order_change: str
    order_cancellation: str
    fraudulent_charge: str
    other_reason: str

    # Notes.
    credited_on: str
    refunded_on: str
    offset_on: str
    issued_on: str
    exempt: str
    exempt_french: str
    reverse_charge: str
    threshold: str
    self_billed: str

    # Terms.
    term: str
    prepaid_applied: str
    credit_notes_applied: str
    payment_due: str
    settled_at_once: str
    discount: str

    # Receipts.
    receipt: str
    receipt_number: str
    payment_method: str
    payment_date: str
    amount_paid: str
    paid_and_remaining: str
    total_amount: str

    # Requests for what is overdue.
    amount_due: str
    greeting: str
    due_at_once: str
    due_within_a_day: str
    due_within_days: str
    overdue_invoices: str
    pay_now: str
    ignore_if_paid: str

    # E-mails.
    invoice_email: str
    credit_note_email: str
    receipt_email: str
    overdue_email: str
    download: str
    attached: str
    receipt_attached: str
