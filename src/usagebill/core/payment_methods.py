"""Payment methods: what an invoice is to be collected with. Nobody is connected to a provider: none has an id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PaymentMethodChoice", "chosen_method", "is_payment_method"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentMethodChoice:
    """What is to be paid with: `kind` provider or manual, and the customer's method with this id, if any."""

    kind: str = "provider"
    id: str | None = None


def is_payment_method(sent: object) -> bool:
    """Whether what a caller sent names a payment method of a customer; nothing at all does."""
    if not sent:
        return True
    if not isinstance(sent, Mapping) or sent.get("payment_method_id"):
        return False
    return sent.get("payment_method_type") in (None, "provider", "manual")


def chosen_method(sent: object) -> PaymentMethodChoice | None:
    """The method that a caller sent; None if none was."""
    if not isinstance(sent, Mapping):
        return None
    kind, id = sent.get("payment_method_type"), sent.get("payment_method_id")
    return PaymentMethodChoice(
        kind=kind if isinstance(kind, str) else "provider", id=id if isinstance(id, str) else None
    )
