"""Every status of a charge at each provider, and its meaning."""

from __future__ import annotations

import pytest

from usagebill.core.payment_providers import KINDS, charge_status
from usagebill.core.statuses import ChargeStatus

# kind -> our status -> the provider's statuses
TABLE = {
    "stripe": {
        "processing": "processing requires_capture requires_action requires_confirmation",
        "succeeded": "succeeded",
        "failed": "canceled requires_payment_method",
    },
    "gocardless": {
        "processing": "pending_customer_approval pending_submission submitted confirmed",
        "succeeded": "paid_out",
        "failed": "cancelled customer_approval_denied failed charged_back",
    },
    "adyen": {
        "processing": "AuthorisedPending Received Pending",
        "succeeded": "Authorised SentForSettle SettleScheduled Settled Refunded",
        "failed": "Refused Cancelled CaptureFailed Error Expired RedirectShopper ChallengeShopper IdentifyShopper"
        " PresentToShopper AuthenticationFinished",
    },
    "cashfree": {"processing": "PARTIALLY_PAID", "succeeded": "PAID", "failed": "EXPIRED CANCELLED"},
    "flutterwave": {"processing": "pending", "succeeded": "successful", "failed": "failed cancelled"},
    "moneyhash": {
        "processing": "PENDING PENDING_AUTHENTICATION UNPROCESSED",
        "succeeded": "SUCCESSFUL PROCESSED",
        "failed": "FAILED CLOSED EXPIRED TIME_EXPIRED",
    },
}
ROWS = [(kind, word, status) for kind, row in TABLE.items() for status, words in row.items() for word in words.split()]


@pytest.mark.parametrize(("kind", "word", "status"), ROWS)
def test_a_word_of_the_provider(kind: str, word: str, status: str) -> None:
    assert charge_status(kind, word) is ChargeStatus(status)


def test_no_word_is_left_out() -> None:
    assert {(kind, word) for kind, traits in KINDS.items() for word in traits.statuses} == {row[:2] for row in ROWS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["", "paid", "SUCCEEDED", "authorised", "unheard_of"])
def test_a_word_that_nobody_knows_means_nothing(kind: str, word: str) -> None:
    assert charge_status(kind, word) is None
