"""Totals: from fees to the amount that a customer owes, by the steps of `STEPS` in that order.

A kind of credit (coupons, credit notes, ...) is a step: it takes from the records of that kind in
`SettlementInputs.available`, adds its lines to the invoice's credits, and the records it used to
`InvoiceInProgress.changed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from usagebill.core.copies import replace
from usagebill.core.coupons import (
    AppliedCoupon,
    Coupon,
    CouponStatus,
    Targets,
    apply_coupon,
    given_back,
    in_order,
    kept_discounts,
    largest_discount,
    ran_out,
    used,
    with_discount,
)
from usagebill.core.credit_notes import CreditNote, after_use, share_over_fees
from usagebill.core.fees import Fee, TaxKeys
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.progressive import discounts, uses, with_returned, with_use, without_use
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.numbers import ZERO, add, round_cents, subtract, total
from usagebill.core.prepaid import AvailableWallet, allocated, invoiced_transaction, split_by_origin
from usagebill.core.progressive_billing import NOTHING, ProgressiveFee, deduction, fees_billed_before, paid_ahead
from usagebill.core.statuses import PaymentStatus, TaxStatus
from usagebill.core.taxes import Tax, invoice_taxes, net_of_coupons, summed_fee_taxes, tax_keys, taxed_fee
from usagebill.core.wallet_transactions import WalletTransaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableCoupon:
    """A coupon of the customer: active, or used up by the progressive billing invoices that the invoice credits.

    `remaining_cents` is the unused part of a fixed amount with frequency once.
    """

    applied: AppliedCoupon
    coupon: Coupon
    targets: Targets
    remaining_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveBilled:
    """The last progressive billing invoice of a subscription's period, and its remaining uncredited cents.

    These are gross: before the discounts of `coupons` on the period's progressive billing invoices so far, `before`.
    `fees` are those of all of them.
    """

    invoice_id: str
    number: str
    subscription_id: str
    left_cents: int
    fees: tuple[ProgressiveFee, ...]
    before: tuple[Invoice, ...] = ()
    coupons: tuple[AvailableCoupon, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surplus:
    """Cents, before taxes and less coupons, that progressive billing invoices up to this one billed with these taxes
    (any, if None), and have to give back.
    """

    invoice_id: str
    cents: int
    taxes: TaxKeys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementInputs:
    """Everything but the fees that the totals depend on.

    `taxes` holds the chosen taxes of each fee by fee id, `plan_of` the plan of each subscription. `available` are the
    customer's credits of every kind; empty for a draft, or a type of invoice that uses none. `given_beside` are the
    cents, by applied coupon, by which other invoices reduce what a progressive billing invoice bills a part of, and
    whose use it continues: those of subscriptions that will share the period's invoice, and those that deducted the
    voided one in whose place it is made. `open_beside` are the progressive billing invoices of such subscriptions whose
    period is still open while this invoice closes a period by itself.
    """

    now: datetime
    new_id: Callable[[], str]
    taxes: Mapping[str, Sequence[Tax]] = field(default_factory=dict)
    plan_of: Mapping[str, str] = field(default_factory=dict)
    progressive: tuple[ProgressiveBilled, ...] = ()
    available: tuple[object, ...] = ()
    given_beside: Mapping[str, int] = field(default_factory=dict)
    open_beside: tuple[Invoice, ...] = ()

    def of(self, kind: type[T]) -> list[T]:
        """The available credits of one kind."""
        return [credit for credit in self.available if isinstance(credit, kind)]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceInProgress:
    """An invoice between steps.

    `changed` are the coupons, credit notes, ... that it has used, as updated. `prepaid` are the wallet transactions
    that pay for it. `surpluses` are what progressive billing invoices billed and usage no longer justifies; the coupons
    on these that got their part back are `returned`, by id, and `returned_cents` that part, by the last such invoice.
    `given` are the discounts on the usage that it credits, by applied coupon; `continued` those coupons of which that
    usage has a use.
    """

    invoice: Invoice
    fees: tuple[Fee, ...]
    changed: tuple[object, ...] = ()
    prepaid: tuple[WalletTransaction, ...] = ()
    surpluses: tuple[Surplus, ...] = ()
    returned: Mapping[str, AvailableCoupon] = field(default_factory=dict)
    returned_cents: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, int] = field(default_factory=dict)
    continued: frozenset[str] = frozenset()


Step = Callable[[InvoiceInProgress, SettlementInputs], InvoiceInProgress]


def fees_step(draft: InvoiceInProgress, _: SettlementInputs) -> InvoiceInProgress:
    """Sum the fees; every other total starts at zero."""
    amount = sum(fee.amount_cents for fee in draft.fees)
    invoice = replace(
        draft.invoice,
        fees_amount_cents=amount,
        sub_total_excluding_taxes_amount_cents=amount,
        progressive_billing_credit_amount_cents=0,
        coupons_amount_cents=0,
        taxes_amount_cents=0,
        sub_total_including_taxes_amount_cents=amount,
        credit_notes_amount_cents=0,
        prepaid_credit_amount_cents=0,
        prepaid_granted_credit_amount_cents=None,
        prepaid_purchased_credit_amount_cents=None,
        total_amount_cents=amount,
        applied_taxes=(),
        credits=(),
    )
    return replace(draft, invoice=invoice)


def progressive_billing_step(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """Credit the amounts that progressive billing invoices billed for this usage, at most its current cost."""
    stages = [stage for billed in inputs.progressive for stage in billed.before]
    draft = replace(draft, continued=frozenset({*uses(stages), *inputs.given_beside}))
    for billed in inputs.progressive:
        draft = _progressive_credit(draft, billed, inputs)
    return _with_own_uses(draft, inputs)


def _progressive_credit(
    draft: InvoiceInProgress, billed: ProgressiveBilled, inputs: SettlementInputs
) -> InvoiceInProgress:
    fees_before = fees_billed_before(draft.fees, billed.fees, billed.subscription_id)
    limit = max(0, sum(fee.amount_cents for fee in fees_before))
    coupons_on = _metric_coupons(fees_before, billed, inputs)
    gross = [
        replace(fee, net_cents=Decimal(fee.amount_cents), taxes=coupons_on.get(fee.charge_id, frozenset()))
        for fee in billed.fees
    ]
    alike = {fee.id: coupons_on.get(fee.charge_id or "", frozenset()) for fee in fees_before}
    is_mixed = len(set(coupons_on.values())) > 1
    given = kept = discounts(billed.before)
    left_of = fees_before
    most_cents = limit
    if is_mixed:
        still = deduction(fees_before, gross, billed.left_cents, alike, most_cents=limit)
        most_cents = still.cents
        left_of = [_deducted(before, after) for before, after in zip(fees_before, still.fees, strict=True)]
    if billed.left_cents > most_cents:
        held_given = [(held.applied, held.targets, given[held.applied.id]) for held in billed.coupons]
        kept = kept_discounts(left_of, held_given, inputs.plan_of, draft.invoice.currency)
    lost = _lost(draft, billed, inputs)
    kept = {id: cents for id, cents in kept.items() if id not in lost}
    back = {id: cents - kept.get(id, 0) for id, cents in given.items() if cents > kept.get(id, 0)}
    draft = _with_coupons(draft, billed, given, back, lost, inputs.now)
    returned_cents = sum(back.values())
    if returned_cents:
        draft = replace(draft, returned_cents={**draft.returned_cents, billed.invoice_id: returned_cents})
    left_cents = billed.left_cents - returned_cents
    if is_mixed:
        limit = deduction(fees_before, gross, left_cents, alike, most_cents=limit).cents
    if left_cents > limit:
        surplus = Surplus(invoice_id=billed.invoice_id, cents=left_cents - limit)
        draft = replace(draft, surpluses=(*draft.surpluses, surplus))
    credit = min(left_cents, limit)
    if credit <= 0:
        return draft
    part = deduction(fees_before, gross, credit, alike if is_mixed else None, most_cents=credit)
    credited = {fee.id: fee for fee in part.fees}
    fees = tuple(credited.get(fee.id, fee) for fee in draft.fees)
    line = Credit(
        id=inputs.new_id(),
        amount_cents=credit,
        amount_currency=draft.invoice.currency,
        before_taxes=True,
        item_id=billed.invoice_id,
        item_type=CreditType.INVOICE,
        item_code=billed.number,
        item_name=billed.number,
        created_at=inputs.now,
        source_id=billed.invoice_id,
        subscription_id=billed.subscription_id,
    )
    invoice = draft.invoice
    invoice = replace(
        invoice,
        credits=(*invoice.credits, line),
        progressive_billing_credit_amount_cents=invoice.progressive_billing_credit_amount_cents + credit,
        sub_total_excluding_taxes_amount_cents=invoice.sub_total_excluding_taxes_amount_cents - credit,
    )
    return replace(draft, invoice=invoice, fees=fees)


def _metric_coupons(
    fees: Sequence[Fee], billed: ProgressiveBilled, inputs: SettlementInputs
) -> dict[str | None, TaxKeys]:
    """The coupons for some metrics that reduce each charge of `fees`, in the form of `deduction`'s taxes.

    Usage that fell is made up for by usage with the same coupons alone: on other usage it would change the discount.
    """
    every = {held.applied.id: held for held in (*inputs.of(AvailableCoupon), *billed.coupons)}
    limited = [held for held in every.values() if held.targets.billable_metric_ids is not None]
    return {
        fee.charge_id: frozenset(
            (held.applied.id, ZERO)
            for held in limited
            if held.targets.matches(fee, inputs.plan_of.get(fee.subscription_id or ""))
        )
        for fee in fees
    }


def _deducted(before: Fee, after: Fee) -> Fee:
    """The fee for the cents that a deduction took off it: usage that was billed before and is still there."""
    cents = subtract(after.precise_coupons_amount_cents, before.precise_coupons_amount_cents)
    return replace(before, amount_cents=round_cents(cents))


def _lost(draft: InvoiceInProgress, billed: ProgressiveBilled, inputs: SettlementInputs) -> frozenset[str]:
    """The coupons of progressive billing invoices that have run out, of which these only continued a use of another
    subscription: that is billed apart after all, and has had it.
    """
    had = {*draft.continued, *uses(inputs.open_beside)}
    return frozenset(held.applied.id for held in billed.coupons if ran_out(held.applied) and held.applied.id not in had)


def _with_coupons(
    draft: InvoiceInProgress,
    billed: ProgressiveBilled,
    given: Mapping[str, int],
    back: Mapping[str, int],
    lost: frozenset[str],
    now: datetime,
) -> InvoiceInProgress:
    """The invoice, knowing what coupons have `given` on progressive billing invoices (cents, by applied coupon), of
    which `back` goes back to them. A coupon that gets all of it back was not used; of those `lost` the use is another
    subscription's.
    """
    kept, returned = dict(draft.given), dict(draft.returned)
    stages = [stage for stage in with_returned(billed.before, back) if stage not in billed.before]
    continued = set(draft.continued)
    for held in billed.coupons:
        id = held.applied.id
        before, cents = returned.get(id, held), given[id] - back.get(id, 0)
        if id in back:
            taken_cents = (before.applied.amount_cents or 0) - before.remaining_cents
            is_used = cents > 0 or id in lost
            applied = given_back(before.applied, held.coupon, now, taken_cents=taken_cents, is_used=is_used)
            returned[id] = replace(before, applied=applied, remaining_cents=before.remaining_cents + back[id])
        if cents:
            kept[id] = kept.get(id, 0) + cents
        else:
            continued.discard(id)
    changed = (*stages, *(returned[held.applied.id].applied for held in billed.coupons if held.applied.id in back))
    return replace(
        draft,
        changed=(*draft.changed, *changed),
        returned=returned,
        given=kept,
        continued=frozenset(continued),
    )


def _with_own_uses(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """The invoice, with a use of its own of each coupon that its progressive billing invoices go on using, though they
    only continued the use of another subscription, which is billed apart after all.

    If the coupon has run out, it takes over that use: the other subscription is billed later.
    """
    invoices = {stage.id: stage for billed in inputs.progressive for stage in billed.before}
    invoices |= {one.id: one for one in (*inputs.open_beside, *draft.changed) if isinstance(one, Invoice)}
    own = [stage.id for billed in inputs.progressive for stage in billed.before]
    returned, continued, changed = dict(draft.returned), set(draft.continued), list(draft.changed)
    for held in (held for billed in inputs.progressive for held in billed.coupons):
        id = held.applied.id
        before = returned.get(id, held)
        is_active = before.applied.status == CouponStatus.ACTIVE
        if id in continued or id not in draft.given or not (is_active or ran_out(before.applied)):
            continue
        heir = with_use([invoices[one] for one in own], id)
        if heir is None:
            continue
        beside = [] if is_active else [without_use(one, id) for one in inputs.open_beside]
        for one in (heir, *(other for other in beside if other not in inputs.open_beside)):
            changed = [other for other in changed if not (isinstance(other, Invoice) and other.id == one.id)]
            changed.append(one)
            invoices[one.id] = one
        continued.add(id)
        if is_active:
            returned[id] = replace(before, applied=used(before.applied, 0, before.remaining_cents, inputs.now))
            changed.append(returned[id].applied)
    return replace(draft, returned=returned, continued=frozenset(continued), changed=tuple(changed))


def coupons_step(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """Apply coupons in order until nothing is due. Those not reached, or not matching, stay unused.

    A coupon that discounted the usage which this invoice credits continues: together it is one use. What such usage
    gave back, as it fell, is used here again.
    """
    if draft.invoice.fees_amount_cents <= 0:
        return draft
    available = {held.applied.id: draft.returned.get(held.applied.id, held) for held in inputs.of(AvailableCoupon)}
    for applied, targets in in_order([(held.applied, held.targets) for held in available.values()]):
        invoice = draft.invoice
        if invoice.sub_total_excluding_taxes_amount_cents <= 0:
            break
        held = available[applied.id]
        continues = applied.id in draft.continued
        given_cents = draft.given.get(applied.id, 0) + inputs.given_beside.get(applied.id, 0)
        at_most_cents = largest_discount(applied, remaining_cents=held.remaining_cents, given_cents=given_cents)
        is_active = applied.status == CouponStatus.ACTIVE
        if (continues and at_most_cents == 0) or not (is_active or (continues and ran_out(applied))):
            continue
        result = apply_coupon(
            applied,
            targets,
            draft.fees,
            inputs.plan_of,
            subtotal_cents=invoice.sub_total_excluding_taxes_amount_cents,
            currency=invoice.currency,
            at_most_cents=at_most_cents,
        )
        if result is None:
            continue
        fees, credit = result
        line = Credit(
            id=inputs.new_id(),
            amount_cents=credit,
            amount_currency=invoice.currency,
            before_taxes=True,
            item_id=held.coupon.id,
            item_type=CreditType.COUPON,
            item_code=held.coupon.code,
            item_name=held.coupon.name,
            item_description=held.coupon.description,
            created_at=inputs.now,
            source_id=applied.id,
            continues=continues,
        )
        draft = replace(
            draft,
            fees=tuple(fees),
            invoice=replace(
                invoice,
                credits=(*invoice.credits, line),
                coupons_amount_cents=invoice.coupons_amount_cents + credit,
                sub_total_excluding_taxes_amount_cents=invoice.sub_total_excluding_taxes_amount_cents - credit,
            ),
            changed=(*draft.changed, used(applied, credit, held.remaining_cents, inputs.now, continues=line.continues)),
        )
    return draft


def fee_by_fee_step(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """Each fee comes to what it would without progressive billing invoices, less what it came to on these.

    So a coupon that discounted usage there is shared over all fees. Usage that fell is given back with the taxes that
    were on it: fees with other taxes do not make up for it, and the progressive billing credit shrinks.
    """
    before = [(billed, sum(discounts(billed.before).values())) for billed in inputs.progressive]
    if not before or any(billed.left_cents < given_cents for billed, given_cents in before):
        return draft
    fees = _without_deductions(draft, inputs)
    credits = {line.source_id: line for line in draft.invoice.credits}
    surpluses: list[Surplus] = []
    for billed, given_cents in before:
        paid_cents = billed.left_cents - given_cents
        id = billed.invoice_id
        most_cents = paid_cents - sum(surplus.cents for surplus in draft.surpluses if surplus.invoice_id == id)
        part = deduction(
            fees_billed_before(fees, billed.fees, billed.subscription_id),
            billed.fees,
            paid_cents,
            _known_taxes(draft, inputs),
            most_cents=most_cents,
        )
        changed = {fee.id: fee for fee in part.fees}
        fees = tuple(changed.get(fee.id, fee) for fee in fees)
        surpluses += [Surplus(invoice_id=id, cents=cents, taxes=keys) for keys, cents in part.surplus.items()]
        if part.cents < most_cents:
            line = credits[id]
            credits[id] = replace(line, amount_cents=line.amount_cents - most_cents + part.cents)
    lines = tuple(line for line in credits.values() if line.amount_cents > 0 or line.item_type == CreditType.COUPON)
    cents = sum(line.amount_cents for line in lines if line.item_type == CreditType.INVOICE)
    invoice = replace(
        draft.invoice,
        credits=lines,
        progressive_billing_credit_amount_cents=cents,
        sub_total_excluding_taxes_amount_cents=draft.invoice.fees_amount_cents
        - cents
        - draft.invoice.coupons_amount_cents,
    )
    return replace(draft, invoice=invoice, fees=fees, surpluses=tuple(surpluses))


def _without_deductions(draft: InvoiceInProgress, inputs: SettlementInputs) -> tuple[Fee, ...]:
    """The fees less what coupons take off them here and on progressive billing invoices together.

    As far as its usage has not fallen, a fee comes to no less than these billed: not all of them had every coupon, and
    shares of a coupon do not come out even.
    """
    cents_of = dict(draft.given)
    for line in draft.invoice.credits:
        if line.item_type == CreditType.COUPON and line.source_id is not None:
            cents_of[line.source_id] = cents_of.get(line.source_id, 0) + line.amount_cents
    every = [*inputs.of(AvailableCoupon), *(held for billed in inputs.progressive for held in billed.coupons)]
    coupons = {held.applied.id: (held.applied, held.targets) for held in every if held.applied.id in cents_of}
    fees = {fee.id: replace(fee, precise_coupons_amount_cents=ZERO) for fee in draft.fees}
    paid: dict[str, Decimal] = {}
    for billed in inputs.progressive:
        before = fees_billed_before(draft.fees, billed.fees, billed.subscription_id)
        paid |= paid_ahead(before, billed.fees, draft.returned_cents.get(billed.invoice_id, 0))
    for applied, targets in in_order(list(coupons.values())):
        # A coupon takes off what would be due without those invoices; what finds no room there, any fee takes, at last
        # even what was paid before.
        matching = [fee for fee in fees.values() if targets.matches(fee, inputs.plan_of.get(fee.subscription_id or ""))]
        left = Decimal(cents_of[applied.id])
        ids = {fee.id for fee in matching}
        for among, least in ((None, paid), (ids, paid), (ids, {}), (set(fees), {})):
            weighed = matching if among is None else [_above(fees[id], least) for id in fees if id in among]
            base = total(net_of_coupons(fee) for fee in weighed)
            after = with_discount(fees, weighed, left, base, least)
            left = subtract(
                left, total(subtract(net_of_coupons(fees[id]), net_of_coupons(fee)) for id, fee in after.items())
            )
            fees |= after
            if left.copy_abs() < NOTHING:
                break
    return tuple(fees.values())


def _above(fee: Fee, least: Mapping[str, Decimal]) -> Fee:
    """The fee less the `least` that it comes to, as far as coupons have left it that."""
    if fee.id not in least:
        return fee
    cents = min(least[fee.id], net_of_coupons(fee))
    return replace(fee, precise_coupons_amount_cents=add(fee.precise_coupons_amount_cents, cents))


def _known_taxes(draft: InvoiceInProgress, inputs: SettlementInputs) -> Mapping[str, TaxKeys] | None:
    if draft.invoice.tax_status == TaxStatus.PENDING:
        return None
    return {
        fee.id: tax_keys(fee) or frozenset((tax.code, tax.rate) for tax in inputs.taxes.get(fee.id, ()))
        for fee in draft.fees
    }


def taxes_step(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """Each fee is taxed on its discounted amount, and the invoice on their sum.

    The fees of an `advance_charges` invoice were paid with their taxes, so these are only summed.
    """
    invoice = draft.invoice
    subtotal = invoice.sub_total_excluding_taxes_amount_cents
    if invoice.invoice_type == InvoiceType.ADVANCE_CHARGES:
        fees = draft.fees
        taxes = summed_fee_taxes(fees, invoice.currency, inputs.now, inputs.new_id)
    else:
        fees = tuple(taxed_fee(fee, inputs.taxes.get(fee.id, ()), inputs.now, inputs.new_id) for fee in draft.fees)
        taxes = invoice_taxes(fees, subtotal, invoice.currency, inputs.now, inputs.new_id)
    gross = subtotal + taxes.amount_cents
    invoice = replace(
        invoice,
        applied_taxes=taxes.lines,
        taxes_amount_cents=taxes.amount_cents,
        taxes_rate=taxes.rate,
        sub_total_including_taxes_amount_cents=gross,
        total_amount_cents=gross,
    )
    return replace(draft, invoice=invoice, fees=fees)


def untaxed_step(draft: InvoiceInProgress, _: SettlementInputs) -> InvoiceInProgress:
    """While its taxes are unknown, an invoice totals what it would without taxes."""
    invoice = draft.invoice
    subtotal = invoice.sub_total_excluding_taxes_amount_cents
    return replace(
        draft,
        invoice=replace(
            invoice,
            taxes_rate=ZERO,
            sub_total_including_taxes_amount_cents=subtotal,
            total_amount_cents=subtotal,
            payment_status=PaymentStatus.PENDING,
        ),
    )


def credit_notes_step(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """Credit notes of the same currency, oldest first, each up to its balance, until nothing is due."""
    for note in sorted(inputs.of(CreditNote), key=lambda note: (note.created_at, note.id)):
        invoice = draft.invoice
        amount = min(note.balance_amount_cents, invoice.total_amount_cents)
        if amount <= 0 or note.currency != invoice.currency or note.invoice_id == invoice.id:
            continue
        line = Credit(
            id=inputs.new_id(),
            amount_cents=amount,
            amount_currency=invoice.currency,
            before_taxes=False,
            item_id=note.id,
            item_type=CreditType.CREDIT_NOTE,
            item_code=note.number,
            item_name=note.number.rsplit("-CN", 1)[0],
            item_description=note.description,
            created_at=inputs.now,
            source_id=note.id,
        )
        draft = replace(
            draft,
            fees=tuple(share_over_fees(draft.fees, amount, invoice.total_amount_cents)),
            invoice=replace(
                invoice,
                credits=(*invoice.credits, line),
                credit_notes_amount_cents=invoice.credit_notes_amount_cents + amount,
                total_amount_cents=invoice.total_amount_cents - amount,
            ),
            changed=(*draft.changed, after_use(note, amount, inputs.now)),
        )
    return draft


def prepaid_credits_step(draft: InvoiceInProgress, inputs: SettlementInputs) -> InvoiceInProgress:
    """The customer's wallets pay the amount due, within their limits and balances."""
    invoice = draft.invoice
    wallets = inputs.of(AvailableWallet)
    if invoice.total_amount_cents <= 0 or not wallets:
        return draft
    shares = allocated(draft.fees, invoice.total_amount_cents, [available.wallet for available in wallets])
    paid = sum(share.amount_cents for share in shares)
    granted, purchased = split_by_origin(shares, wallets)
    return replace(
        draft,
        invoice=replace(
            invoice,
            prepaid_credit_amount_cents=paid,
            prepaid_granted_credit_amount_cents=granted or None,
            prepaid_purchased_credit_amount_cents=purchased or None,
            total_amount_cents=invoice.total_amount_cents - paid,
        ),
        prepaid=tuple(
            invoiced_transaction(share, invoice_id=invoice.id, now=inputs.now, new_id=inputs.new_id) for share in shares
        ),
    )


