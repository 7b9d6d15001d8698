"""What every charge model is: a name, the properties it takes, and a price for usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

from usagebill.core.numbers import CONTEXT, ZERO
from usagebill.core.usage import Usage

__all__ = ["NOTHING", "Model", "Price"]

P = TypeVar("P")


class Price(NamedTuple):
    """What usage costs: `amount` in major units, unrounded. `divisor` is the quantity that shares it, per unit."""

    amount: Decimal
    divisor: Decimal

    @property
    def unit_amount(self) -> Decimal:
        """The amount for one unit, in major units; zero where there is nothing to divide by."""
        return CONTEXT.divide(self.amount, self.divisor) if self.divisor else ZERO


NOTHING = Price(amount=ZERO, divisor=ZERO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Generic[P]):
    """A charge model.

    `name` is its wire value, `keys` the property names that it keeps and `defaults` the properties of a charge that
    is sent none. `validate` gives the error codes of raw properties, in order; `parse` reads valid ones, with the
    subunits of the currency that the charge is priced in. `price` and `amount_details` are total for any usage.
    """

    name: str
    keys: tuple[str, ...]
    defaults: Mapping[str, object]
    validate: Callable[[Mapping[str, object]], list[str]]
    parse: Callable[[Mapping[str, object], int], P]
    price: Callable[[P, Usage], Price]
    amount_details: Callable[[P, Usage], dict[str, object]]
