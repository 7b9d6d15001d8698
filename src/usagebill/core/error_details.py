"""Error details: problems with a record after it was accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

# Taxes could not be determined, or reported.
TAX_ERROR = "tax_error"
# An invoice could not be made.
GENERATION_ERROR = "invoice_generation_error"
# An invoice could not be collected.
PAYMENT_ERROR = "payment_error"
# Anything else; the details describe it. The interface has no code for systems that refused a document.
NOT_PROVIDED = "not_provided"
# An invoice could not be cancelled with the tax provider.
TAX_VOIDING_ERROR = "tax_voiding_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """An error: the code of its kind, and its details."""

    id: str
    error_code: str
    details: Mapping[str, object]
    created_at: datetime


def without(details: Iterable[ErrorDetail], error_code: str) -> tuple[ErrorDetail, ...]:
    """`details` without those of the kind `error_code`."""
    return tuple(detail for detail in details if detail.error_code != error_code)
