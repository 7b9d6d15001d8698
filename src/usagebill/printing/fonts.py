"""Fonts: DejaVu Sans and, for Chinese and Japanese, Droid Sans Fallback. A file embeds only the characters it shows.

For Korean, PDF readers use their own font.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from io import BytesIO
from itertools import groupby

from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.pdfmetrics import registerFont, stringWidth
from reportlab.pdfbase.ttfonts import TTFont

REGULAR, BOLD = "DejaVuSans", "DejaVuSans-Bold"
_NO_BREAK = "\u00a0"
# Replaces characters that no font has: PDF/A forbids the box that a font would draw.
_UNKNOWN = "\ufffd"
_HAN, HANGUL = "DroidSansFallbackFull", "HYGothic-Medium"


@cache
def _characters(name: str) -> frozenset[int]:
    """Register a font with ReportLab; returns its characters."""
    file = resources.files("usagebill.printing").joinpath("fonts", f"{name}.ttf")
    font = TTFont(name, BytesIO(file.read_bytes()))
    registerFont(font)
    return frozenset(font.face.charToGlyph)


@cache
def load_fonts() -> frozenset[int]:
    """Register the fonts of all documents with ReportLab; returns their characters."""
    registerFont(UnicodeCIDFont(HANGUL))
    return _characters(REGULAR) & _characters(BOLD)


def _font(character: str) -> str | None:
    """The font of a character that the paragraph's font lacks."""
    code = ord(character)
    if code in load_fonts():
        return None
    if 0x1100 <= code <= 0x11FF or 0x3130 <= code <= 0x318F or 0xAC00 <= code <= 0xD7A3:
        return HANGUL
    return _HAN if _is_fallback(code) else None


def _is_fallback(code: int) -> bool:
    return code > 0x2000 and code in _characters(_HAN)


def _drawable(character: str) -> str:
    """The character, or its replacement: a space for one without a glyph, a mark if no font has it."""
    if not character.isprintable() and character != _NO_BREAK:
        return " "
    code = ord(character)
    return character if code in load_fonts() or _is_fallback(code) or _font(character) == HANGUL else _UNKNOWN


def markup(text: str) -> str:
    """`text` as markup for ReportLab's paragraphs: escaped, lines kept, each character in a font that has it."""
    # ReportLab breaks lines at narrow spaces, even non-breaking ones.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u202f", _NO_BREAK).split("\n")
    return "<br/>".join(_line(line) for line in lines)


def width_of(text: str, font: str, size: float) -> float:
    """The width of a line set by `markup` in this font."""
    return sum(float(stringWidth(part, name, size)) for name, part in in_fonts(text, font))


def in_fonts(text: str, font: str) -> list[tuple[str, str]]:
    """A line in parts, each with its font: `font` if that has the characters."""
    return [(other or font, "".join(part)) for other, part in groupby(map(_drawable, text), _font)]


def _line(line: str) -> str:
    parts = []
    for font, characters in groupby(map(_drawable, line), _font):
        shown = escape("".join(characters), quote=False)
        parts.append(shown if font is None else f'<font name="{font}">{shown}</font>')
    return "".join(parts)
