"""Settlement: an invoice's totals from its fees and the customer's coupons, taxes, credit notes and wallets.

Nothing is stored: `InvoiceInProgress.changed` has the credits used, its `surpluses` what is to be given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from usagebill.core.add_ons import AddOn
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.contracts import Contract, Parties
from usagebill.core.copies import replace
from usagebill.core.coupons import AppliedCoupon, CouponStatus, ran_out
from usagebill.core.credit_notes import CreditNote, CreditNoteStatus, CreditStatus
from usagebill.core.customers import Customer
from usagebill.core.error_details import TAX_ERROR, without
from usagebill.core.fees import Fee, FeeType
from usagebill.core.invoice_triggers import waits_for_taxes
from usagebill.core.invoices.life_cycle import CONSUMING_TYPES, InvoiceStatus, InvoiceType
from usagebill.core.invoices.progressive import discounts, uses
from usagebill.core.invoices.records import BillingPeriod, Invoice
from usagebill.core.invoices.totals import (
    AvailableCoupon,
    InvoiceInProgress,
    ProgressiveBilled,
    SettlementInputs,
    settled,
    taxed,
)
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.prepaid import AvailableWallet
from usagebill.core.statuses import TaxStatus
from usagebill.core.taxes import Tax
from usagebill.queries.coupons import available_coupon, coupons_of
from usagebill.queries.customers import entity_of
from usagebill.queries.plans import plan_definition
from usagebill.queries.progressive_credits import billed_ahead, billed_beside, used_together
from usagebill.queries.subscriptions import find_subscription, plan_of
from usagebill.queries.tax_connections import connection_of
from usagebill.queries.taxes import taxes_for
from usagebill.queries.wallets import drawable_transactions, usable_wallets
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import eq, more, ne, within

# From this many charges on, a plan is read as a whole instead of charge by charge.
_SEVERAL = 2


def settle(
    reader: Reader,
    invoice: Invoice,
    fees: Sequence[Fee],
    periods: Sequence[BillingPeriod],
    *,
    parties: Parties,
    contracts: Sequence[Contract] = (),
    finalizing: bool,
) -> InvoiceInProgress:
    """The invoice with its totals, and its fees with their shares and taxes.

    `periods` are those it bills; plans of `fees` that are not among `contracts` are looked up. Coupons, credit notes
    and prepaid credits are used only while `finalizing`. A surplus of progressive billing invoices over usage is given
    back for drafts too.

    While the customer's taxes are unknown, the invoice has none and its `tax_status` is pending; a `tax_request_id`
    means that the customer's tax provider is to be asked.
    """
    customer, plans = parties.customer, plans_of(reader, fees, contracts)
    consuming = finalizing and invoice.invoice_type in CONSUMING_TYPES
    progressive = billed_ahead(reader, invoice, periods, fees) if invoice.invoice_type in CONSUMING_TYPES else ()
    available: tuple[object, ...] = ()
    given_beside: Mapping[str, int] = {}
    if consuming:
        given_beside = discounts(_used_beside(reader, invoice, progressive, periods))
        continued = [
            *(held for billed in progressive for held in billed.coupons),
            *(available_coupon(reader, applied) for applied in coupons_of(reader, given_beside)),
        ]
        ended = [held for held in continued if held.applied.status != CouponStatus.ACTIVE]
        available = (*ended, *_available(reader, customer, invoice, (*BEFORE_TAXES, *AFTER_TAXES)))
    inputs = SettlementInputs(
        now=reader.now,
        new_id=reader.new_id,
        taxes=_taxes(reader, parties, fees, plans),
        plan_of=coupon_plans(plans),
        progressive=progressive,
        available=available,
        given_beside=given_beside,
        open_beside=_open_beside(reader, invoice, progressive),
    )
    undecided = replace(invoice, tax_status=_tax_status(reader, invoice, parties, fees))
    draft = settled(undecided, fees, inputs)
    return replace(draft, invoice=with_request(reader, customer, _unprovided(draft.invoice)))


def _used_beside(
    reader: Reader, invoice: Invoice, progressive: Sequence[ProgressiveBilled], periods: Sequence[BillingPeriod]
) -> list[Invoice]:
    """The invoices in force that use a coupon together with a progressive billing invoice, but for earlier ones of the
    same usage.
    """
    if invoice.voided_invoice_id is None or invoice.invoice_type != InvoiceType.PROGRESSIVE_BILLING:
        return billed_beside(reader, invoice, periods)
    before = {earlier.id for billed in progressive for earlier in billed.before}
    return [other for other in used_together(reader, invoice, periods) if other.id not in before]


def _open_beside(reader: Reader, invoice: Invoice, progressive: Sequence[ProgressiveBilled]) -> tuple[Invoice, ...]:
    """The progressive billing invoices of open periods beside the one that `invoice` closes by itself, if one of these
    may have the use of a coupon that has run out.
    """
    stages = [stage for billed in progressive for stage in billed.before]
    held = [coupon.applied for billed in progressive for coupon in billed.coupons]
    if invoice.invoice_type == InvoiceType.PROGRESSIVE_BILLING or {
        applied.id for applied in held if ran_out(applied)
    } <= uses(stages):
        return ()
    periods = reader.tx.find(BillingPeriod, within("invoice_id", [stage.id for stage in stages]))
    return tuple(billed_beside(reader, stages[-1], periods))


def _unprovided(invoice: Invoice) -> Invoice:
    """The invoice without its tax provider's answer about earlier fees, as its fees are new."""
    kept = without(invoice.error_details, TAX_ERROR)
    return replace(invoice, tax_request_id=None, tax_connection_id=None, error_details=kept)


