"""Payment methods: how an invoice is to be collected, by a provider or by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["BY_HAND", "PaidBy", "PaymentMethodChoice", "chosen_method", "first_named", "is_payment_method"]


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
