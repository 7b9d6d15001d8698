"""Payment methods: what an invoice is to be collected with, by a provider or by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["PaymentMethodChoice", "chosen_method", "is_payment_method"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentMethodChoice:
    """What is to be paid with: `kind` provider or manual, and the customer's method with this id, if any."""

    kind: str = "provider"
    id: str | None = None


def is_payment_method(sent: object, is_method: Callable[[str], bool]) -> bool:
    """Whether what a caller sent names a payment method of a customer, or none; `is_method` knows the ids of methods.

    By hand, there is none; an id needs the type `provider`.
    """
    if not sent:
        return True
    if not isinstance(sent, Mapping):
        return False
    kind, id = sent.get("payment_method_type"), sent.get("payment_method_id")
    named = isinstance(id, str) and bool(id) and is_method(id)
    if kind == "manual":
        return not named
    if id is None or id == "":
        return kind in (None, "provider")
    return kind == "provider" and named


def chosen_method(sent: object) -> PaymentMethodChoice | None:
    """The method that a caller sent; None if none was."""
    if not isinstance(sent, Mapping):
        return None
    kind, id = sent.get("payment_method_type"), sent.get("payment_method_id")
    return PaymentMethodChoice(
        kind=kind if isinstance(kind, str) else "provider", id=id if isinstance(id, str) else None
    )
