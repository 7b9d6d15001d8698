"""Raw charge properties: reading amounts and whole numbers, and the grouping keys of any model."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from usagebill.core.limits import CHARGE_AMOUNT, MOST_FILTER_KEYS, Range
from usagebill.core.numbers import ZERO, parse_decimal

_MOST_PRESENTATION_KEYS = 2


def amount(value: object, limit: Range = CHARGE_AMOUNT) -> Decimal | None:
    """The amount, rate or quantity in a JSON string: a decimal within `limit`. None for anything else."""
    parsed = parse_decimal(value) if isinstance(value, str) else None
    return parsed if parsed is not None and limit.holds(parsed) else None


def amount_or_zero(value: object) -> Decimal:
    """The number in valid text, zero if there is none."""
    return (parse_decimal(value) if isinstance(value, str) else None) or ZERO


def optional_amount(value: object) -> Decimal | None:
    """The amount in `value`, None if it is blank."""
    return None if is_blank(value) else amount(value)


def is_blank(value: object) -> bool:
    """Whether `value` is null or text of blanks only."""
    return value is None or (isinstance(value, str) and not value.strip())


def is_whole(value: object, limit: Range) -> bool:
    """Whether `value` is a JSON integer (not true or false) within `limit`."""
    return isinstance(value, int) and not isinstance(value, bool) and limit.holds(value)


def whole(value: object) -> int:
    """`value` if it is a JSON integer, else zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def number(value: object) -> Decimal | None:
    """The JSON number `value` as a decimal; None for text, true, false, null and anything that is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    parsed = value if isinstance(value, Decimal) else Decimal(str(value))
    return parsed if parsed.is_finite() else None


def normalized_grouping(properties: Mapping[str, object], *, presentation: bool = True) -> dict[str, object]:
    """The grouping keys of `properties` in their stored form.

    The former name `grouped_by` becomes `pricing_group_keys` without its empty strings, unless the new name is sent as
    well. Null and empty lists are not stored; neither are presentation keys if `presentation` is false.
    """
    grouping: dict[str, object] = {}
    keys = properties.get("pricing_group_keys")
    if keys is None:
        keys = properties.get("grouped_by")
        if isinstance(keys, list | tuple):
            keys = [key for key in keys if key != ""]
    if keys is not None and keys not in ([], ()):
        grouping["pricing_group_keys"] = keys
    shown = properties.get("presentation_group_keys")
    if presentation and shown is not None and shown not in ([], ()):
        grouping["presentation_group_keys"] = shown
    return grouping


def grouping_errors(properties: Mapping[str, object]) -> list[str]:
    """The error codes of the grouping keys in `properties`, under either name."""
    grouping = normalized_grouping(properties)
    errors: list[str] = []
    keys = grouping.get("pricing_group_keys")
    if keys is not None and not (
        isinstance(keys, list | tuple) and all(isinstance(key, str) and not is_blank(key) for key in keys)
    ):
        errors.append("invalid_type")
    elif keys is not None and len(keys) > MOST_FILTER_KEYS:
        errors.append("too_many_keys")
    shown = grouping.get("presentation_group_keys")
    if shown is not None:
        errors.extend(_presentation_errors(shown))
    return errors


def _presentation_errors(shown: object) -> list[str]:
    if not isinstance(shown, list | tuple) or not all(_is_presentation_key(item) for item in shown):
        return ["invalid_type"]
    errors = []
    if len(shown) > _MOST_PRESENTATION_KEYS:
        errors.append("too_many_keys")
    if len({item["value"] for item in shown}) < len(shown):
        errors.append("value_is_duplicated")
    return errors


def _is_presentation_key(item: object) -> bool:
    if not isinstance(item, Mapping) or not set(item) <= {"value", "options"}:
        return False
    value, options = item.get("value"), item.get("options")
    if not isinstance(value, str) or is_blank(value):
        return False
    if options is None:
        return True
    return (
        isinstance(options, Mapping)
        and set(options) <= {"display_in_invoice"}
        and all(isinstance(flag, bool) for flag in options.values())
    )
