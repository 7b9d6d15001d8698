"""Explanations: the steps to each line of an invoice and to its total, with every number in between.

Everything is replayed from the data stored with the invoice and its fees, by the original rules; a discount that does
not match the fee's stored one is marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from usagebill.core.coupons import Targets, with_discount
from usagebill.core.currencies import major_from_cents
from usagebill.core.fees import Fee, TaxKey
from usagebill.core.invoices.life_cycle import InvoiceType
from usagebill.core.invoices.records import Credit, CreditType, Invoice
from usagebill.core.numbers import (
    ZERO,
    ceil_to,
    decimal_text,
    divide,
    multiply,
    parse_decimal,
    round_to,
    subtract,
    total,
)
from usagebill.core.taxes import net_of_coupons, taxable

_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discount:
    """The discount of a fee by one coupon or progressive billing invoice: `before` and `after` in (fractions of)
    cents.
    """

    credit_id: str
    kind: str
    code: str
    before: Decimal
    share: Decimal
    after: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxStep:
    """One tax: `base` in (fractions of) cents times `rate` percent is `exact` cents, shown as `amount_cents`."""

    code: str
    rate: Decimal
    base: Decimal
    exact: Decimal
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the totals: its name, its computation, the cents it adds, and the resulting cents."""

    name: str
    text: str
    amount_cents: int
    result_cents: int


def arithmetic(fee: Fee, priced: Sequence[str] = ()) -> tuple[str, ...]:
    """The derivation of a fee's amount before discounts, line by line, in major units of its currency.

    `priced` are the lines of its charge model, if the fee's own details do not contain them.
    """
    if "minimum_cents" in fee.basis:
        return tuple(_minimum_lines(fee))
    lines = [*_basis_lines(fee), *(priced or model_arithmetic(fee.amount_details, fee.units))]
    unit = fee.pricing_unit_details
    if not lines and unit is None and fee.units != ZERO:
        lines = [f"{decimal_text(fee.units)} units x {decimal_text(fee.precise_unit_amount)} each"]
    if unit is not None:
        unit_amount = divide(Decimal(str(unit["amount_cents"])), _HUNDRED)
        lines.append(f"{decimal_text(unit_amount)} {unit['short_name']} x {unit['conversion_rate']} {fee.currency}")
    paid = fee.basis.get("paid_before_cents")
    exact = fee.basis.get("full_cents", fee.precise_amount_cents)
    whole = fee.amount_cents + int(str(paid or 0))
    lines.append(f"{_major(exact, fee)} rounded to {_major(whole, fee)} {fee.currency}")
    if paid is not None:
        lines += _paid_before_lines(fee)
        lines.append(f"less {_major(paid, fee)}: {_major(fee.amount_cents, fee)} {fee.currency}")
    return tuple(lines)


def _paid_before_lines(fee: Fee) -> list[str]:
    """The deduction of the old plan's fees from the fee."""
    return [
        f"the old plan was paid {_major(row['paid_cents'], fee)} for {row['paid_days']} days, "
        f"{row['days_left']} of which are left"
        for row in _rows(fee.basis["paid_before"])
    ]


def _rows(listed: object) -> list[Mapping[str, object]]:
    return [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, (list, tuple)) else []


def _major(cents: object, fee: Fee) -> str:
    return decimal_text(major_from_cents(Decimal(str(cents)), fee.currency))


def _minimum_lines(fee: Fee) -> list[str]:
    """The gap between fees and the minimum of a charge (a true-up) or of the whole plan (its commitment)."""
    basis, unit = fee.basis, fee.pricing_unit_details
    days, period_days = int(str(basis["days"])), int(str(basis["period_days"]))
    due = divide(multiply(Decimal(str(basis["minimum_cents"])), Decimal(days)), Decimal(period_days))
    gap = subtract(Decimal(str(basis.get("due_cents", due))), Decimal(str(basis["used_cents"])))

    def shown(cents: object) -> str:
        # The minimum of a charge with a pricing unit is in hundredths of the unit.
        exact = round_to(Decimal(str(cents)), 13)
        return _major(exact, fee) if unit is None else decimal_text(divide(exact, _HUNDRED))

    name = fee.currency if unit is None else str(unit["short_name"])
    lines = [f"minimum of {shown(basis['minimum_cents'])} {name} x {days} / {period_days} days = {shown(due)}"]
    if "due_cents" in basis:
        lines.append(f"{shown(due)} rounded to {shown(basis['due_cents'])}")
    lines.append(f"less {shown(basis['used_cents'])} of fees: {shown(gap)}")
    if unit is not None:
        unit_amount = divide(Decimal(str(unit["amount_cents"])), _HUNDRED)
        lines.append(f"{decimal_text(unit_amount)} {name} x {unit['conversion_rate']} {fee.currency}")
    return [*lines, f"rounded to {_major(fee.amount_cents, fee)} {fee.currency}"]


