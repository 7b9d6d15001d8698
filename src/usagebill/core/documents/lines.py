"""Lines: the rows of fees, and how the amount of a fee breaks down by its charge model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal

from usagebill.core.commitments import COMMITMENT_NAME
from usagebill.core.currencies import major_from_cents, rounded_cents
from usagebill.core.days import local_date
from usagebill.core.documents.content import Row
from usagebill.core.documents.locales import (
    credits_text,
    date_text,
    money_text,
    price_text,
    rate_text,
    units_text,
)
from usagebill.core.documents.words import Words
from usagebill.core.fees import CHARGE_TYPES, Fee, FeeType
from usagebill.core.invoices.records import BilledPlan
from usagebill.core.numbers import ONE, ZERO, divide, round_to, total

_Part = Mapping[str, object]
_HUNDREDTHS = Decimal(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The data that rows need besides the fee; see `InvoiceSource`."""

    words: Words
    locale: str
    zone: tzinfo
    subscription_names: Mapping[str, str]
    plans: Mapping[str, BilledPlan]
    averaged: frozenset[str] = frozenset()
    per_second: frozenset[str] = frozenset()


def fee_name(fee: Fee, naming: Naming) -> str:
    """The name of a fee: its display name with the values of its group and its filter."""
    shown = fee.item.invoice_display_name or fee.item.name
    words = naming.words
    if fee.fee_type == FeeType.CREDIT:
        if shown != FeeType.CREDIT:
            return shown
        return f"{words.prepaid_fee} - {fee.description}" if fee.description else words.prepaid_fee
    if fee.fee_type == FeeType.COMMITMENT and shown == COMMITMENT_NAME:
        return words.commitment
    if fee.fee_type == FeeType.SUBSCRIPTION:
        plan = naming.plans.get(fee.subscription_id or "")
        if plan is None:
            return shown
        if shown not in (plan.shown_name, plan.name, naming.subscription_names.get(fee.subscription_id or "")):
            return shown
        return words.subscription.format(interval=interval_word(plan.interval, words), plan=plan.shown_name)
    parts = [shown, *(value for value in fee.grouped_by.values() if value)]
    if fee.item.filter_invoice_display_name:
        parts.append(fee.item.filter_invoice_display_name)
    else:
        parts += [value for values in (fee.filters or {}).values() for value in values]
    name = " • ".join(parts)
    return words.true_up.format(name=name) if fee.true_up_parent_fee_id else name


_RANK = {"subscription": 0, "fixed_charge": 1, "charge": 2, "commitment": 3}


def interval_word(interval: str, words: Words) -> str:
    """An interval of a plan in words: `Monthly`."""
    return {
        "weekly": words.weekly,
        "monthly": words.monthly,
        "quarterly": words.quarterly,
        "semiannual": words.semiannual,
        "yearly": words.yearly,
    }[interval]


def ordered(fees: Sequence[Fee], naming: Naming) -> list[Fee]:
    """The fees of a subscription's period: its own fee, fixed charges and charges by name, the commitment.

    A true-up follows the fee that it raises to the minimum.
    """
    by_id = {fee.id: fee for fee in fees}

    def rank(fee: Fee) -> tuple[int, str, str, str, bool, str]:
        parent = by_id.get(fee.true_up_parent_fee_id or "", fee)
        base = (parent.item.invoice_display_name or parent.item.name).casefold()
        name = fee_name(parent, naming).casefold()
        return _RANK.get(fee.fee_type, 2), base, parent.charge_id or "", name, parent is not fee, fee.id

    return sorted(fees, key=rank)


def shown_fees(fees: Sequence[Fee], *, progressive: bool = False) -> list[Fee]:
    """The fees of a subscription that get a row.

    An empty fee is left out if the subscription has others, unless it has a true-up.
    """
    usage = any(fee.amount_cents and fee.fee_type in CHARGE_TYPES for fee in fees)
    brought_up = {fee.true_up_parent_fee_id for fee in fees}

    def is_shown(fee: Fee) -> bool:
        if fee.fee_type == FeeType.SUBSCRIPTION:
            return not progressive and (fee.amount_cents != 0 or not usage)
        if progressive and fee.pay_in_advance:
            return False
        return fee.amount_cents != 0 or not fee.units.is_zero() or fee.id in brought_up

    return [fee for fee in fees if is_shown(fee)]


