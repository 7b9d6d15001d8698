"""The charge model record: a name, the properties it takes, and a price for usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

from usagebill.core.numbers import CONTEXT, ZERO
from usagebill.core.usage import Usage

P = TypeVar("P")


class Price(NamedTuple):
    """The price of usage: `amount` in major units, unrounded. `divisor` is the quantity that shares it, per unit."""

    amount: Decimal
    divisor: Decimal

    @property
    def unit_amount(self) -> Decimal:
        """The amount for one unit, in major units; zero if there is nothing to divide by."""
        return CONTEXT.divide(self.amount, self.divisor) if self.divisor else ZERO


def never(_: Mapping[str, object]) -> bool:
    """Usage is priced as a whole, whatever the properties."""
    return False


NOTHING = Price(amount=ZERO, divisor=ZERO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Generic[P]):
    """A charge model.

    `name` is its wire value, `keys` the property names that it keeps, `required` those that cannot be left out (ranges
    apart) and `defaults` the properties of a charge that is sent without any. `validate` returns the error codes of raw
    properties, in order; `parse` reads valid ones, given the subunits of the charge's currency. `price` and
    `amount_details` are total for any usage.

    No trait has a default: `in_advance`, `prorated_in_arrears` and `prorated_in_advance` say how a charge may be
    billed, `of_fixed_charges` whether fixed charges may use the model. `by_units`: units alone decide the price, so
    that it can be projected; `by_quantity`: units can be adjusted by hand. `is_linear`: every unit costs the same.
    `instant_price` is the price of one event from its units; None if it depends on other events. `difference_details`
    are the additions of an event to its usage, with and without it; None if they are not shown. `costs_at_zero`: there
    is something to pay for zero units. `prorated_by_step`: the ranges price each prorated step. `by_percentage` prices
    amounts, `by_event_prices` the prices sent with events, `by_program` the result of the seller's program.
    `needs_event_values` returns whether raw properties price events one by one.
    """

    name: str
    keys: tuple[str, ...]
    required: tuple[str, ...]
    defaults: Mapping[str, object]
    validate: Callable[[Mapping[str, object]], list[str]]
    parse: Callable[[Mapping[str, object], int], P]
    price: Callable[[P, Usage], Price]
    amount_details: Callable[[P, Usage], dict[str, object]]
    in_advance: bool
    prorated_in_arrears: bool
    prorated_in_advance: bool
    of_fixed_charges: bool
    by_units: bool
    by_quantity: bool
    is_linear: bool
    instant_price: Callable[[P, Decimal], Decimal] | None
    difference_details: Callable[[P, Usage, Usage], dict[str, object]] | None
    costs_at_zero: bool
    prorated_by_step: bool
    by_percentage: bool
    by_event_prices: bool
    by_program: bool
    needs_event_values: Callable[[Mapping[str, object]], bool]
