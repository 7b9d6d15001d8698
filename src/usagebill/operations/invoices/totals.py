"""Totals: what an invoice's fees come to, with everything of the customer's that takes part in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from usagebill.core.add_ons import AddOn
from usagebill.core.coupons import AppliedCoupon, Coupon, Targets, remaining_amount
from usagebill.core.credit_notes import CreditNote
from usagebill.core.customers import Customer, finalizes_zero_amount_invoices
from usagebill.core.error_details import TAX_ERROR, without
from usagebill.core.fees import Fee
from usagebill.core.invoices.records import Invoice
from usagebill.core.invoices.totals import (
    AvailableCoupon,
    InvoiceInProgress,
    SettlementInputs,
    settled,
    taxed,
)
from usagebill.core.plans import Charge, FixedCharge, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax
from usagebill.operations.credit_notes.automatic import on_surplus
from usagebill.operations.tax_connections import ask_about
from usagebill.queries.coupons import UNDONE, coupon_credits
from usagebill.queries.customers import customer_of, entity_of
from usagebill.queries.progressive_credits import billed_ahead
from usagebill.queries.tax_connections import connection_of
from usagebill.queries.taxes import taxes_for
from usagebill.storage.conditions import eq, more, ne
from usagebill.work import Work

__all__ = [
    "CONSUMING_TYPES",
    "available_coupons",
    "available_notes",
    "coupon_credits_cents",
    "fee_taxes",
    "settle",
    "settle_taxes",
    "waits_for_vat_check",
    "with_request",
]

# The types of invoice that use up coupons and credit notes.
CONSUMING_TYPES = ("subscription", "progressive_billing")

# The types of invoice whose taxes are computed from those of the customer.
_TAXED_TYPES = ("subscription", "progressive_billing", "one_off")


def settle(work: Work, invoice: Invoice, fees: Sequence[Fee], *, finalizing: bool) -> tuple[Invoice, list[Fee]]:
    """The invoice with its totals, and its fees with their shares and taxes; neither is stored here.

    Coupons and credit notes are used only while `finalizing`: what is left of them is stored in this transaction. What
    progressive billing invoices billed above the usage is given back by a credit note, for drafts too.

    While it is not known what the customer is taxed with, the invoice has no taxes and its `tax_status` is pending; its
    tax provider is asked, where it has one.
    """
    draft = computed(work, invoice, fees, consuming=finalizing and invoice.invoice_type in CONSUMING_TYPES)
    draft = replace(draft, invoice=with_request(work, customer_of(work, invoice), _unprovided(draft.invoice)))
    _keep_used(work, draft)
    for progressive_id, cents in draft.excess.items():
        progressive = work.tx.get(Invoice, progressive_id)
        if progressive is not None:
            on_surplus(work, progressive, cents)
    return draft.invoice, list(draft.fees)


def _unprovided(invoice: Invoice) -> Invoice:
    """The invoice whose fees were made anew, without what a provider said of those that it had before."""
    kept = without(invoice.error_details, TAX_ERROR)
    return replace(invoice, tax_request_id=None, tax_connection_id=None, error_details=kept)


def settle_taxes(
    work: Work, invoice: Invoice, fees: Sequence[Fee], *, provided: bool = False
) -> tuple[Invoice, list[Fee]]:
    """The invoice that has waited for its taxes, with them and the credit notes that pay for it; its fees likewise.

    Neither is stored here. What is left of the credit notes is. `provided`: the fees have the taxes that a provider
    gave, and no others. A draft uses no credit notes.
    """
    customer = customer_of(work, invoice)
    consuming = invoice.invoice_type in CONSUMING_TYPES and invoice.status != "draft"
    around = SettlementInputs(
        now=work.now,
        new_id=work.new_id,
        taxes={} if provided else _taxes(work, customer, fees),
        credit_notes=available_notes(work, customer, invoice) if consuming else (),
    )
    connection_id = invoice.tax_connection_id if provided else None
    settled_taxes = replace(invoice, tax_status="succeeded", tax_request_id=None, tax_connection_id=connection_id)
    draft = taxed(settled_taxes, fees, around)
    _keep_used(work, draft)
    return draft.invoice, list(draft.fees)


def _keep_used(work: Work, draft: InvoiceInProgress) -> None:
    for use in draft.coupon_uses:
        work.tx.replace(use.coupon)
    for note in draft.notes_used:
        work.tx.replace(note)


def _taxes(work: Work, customer: Customer, fees: Iterable[Fee]) -> Mapping[str, tuple[Tax, ...]]:
    return {fee.id: fee_taxes(work, customer, fee) for fee in fees if not fee.applied_taxes}


def waits_for_vat_check(work: Work, customer: Customer) -> bool:
    """Whether a check of the customer's VAT number runs that decides on its taxes."""
    return customer.vat_check is not None and entity_of(work, customer).eu_tax_management


def with_request(work: Work, customer: Customer, invoice: Invoice) -> Invoice:
    """The invoice that waits for its taxes, with the question that the customer's tax provider is asked about it.

    A question that was asked before counts no more. Without a provider, the invoice as it is.
    """
    if invoice.tax_status != "pending" or connection_of(work, customer) is None:
        return invoice
    asked = replace(invoice, tax_request_id=work.new_id())
    ask_about(work, "invoice", invoice.id, request_id=asked.tax_request_id)
    return asked


