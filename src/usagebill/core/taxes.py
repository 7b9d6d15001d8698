"""Taxes: rates, the taxes that apply to a fee, and their amounts.

Taxes apply side by side, each to the same base, never one on top of another. The tax of an invoice is computed from the
bases of its fees and rounded once: it is not the sum of its fees' taxes. The lines of each, one per tax, add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from usagebill.core.copies import replace
from usagebill.core.fees import AppliedTax, Fee, TaxKey, TaxKeys
from usagebill.core.limits import TAX_RATE
from usagebill.core.numbers import ONE, ZERO, divide, multiply, round_cents, round_to, subtract, total, truncate_cents

_HUNDRED = Decimal(100)
_PRECISE_DECIMALS = 15
_RATE_DECIMALS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tax:
    """`rate` is in percent: 20 means 20 %."""

    id: str
    organization_id: str
    name: str
    code: str
    rate: Decimal
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    auto_generated: bool = False
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxTerms:
    """A tax that applies to a fee: `rate` in percent. `tax_id` is None if it is not one of the organization's taxes."""

    tax_id: str | None
    name: str
    code: str
    rate: Decimal
    description: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceTaxes:
    """The taxes of an invoice: one line per tax, the total in cents, and the average rate (5 decimals)."""

    lines: tuple[AppliedTax, ...]
    amount_cents: int
    rate: Decimal


def chosen_taxes(*sources: Sequence[Tax]) -> tuple[Tax, ...]:
    """The first of `sources` that has any tax, from the most to the least specific; sources are never merged.

    For a fee: its own (add-on, charge, fixed charge or commitment), the plan's, the customer's, the billing entity's.
    """
    return next((tuple(source) for source in sources if source), ())


def net_of_coupons(fee: Fee) -> Decimal:
    """The tax base of a fee: its cents less its share of coupons and progressive billing credits (5 decimals)."""
    return subtract(Decimal(fee.amount_cents), fee.precise_coupons_amount_cents)


def net_of_part(fee: Fee, cents: Decimal) -> Decimal:
    """The tax base of a part of a fee: `cents` of its amount, less their share of its coupons and credits."""
    return ZERO if fee.amount_cents == 0 else divide(multiply(net_of_coupons(fee), cents), Decimal(fee.amount_cents))


def tax_keys(fee: Fee) -> TaxKeys:
    """The taxes that are applied to a fee."""
    return frozenset(line.key for line in fee.applied_taxes)


def taxable(amount: Decimal, base_rate: Decimal) -> Decimal:
    """The part of `amount` (cents) that rates are applied to: all of it, unless a tax provider taxes only a part."""
    return amount if base_rate == ONE else round_to(multiply(amount, base_rate), _PRECISE_DECIMALS)


def _share(base: Decimal, rate: Decimal) -> Decimal:
    return divide(multiply(base, rate), _HUNDRED)


