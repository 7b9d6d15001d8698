"""usagebill: usage events in, exact invoices out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usagebill.billing import Billing as Billing

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Lazy, so that the pure core can be imported alone in a few milliseconds.
    if name == "Billing":
        from usagebill.billing import Billing as Billing

        return Billing
    raise AttributeError(name)