def _number(values: _Part, key: str) -> Decimal:
    value = values.get(key)
    return ZERO if value is None else Decimal(str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prices:
    """The notation of a fee's amounts: in its currency, or in its charge's pricing unit."""

    currency: str
    locale: str
    unit: str | None

    def price(self, amount: Decimal) -> str:
        if self.unit is not None:
            return credits_text(amount, self.unit, self.locale)
        return price_text(amount, self.currency, self.locale)

    def money(self, amount: Decimal) -> str:
        if self.unit is not None:
            return credits_text(round_to(amount, 2), self.unit, self.locale)
        return money_text(rounded_cents(amount, self.currency), self.currency, self.locale)


def fee_rows(fee: Fee, naming: Naming) -> list[Row]:
    """The rows of a fee: a single one, or its name, the parts of its amount and their subtotal."""
    words, locale = naming.words, naming.locale
    unit = fee.pricing_unit_details
    prices = _Prices(
        currency=fee.currency, locale=locale, unit=None if unit is None else str(unit.get("short_name") or "")
    )
    rate = rate_text(fee.taxes_rate, locale)
    money = money_text(fee.amount_cents, fee.currency, locale)
    name = fee_name(fee, naming)
    notes = tuple(_notes(fee, naming))
    parts = list(_parts(fee, prices, words)) if fee.amount_cents > 0 else []
    if unit is not None:
        amount = prices.money(divide(_number(unit, "amount_cents"), _HUNDREDTHS))
        price = prices.price(_number(unit, "precise_unit_amount"))
        parts = parts or [(name, units_text(fee.units, locale), price, amount)]
        rate_of_unit = price_text(_number(unit, "conversion_rate"), fee.currency, locale)
        parts.append((words.conversion.format(unit=prices.unit, amount=rate_of_unit), "", "", money))
    if not parts:
        price = prices.price(fee.precise_unit_amount)
        units = units_text(ONE if fee.fee_type == FeeType.COMMITMENT else fee.units, locale)
        return [Row(name=name, units=units, unit_price=price, tax_rate=rate, amount=money, notes=notes)]
    return [
        Row(name=name, notes=notes),
        *(
            Row(name=label, units=units, unit_price=price, tax_rate=rate, amount=amount, kind="part")
            for label, units, price, amount in parts
        ),
        Row(name=words.subtotal, tax_rate=rate, amount=money, kind="subtotal"),
    ]


def is_average(fee: Fee, properties: _Part) -> bool:
    """Whether the unit price of a prorated fee is none of its charge's, whose properties these are: some of its units
    were there for a part of the period only.
    """
    ranges = fee.amount_details.get("graduated_ranges")
    if isinstance(ranges, (list, tuple)):
        return total(_number(range_, "units") for range_ in ranges if isinstance(range_, Mapping)) != fee.units
    return "amount" not in properties or _number(properties, "amount") != fee.precise_unit_amount


def _notes(fee: Fee, naming: Naming) -> Iterable[str]:
    words, locale = naming.words, naming.locale
    if fee.true_up_parent_fee_id:
        yield words.true_up_note
    if "fixed_fee_unit_amount" in fee.amount_details and fee.events_count is not None:
        yield words.events.format(count=fee.events_count)
    if fee.charge_id in naming.per_second:
        yield words.per_second
    elif fee.id in naming.averaged:
        yield words.average
    if fee.fee_type == FeeType.ADD_ON:
        if fee.description:
            yield fee.description
        if fee.from_datetime is not None and fee.to_datetime is not None and fee.from_datetime != fee.to_datetime:
            first, last = (local_date(at, naming.zone) for at in (fee.from_datetime, fee.to_datetime))
            yield words.period.format(start=date_text(first, locale), end=date_text(last, locale))
    for shown in fee.presentation_breakdowns:
        by = shown.get("presentation_by")
        values = [str(value) for value in by.values() if value] if isinstance(by, Mapping) else []
        yield f"{' • '.join(values) or '-'}: {units_text(_number(shown, 'units'), locale)}"


_Line = tuple[str, str, str, str]


def _parts(fee: Fee, prices: _Prices, words: Words) -> Iterable[_Line]:
    """Label, units, unit price and amount of each part of the fee's amount; empty if there is only one part."""
    details = fee.amount_details
    for key in ("graduated_ranges", "graduated_percentage_ranges"):
        ranges = details.get(key)
        if isinstance(ranges, (list, tuple)):
            yield from _ranges([range_ for range_ in ranges if isinstance(range_, Mapping)], prices, words)
    if "per_package_size" in details:
        yield from _package(fee, prices, words)
    elif "fixed_fee_unit_amount" in details:
        yield from _percentage(details, prices, words)
    elif "per_unit_amount" in details:
        yield from _volume(fee, prices, words)


def _ranges(ranges: Sequence[_Part], prices: _Prices, words: Words) -> Iterable[_Line]:
    locale = prices.locale

    def label(position: int, price_range: _Part, first: str, following: str, above: str) -> str:
        low, high = units_text(_number(price_range, "from_value"), locale), price_range.get("to_value")
        if high is None:
            return above.format(first=low)
        last = units_text(_number(price_range, "to_value"), locale)
        return first.format(last=last) if position == 0 else following.format(first=low, last=last)

    for position, price_range in enumerate(ranges):
        name = label(position, price_range, words.first_units, words.next_units, words.units_above)
        price = (
            rate_text(_number(price_range, "rate"), locale)
            if "rate" in price_range
            else prices.price(_number(price_range, "per_unit_amount"))
        )
        units = units_text(_number(price_range, "units"), locale)
        yield name, units, price, prices.money(_number(price_range, "per_unit_total_amount"))
    for position, price_range in enumerate(ranges):
        flat = _number(price_range, "flat_unit_amount")
        if flat > ZERO:
            name = label(position, price_range, words.flat_first, words.flat_next, words.flat_above)
            yield name, units_text(ONE, locale), prices.price(flat), prices.money(flat)


def _package(fee: Fee, prices: _Prices, words: Words) -> Iterable[_Line]:
    details, locale = fee.amount_details, prices.locale
    free = min(_number(details, "free_units"), fee.units)
    if free > ZERO:
        yield words.free_units, units_text(free, locale), prices.price(ZERO), prices.money(ZERO)
    size = units_text(_number(details, "per_package_size"), locale)
    price = words.package_size.format(amount=prices.price(_number(details, "per_package_unit_amount")), size=size)
    paid = units_text(_number(details, "paid_units"), locale)
    yield words.package, paid, price, prices.money(_whole_amount(fee))


def _whole_amount(fee: Fee) -> Decimal:
    if fee.pricing_unit_details is not None:
        return divide(_number(fee.pricing_unit_details, "amount_cents"), _HUNDREDTHS)
    return major_from_cents(fee.amount_cents, fee.currency)


def _percentage(details: _Part, prices: _Prices, words: Words) -> Iterable[_Line]:
    locale = prices.locale
    free = _number(details, "free_units")
    if free > ZERO:
        yield words.free_units, units_text(free, locale), prices.price(ZERO), prices.money(ZERO)
    paid = units_text(_number(details, "paid_units"), locale)
    rate = rate_text(_number(details, "rate"), locale)
    yield words.percentage, paid, rate, prices.money(_number(details, "per_unit_total_amount"))
    fixed = _number(details, "fixed_fee_total_amount")
    if fixed > ZERO:
        events = units_text(_number(details, "paid_events"), locale)
        yield words.fixed_fee, events, prices.price(_number(details, "fixed_fee_unit_amount")), prices.money(fixed)
    adjustment = _number(details, "min_max_adjustment_total_amount")
    if not adjustment.is_zero():
        yield words.adjustment, "", "", prices.money(adjustment)


def _volume(fee: Fee, prices: _Prices, words: Words) -> Iterable[_Line]:
    details, locale = fee.amount_details, prices.locale
    price = prices.price(_number(details, "per_unit_amount"))
    amount = prices.money(_number(details, "per_unit_total_amount"))
    yield words.per_unit, units_text(fee.units, locale), price, amount
    flat = _number(details, "flat_unit_amount")
    if flat > ZERO:
        yield words.flat_all, units_text(ONE, locale), prices.price(flat), prices.money(flat)