def settle_taxes(
    reader: Reader, invoice: Invoice, fees: Sequence[Fee], *, parties: Parties, provided: bool = False
) -> InvoiceInProgress:
    """An invoice that waited for its taxes, now with taxes and the credits that pay for it, and its fees.

    `provided` says that the fees have the taxes given by a provider, and no others. A draft uses no credits.
    """
    customer = parties.customer
    consuming = invoice.invoice_type in CONSUMING_TYPES and invoice.status != InvoiceStatus.DRAFT
    inputs = SettlementInputs(
        now=reader.now,
        new_id=reader.new_id,
        taxes={} if provided else _taxes(reader, parties, fees, plans_of(reader, fees)),
        available=_available(reader, customer, invoice, AFTER_TAXES) if consuming else (),
    )
    connection_id = invoice.tax_connection_id if provided else None
    known = replace(invoice, tax_status=TaxStatus.SUCCEEDED, tax_request_id=None, tax_connection_id=connection_id)
    return taxed(known, fees, inputs)


def _taxes(
    reader: Reader, parties: Parties, fees: Iterable[Fee], plans: Mapping[str, Plan]
) -> Mapping[str, tuple[Tax, ...]]:
    untaxed = [fee for fee in fees if not fee.applied_taxes]
    lines = _lines_taxes(reader, untaxed, plans)
    return {fee.id: _fee_taxes(reader, parties.customer, fee, plans, lines, parties.entity) for fee in untaxed}


def _lines_taxes(reader: Reader, fees: Sequence[Fee], plans: Mapping[str, Plan]) -> Mapping[str, Sequence[str]]:
    """By charge id, the tax ids of the live charges and fixed charges of the plans, if several fees bill such."""
    if sum(fee.charge_id is not None or fee.fixed_charge_id is not None for fee in fees) < _SEVERAL:
        return {}
    tax_ids: dict[str, Sequence[str]] = {}
    for plan in plans.values():
        definition = plan_definition(reader, plan.id, plan)
        tax_ids |= {charge.id: charge.tax_ids for charge in definition.charges}
        tax_ids |= {charge.id: charge.tax_ids for charge in definition.fixed_charges}
    return tax_ids


def waits_for_vat_check(reader: Reader, customer: Customer) -> bool:
    """Whether taxes depend on a check of the customer's VAT number that is still running."""
    return customer.vat_check is not None and entity_of(reader, customer).eu_tax_management


def with_request(reader: Reader, customer: Customer, invoice: Invoice) -> Invoice:
    """The invoice, which waits for its taxes, with the id of a new request to its customer's tax provider.

    An earlier request no longer counts. Without a provider, the invoice is unchanged.
    """
    if invoice.tax_status != TaxStatus.PENDING or connection_of(reader, customer) is None:
        return invoice
    return replace(invoice, tax_request_id=reader.new_id())


def _tax_status(reader: Reader, invoice: Invoice, parties: Parties, fees: Sequence[Fee]) -> TaxStatus | None:
    """Pending while taxes are unknown, unless there is nothing to tax; succeeded once they are known; else None."""
    customer = parties.customer
    waits = connection_of(reader, customer) is not None or waits_for_vat_check(reader, customer)
    amounts = [fee.amount_cents for fee in fees]
    if waits and waits_for_taxes(invoice.invoice_type, amounts, sends_empty=parties.sends_empty):
        return TaxStatus.PENDING
    return None if invoice.tax_status is None else TaxStatus.SUCCEEDED


