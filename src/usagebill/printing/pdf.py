"""PDF: the content of a document laid out on pages of A4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import zip_longest
from typing import Any

from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    Flowable,
    Image,
    PageBreak,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table as Grid,
    TableStyle,
)

from usagebill.core.documents.content import Content, Page, Party, Row, Table, Total
from usagebill.core.documents.locales import language_of
from usagebill.core.documents.words import words_of
from usagebill.printing.archival import with_xml
from usagebill.printing.fonts import BOLD, REGULAR, in_fonts, load_fonts, markup, width_of
from usagebill.printing.logos import BadLogo, opened
from usagebill.printing.right_to_left import MixedParagraph, is_mixed, visual
from usagebill.process.logs import Log

_log = Log("usagebill.printing")

_MARGIN = 18 * mm
# A frame adds 6 points of padding on either side.
_WIDTH = A4[0] - 2 * _MARGIN - 12
_LINE = HexColor(0xD9DEE7)
_GREY = HexColor(0x5B6678)
_LOGO = (45 * mm, 16 * mm)
# Pixels of a logo per point (72 points are an inch).
_DOTS = 8
# Table rows are never split: none may be higher than a page less the header of its table.
_HIGHEST_ROW = 50 * mm
# Layout time grows faster than a paragraph's length, so a longer text is split into several.
_LONGEST_PARAGRAPH = 4000
# Left and right padding of table cells; and the indent of rows that are part of the fee above.
_GAP, _INDENT = 6, 10
# The gap between issuer and recipient.
_GUTTER = 12
# A non-empty text one line high.
_EMPTY = "\u00a0"
# The least share of the width for the first column: numbers that need more room are set smaller.
_LEAST_NAME = 0.28
# Headings of number columns stay on one line while the columns take less than this share of the width.
_MOST_NUMBERS = 0.5
# Also for empty cells: their default, Helvetica, is not embedded.
_FONT = ("FONTNAME", (0, 0), (-1, -1), REGULAR)
# A fee of more rows than this may be split between its parts.
_LONGEST_GROUP = 12
# Totals higher than this may be split.
_HIGHEST_TOTALS = 150 * mm
_SIZE, _SMALL = 8.5, 7.5
# Spaces within a number or an amount, at which it must not break.
_UNBROKEN = str.maketrans({" ": "\u00a0", "\u202f": "\u00a0"})


def pdf_bytes(content: Content, attachment: str | None = None) -> bytes:
    """The document as a PDF file; with an XML text, which is embedded, as PDF/A-3. Same content, same bytes."""
    load_fonts()
    made = BytesIO()
    title = f"{content.title} {content.number}"
    template = SimpleDocTemplate(
        made,
        pagesize=A4,
        leftMargin=_MARGIN,
        rightMargin=_MARGIN,
        topMargin=_MARGIN,
        bottomMargin=_MARGIN,
        title=title,
        author=content.issuer.name,
        initialFontName=REGULAR,
        invariant=1,
    )
    template.build(_Printer(content.locale).document(content), canvasmaker=_numbered(content))
    pdf = made.getvalue()
    return pdf if attachment is None else with_xml(pdf, attachment, title=title, author=content.issuer.name)


def _numbered(content: Content) -> type[Canvas]:
    """A canvas that says `page 2 of 3` on each page, once it knows how many there are."""
    label = words_of(content.locale).page_of

    class Numbered(Canvas):
        def _draw_right(self, end: float, text: str, size: float) -> None:
            """Draw a line of text at the foot of the page, ending at `end`, each character in a font that has it."""
            at = end - width_of(text, REGULAR, size)
            for font, part in in_fonts(text, REGULAR):
                self.setFont(font, size)
                self.drawString(at, _MARGIN / 2, part)
                at += width_of(part, font, size)

        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self._drawn: list[dict[str, Any]] = []

        def showPage(self) -> None:  # noqa: N802
            self._drawn.append(dict(self.__dict__))
            self._startPage()  # type: ignore[attr-defined]

        def save(self) -> None:
            for page, drawn in enumerate(self._drawn, start=1):
                self.__dict__.update(drawn)
                self.setFillColor(_GREY)
                text = f"{content.number} - {label.format(page=page, count=len(self._drawn))}"
                self._draw_right(A4[0] - _MARGIN, visual(text, "L") if is_mixed(text) else text, 7)
                super().showPage()
            super().save()

    return Numbered


def _logo(content: Content) -> Image | None:
    """The logo, scaled to its box; None if there is none, or if it is invalid."""
    if content.logo is None:
        return None
    try:
        picture = opened(content.logo)
    except BadLogo as problem:
        # A bad logo must not fail a document.
        _log.warning("logo_left_out", document=content.number, issuer=content.issuer.name, reason=problem.code)
        return None
    scale = min(_LOGO[0] / picture.width, _LOGO[1] / picture.height, 1)
    size = (picture.width * scale, picture.height * scale)
    # Finer than any printer; more pixels would only make the file larger.
    picture.thumbnail((_LOGO[0] * _DOTS, _LOGO[1] * _DOTS))
    drawn = BytesIO()
    picture.save(drawn, "PNG")
    drawn.seek(0)
    return Image(drawn, *size)


class _Printer:
    """Turns each part of a document into ReportLab flowables."""

    def __init__(self, locale: str) -> None:
        wrap = "CJK" if language_of(locale) == "zh-TW" else None
        self._styles = {
            name: ParagraphStyle(name, fontName=font, fontSize=size, leading=size * 1.35, wordWrap=wrap, **more)
            for name, font, size, more in (
                ("title", BOLD, 20, {}),
                ("amount", BOLD, 16, {}),
                ("heading", BOLD, 11, {}),
                ("text", REGULAR, _SIZE, {}),
                ("strong", BOLD, _SIZE, {}),
                ("right", REGULAR, _SIZE, {"alignment": TA_RIGHT}),
                ("strong right", BOLD, _SIZE, {"alignment": TA_RIGHT}),
                ("small", REGULAR, _SMALL, {"textColor": _GREY}),
                ("small right", REGULAR, _SMALL, {"textColor": _GREY, "alignment": TA_RIGHT}),
            )
        }

    def _text(self, text: str, style: str = "text") -> Paragraph:
        if is_mixed(text):
            return MixedParagraph.of(text, self._styles[style])
        return Paragraph(markup(text), self._styles[style])

    def _number(self, text: str, style: str, scale: float = 1) -> Paragraph:
        """A number or an amount, which is never broken."""
        look = self._styles[style]
        if scale < 1:
            look = ParagraphStyle(
                f"{style} {scale}", look, fontSize=look.fontSize * scale, splitLongWords=0, wordWrap=None
            )
        else:
            look = ParagraphStyle(f"{style} whole", look, splitLongWords=0, wordWrap=None)
        return Paragraph(markup(text.translate(_UNBROKEN)), look)

    def _texts(self, text: str, style: str = "text") -> list[Paragraph]:
        """A text of any length: a paragraph for each line, several for a very long one."""
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return [self._text(part or _EMPTY, style) for line in lines for part in _parts(line)]

    def _cells(self, paragraphs: Sequence[Paragraph], width: float) -> list[list[Paragraph]]:
        """The paragraphs as cells of a column, each low enough for any page."""
        cells: list[list[Paragraph]] = [[]]
        used = 0.0
        for paragraph in paragraphs:
            for piece in _pieces(paragraph, width):
                height = piece.wrap(width, _HIGHEST_ROW)[1]
                if cells[-1] and used + height > _HIGHEST_ROW:
                    cells.append([])
                    used = 0.0
                cells[-1].append(piece)
                used += height
        return cells

    def document(self, content: Content) -> list[Flowable]:
        halves = (_WIDTH / 2, _WIDTH / 2)
        logo = _logo(content)
        story: list[Flowable] = [
            self._grid([[self._text(content.title, "title"), logo or ""]], halves, ("ALIGN", (1, 0), (1, 0), "RIGHT")),
            Spacer(0, 5 * mm),
            self._grid([[self._pairs(content.facts), self._pairs(content.metadata)]], halves),
            Spacer(0, 6 * mm),
            self._grid(
                self._parties(content.issuer, content.recipient), halves, ("RIGHTPADDING", (0, 0), (0, -1), _GUTTER)
            ),
            Spacer(0, 8 * mm),
            self._text(content.amount, "amount"),
            *(self._text(line, "small") for line in content.about),
            Spacer(0, 6 * mm),
        ]
        for position, page in enumerate(content.pages):
            if position:
                story.append(PageBreak())
            is_last = position == len(content.pages) - 1
            story += self._page(page, self._end(content) if is_last else [])
        return story

    def _end(self, content: Content) -> list[Flowable]:
        """What follows the last table."""
        end: list[Flowable] = []
        for note in content.notes:
            end += [Spacer(0, 4 * mm), *self._texts(note)]
        for section in content.sections:
            end += [Spacer(0, 5 * mm), *self._texts(section.title, "strong"), *self._texts(section.text)]
        if content.footer:
            end += [Spacer(0, 6 * mm), *self._texts(content.footer, "small")]
        return end

    def _grid(self, rows: Sequence[list[Any]], widths: Sequence[float], *more: tuple[Any, ...]) -> Grid:
        style: list[tuple[Any, ...]] = [
            _FONT,
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LEFTPADDING", (0, 0), (-1, -1), 0),
            ("RIGHTPADDING", (0, 0), (-1, -1), 0),
            ("TOPPADDING", (0, 0), (-1, -1), 0),
            *more,
        ]
        return Grid(rows, colWidths=list(widths), style=TableStyle(style), hAlign="LEFT")

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> Any:
        if not pairs:
            return ""
        rows = [[self._text(label, "small"), self._text(value)] for label, value in pairs]
        return self._grid(rows, (_WIDTH * 0.2, _WIDTH * 0.28), ("RIGHTPADDING", (0, 0), (0, -1), _GAP))

    def _parties(self, *parties: Party) -> list[list[Any]]:
        columns = []
        for party in parties:
            lines = [paragraph for line in party.lines for paragraph in self._texts(line)]
            block = [self._text(party.heading, "small"), *self._texts(party.name, "strong"), *lines]
            columns.append(self._cells(block, _WIDTH / 2 - _GUTTER))
        return [list(row) for row in zip_longest(*columns, fillvalue="")]

    def _page(self, page: Page, end: Sequence[Flowable] = ()) -> list[Flowable]:
        """The page, and what ends the document: a short end stays with the totals, and so is never alone on a page."""
        story: list[Flowable] = []
        if page.heading:
            story += [*self._texts(page.heading, "heading"), Spacer(0, 3 * mm)]
        totals = self._totals(page.totals) if page.totals else None
        height = 0.0 if totals is None else totals.wrap(_WIDTH, A4[1])[1]
        together = totals is not None and height <= _HIGHEST_TOTALS
        is_short = together and page.tables and height + _height(end) <= _HIGHEST_TOTALS
        for position, table in enumerate(page.tables, start=1):
            # Totals move to the next page only together with the rows above them.
            below: list[Flowable] = []
            if totals is not None and together and position == len(page.tables):
                below = [totals, *(end if is_short else ())]
            story += [self._table(table, below), Spacer(0, 4 * mm)]
        if totals is not None and not (together and page.tables):
            story.append(totals)
        return story if is_short else [*story, *end]

    def _table(self, table: Table, below: Sequence[Flowable] = ()) -> Grid:
        """The table, and in its last row what stays with the row above it."""
        count = len(table.columns)
        widths, scale = _widths(table)
        rows: list[list[Any]]
        rows = [[self._text(text, "small" if not at else "small right") for at, text in enumerate(table.columns)]]
        style: list[tuple[Any, ...]] = [
            _FONT,
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, 0), 0.75, _LINE),
            ("LEFTPADDING", (0, 0), (0, -1), 0),
            ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
        ]
        starts: list[int] = []
        for row in table.rows:
            first = len(rows)
            starts.append(first)
            indent = 0 if row.kind == "fee" else _INDENT
            numbers = _numbers(row, count)
            # A name without a number beside it gets the whole width.
            alone = not any(numbers)
            width = _WIDTH if alone else widths[0] - _GAP
            rows += self._rows(row, numbers, width - indent, scale)
            last = len(rows) - 1
            if alone:
                style += [("SPAN", (0, at), (-1, at)) for at in range(first, last + 1)]
            if indent:
                style.append(("LEFTPADDING", (0, first), (0, last), indent))
            if last > first:
                # No rules between the rows of one item.
                style += [
                    ("BOTTOMPADDING", (0, first), (-1, last - 1), 0),
                    ("TOPPADDING", (0, first + 1), (-1, last), 0),
                ]
        bottom = len(rows) - 1
        style += [("NOSPLIT", (0, start), (-1, end)) for start, end in _kept_together(table.rows, starts, bottom)]
        style.append(("LINEBELOW", (0, bottom), (-1, bottom), 0.75, _LINE))
        if below:
            rows.append([list(below), *[""] * (count - 1)])
            style += [
                ("SPAN", (0, -1), (-1, -1)),
                ("RIGHTPADDING", (0, -1), (-1, -1), 0),
                ("ALIGN", (0, -1), (-1, -1), "RIGHT"),
                ("TOPPADDING", (0, -1), (-1, -1), 4 * mm),
                ("BOTTOMPADDING", (0, -1), (-1, -1), 0),
                ("NOSPLIT", (0, max(1, bottom)), (-1, -1)),
            ]
        return Grid(rows, colWidths=widths, repeatRows=1, style=TableStyle(style), hAlign="LEFT")

    def _rows(self, row: Row, numbers: Sequence[str], width: float, scale: float) -> list[list[Any]]:
        """A row, followed by rows with the rest of its name and its notes."""
        name = self._texts(row.name, "small" if row.kind == "part" else "text")
        name += [paragraph for note in row.notes for paragraph in self._texts(note, "small")]
        style = "small right" if row.kind == "part" else "right"
        first, *others = self._cells(name, width)
        return [
            [first, *(self._number(text, style, scale) for text in numbers)],
            *([cell, *[""] * len(numbers)] for cell in others),
        ]

    def _totals(self, totals: Sequence[Total]) -> Grid:
        amounts = max(_width(total.amount, BOLD if total.strong else REGULAR) for total in totals) + _GAP + 1
        labels = max(
            _width(line, BOLD if total.strong else REGULAR) for total in totals for line in total.label.split("\n")
        )
        amounts = min(amounts, _WIDTH * (1 - _LEAST_NAME))
        labels = max(min(labels + 2 * _GAP + 1, _WIDTH - amounts), _WIDTH * 0.72 - amounts)
        rows: list[list[Any]] = []
        for total in totals:
            style = "strong right" if total.strong else "right"
            font = BOLD if total.strong else REGULAR
            scale = min(1.0, (amounts - _GAP) / max(_width(total.amount, font), 1))
            first, *others = self._cells(self._texts(total.label, style), labels - 2 * _GAP)
            rows += [[first, self._number(total.amount, style, scale)], *([cell, ""] for cell in others)]
        look = TableStyle(
            [
                _FONT,
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
                ("LINEABOVE", (0, -1), (-1, -1), 0.75, _LINE),
            ]
        )
        return Grid(rows, colWidths=[labels, amounts], style=look, hAlign="RIGHT")


def _height(flowables: Sequence[Flowable]) -> float:
    return sum(float(flowable.wrap(_WIDTH, A4[1])[1]) for flowable in flowables)


def _kept_together(items: Sequence[Row], starts: Sequence[int], bottom: int) -> Iterator[tuple[int, int]]:
    """Rows of a grid that stay on one page, from one to another: `starts` are the first rows of the items.

    A fee of several parts stays whole, unless it is long; then neither its name nor its subtotal is alone. Nor is the
    first or last item of the table.
    """
    ends = [start - 1 for start in starts[1:]] + [bottom]
    group = 0
    for at, item in enumerate(items):
        if item.kind == "fee":
            group = at
        elif item.kind == "subtotal" and ends[at] - starts[group] < _LONGEST_GROUP:
            yield starts[group], ends[at]
        elif item.kind == "subtotal" or items[at - 1].kind == "fee":
            yield starts[at] - 1, starts[at]
    if len(items) > 1:
        yield ends[0], starts[1]
        yield starts[-1] - 1, starts[-1]


def _numbers(row: Row, columns: int) -> tuple[str, ...]:
    """The cells of a row beside its name."""
    if columns == 5:
        return row.units, row.unit_price, row.tax_rate, row.amount
    return (row.tax_rate, row.amount) if columns == 3 else (row.amount,)


def _width(text: str, font: str = REGULAR, size: float = _SIZE) -> float:
    return width_of(text.translate(_UNBROKEN), font, size)


def _widths(table: Table) -> tuple[list[float], float]:
    """The widths of a table's columns with each number on one line, and the factor by which numbers shrink for that."""
    count = len(table.columns)
    needed = [0.0] * (count - 1)
    for row in table.rows:
        size = _SMALL if row.kind == "part" else _SIZE
        needed = [max(width, _width(text, size=size)) for width, text in zip(needed, _numbers(row, count), strict=True)]
    whole = [_width(heading, size=_SMALL) for heading in table.columns[1:]]
    words = [max(_width(word, size=_SMALL) for word in heading.split() or [""]) for heading in table.columns[1:]]
    fit = sum(max(pair) for pair in zip(needed, whole, strict=True)) < _WIDTH * _MOST_NUMBERS
    headings = whole if fit else words
    margins = 2 * _GAP * (count - 1) - _GAP + count
    room = _WIDTH * (1 - _LEAST_NAME) - margins
    scale = min(1.0, room / max(sum(needed), 1))
    numbers = [
        max(width * scale, min(heading, room / (count - 1))) + 2 * _GAP + 1
        for width, heading in zip(needed, headings, strict=True)
    ]
    return [_WIDTH - sum(numbers), *numbers], scale


def _parts(text: str) -> Iterator[str]:
    """A line in parts of some thousand characters, split between words if possible."""
    start = 0
    while len(text) - start > _LONGEST_PARAGRAPH:
        end = text.rfind(" ", start + 1, start + _LONGEST_PARAGRAPH)
        yield text[start:end] if end > 0 else text[start : start + _LONGEST_PARAGRAPH]
        start = end + 1 if end > 0 else start + _LONGEST_PARAGRAPH
    yield text[start:]


def _pieces(paragraph: Paragraph, width: float) -> Iterator[Paragraph]:
    """A paragraph in pieces none of which is higher than a row may be."""
    while paragraph.wrap(width, _HIGHEST_ROW)[1] > _HIGHEST_ROW:
        above, *below = (piece for piece in paragraph.split(width, _HIGHEST_ROW) if isinstance(piece, Paragraph))
        yield above
        if not below:
            return
        paragraph = below[0]
    yield paragraph
