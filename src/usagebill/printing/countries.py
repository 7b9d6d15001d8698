"""Names of countries."""

from __future__ import annotations

from babel import Locale

from usagebill.core.countries import COUNTRIES
from usagebill.core.documents.locales import language_of


def country_name(code: str, locale: str) -> str:
    """The name of a country (ISO 3166-1 alpha-2) in a language of documents; the code if it has none."""
    language = language_of(locale)
    names = Locale.parse("zh_Hant_TW" if language == "zh-TW" else language.replace("-", "_"))
    name = names.territories.get(code)
    return str(name) if name else code


def country_names(locale: str) -> dict[str, str]:
    """Every country, by its code, in a language of documents."""
    return {code: country_name(code, locale) for code in sorted(COUNTRIES)}
