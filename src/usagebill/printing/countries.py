"""Countries by the names that people know them by."""

from __future__ import annotations

from babel import Locale

__all__ = ["country_name"]


def country_name(code: str, locale: str) -> str:
    """The name of a country (ISO 3166-1 alpha-2) in a language of documents; the code where it has none."""
    names = Locale.parse("zh_Hant_TW" if locale == "zh-TW" else locale.replace("-", "_"))
    name = names.territories.get(code)
    return str(name) if name else code
