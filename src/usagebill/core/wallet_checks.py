"""Checks of wallets and top-ups in requests: credits as texts, metadata pairs, limits of top-ups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from usagebill.core.currencies import CURRENCIES
from usagebill.core.limits import WALLET_RATE
from usagebill.core.numbers import ZERO, parse_decimal
from usagebill.core.wallet_transactions import MetadataPair
from usagebill.core.wallets import FEE_TYPES, Wallet, floored_credits, is_priority, whole_cent_credits

LONGEST_ORDER_NUMBER = 255
LONGEST_TRANSACTION_NAME = 255
# The most metadata pairs of a requested top-up, and of one described by a wallet or a rule.
MOST_PAIRS_OF_A_TOP_UP = 15
MOST_PAIRS = 5
_LONGEST_KEY = 20
_LONGEST_VALUE = 100
_MOST_CREDITS = Decimal(10**25 - 1)


def decimal_of(sent: object) -> Decimal | None:
    """The number in a text, of bounded size; None for anything else."""
    number = parse_decimal(sent) if isinstance(sent, str) else None
    return None if number is None or abs(number) > _MOST_CREDITS else number


def credit_amount(sent: object) -> Decimal | None:
    """The credits in a text, not below zero; None if it has none. Numbers are sent as texts."""
    number = decimal_of(sent)
    return None if number is None or number < ZERO else number


def metadata_pairs_code(sent: object, most: int) -> str | None:
    """The error in metadata pairs; None if there is none."""
    if not isinstance(sent, Sequence) or isinstance(sent, str):
        return "invalid_type"
    if len(sent) > most:
        return "too_many_keys"
    for pair in sent:
        if not isinstance(pair, Mapping) or set(pair) != {"key", "value"}:
            return "invalid_key_value_pair"
        key, value = pair["key"], pair["value"]
        if isinstance(key, (Mapping, list, tuple)) or isinstance(value, (Mapping, list, tuple)):
            return "nested_structure_not_allowed"
        if not isinstance(key, str) or not isinstance(value, str) or not key or not value:
            return "invalid_key_value_pair"
        if len(key) > _LONGEST_KEY:
            return "key_too_long"
        if len(value) > _LONGEST_VALUE:
            return "value_too_long"
    return None


def metadata_pairs(sent: object) -> tuple[MetadataPair, ...]:
    """The metadata pairs, once they are known to be valid."""
    items = sent if isinstance(sent, Sequence) and not isinstance(sent, str) else ()
    return tuple(MetadataPair(key=str(pair["key"]), value=str(pair["value"])) for pair in items)


def priority_of(sent: object) -> int | None:
    """The whole number sent as a priority, as a number or a text; None for anything else."""
    if isinstance(sent, bool) or not isinstance(sent, (int, str, Decimal)):
        return None
    number = parse_decimal(sent) if isinstance(sent, str) else Decimal(sent)
    return int(number) if number is not None and number == number.to_integral_value() else None


def order_number_of(sent: object) -> str | None:
    """The number without surrounding blanks; None if nothing is left."""
    return (sent.strip() or None) if isinstance(sent, str) else None


def are_fee_types(sent: Iterable[str]) -> bool:
    """Whether a wallet can be limited to all of these."""
    return all(fee_type in FEE_TYPES for fee_type in sent)


def wallet_problems(wallet: Wallet) -> dict[str, list[str]]:
    """Errors in the fields of a wallet, as field -> codes; whether its code is taken is checked elsewhere."""
    problems: dict[str, list[str]] = {}
    rate = wallet.rate_amount
    if not WALLET_RATE.holds(rate):
        problems["rate_amount"] = ["value_is_out_of_range"]
    if wallet.currency not in CURRENCIES:
        problems["currency"] = ["value_is_invalid"]
    if not is_priority(wallet.priority):
        problems["priority"] = ["value_is_invalid"]
    least, most = wallet.paid_top_up_min_amount_cents, wallet.paid_top_up_max_amount_cents
    if least is not None and least <= 0:
        problems["paid_top_up_min_amount_cents"] = ["value_is_out_of_range"]
    if most is not None and most <= 0:
        problems["paid_top_up_max_amount_cents"] = ["value_is_out_of_range"]
    elif least is not None and most is not None and most < least:
        problems["paid_top_up_max_amount_cents"] = ["must_be_greater_than_or_equal_min"]
    if wallet.purchase_order_number is not None and len(wallet.purchase_order_number) > LONGEST_ORDER_NUMBER:
        problems["purchase_order_number"] = ["value_is_too_long"]
    return problems


def rounds_to_zero(wallet: Wallet, credits: Decimal) -> bool:
    """Whether the requested credits are worth less than a cent of the wallet's currency, rounded."""
    cents, _ = whole_cent_credits(credits, wallet.rate_amount, wallet.currency)
    return cents == 0 and floored_credits(credits) > ZERO


def limit_code(wallet: Wallet, credits: Decimal) -> str | None:
    """The error code of the wallet's limit that a purchase of `credits` breaks; None if it breaks none. Limits are
    inclusive.
    """
    cents, _ = whole_cent_credits(credits, wallet.rate_amount, wallet.currency)
    least, most = wallet.paid_top_up_min_amount_cents, wallet.paid_top_up_max_amount_cents
    if least is not None and cents < least:
        return "amount_below_minimum"
    if most is not None and cents > most:
        return "amount_above_maximum"
    return None
