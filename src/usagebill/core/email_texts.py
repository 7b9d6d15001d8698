"""A billing entity's own words in the e-mails to its customers, by kind of e-mail and language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from usagebill.core.contacts import LOCALES

# What may stand in braces, for each kind of e-mail.
_OF_DOCUMENTS = ("amount", "customer", "entity", "number")
PLACEHOLDERS: Mapping[str, Sequence[str]] = {
    "invoice": _OF_DOCUMENTS,
    "credit_note": _OF_DOCUMENTS,
    "payment_receipt": _OF_DOCUMENTS,
    "payment_request": ("amount", "customer", "entity"),
    "usage_level": ("amount", "customer", "entity", "subscription"),
}
LONGEST_SUBJECT, LONGEST_PART = 200, 2000
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailText:
    """The seller's words in e-mails of a `kind` (a key of `PLACEHOLDERS`) in the language of `locale`.

    `intro` stands before what the e-mail says, `closing` after it; of a payment request they replace the greeting with
    the reason, and the last line. What is None is as usagebill writes it. Names in braces are filled in.
    """

    kind: str
    locale: str
    subject: str | None = None
    intro: str | None = None
    closing: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.subject or self.intro or self.closing)


# No words of the seller.
PLAIN = EmailText(kind="", locale="")


def own_text(texts: Sequence[EmailText], kind: str, locale: str) -> EmailText:
    """The text for this kind and language; an empty one if the seller has none."""
    return next(
        (text for text in texts if (text.kind, text.locale) == (kind, locale)), EmailText(kind=kind, locale=locale)
    )


def filled(text: EmailText, values: Mapping[str, str]) -> EmailText:
    """The text with these values in place of the names in braces, which are never looked into themselves."""

    def put(part: str | None) -> str | None:
        return part and _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), part)

    return replace(text, subject=put(text.subject), intro=put(text.intro), closing=put(text.closing))


def texts_errors(texts: Sequence[EmailText]) -> list[str]:
    """The codes of what is wrong with the texts; none if all is well."""
    codes: dict[str, None] = {}
    for text in texts:
        if text.kind not in PLACEHOLDERS:
            codes["value_is_invalid"] = None
            continue
        parts = (text.subject or "", text.intro or "", text.closing or "")
        if any(name not in PLACEHOLDERS[text.kind] for part in parts for name in _PLACEHOLDER.findall(part)):
            codes["placeholder_is_unknown"] = None
        if len(parts[0]) > LONGEST_SUBJECT or max(map(len, parts[1:])) > LONGEST_PART:
            codes["value_is_too_long"] = None
        if text.locale not in LOCALES:
            codes["not_a_valid_language_code"] = None
    if len({(text.kind, text.locale) for text in texts}) < len(texts):
        codes["value_already_exist"] = None
    return list(codes)
