"""usagebill: usage events in, exact invoices out.

What a program needs: `Billing`, its errors (all are `BillingError`s), `Settings`, and `ManualClock`, a clock that
stands still until it is moved.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usagebill.billing import Billing as Billing
    from usagebill.core.errors import (
        BillingError as BillingError,
        DatabaseFailed as DatabaseFailed,
        Forbidden as Forbidden,
        Invalid as Invalid,
        NotAllowed as NotAllowed,
        NotFound as NotFound,
        PaymentRequired as PaymentRequired,
        ThirdPartyError as ThirdPartyError,
    )
    from usagebill.process.event_loops import BlockingCallWarning as BlockingCallWarning
    from usagebill.process.settings import Settings as Settings
    from usagebill.runtime.clock import ManualClock as ManualClock

__version__ = "0.2.0"

_ERRORS = (
    "BillingError",
    "DatabaseFailed",
    "Forbidden",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "PaymentRequired",
    "ThirdPartyError",
)
_HOMES = {
    "Billing": "usagebill.billing",
    "BlockingCallWarning": "usagebill.process.event_loops",
    "ManualClock": "usagebill.runtime.clock",
    "Settings": "usagebill.process.settings",
    **dict.fromkeys(_ERRORS, "usagebill.core.errors"),
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the pure core can be imported alone in a few milliseconds.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'usagebill' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
