"""Words of documents in each language. `words_of("fr")` gives a `Words`; names in braces are filled in."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.documents.locales import language_of
from usagebill.core.documents.words.de import DE
from usagebill.core.documents.words.en import EN
from usagebill.core.documents.words.es import ES
from usagebill.core.documents.words.fr import FR
from usagebill.core.documents.words.it import IT
from usagebill.core.documents.words.nb import NB
from usagebill.core.documents.words.pt_br import PT_BR
from usagebill.core.documents.words.sv import SV
from usagebill.core.documents.words.words import Words as Words
from usagebill.core.documents.words.zh_tw import ZH_TW

WORDS: Mapping[str, Words] = {
    "en": EN,
    "de": DE,
    "es": ES,
    "fr": FR,
    "it": IT,
    "nb": NB,
    "pt-BR": PT_BR,
    "sv": SV,
    "zh-TW": ZH_TW,
}


def words_of(locale: str) -> Words:
    """The words of a locale, in whatever forms it is written; English if it has none."""
    return WORDS.get(language_of(locale), EN)
