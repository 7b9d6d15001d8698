"""Every language says everything, with the same things to fill in."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from usagebill.core.contacts import LOCALES
from usagebill.core.documents.words import WORDS, Words, words_of

NAMES = [item.name for item in fields(Words)]


def filled_in(text: str) -> set[str]:
    return set(re.findall(r"{(\w+)}", text))


def test_every_locale_that_customers_can_choose_has_its_words() -> None:
    assert set(WORDS) == set(LOCALES)
    assert words_of("xx") is WORDS["en"]


@pytest.mark.parametrize("locale", LOCALES)
def test_words_are_there_and_take_what_the_english_ones_take(locale: str) -> None:
    words = words_of(locale)
    for name in NAMES:
        text = getattr(words, name)
        assert text.strip() == text != ""
        assert filled_in(text) == filled_in(getattr(WORDS["en"], name)), name


@pytest.mark.parametrize("locale", [locale for locale in LOCALES if locale != "en"])
def test_a_translation_is_one(locale: str) -> None:
    same = [name for name in NAMES if getattr(words_of(locale), name) == getattr(WORDS["en"], name)]
    # Titles of columns and the like may be spelt alike; sentences never are.
    assert all(len(getattr(WORDS["en"], name).split()) < 4 for name in same), same
