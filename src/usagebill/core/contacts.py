"""Contacts: e-mail addresses, and languages of documents."""

from __future__ import annotations

import re

LOCALES = ("en", "fr", "nb", "de", "it", "es", "sv", "pt-BR", "zh-TW")
LONGEST_NAME = 255

_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"))
_INVISIBLE = str.maketrans(dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff\u00a0\u202f\u2007"))
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[\w.!#$%&'*+/=?^`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")


def normalized_email(text: str) -> str:
    """One or more addresses as stored: look-alike dashes become `-`; invisible characters around them are removed."""
    return text.translate(_DASHES).translate(_INVISIBLE).strip()


def is_email(text: str) -> bool:
    """Whether `text` is one address, or several separated by commas."""
    return all(_EMAIL.fullmatch(part.strip()) for part in text.split(","))


def without_nul(text: str | None) -> str | None:
    """`text` without NUL characters, which many programs take for the end of a text."""
    return text if text is None else text.replace("\0", "")
