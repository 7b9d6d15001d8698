"""Bills of top-ups: purchases of prepaid credits, on invoices of type credit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

from usagebill.core.bills import Bill
from usagebill.core.currencies import cents_from_major
from usagebill.core.customers import dating_settings, timezone
from usagebill.core.dates import dates_at_creation
from usagebill.core.fees import Fee, FeeItem, FeeType
from usagebill.core.invoice_custom_sections import Selection, customer_section_ids, invoice_section_ids
from usagebill.core.invoice_triggers import KINDS, Trigger, step_of
from usagebill.core.invoices.opening import new_fee, new_invoice
from usagebill.core.invoices.records import Invoice
from usagebill.core.numbers import round_cents
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet
from usagebill.queries.billing_entities import find_entity
from usagebill.queries.customers import customer_of, entity_of
from usagebill.queries.wallets import wallet_entity
from usagebill.rating.invoice import settled_bill
from usagebill.runtime.work import Reader


def top_up_bill(reader: Reader, wallet: Wallet, purchase: WalletTransaction) -> Bill:
    """The bill of purchased credits: one line, no taxes, no coupons or credits.

    If the purchase requires a successful payment, the invoice stays hidden until it is paid.
    """
    customer = customer_of(reader, wallet)
    own_entity = entity_of(reader, customer)
    settings, zone = dating_settings(customer, own_entity), timezone(customer, own_entity)
    entity_id = purchase.billing_entity_id
    issuer = (None if entity_id is None else find_entity(reader, entity_id)) or wallet_entity(reader, wallet)
    kind = KINDS[Trigger.PURCHASE]
    invoice = new_invoice(
        id=reader.new_id(),
        invoice_type=kind.invoice_type,
        customer=customer,
        issuer=issuer,
        currency=wallet.currency,
        timezone=zone,
        dates=dates_at_creation(kind.occasion, settings, reader.now, ZoneInfo(zone)),
        net_payment_term=settings.net_payment_term,
        now=reader.now,
        purchase_order_number=purchase.purchase_order_number or wallet.purchase_order_number,
    )
    sections = _sections(purchase, wallet, customer_section_ids(customer, own_entity))
    bill = settled_bill(reader, invoice, (), [_fee(reader, invoice, wallet, purchase)], section_ids=sections)
    return replace(
        bill,
        step=step_of(
            Trigger.PURCHASE,
            grace_period=settings.grace_period,
            hidden=purchase.invoice_requires_successful_payment,
        ),
        changed=(*bill.changed, replace(purchase, invoice_id=invoice.id, updated_at=reader.now)),
        may_be_empty=kind.may_be_empty,
    )


def _fee(reader: Reader, invoice: Invoice, wallet: Wallet, purchase: WalletTransaction) -> Fee:
    name = purchase.name or FeeType.CREDIT.value
    line = new_fee(
        id=reader.new_id(),
        invoice=invoice,
        subscription=None,
        item=FeeItem(
            type=FeeType.CREDIT,
            item_type="WalletTransaction",
            id=purchase.id,
            code=FeeType.CREDIT.value,
            name=name,
            invoice_display_name=name,
        ),
        amount_cents=purchase.amount_cents,
        precise_amount_cents=Decimal(purchase.amount_cents),
        units=purchase.credit_amount,
        currency=wallet.currency,
        now=reader.now,
    )
    return replace(
        line,
        unit_amount_cents=round_cents(cents_from_major(wallet.rate_amount, wallet.currency)),
        precise_unit_amount=wallet.rate_amount,
        # Documents name the wallet if the purchase has no name of its own.
        description=wallet.name,
    )


def _sections(purchase: WalletTransaction, wallet: Wallet, customer_ids: Sequence[str]) -> tuple[str, ...]:
    """The custom sections of a top-up: those of the purchase, else the wallet's, else the customer's."""
    for chosen in (purchase, wallet):
        if chosen.skip_invoice_custom_sections or chosen.invoice_custom_section_ids:
            selection = Selection(
                skip=chosen.skip_invoice_custom_sections, section_ids=chosen.invoice_custom_section_ids
            )
            return invoice_section_ids([selection], customer_ids)
    return tuple(customer_ids)


def paid_today(reader: Reader, invoice: Invoice) -> Invoice:
    """The invoice, hidden until now because it was unpaid, dated today."""
    customer = customer_of(reader, invoice)
    zone = ZoneInfo(timezone(customer, entity_of(reader, customer)))
    today = reader.now.astimezone(zone).date()
    return replace(invoice, issuing_date=today, payment_due_date=today)