def payment_status_step(draft: InvoiceInProgress, _: SettlementInputs) -> InvoiceInProgress:
    """An invoice with nothing due is paid; so is one of fees that were already paid one by one."""
    invoice = draft.invoice
    paid = invoice.total_amount_cents <= 0 or invoice.invoice_type == InvoiceType.ADVANCE_CHARGES
    status = PaymentStatus.SUCCEEDED if paid else PaymentStatus.PENDING
    return replace(draft, invoice=replace(draft.invoice, payment_status=status))


STEPS_TO_TAXES: tuple[Step, ...] = (fees_step, progressive_billing_step, coupons_step, fee_by_fee_step)
STEPS_FROM_TAXES: tuple[Step, ...] = (
    taxes_step,
    credit_notes_step,
    prepaid_credits_step,
    payment_status_step,
)
STEPS = (*STEPS_TO_TAXES, *STEPS_FROM_TAXES)


def settled(invoice: Invoice, fees: Sequence[Fee], inputs: SettlementInputs) -> InvoiceInProgress:
    """The invoice with its totals, its fees with their shares and taxes, and the credits it used.

    With `tax_status` pending it stops before the taxes; `taxed` continues from there.
    """
    steps = (*STEPS_TO_TAXES, untaxed_step) if invoice.tax_status == TaxStatus.PENDING else STEPS
    return _through(steps, invoice, fees, inputs)


def taxed(invoice: Invoice, fees: Sequence[Fee], inputs: SettlementInputs) -> InvoiceInProgress:
    """An invoice that was waiting for its taxes, with them and all later steps; its coupons are already applied."""
    return _through(STEPS_FROM_TAXES, invoice, fees, inputs)


def _through(
    steps: Sequence[Step], invoice: Invoice, fees: Sequence[Fee], inputs: SettlementInputs
) -> InvoiceInProgress:
    draft = InvoiceInProgress(invoice=invoice, fees=tuple(fees))
    for step in steps:
        draft = step(draft, inputs)
    return draft
