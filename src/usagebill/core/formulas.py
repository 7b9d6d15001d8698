"""Texts of CSV that spreadsheets would compute, whoever wrote them: the name of a customer may be a formula."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def escaped(text: str) -> str:
    """The text, with an apostrophe before it if it would be computed.

    So has one with apostrophes there already, so that the first can always be taken away.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """The text of which `escaped` made this one."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
