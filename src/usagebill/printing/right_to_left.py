"""Arabic and Hebrew: letters joined, and each line in drawing order, from left to right.

Lines are broken before reordering, which works line by line. The direction of a text is that of its first letter.
Vowel points are left out: ReportLab cannot place them above and below their letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from arabic_reshaper import ArabicReshaper
from bidi.algorithm import get_display
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Paragraph

from usagebill.printing.fonts import markup, width_of

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)

# Invisible signs around words of the other direction, as phones copy them.
_ISOLATES = re.compile("[\u2066-\u2069]")


def is_mixed(text: str) -> bool:
    """Whether the text has a right-to-left letter."""
    return _RIGHT_TO_LEFT.search(text) is not None


@cache
def _reshaper() -> ArabicReshaper:
    return ArabicReshaper({"ARABIC LIGATURE ALLAH": False})


def visual(line: str, base: str | None = None) -> str:
    """A line with its letters joined, in drawing order; `base` is L or R, by default the line's own direction."""
    drawn: str = get_display(_orderable(line), base_dir=base or _base(line))
    return drawn


def _orderable(line: str) -> str:
    """The line without characters that `get_display` fails on: isolates and unassigned code points."""
    # No font has unassigned code points either.
    return "".join(
        sign if unicodedata.bidirectional(sign) else "\N{REPLACEMENT CHARACTER}" for sign in _ISOLATES.sub("", line)
    )


def _base(text: str) -> str:
    kinds = (unicodedata.bidirectional(character) for character in text)
    strong = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "L" if strong == "L" else "R"


def drawn_lines(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """A text broken into lines, none wider than `width` by `measure` if possible."""
    base = _base(text)
    joined: str = _reshaper().reshape(_POINTS.sub("", text))
    return [visual(line, base) for line in _broken(joined, width, measure)]


def _broken(text: str, width: float, measure: Callable[[str], float]) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if measure(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        line = word
        while len(line) > 1 and measure(line) > width:
            # A word wider than the line.
            end = next((end for end in range(2, len(line) + 1) if measure(line[:end]) > width), len(line)) - 1
            yield line[:end]
            line = line[end:]
    yield line


class MixedParagraph(Paragraph):
    """A paragraph with Arabic or Hebrew text, which breaks its own lines. It keeps the direction of its page."""

    _logical: str | None = None
    _laid_out_for: float | None = None

    @classmethod
    def of(cls, text: str, style: ParagraphStyle) -> MixedParagraph:
        """A paragraph of a text of any number of lines."""
        made = cls(markup(text), style)
        made._logical = text
        return made

    def wrap(self, width: float, height: float) -> Any:
        # A split-off part already has its lines.
        if self._logical is not None and width != self._laid_out_for:
            look: Any = self.style
            lines = [
                line
                for part in self._logical.replace("\r\n", "\n").replace("\r", "\n").split("\n")
                for line in drawn_lines(part, width, lambda text: width_of(text, look.fontName, look.fontSize))
            ]
            super().__init__(markup("\n".join(lines)), look)
            self._laid_out_for = width
        return super().wrap(width, height)