def plans_of(reader: Reader, fees: Iterable[Fee], contracts: Iterable[Contract] = ()) -> dict[str, Plan]:
    """By subscription id, the plans of the subscriptions of `fees`, from `contracts` or else looked up."""
    plans = {contract.subscription.id: contract.plan for contract in contracts}
    for id in dict.fromkeys(fee.subscription_id for fee in fees if fee.subscription_id not in plans):
        subscription = None if id is None else find_subscription(reader, id)
        if subscription is not None:
            plans[subscription.id] = plan_of(reader, subscription)
    return plans


def coupon_plans(plans: Mapping[str, Plan]) -> dict[str, str]:
    """By subscription id, the id of the plan that coupons match: of an override, its parent's."""
    return {id: plan.parent_id or plan.id for id, plan in plans.items()}


def fee_taxes(reader: Reader, customer: Customer, fee: Fee) -> tuple[Tax, ...]:
    """The taxes of a fee: its own, else its plan's, else the customer's, else the billing entity's.

    A prepaid credit is not taxed.
    """
    return _fee_taxes(reader, customer, fee, plans_of(reader, [fee]), {})


def _fee_taxes(
    reader: Reader,
    customer: Customer,
    fee: Fee,
    plans: Mapping[str, Plan],
    lines: Mapping[str, Sequence[str]],
    entity: BillingEntity | None = None,
) -> tuple[Tax, ...]:
    if fee.fee_type == FeeType.CREDIT:
        return ()
    plan = None if fee.fee_type == FeeType.ADD_ON else plans.get(fee.subscription_id or "")
    line_tax_ids: Sequence[str] = ()
    line_id = fee.charge_id or fee.fixed_charge_id or ""
    if line_id in lines:
        line_tax_ids = lines[line_id]
    elif fee.charge_id is not None:
        charge = reader.tx.get(Charge, fee.charge_id, deleted=True)
        line_tax_ids = () if charge is None else charge.tax_ids
    elif fee.fixed_charge_id is not None:
        fixed = reader.tx.get(FixedCharge, fee.fixed_charge_id, deleted=True)
        line_tax_ids = () if fixed is None else fixed.tax_ids
    elif fee.fee_type == FeeType.ADD_ON and fee.add_on_id is not None:
        add_on = reader.tx.get(AddOn, fee.add_on_id, deleted=True)
        line_tax_ids = () if add_on is None else add_on.tax_ids
    elif fee.fee_type == FeeType.COMMITMENT and plan is not None and plan.minimum_commitment is not None:
        line_tax_ids = plan.minimum_commitment.tax_ids
    key = ("taxes of fees", customer.id, None if plan is None else plan.id, tuple(line_tax_ids))
    return reader.cached(key, lambda: taxes_for(reader, customer, plan, line_tax_ids, entity=entity))


def available_coupons(reader: Reader, customer: Customer, _: Invoice) -> list[AvailableCoupon]:
    """The customer's active coupons, with their targets and remaining amounts."""
    active = reader.tx.find(AppliedCoupon, eq("customer_id", customer.id), eq("status", CouponStatus.ACTIVE))
    return [available_coupon(reader, applied) for applied in active]


def available_notes(reader: Reader, customer: Customer, invoice: Invoice) -> list[CreditNote]:
    """The customer's credit notes that may pay `invoice`: those with a balance in its currency, except its own."""
    return reader.tx.find(
        CreditNote,
        eq("customer_id", customer.id),
        eq("status", CreditNoteStatus.FINALIZED),
        eq("credit_status", CreditStatus.AVAILABLE),
        eq("currency", invoice.currency),
        ne("invoice_id", invoice.id),
        more("balance_amount_cents", 0),
    )


def available_wallets(reader: Reader, customer: Customer, invoice: Invoice) -> list[AvailableWallet]:
    """The customer's wallets that may pay `invoice`: those with a balance in its currency."""
    wallets = [
        wallet
        for wallet in usable_wallets(reader, customer.id)
        if wallet.currency == invoice.currency and wallet.balance_cents > 0
    ]
    inbound = drawable_transactions(reader, wallets)
    return [
        AvailableWallet(wallet=wallet, inbound=tuple(source for source in inbound if source.wallet_id == wallet.id))
        for wallet in wallets
    ]


_Load = Callable[[Reader, Customer, Invoice], Sequence[object]]

# The credits that can pay invoices, one row per kind; their steps are in `core.invoices.totals`.
BEFORE_TAXES: tuple[_Load, ...] = (available_coupons,)
AFTER_TAXES: tuple[_Load, ...] = (available_notes, available_wallets)


def _available(reader: Reader, customer: Customer, invoice: Invoice, kinds: Iterable[_Load]) -> tuple[object, ...]:
    return tuple(credit for load in kinds for credit in load(reader, customer, invoice))