def lines_in_cents(exact: Sequence[Decimal], cents: int, most: Sequence[int] | None = None) -> list[int]:
    """The lines of `cents` of tax in whole cents, which add up to it: each `exact` amount is rounded, then those that
    lost (or won) most by it get a cent more (or less); of equals, the first have more.

    With `most`, each line is within zero and its own, and `cents` are at most the sum of these.
    """
    lines = [round_cents(part) for part in exact]
    if most is not None:
        lines = [min(line, limit) for line, limit in zip(lines, most, strict=True)]
    missing = cents - sum(lines)
    while missing:
        if most is None:
            room = [abs(missing)] * len(lines)
        else:
            room = [limit - line if missing > 0 else line for line, limit in zip(lines, most, strict=True)]
        movable = [at for at, free in enumerate(room) if free > 0]
        lost = [subtract(part, Decimal(line)) for part, line in zip(exact, lines, strict=True)]
        at = max(movable, key=lost.__getitem__) if missing > 0 else min(reversed(movable), key=lost.__getitem__)
        # More than a cent each only if other lines have no room.
        step = min(room[at], max(1, abs(missing) // len(movable)))
        lines[at] += step if missing > 0 else -step
        missing = cents - sum(lines)
    return lines


def taxed_fee(fee: Fee, taxes: Iterable[Tax], now: datetime, new_id: Callable[[], str]) -> Fee:
    """The fee with `taxes` applied; their sum is rounded once.

    A fee with applied taxes is returned unchanged.
    """
    if fee.applied_taxes:
        return fee
    terms = [
        TaxTerms(tax_id=tax.id, name=tax.name, code=tax.code, rate=tax.rate, description=tax.description)
        for tax in taxes
    ]
    return with_terms(fee, terms, now, new_id)


def with_terms(
    fee: Fee, terms: Sequence[TaxTerms], now: datetime, new_id: Callable[[], str], *, base_rate: Decimal = ONE
) -> Fee:
    """The fee taxed at these rates, on its taxed part (`base_rate`, 0 to 1)."""
    net = net_of_coupons(fee)
    base = taxable(net, base_rate)
    precise_base = taxable(subtract(fee.precise_amount_cents, fee.precise_coupons_amount_cents), base_rate)
    shares = [_share(base, term.rate) for term in terms]
    taxes_cents = round_cents(total(shares))
    lines = tuple(
        AppliedTax(
            id=new_id(),
            tax_id=term.tax_id,
            name=term.name,
            code=term.code,
            rate=term.rate,
            description=term.description,
            amount_cents=cents,
            amount_currency=fee.currency,
            created_at=now,
            base_amount_cents=truncate_cents(net),
            precise_amount_cents=round_to(_share(precise_base, term.rate), _PRECISE_DECIMALS),
        )
        for term, cents in zip(terms, lines_in_cents(shares, taxes_cents), strict=True)
    )
    return replace(
        fee,
        applied_taxes=lines,
        taxes_base_rate=base_rate,
        taxes_rate=total(term.rate for term in terms),
        taxes_amount_cents=taxes_cents,
        taxes_precise_amount_cents=round_to(
            total(_share(precise_base, term.rate) for term in terms), _PRECISE_DECIMALS
        ),
    )


def _grouped(fees: Sequence[Fee]) -> Mapping[TaxKey, tuple[AppliedTax, list[Fee]]]:
    groups: dict[TaxKey, tuple[AppliedTax, list[Fee]]] = {}
    for fee in fees:
        for line in fee.applied_taxes:
            groups.setdefault(line.key, (line, []))[1].append(fee)
    return groups


def invoice_taxes(
    fees: Sequence[Fee], subtotal_cents: int, currency: str, now: datetime, new_id: Callable[[], str]
) -> InvoiceTaxes:
    """The taxes of an invoice, from the bases of its taxed fees.

    The average rate is weighted by `subtotal_cents` (excluding taxes), or by the number of fees if that is zero.
    """
    raw_amounts = []
    weighted = []
    bases = []
    groups = list(_grouped(fees).values())
    for line, group in groups:
        base = total(net_of_coupons(fee) for fee in group)
        raw = _share(total(taxable(net_of_coupons(fee), fee.taxes_base_rate) for fee in group), line.rate)
        raw_amounts.append(raw)
        if subtotal_cents > 0:
            weight = divide(base, Decimal(subtotal_cents))
        else:
            weight = divide(Decimal(len(group)), Decimal(len(fees)))
        weighted.append(multiply(weight, line.rate))
        bases.append(base)
    taxes_cents = round_cents(total(raw_amounts))
    lines = lines_in_cents(raw_amounts, taxes_cents)
    return InvoiceTaxes(
        lines=tuple(
            replace(
                line,
                id=new_id(),
                amount_cents=cents,
                amount_currency=currency,
                created_at=now,
                base_amount_cents=truncate_cents(base),
                precise_amount_cents=round_to(raw, _PRECISE_DECIMALS),
            )
            for (line, _), base, raw, cents in zip(groups, bases, raw_amounts, lines, strict=True)
        ),
        amount_cents=taxes_cents,
        rate=round_to(total(weighted), _RATE_DECIMALS),
    )


def summed_fee_taxes(fees: Sequence[Fee], currency: str, now: datetime, new_id: Callable[[], str]) -> InvoiceTaxes:
    """The taxes of an invoice with fees that were taxed separately before: sums of their lines, nothing recomputed.

    The average rate has 2 decimals here.
    """
    lines = []
    for line, group in _grouped(fees).values():
        fee_taxes = [applied for fee in group for applied in fee.applied_taxes if applied.key == line.key]
        lines.append(
            replace(
                line,
                id=new_id(),
                amount_cents=sum(applied.amount_cents for applied in fee_taxes),
                amount_currency=currency,
                created_at=now,
                base_amount_cents=sum(fee.amount_cents for fee in group),
                precise_amount_cents=total(applied.precise_amount_cents for applied in fee_taxes),
            )
        )
    amount = sum(fee.taxes_amount_cents for fee in fees)
    fees_amount = sum(fee.amount_cents for fee in fees)
    rate = ZERO if fees_amount == 0 else round_to(divide(Decimal(amount * 100), Decimal(fees_amount)), 2)
    return InvoiceTaxes(lines=tuple(lines), amount_cents=amount, rate=rate)


def usage_taxes_cents(amounts: Iterable[tuple[int, Sequence[Tax]]]) -> int:
    """The tax on usage not invoiced yet: amounts in cents with their taxes, rounded once over all of them."""
    return round_cents(total(_share(Decimal(cents), tax.rate) for cents, taxes in amounts for tax in taxes))


def with_taxes(cents: Decimal, taxes: Iterable[Tax]) -> Decimal:
    """Usage not invoiced yet with the taxes on it, before rounding, in cents."""
    return total([cents, *(_share(cents, tax.rate) for tax in taxes)])


def tax_problems(
    name: str | None, code: str | None, rate: Decimal | None, *, code_is_taken: bool
) -> dict[str, list[str]]:
    """Errors in a tax, by field. `code_is_taken`: another tax has the code."""
    problems: dict[str, list[str]] = {}
    if not name:
        problems["name"] = ["value_is_mandatory"]
    if rate is None:
        problems["rate"] = ["value_is_mandatory"]
    elif not TAX_RATE.holds(rate):
        problems["rate"] = ["value_is_out_of_range"]
    if not code:
        problems["code"] = ["value_is_mandatory"]
    elif code_is_taken:
        problems["code"] = ["value_already_exist"]
    return problems
