"""The customer portal: signed links that open the pages of one customer, for some hours; what customers may change."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

from usagebill.core.plans import Plan

# The validity of a link.
LASTS = timedelta(hours=12)
# Clocks of the servers that make and open links differ by less than this.
_CLOCKS_DIFFER = timedelta(minutes=10)


def portal_token(key: str, customer_id: str, now: datetime) -> str:
    """The token of a link created at `now`: the customer, the expiry, and a signature with the key for portal links."""
    return _signed(key, customer_id, int((now + LASTS).timestamp()))


def subject_of_token(token: str) -> str:
    """The id of the customer in a token, whether or not the token is valid."""
    return token.partition(".")[0]


def is_good_token(key: str, token: str, now: datetime) -> bool:
    """Whether the token was signed with the key, has not expired at `now` (exclusive), and expires no later than a link
    made now would: no signature makes one of ten years.
    """
    customer_id, _, expiry = token.partition(".")
    seconds, _, _ = expiry.partition(".")
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) <= len("99999999999")):
        return False
    signed = _signed(key, customer_id, int(seconds))
    left = int(seconds) - now.astimezone(UTC).timestamp()
    return hmac.compare_digest(signed.encode(), token.encode()) and 0 < left <= (LASTS + _CLOCKS_DIFFER).total_seconds()


def may_change_to(present: Plan, wanted: Plan) -> bool:
    """Whether a customer on the plan may change to the other one without asking: the seller offers both, in the same
    currency. A plan with prices of one customer's own is left by agreement only.
    """
    return (
        present.offered_in_portal
        and present.parent_id is None
        and wanted.offered_in_portal
        and wanted.parent_id is None
        and not wanted.pending_deletion
        and wanted.id != present.id
        and wanted.amount_currency == present.amount_currency
    )


def _signed(key: str, customer_id: str, expires: int) -> str:
    text = f"portal:{customer_id}:{expires}"
    return f"{customer_id}.{expires}.{hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()}"