def _basis_lines(fee: Fee) -> list[str]:
    """The days that the fee bills, and the prorated units."""
    basis = fee.basis
    plan_amount = fee.amount_details.get("plan_amount_cents")
    if plan_amount is not None and "days" in basis:
        return [f"plan amount {_major(plan_amount, fee)} x {basis['days']} / {basis['period_days']} days"]
    if "new_units" in basis:
        return [
            f"{basis['new_units']} units less {basis['paid_units']} billed before, "
            f"x {basis['days']} / {basis['period_days']} days"
        ]
    if "with_event" in basis:
        return _difference_lines(basis)
    if "unit_amount" in basis:
        prorated, price = basis["prorated_units"], basis["unit_amount"]
        return [
            f"{decimal_text(fee.units)} units from the event's day to the last of the period: "
            f"{prorated} prorated units",
            f"{prorated} prorated units x {price}",
        ]
    if "terms" not in basis:
        return []
    lines = [
        f"{term['units']} units x {term['days']} / {basis['period_days']} days = {term['prorated_units']}"
        for term in _rows(basis["terms"])
    ]
    return [*lines, f"prorated units: {basis['prorated_units']}"]


def _number(details: Mapping[str, object], key: str) -> Decimal:
    value = details.get(key)
    return (parse_decimal(str(value)) or ZERO) if value is not None else ZERO


def _difference_lines(basis: Mapping[str, object]) -> list[str]:
    """The price of all units with one event, and without it."""
    lines = []
    amounts = []
    for name, text in (("with_event", "with this event"), ("without_event", "without it")):
        side = basis[name]
        if not isinstance(side, Mapping):
            continue
        details = side["details"]
        model_lines = model_arithmetic(details, Decimal(str(side["units"]))) if isinstance(details, Mapping) else []
        steps = f": {'; '.join(model_lines)}" if model_lines else ""
        lines.append(f"{side['units']} units {text} = {side['amount']}{steps}")
        amounts.append(str(side["amount"]))
    return [*lines, f"difference: {' - '.join(amounts)}"]


def model_arithmetic(details: Mapping[str, object], units: Decimal) -> list[str]:
    """The steps in the details of a charge model: ranges, packages, percentages, volumes; none for a single price."""
    ranges = details.get("graduated_ranges") or details.get("graduated_percentage_ranges")
    if isinstance(ranges, (list, tuple)):
        return [_range_line(range_) for range_ in ranges if isinstance(range_, Mapping)]
    if "per_package_size" in details:
        paid, size = _number(details, "paid_units"), _number(details, "per_package_size")
        packages = ceil_to(divide(paid, size), 0) if size else ZERO
        return [
            f"{details['free_units']} units free",
            f"{details['paid_units']} units in packages of {details['per_package_size']}: {packages} packages x "
            f"{details['per_package_unit_amount']} a package",
        ]
    if "rate" in details:
        return _percentage_lines(details)
    if "flat_unit_amount" in details:
        return [
            f"{decimal_text(units)} units, all of them x {details['per_unit_amount']} = "
            f"{details['per_unit_total_amount']}",
            f"flat amount of the range reached: {details['flat_unit_amount']}",
        ]
    return []


def _range_line(share: Mapping[str, object]) -> str:
    until = "and above" if share.get("to_value") is None else f"to {share['to_value']}"
    price = f"{share['rate']} %" if "rate" in share else str(share.get("per_unit_amount"))
    return (
        f"{share['units']} units from {share['from_value']} {until} x {price} = {share['per_unit_total_amount']}, "
        f"with the flat amount of {share['flat_unit_amount']}: {share['total_with_flat_amount']}"
    )


def _percentage_lines(details: Mapping[str, object]) -> list[str]:
    lines = [f"{details['paid_units']} units x {details['rate']} % = {details['per_unit_total_amount']}"]
    if _number(details, "free_units") or _number(details, "free_events"):
        lines.insert(0, f"{details['free_units']} units and {details.get('free_events', 0)} events free")
    if _number(details, "fixed_fee_total_amount"):
        lines.append(
            f"{details.get('paid_events', 0)} events x {details['fixed_fee_unit_amount']} = "
            f"{details['fixed_fee_total_amount']}"
        )
    if _number(details, "min_max_adjustment_total_amount"):
        lines.append(f"bounds of single events: {details['min_max_adjustment_total_amount']}")
    return lines


