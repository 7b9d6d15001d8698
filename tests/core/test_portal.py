"""Tokens of the customer portal."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from usagebill.core.documents.words import WORDS
from usagebill.core.documents.words.portal import PORTAL_WORDS
from usagebill.core.portal import LASTS, is_good_token, portal_token, subject_of_token

NOW = datetime(2024, 3, 5, 9, tzinfo=UTC)
TOKEN = portal_token("key", "cus", NOW)


def test_a_link_opens_the_pages_of_its_customer_for_twelve_hours() -> None:
    assert timedelta(hours=12) == LASTS
    assert subject_of_token(TOKEN) == "cus"
    assert is_good_token("key", TOKEN, NOW)
    assert is_good_token("key", TOKEN, NOW + LASTS - timedelta(microseconds=1))
    assert not is_good_token("key", TOKEN, NOW + LASTS)


def test_no_link_lasts_longer_than_one_that_is_made_now() -> None:
    assert is_good_token("key", portal_token("key", "cus", NOW + timedelta(minutes=10)), NOW)
    assert not is_good_token("key", portal_token("key", "cus", NOW + timedelta(minutes=11)), NOW)
    assert not is_good_token("key", portal_token("key", "cus", NOW + timedelta(days=3650)), NOW)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "cus",
        "cus.",
        "cus.x.y",
        TOKEN[:-1],
        TOKEN + "0",
        TOKEN.replace("cus", "cut"),
        TOKEN.replace(".17", ".18"),
        f"cus.{'9' * 5000}.x",
        "cus.٣.x",
        portal_token("other key", "cus", NOW),
    ],
)
def test_an_altered_link_opens_nothing(token: str) -> None:
    assert not is_good_token("key", token, NOW)


@given(token=st.text() | st.builds("cus.{}.{}".format, st.text(), st.text()))
def test_no_text_is_taken_for_a_link(token: str) -> None:
    assert not is_good_token("key", token, NOW)


@pytest.mark.parametrize("locale", WORDS)
def test_every_language_of_documents_has_words(locale: str) -> None:
    words = PORTAL_WORDS[locale]
    assert all(getattr(words, field.name) for field in fields(words))
    assert words.expires.format(date="5 May") != words.expires
