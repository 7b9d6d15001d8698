"""Package: units are sold in packages; a started package counts as a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from usagebill.core.limits import FREE_UNITS, PACKAGE_SIZE
from usagebill.core.numbers import ONE, ZERO, add, decimal_text, divide, floor_to, multiply, subtract
from usagebill.core.pricing.model import Model, Price, never
from usagebill.core.pricing.properties import amount, amount_or_zero, is_whole, whole
from usagebill.core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageProperties:
    """`amount` for each package of `package_size` units, after the first `free_units`."""

    amount: Decimal
    free_units: Decimal
    package_size: Decimal


def price(properties: PackageProperties, usage: Usage) -> Price:
    """The packages that hold the units above the free ones, times the price of a package."""
    paid = subtract(usage.units, properties.free_units)
    if paid <= ZERO:
        return Price(amount=ZERO, divisor=ZERO)
    return Price(amount=multiply(_packages(paid, properties.package_size), properties.amount), divisor=paid)


def _packages(units: Decimal, size: Decimal) -> Decimal:
    # A quotient cut at 100 digits could hide the last started package, so the check is a product, which is exact.
    full = floor_to(divide(units, size), 0)
    return full if multiply(full, size) >= units else add(full, ONE)


def amount_details(properties: PackageProperties, usage: Usage) -> dict[str, object]:
    """The free units as agreed, the units that were paid for, and the size and price of a package."""
    if usage.units.is_zero():
        return {"free_units": "0.0", "paid_units": "0.0", "per_package_size": 0, "per_package_unit_amount": "0.0"}
    paid = max(subtract(usage.units, properties.free_units), ZERO)
    return {
        "free_units": decimal_text(properties.free_units),
        "paid_units": decimal_text(paid),
        "per_package_size": int(properties.package_size),
        "per_package_unit_amount": decimal_text(properties.amount),
    }


def validate(properties: Mapping[str, object]) -> list[str]:
    """The error codes of raw properties; all three keys are mandatory."""
    errors = []
    if amount(properties.get("amount")) is None:
        errors.append("invalid_amount")
    if not is_whole(properties.get("free_units"), FREE_UNITS):
        errors.append("invalid_free_units")
    if not is_whole(properties.get("package_size"), PACKAGE_SIZE):
        errors.append("invalid_package_size")
    return errors


def parse(properties: Mapping[str, object], subunits: int) -> PackageProperties:
    """The typed form of valid raw properties."""
    return PackageProperties(
        amount=amount_or_zero(properties.get("amount")),
        free_units=Decimal(whole(properties.get("free_units"))),
        package_size=Decimal(whole(properties.get("package_size"))),
    )


PACKAGE: Model[PackageProperties] = Model(
    name="package",
    keys=("amount", "free_units", "package_size"),
    required=("amount", "free_units", "package_size"),
    defaults={"amount": "0", "free_units": 0, "package_size": 1},
    validate=validate,
    parse=parse,
    price=price,
    amount_details=amount_details,
    in_advance=True,
    prorated_in_arrears=False,
    prorated_in_advance=False,
    of_fixed_charges=False,
    by_units=True,
    by_quantity=True,
    is_linear=False,
    instant_price=None,
    difference_details=None,
    costs_at_zero=False,
    prorated_by_step=False,
    by_percentage=False,
    by_event_prices=False,
    by_program=False,
    needs_event_values=never,
)
