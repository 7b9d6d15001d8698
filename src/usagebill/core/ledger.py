"""The ledger: what each document says in the books, as entries of double entry, and the movements that follow.

A document (an invoice, credit note, payment, ...) stands for entries that sum to zero. Whenever it changes, the
difference between its entries and what was posted for it before is posted. So no change needs rules of its own, and the
balances always equal what the documents say. Amounts are cents; debits are positive, credits negative. A new cause is a
line in the entries of its document.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from usagebill.core.credit_notes import CreditNote, CreditNoteStatus
from usagebill.core.exchange_rates import ExchangeRate, converted
from usagebill.core.fees import AppliedTax, Fee
from usagebill.core.invoices.life_cycle import ISSUED, InvoiceStatus, InvoiceType
from usagebill.core.invoices.records import CreditType, Invoice
from usagebill.core.numbers import ZERO, add, divide, multiply, subtract, total
from usagebill.core.payment_requests import RequestedInvoice
from usagebill.core.payments import Payment, RefundAttempt
from usagebill.core.statuses import ChargeStatus, PaymentStatus
from usagebill.core.taxes import lines_in_cents, net_of_part
from usagebill.core.wallet_transactions import (
    TransactionKind,
    WalletConsumption,
    WalletTransaction,
    WalletTransactionStatus,
)
from usagebill.core.wallets import Wallet, WalletStatus

_DAY = timedelta(days=1)
_MONTH = re.compile(r"[12][0-9]{3}-(0[1-9]|1[0-2])")
# The provider of money that no provider moved.
BY_HAND = "manual"


class Account(StrEnum):
    """A kind of account."""

    RECEIVABLE = "receivable"  # what customers owe; below zero: what they have paid too much
    REVENUE = "revenue"  # before coupons and taxes, by rate of all taxes together and country
    DISCOUNT = "discount"  # coupons, likewise
    TAX = "tax"  # collected, by rate and country
    CASH = "cash"  # received less paid back, by provider
    CUSTOMER_CREDIT = "customer_credit"  # balances of credit notes
    REFUNDS_DUE = "refunds_due"  # refunds of credit notes that are not paid back yet
    PREPAID_ORDERED = "prepaid_ordered"  # credits that were invoiced and are not in a wallet: not paid yet
    PREPAID_PURCHASED = "prepaid_purchased"  # bought credits in wallets
    PREPAID_GRANTED = "prepaid_granted"  # free credits in wallets
    PROMOTION = "promotion"  # the cost of free credits
    FORFEITED = "forfeited"  # income from credits that customers lost: voided, or expired
    LOST_DISPUTES = "lost_disputes"  # payments that the customer's bank took back
    PROVIDER_FEES = "provider_fees"  # what providers keep of payments, by provider, where they tell
    ROUNDING = "rounding"  # cents by which a document's taxes by rate miss its total
    EXCHANGE = "exchange"  # gains and losses from rates that changed before a debt was settled
    # Self-billed documents are purchases: the customer is the seller.
    PAYABLE = "payable"
    PURCHASES = "purchases"
    INPUT_TAX = "input_tax"


# What is owed: to us, and to the sellers of self-billed documents.
DEBTS = (Account.RECEIVABLE, Account.PAYABLE)
# What is kept apart by tax rate and country, beside the taxes themselves.
TURNOVER = (Account.REVENUE, Account.DISCOUNT, Account.PURCHASES)
_OF_PURCHASES: Mapping[Account, Account] = {
    Account.RECEIVABLE: Account.PAYABLE,
    Account.REVENUE: Account.PURCHASES,
    Account.DISCOUNT: Account.PURCHASES,
    Account.TAX: Account.INPUT_TAX,
}


class DocumentType(StrEnum):
    """The kind of record that a movement comes from."""

    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    PAYMENT = "payment"
    PROVIDER_FEE = "provider_fee"  # of a payment, in the currency in which the provider pays out
    ALLOCATION = "allocation"  # of a payment request's payment to one of its invoices
    REFUND = "refund"  # of a payment, without a credit note
    TOP_UP = "top_up"  # credits that came into a wallet
    CREDIT_USE = "credit_use"  # credits that went out of it
    WALLET = "wallet"  # its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an amount is posted: the account, and what it is kept apart by. `invoice_id` is the invoice that a debt is
    for. `tax_rate` is that of the tax; of a sale, of all its taxes together, null if no tax applies to it.
    """

    account: Account
    invoice_id: str | None = None
    tax_code: str | None = None
    tax_rate: Decimal | None = None
    country: str | None = None
    provider: str | None = None