def discounts(
    invoice: Invoice, fees: Sequence[Fee], targets: Mapping[str, Targets], plan_of: Mapping[str, str]
) -> dict[str, tuple[Discount, ...]]:
    """The discounts of each fee by credits before taxes, by fee id, in the order of the invoice.

    `targets` are those of coupons, by applied coupon id; `plan_of` maps subscriptions to plans. What coupons do not
    explain of a fee's discounts was billed by progressive billing invoices.
    """
    before_taxes = [credit for credit in invoice.credits if credit.before_taxes]
    ahead = [credit for credit in before_taxes if credit.item_type != CreditType.COUPON]
    open_fees = {fee.id: replace(fee, precise_coupons_amount_cents=ZERO) for fee in fees}
    shares: dict[tuple[str, str], Decimal] = {}
    subtotal_cents = invoice.fees_amount_cents
    for credit in before_taxes:
        if credit in ahead:
            continue
        own = targets.get(credit.source_id or "", Targets())
        matching = [fee for fee in fees if own.matches(fee, plan_of.get(fee.subscription_id or ""))]
        # A coupon of this invoice alone is shared by what is left of the fees, another by what they are.
        unbilled = bool(ahead) and not credit.continues and any(net_of_coupons(fee) > ZERO for fee in matching)
        bases = matching if unbilled else [open_fees[fee.id] for fee in matching]
        base = total(net_of_coupons(fee) for fee in bases) if ahead or own.limited else Decimal(subtotal_cents)
        for id, fee in with_discount(open_fees, bases, Decimal(credit.amount_cents), base).items():
            shares[id, credit.id] = _added(open_fees[id], fee)
            open_fees[id] = fee
        subtotal_cents -= credit.amount_cents
    for fee in fees if ahead else ():
        credit = next((credit for credit in ahead if credit.subscription_id == fee.subscription_id), ahead[0])
        shares[fee.id, credit.id] = _added(open_fees[fee.id], fee)
    return {fee.id: tuple(_steps(fee, before_taxes, shares)) for fee in fees}


def _added(before: Fee, after: Fee) -> Decimal:
    return subtract(after.precise_coupons_amount_cents, before.precise_coupons_amount_cents)


def _steps(fee: Fee, credits: Sequence[Credit], shares: Mapping[tuple[str, str], Decimal]) -> Iterator[Discount]:
    net = Decimal(fee.amount_cents)
    for credit in credits:
        share = shares.get((fee.id, credit.id), ZERO)
        if share != ZERO:
            before, net = net, subtract(net, share)
            yield Discount(
                credit_id=credit.id, kind=credit.item_type, code=credit.item_code, before=before, share=share, after=net
            )


def fee_taxes(fee: Fee) -> tuple[TaxStep, ...]:
    """The taxes of a fee, each on its discounted amount."""
    base = taxable(net_of_coupons(fee), fee.taxes_base_rate)
    return tuple(
        TaxStep(
            code=line.code,
            rate=line.rate,
            base=base,
            exact=divide(multiply(base, line.rate), _HUNDRED),
            amount_cents=line.amount_cents,
        )
        for line in fee.applied_taxes
    )


def invoice_steps(invoice: Invoice, fees: Sequence[Fee], prepaid: Sequence[tuple[str, int]] = ()) -> tuple[Step, ...]:
    """The totals of an invoice step by step, from the sum of its fees to the amount due.

    `prepaid` lists wallets by code with the cents they paid.
    """
    steps: list[Step] = []

    def take(name: str, text: str, amount: int, result: int) -> int:
        steps.append(Step(name=name, text=text, amount_cents=amount, result_cents=result))
        return result

    amounts = " + ".join(str(fee.amount_cents) for fee in fees) or "0"
    subtotal = take(
        "fees", f"{amounts} = {invoice.fees_amount_cents}", invoice.fees_amount_cents, invoice.fees_amount_cents
    )
    names = {"coupon": "coupon", "invoice": "progressive_billing_credit", "credit_note": "credit_note"}
    for credit in (credit for credit in invoice.credits if credit.before_taxes):
        after = subtotal - credit.amount_cents
        text = f"{credit.item_code}: {subtotal} - {credit.amount_cents} = {after}"
        subtotal = take(names[credit.item_type], text, -credit.amount_cents, after)
    exact = [
        (line, total(taxable(net_of_coupons(fee), fee.taxes_base_rate) for fee in fees if _carries(fee, line.key)))
        for line in invoice.applied_taxes
    ]
    for applied, base in exact:
        code, rate = applied.key
        if invoice.invoice_type == InvoiceType.ADVANCE_CHARGES:
            # The fees were paid with their taxes, so these are only summed.
            lines = [line.amount_cents for fee in fees for line in fee.applied_taxes if line.key == applied.key]
            take("tax", f"{code}: {' + '.join(map(str, lines))} = {sum(lines)}", sum(lines), subtotal)
            continue
        raw = divide(multiply(base, rate), _HUNDRED)
        text = f"{code}: {decimal_text(base)} x {decimal_text(rate)} % = {decimal_text(round_to(raw, 15))}"
        take("tax", text, applied.amount_cents, subtotal)
    after = subtotal + invoice.taxes_amount_cents
    subtotal = take("taxes", f"{subtotal} + {invoice.taxes_amount_cents} = {after}", invoice.taxes_amount_cents, after)
    for credit in (credit for credit in invoice.credits if not credit.before_taxes):
        after = subtotal - credit.amount_cents
        text = f"{credit.item_code}: {subtotal} - {credit.amount_cents} = {after}"
        subtotal = take(names[credit.item_type], text, -credit.amount_cents, after)
    for code, cents in prepaid:
        after = subtotal - cents
        subtotal = take("prepaid_credits", f"wallet {code}: {subtotal} - {cents} = {after}", -cents, after)
    take("total", f"{subtotal} to be paid", subtotal, subtotal)
    return tuple(steps)


def _carries(fee: Fee, key: TaxKey) -> bool:
    return any(line.key == key for line in fee.applied_taxes)