def _tax_status(work: Work, invoice: Invoice, customer: Customer, fees: Sequence[Fee]) -> str | None:
    """Pending while taxes are not known, unless there is nothing to tax; succeeded once they are; else null."""
    waits = connection_of(work, customer) is not None or waits_for_vat_check(work, customer)
    if fees and invoice.invoice_type in _TAXED_TYPES and waits:
        amount = sum(fee.amount_cents for fee in fees)
        if amount != 0 or finalizes_zero_amount_invoices(customer, entity_of(work, customer)):
            return "pending"
    return None if invoice.tax_status is None else "succeeded"


def computed(work: Work, invoice: Invoice, fees: Sequence[Fee], *, consuming: bool) -> InvoiceInProgress:
    """The totals of `fees` and what they use up, nothing of it stored."""
    customer = customer_of(work, invoice)
    around = SettlementInputs(
        now=work.now,
        new_id=work.new_id,
        taxes=_taxes(work, customer, fees),
        plan_of=plans_of(work, fees),
        progressive=billed_ahead(work, invoice) if invoice.invoice_type in CONSUMING_TYPES else (),
        coupons=available_coupons(work, customer) if consuming else (),
        credit_notes=available_notes(work, customer, invoice) if consuming else (),
    )
    return settled(replace(invoice, tax_status=_tax_status(work, invoice, customer, fees)), fees, around)


def plans_of(work: Work, fees: Iterable[Fee]) -> dict[str, str]:
    """The plans that coupons know the subscriptions of `fees` by: subscription id -> plan id."""
    ids = dict.fromkeys(fee.subscription_id for fee in fees if fee.subscription_id is not None)
    found = ((id, work.tx.get(Subscription, id)) for id in ids)
    return {id: _root_plan_id(work, subscription) for id, subscription in found if subscription is not None}


def _root_plan_id(work: Work, subscription: Subscription) -> str:
    """The plan that a coupon names: of an override the plan it was made from."""
    plan = work.tx.get(Plan, subscription.plan_id, deleted=True)
    return subscription.plan_id if plan is None or plan.parent_id is None else plan.parent_id


def fee_taxes(work: Work, customer: Customer, fee: Fee) -> tuple[Tax, ...]:
    """What a fee is taxed with: its own, else its plan's, else the customer's, else the billing entity's taxes.

    A prepaid credit is not taxed.
    """
    if fee.fee_type == "credit":
        return ()
    plan = None
    own: Sequence[str] = ()
    if fee.subscription_id is not None and fee.fee_type != "add_on":
        subscription = work.tx.get(Subscription, fee.subscription_id)
        plan = None if subscription is None else work.tx.get(Plan, subscription.plan_id, deleted=True)
    if fee.charge_id is not None:
        charge = work.tx.get(Charge, fee.charge_id, deleted=True)
        own = () if charge is None else charge.tax_ids
    elif fee.fixed_charge_id is not None:
        fixed = work.tx.get(FixedCharge, fee.fixed_charge_id, deleted=True)
        own = () if fixed is None else fixed.tax_ids
    elif fee.fee_type == "add_on" and fee.add_on_id is not None:
        add_on = work.tx.get(AddOn, fee.add_on_id, deleted=True)
        own = () if add_on is None else add_on.tax_ids
    elif fee.fee_type == "commitment" and plan is not None and plan.minimum_commitment is not None:
        own = plan.minimum_commitment.tax_ids
    key = ("taxes of fees", customer.id, None if plan is None else plan.id, tuple(own))
    return work.cached(key, lambda: taxes_for(work, customer, plan, own))


def coupon_credits_cents(work: Work, applied: AppliedCoupon) -> int:
    """What invoices that stand have taken of an applied coupon."""
    return sum(credit.amount_cents for invoice, credit in coupon_credits(work, applied) if invoice.status not in UNDONE)


def available_coupons(work: Work, customer: Customer) -> tuple[AvailableCoupon, ...]:
    """The customer's active coupons, with what they are limited to and what is left of each."""
    at_hand = []
    for applied in work.tx.find(AppliedCoupon, eq("customer_id", customer.id), eq("status", "active")):
        coupon = work.tx.get(Coupon, applied.coupon_id, deleted=True)
        if coupon is None:
            raise LookupError(f"no coupon {applied.coupon_id}")
        counted = applied.frequency == "once" and applied.percentage_rate is None
        left = remaining_amount(applied, coupon_credits_cents(work, applied)) if counted else None
        at_hand.append(
            AvailableCoupon(applied=applied, coupon=coupon, targets=targets_of(coupon), remaining_cents=left or 0)
        )
    return tuple(at_hand)


def targets_of(coupon: Coupon) -> Targets:
    """What the coupon is limited to."""
    return Targets(
        billable_metric_ids=frozenset(coupon.billable_metric_ids) if coupon.limited_billable_metrics else None,
        plan_ids=frozenset(coupon.plan_ids) if coupon.limited_plans else None,
    )


def available_notes(work: Work, customer: Customer, invoice: Invoice) -> tuple[CreditNote, ...]:
    """The customer's credit notes that may pay for `invoice`: those with a balance in its currency, not its own."""
    return tuple(
        work.tx.find(
            CreditNote,
            eq("customer_id", customer.id),
            eq("status", "finalized"),
            eq("credit_status", "available"),
            eq("currency", invoice.currency),
            ne("invoice_id", invoice.id),
            more("balance_amount_cents", 0),
        )
    )