Entries = Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class RatedPart:
    """The lines of a document that are taxed alike: their precise cents, and those less coupons and credits."""

    gross_cents: Decimal
    net_cents: Decimal


# The parts of a document by the rate of all taxes together; null for lines that no tax applies to.
Rates = Mapping[Decimal | None, RatedPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """An amount that was posted to an account, in cents of `currency`: a debit if positive, a credit if negative.

    `base_amount_cents` is the same in `base_currency`, the billing entity's, at `exchange_rate`: null if no rate was
    known. The movements of a `group_id` were posted at once for one document, and sum to zero in both currencies.
    `document_date` is the day on which it happened, in the billing entity's time zone, or the document's own date;
    `posting_date` is the same, or the first open day if that one was in a closed month.
    """

    id: str
    organization_id: str
    group_id: str
    posting_date: date
    document_date: date
    billing_entity_id: str
    customer_id: str
    document_type: DocumentType
    document_id: str
    account: Account
    currency: str
    amount_cents: int
    created_at: datetime
    number: str | None = None
    invoice_id: str | None = None
    tax_code: str | None = None
    tax_rate: Decimal | None = None
    country: str | None = None
    provider: str | None = None
    base_currency: str | None = None
    base_amount_cents: int | None = None
    exchange_rate: Decimal | None = None

    @property
    def place(self) -> Place:
        """Where it was posted."""
        return Place(
            account=self.account,
            invoice_id=self.invoice_id,
            tax_code=self.tax_code,
            tax_rate=self.tax_rate,
            country=self.country,
            provider=self.provider,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedMonth:
    """A month that was closed: no movement is dated on its `last_day` or before any more."""

    id: str
    organization_id: str
    last_day: date
    created_at: datetime


def _summed(*parts: tuple[Place, int]) -> dict[Place, int]:
    """Entries by place, without zeros."""
    entries: dict[Place, int] = {}
    for place, cents in parts:
        entries[place] = entries.get(place, 0) + cents
    return {place: cents for place, cents in entries.items() if cents}


def _mirrored(entries: Entries) -> dict[Place, int]:
    """The same of a purchase: what a customer would owe, we owe to it."""
    return _summed(
        *(
            (replace(place, account=_OF_PURCHASES.get(place.account, place.account)), -cents)
            for place, cents in entries.items()
        )
    )


def _receivable(invoice_id: str | None) -> Place:
    return Place(account=Account.RECEIVABLE, invoice_id=invoice_id)


def _cash(provider: str | None) -> Place:
    return Place(account=Account.CASH, provider=provider or BY_HAND)


def _taxes(
    lines: Iterable[AppliedTax], cents: int, customer: Mapping[str, object] | None
) -> Iterable[tuple[Place, int]]:
    """Taxes by rate and country, as debits. What the lines miss of `cents` is rounding."""
    rest = cents
    for line in lines:
        place = Place(account=Account.TAX, tax_code=line.code, tax_rate=line.rate, country=_country(customer))
        yield place, line.amount_cents
        rest -= line.amount_cents
    yield Place(account=Account.ROUNDING), rest


def _country(customer: Mapping[str, object] | None) -> str | None:
    country = (customer or {}).get("country")
    return None if country is None else str(country)


def single_rate(document: Invoice | CreditNote) -> Rates | None:
    """The parts of a document whose lines are all taxed alike; None if its fees have to be looked up."""
    net = Decimal(document.sub_total_excluding_taxes_amount_cents)
    if not document.applied_taxes:
        return {None: RatedPart(net, net)}
    line, *others = document.applied_taxes
    return {line.rate: RatedPart(net, net)} if not others and line.base_amount_cents == net else None


def rates_of(lines: Iterable[tuple[Fee, Decimal]]) -> Rates:
    """The parts of the fees, or of cents of them that are credited, by the rate of all taxes together."""
    parts: dict[Decimal | None, RatedPart] = {}
    for fee, cents in lines:
        rate = total(tax.rate for tax in fee.applied_taxes) if fee.applied_taxes else None
        part = parts.get(rate, RatedPart(ZERO, ZERO))
        parts[rate] = RatedPart(add(part.gross_cents, cents), add(part.net_cents, net_of_part(fee, cents)))
    return parts


def _income(
    invoice_type: InvoiceType, net: int, coupons: int, rates: Rates, country: str | None
) -> list[tuple[Place, int]]:
    """The sale of an invoice, `net` cents after `coupons`, as credits, and its coupons as debits, by rate.

    Credits are sold when they are used, and taxed then.
    """
    if invoice_type == InvoiceType.CREDIT:
        return [
            (Place(account=Account.PREPAID_ORDERED), -net - coupons),
            (Place(account=Account.DISCOUNT), coupons),
        ]
    nets = _shared(net, [part.net_cents for part in rates.values()])
    discounts = _shared(coupons, [subtract(part.gross_cents, part.net_cents) for part in rates.values()])
    entries = []
    for rate, kept, discount in zip(rates, nets, discounts, strict=True):
        entries.append((Place(account=Account.REVENUE, tax_rate=rate, country=country), -kept - discount))
        entries.append((Place(account=Account.DISCOUNT, tax_rate=rate, country=country), discount))
    return entries


def _shared(cents: int, weights: Sequence[Decimal]) -> list[int]:
    """Whole cents in proportion to the weights; all of it to the first if these come to nothing."""
    whole = total(weights)
    if not whole:
        return [cents, *[0] * (len(weights) - 1)]
    return lines_in_cents([divide(multiply(Decimal(cents), weight), whole) for weight in weights], cents)


def invoice_entries(
    invoice: Invoice,
    *,
    notes: Sequence[CreditNote] = (),
    disputed: Mapping[str, int] | None = None,
    rates: Mapping[str, Rates] | None = None,
) -> Entries:
    """The entries of an invoice: its sale once it is finalized, and the credit notes that paid it.

    A void takes the sale back, less what its credit `notes` took back before. Payments and prepaid credits have entries
    of their own. `disputed` are the cents by provider that a lost dispute took back. `rates` are the parts, by id, of
    the documents that are not taxed alike (`single_rate`).
    """
    parts: list[tuple[Place, int]] = []
    if invoice.status == InvoiceStatus.FINALIZED:
        parts += _sale(invoice, _rates(invoice, rates))
    elif invoice.status == InvoiceStatus.VOIDED:
        for note in notes:
            if note.status == CreditNoteStatus.FINALIZED and not note.of_void:
                back = _summed(*_sale_taken_back(note, invoice.invoice_type, _rates(note, rates)))
                parts += [(place, -cents) for place, cents in back.items()]
                parts.append((_receivable(invoice.id), sum(back.values())))
    if invoice.status not in (InvoiceStatus.CLOSED, InvoiceStatus.DELETED):
        for line in invoice.credits:
            if line.item_type == CreditType.CREDIT_NOTE:
                parts.append((Place(account=Account.CUSTOMER_CREDIT), line.used_cents))
                parts.append((_receivable(invoice.id), -line.used_cents))
    for provider, cents in (disputed or {}).items():
        parts.append((Place(account=Account.LOST_DISPUTES, invoice_id=invoice.id), cents))
        parts.append((_cash(provider), -cents))
    entries = _summed(*parts)
    return _mirrored(entries) if invoice.self_billed else entries


def _rates(document: Invoice | CreditNote, looked_up: Mapping[str, Rates] | None) -> Rates:
    net = Decimal(document.sub_total_excluding_taxes_amount_cents)
    # Without fees nobody can say how it was taxed.
    return (looked_up or {}).get(document.id) or single_rate(document) or {None: RatedPart(net, net)}


def _sale(invoice: Invoice, rates: Rates) -> list[tuple[Place, int]]:
    gross = invoice.sub_total_including_taxes_amount_cents
    net = invoice.sub_total_excluding_taxes_amount_cents
    taxes = _taxes(invoice.applied_taxes, gross - net, invoice.customer_snapshot)
    return [
        (_receivable(invoice.id), gross),
        *_income(invoice.invoice_type, net, invoice.coupons_amount_cents, rates, _country(invoice.customer_snapshot)),
        *((place, -cents) for place, cents in taxes),
    ]


def _sale_taken_back(note: CreditNote, invoice_type: InvoiceType, rates: Rates) -> list[tuple[Place, int]]:
    """The part of a sale that a credit note takes back: income, discount and taxes."""
    net, coupons = note.sub_total_excluding_taxes_amount_cents, note.coupons_adjustment_amount_cents
    income = _income(invoice_type, net, coupons, rates, _country(note.customer_snapshot))
    return [
        *((place, -cents) for place, cents in income),
        *_taxes(note.applied_taxes, note.total_amount_cents - net, note.customer_snapshot),
    ]


def credit_note_entries(
    note: CreditNote,
    invoice_type: InvoiceType,
    *,
    paid_back: Mapping[str, int] | None = None,
    rates: Mapping[str, Rates] | None = None,
) -> Entries:
    """The entries of a credit note: it takes back a part of its invoice's sale, as credit, as refund, or off the debt.

    The note of a void only returns what was received, as the void took back the sale. `paid_back` are the cents of its
    refund by the provider that paid them back; `rates` as in `invoice_entries`.
    """
    if note.status != CreditNoteStatus.FINALIZED:
        return {}
    taken_back = (
        [(_receivable(note.invoice_id), note.total_amount_cents)]
        if note.of_void
        else _sale_taken_back(note, invoice_type, _rates(note, rates))
    )
    lost, withdrawn = note.voided_amount_cents, note.withdrawn_amount_cents
    entries = _summed(
        *taken_back,
        (Place(account=Account.CUSTOMER_CREDIT), lost + withdrawn - note.credit_amount_cents),
        (Place(account=Account.FORFEITED), -lost),
        (_receivable(note.invoice_id), -withdrawn - note.offset_amount_cents),
        (Place(account=Account.REFUNDS_DUE), sum((paid_back or {}).values()) - note.refund_amount_cents),
        *((_cash(provider), -cents) for provider, cents in (paid_back or {}).items()),
    )
    return _mirrored(entries) if note.self_billed else entries


def payment_entries(payment: Payment, *, self_billed: bool = False) -> Entries:
    """The entries of a payment: money that was received."""
    if payment.payment_status != ChargeStatus.SUCCEEDED:
        return {}
    entries = _summed(
        (_cash(payment.payment_provider_code), payment.amount_cents),
        (_receivable(payment.invoice_id), -payment.amount_cents),
    )
    return _mirrored(entries) if self_billed else entries


def provider_fee_entries(payment: Payment) -> Entries:
    """The entries of what the provider keeps of a payment, also of one that was taken back later."""
    cents = payment.provider_fee_amount_cents or 0
    fees = Place(account=Account.PROVIDER_FEES, provider=payment.payment_provider_code)
    return _summed((fees, cents), (_cash(payment.payment_provider_code), -cents))


def allocation_entries(part: RequestedInvoice) -> Entries:
    """The entries of the part of a payment that a payment request gave to one of its invoices."""
    return _summed((_receivable(None), part.paid_cents), (_receivable(part.invoice_id), -part.paid_cents))


def refund_entries(refund: RefundAttempt, payment: Payment, *, self_billed: bool = False) -> Entries:
    """The entries of a payment, or a part of it, that was given back; a credit note has those of its own refund."""
    if refund.credit_note_id is not None or refund.refund_status != PaymentStatus.SUCCEEDED:
        return {}
    entries = _summed(
        (_receivable(refund.invoice_id), refund.amount_cents),
        (_cash(payment.payment_provider_code), -refund.amount_cents),
    )
    return _mirrored(entries) if self_billed else entries


def _credits(inbound: WalletTransaction) -> Place:
    is_bought = inbound.transaction_status == TransactionKind.PURCHASED
    return Place(account=Account.PREPAID_PURCHASED if is_bought else Account.PREPAID_GRANTED)


def top_up_entries(transaction: WalletTransaction) -> Entries:
    """The entries of credits that came into a wallet: bought, granted, or back from an invoice that was undone."""
    if not transaction.is_inbound or transaction.status != WalletTransactionStatus.SETTLED:
        return {}
    if transaction.transaction_status == TransactionKind.PURCHASED:
        source = Place(account=Account.PREPAID_ORDERED)
    elif transaction.voided_invoice_id is not None:
        source = _receivable(transaction.voided_invoice_id)
    else:
        source = Place(account=Account.PROMOTION)
    return _summed((source, transaction.amount_cents), (_credits(transaction), -transaction.amount_cents))


def _lost(inbound: WalletTransaction) -> Place:
    """Where credits go that nobody uses: free ones cost nothing then."""
    is_grant = inbound.transaction_status == TransactionKind.GRANTED and inbound.voided_invoice_id is None
    return Place(account=Account.PROMOTION if is_grant else Account.FORFEITED)


def credit_use_entries(use: WalletConsumption, inbound: WalletTransaction, outbound: WalletTransaction) -> Entries:
    """The entries of credits that went out of a wallet: for an invoice, back to the buyer, or voided."""
    if outbound.transaction_status == TransactionKind.INVOICED:
        target = _receivable(outbound.invoice_id)
    elif outbound.credit_note_id is not None:
        target = Place(account=Account.PREPAID_ORDERED)
    else:
        target = _lost(inbound)
    return _summed((_credits(inbound), use.amount_cents), (target, -use.amount_cents))


def ended_wallet_entries(wallet: Wallet, inbound: Iterable[WalletTransaction]) -> Entries:
    """The entries of a wallet that was ended, or has expired: the credits left in it can no longer be used."""
    if wallet.status != WalletStatus.TERMINATED:
        return {}
    left = [(transaction, transaction.remaining_amount_cents or 0) for transaction in inbound]
    return _summed(
        *((_credits(transaction), cents) for transaction, cents in left),
        *((_lost(transaction), -cents) for transaction, cents in left),
    )


# Documents of a time before the ledger


def stages_of_invoice(invoice: Invoice) -> list[tuple[datetime, Invoice]]:
    """The stages in which the entries of an invoice arose, each with its instant."""
    if invoice.finalized_at is None or invoice.status not in ISSUED:
        return [(invoice.created_at, invoice)]
    issued = replace(
        invoice,
        status=InvoiceStatus.FINALIZED,
        payment_dispute_lost_at=None,
        credits=tuple(replace(line, returned_cents=0) for line in invoice.credits),
    )
    lost_at, voided_at = invoice.payment_dispute_lost_at, invoice.voided_at
    later = [instant for instant in (lost_at, voided_at) if instant is not None]
    return [(invoice.finalized_at, issued), *([(max(later), invoice)] if later else [])]


def stages_of_note(note: CreditNote) -> list[tuple[datetime, CreditNote]]:
    """The stages in which the entries of a credit note arose, each with its instant."""
    issued = replace(note, refund_status=None, voided_amount_cents=0, withdrawn_amount_cents=0)
    stages = [(note.created_at, issued)]
    if note.voided_amount_cents or note.withdrawn_amount_cents:
        stages.append((note.voided_at or note.updated_at, replace(note, refund_status=None)))
    if note.refund_status == PaymentStatus.SUCCEEDED:
        stages.append((note.refunded_at or note.updated_at, note))
    return stages


def differences(posted: Iterable[tuple[Place, int]], entries: Entries) -> Entries:
    """What is to be posted so that a document with what was `posted` has these `entries`.

    Raises `ValueError` if debits and credits differ.
    """
    missing = _summed(*entries.items(), *((place, -cents) for place, cents in posted))
    if sum(missing.values()):
        raise ValueError(f"debits and credits differ: {missing}")
    return missing


def in_base_currency(
    missing: Entries, rate: ExchangeRate, posted: Callable[[Place], Sequence[Movement]]
) -> dict[Place, int]:
    """What a group posts in the billing entity's currency, by place; it sums to zero.

    What brings a place back to zero does so in both currencies, at the rates of what was `posted` there before; all
    else is converted at `rate`. The difference is a gain (below zero) or a loss from exchange.
    """
    closing: dict[Place, int] = {}
    for place, cents in missing.items():
        before = posted(place)
        # Without a rate then, or in another currency, nobody can say what it was worth.
        known = [movement.base_amount_cents for movement in before if movement.base_currency == rate.base_currency]
        worth = [cents for cents in known if cents is not None]
        if before and len(worth) == len(before) and sum(movement.amount_cents for movement in before) == -cents:
            closing[place] = -sum(worth)
    rest = {place: cents for place, cents in missing.items() if place not in closing}
    based = closing | dict(zip(rest, converted(list(rest.values()), rate), strict=True))
    difference = -sum(based.values())
    return {**based, Place(account=Account.EXCHANGE): difference} if difference else based


def open_day(day: date, closed: date | None) -> date:
    """The posting date of a movement of this day: the first open day if it is in a `closed` month (by its last day)."""
    return day if closed is None or day > closed else closed + _DAY


def last_day_of(month: str) -> date | None:
    """The last day of a month written as `2024-03`; None if it is not one."""
    if _MONTH.fullmatch(month) is None:
        return None
    first = date(int(month[:4]), int(month[5:]), 1)
    return first.replace(day=monthrange(first.year, first.month)[1])
