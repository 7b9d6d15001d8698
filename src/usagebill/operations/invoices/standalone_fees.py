"""Fees without invoice, of charges paid in advance that are not invoiceable. They are taxed on creation."""

from __future__ import annotations

from usagebill.core.copies import replace
from usagebill.core.fees import Fee
from usagebill.core.tax_providers import TaxSubject
from usagebill.core.taxes import taxed_fee
from usagebill.operations.tax_connections import ask_about
from usagebill.queries.customers import customer_of
from usagebill.queries.tax_connections import connection_of
from usagebill.rating.settlement import fee_taxes
from usagebill.runtime.work import Work
from usagebill.views.fees import untaxed_fee_view


def keep_standalone(work: Work, fee: Fee) -> Fee:
    """Tax and store a fee that no invoice holds yet, and send its messages."""
    fee = replace(fee, price_version=work.price_version)
    customer = customer_of(work, fee)
    if connection_of(work, customer) is None:
        kept = taxed_fee(fee, fee_taxes(work, customer, fee), work.now, work.new_id)
    else:
        # It is taxed once the customer's provider has responded.
        kept = fee
        ask_about(work, TaxSubject.FEE, fee.id)
    work.tx.insert(kept)
    work.emit("fee.created", lambda: untaxed_fee_view(work, kept), kept.id)
    return kept
