"""Payment methods: how an invoice is to be collected, by a provider or by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class PaidBy(StrEnum):
    """Who collects a payment."""

    PROVIDER = "provider"
    HAND = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentMethodChoice:
    """How something is to be paid: `kind` provider or manual, and the id of the customer's method, if one was
    chosen.
    """

    kind: str = PaidBy.PROVIDER
    id: str | None = None

    @property
    def is_by_hand(self) -> bool:
        """Whether it is paid by hand, without a provider."""
        return self.kind == PaidBy.HAND


def is_payment_method(sent: object, is_method: Callable[[str], bool]) -> bool:
    """Whether `sent` is a payment method of the customer, or none; `is_method` checks ids of methods.

    Payment by hand has no method; an id needs the type `provider`.
    """
    if not sent:
        return True
    if not isinstance(sent, Mapping):
        return False
    kind, id = sent.get("payment_method_type"), sent.get("payment_method_id")
    named = isinstance(id, str) and bool(id) and is_method(id)
    if kind == PaidBy.HAND:
        return not named
    if id is None or id == "":
        return kind in (None, PaidBy.PROVIDER)
    return kind == PaidBy.PROVIDER and named


def chosen_method(sent: object) -> PaymentMethodChoice | None:
    """The method that a caller sent; None if none was sent."""
    if not isinstance(sent, Mapping):
        return None
    kind, id = sent.get("payment_method_type"), sent.get("payment_method_id")
    return PaymentMethodChoice(
        kind=kind if isinstance(kind, str) else PaidBy.PROVIDER, id=id if isinstance(id, str) else None
    )


BY_HAND = PaymentMethodChoice(kind=PaidBy.HAND)


def first_named(choices: Iterable[PaymentMethodChoice | None]) -> PaymentMethodChoice | None:
    """The first choice that names a method or payment by hand; None if all leave it to the customer's default."""
    named = (choice for choice in choices if choice is not None and (choice.is_by_hand or choice.id is not None))
    return next(named, None)


# The method types of Stripe, and those that the customer does not have to set up.
STRIPE_TYPES = (
    "card",
    "sepa_debit",
    "us_bank_account",
    "bacs_debit",
    "link",
    "boleto",
    "crypto",
    "customer_balance",
)
_WITHOUT_SET_UP = ("crypto", "customer_balance")


def are_valid_types(types: Iterable[str]) -> bool:
    """Whether a customer at Stripe may have these method types: a balance only alone, a link only beside cards."""
    chosen = set(types)
    is_alone = "customer_balance" not in chosen or len(chosen) == 1
    return chosen <= set(STRIPE_TYPES) and is_alone and ("link" not in chosen or "card" in chosen)


def types_need_set_up(types: Iterable[str]) -> bool:
    """Whether a customer at Stripe with these method types (by default cards) has one to set up on a page."""
    return any(type not in _WITHOUT_SET_UP for type in tuple(types) or ("card",))
