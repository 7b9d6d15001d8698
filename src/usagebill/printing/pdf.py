"""PDF: the content of a document laid out on pages of A4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import zip_longest
from typing import Any

import structlog
from pypdf import PdfWriter
from pypdf.generic import NameObject
from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Image, PageBreak, Paragraph, SimpleDocTemplate, Spacer, TableStyle
from reportlab.platypus import Table as Grid

from usagebill.core.documents.content import Content, Page, Party, Row, Table, Total
from usagebill.printing.fonts import BOLD, REGULAR, load_fonts, markup
from usagebill.printing.logos import BadLogo, opened

__all__ = ["ATTACHED_XML", "pdf_bytes"]

_log = structlog.get_logger("usagebill.printing")

# The name under which readers of Factur-X and ZUGFeRD look for the XML inside a PDF.
ATTACHED_XML = "factur-x.xml"

_MARGIN = 18 * mm
# A frame keeps 6 points of its own on either side.
_WIDTH = A4[0] - 2 * _MARGIN - 12
_LINE = HexColor(0xD9DEE7)
_GREY = HexColor(0x5B6678)
_LOGO = (45 * mm, 16 * mm)
# Of a logo, for each of 72 points an inch.
_DOTS = 8
# Rows of tables are never split: none may be higher than what is left of a page with the head of its table.
_HIGHEST_ROW = 50 * mm
# Paragraphs are laid out as a whole, which takes longer than their length; a longer text is several.
_LONGEST_PARAGRAPH = 4000
# Left and right in the cells of tables; and of what is part of the fee above it.
_GAP, _INDENT = 6, 10
# Between who issues a document and whom it is for.
_GUTTER = 12
# A blank that is as high as a line.
_EMPTY = "\u00a0"
# Item and the columns of numbers, in parts of the width.
_COLUMNS = {5: (0.42, 0.12, 0.17, 0.11, 0.18), 3: (0.6, 0.2, 0.2), 2: (0.75, 0.25)}


def pdf_bytes(content: Content, attachment: str | None = None) -> bytes:
    """The document as a PDF file, with an XML text embedded where one is given. Same content, same bytes."""
    load_fonts()
    made = BytesIO()
    template = SimpleDocTemplate(
        made,
        pagesize=A4,
        leftMargin=_MARGIN,
        rightMargin=_MARGIN,
        topMargin=_MARGIN,
        bottomMargin=_MARGIN,
        title=f"{content.title} {content.number}",
        author=content.issuer.name,
        invariant=1,
    )
    printer = _Printer(content.locale)

    def number_page(canvas: Canvas, document: Any) -> None:
        canvas.saveState()
        canvas.setFont(REGULAR, 7)
        canvas.setFillColor(_GREY)
        canvas.drawRightString(A4[0] - _MARGIN, _MARGIN / 2, f"{content.number} - {document.page}")
        canvas.restoreState()

    template.build(list(printer.document(content)), onFirstPage=number_page, onLaterPages=number_page)
    return made.getvalue() if attachment is None else _with_attachment(made.getvalue(), attachment)


def _with_attachment(pdf: bytes, xml: str) -> bytes:
    writer = PdfWriter(clone_from=BytesIO(pdf))
    attached = writer.add_attachment(ATTACHED_XML, xml.encode())
    attached.subtype = NameObject("/text#2Fxml")
    attached.associated_file_relationship = NameObject("/Alternative")
    made = BytesIO()
    writer.write(made)
    return made.getvalue()


def _logo(content: Content) -> Image | None:
    """The logo within its box; None if there is none, or none that can be shown."""
    if content.logo is None:
        return None
    try:
        picture = opened(content.logo)
    except BadLogo as problem:
        # No document fails for its logo.
        _log.warning("logo_left_out", document=content.number, issuer=content.issuer.name, reason=problem.code)
        return None
    scale = min(_LOGO[0] / picture.width, _LOGO[1] / picture.height, 1)
    size = (picture.width * scale, picture.height * scale)
    # Finer than any printer draws it; what is beyond would only make the file larger.
    picture.thumbnail((_LOGO[0] * _DOTS, _LOGO[1] * _DOTS))
    drawn = BytesIO()
    picture.save(drawn, "PNG")
    drawn.seek(0)
    return Image(drawn, *size)


class _Printer:
    """Turns each part of a document into what ReportLab lays out."""

    def __init__(self, locale: str) -> None:
        wrap = "CJK" if locale == "zh-TW" else None
        self._styles = {
            name: ParagraphStyle(name, fontName=font, fontSize=size, leading=size * 1.35, wordWrap=wrap, **more)
            for name, font, size, more in (
                ("title", BOLD, 20, {}),
                ("amount", BOLD, 16, {}),
                ("heading", BOLD, 11, {}),
                ("text", REGULAR, 8.5, {}),
                ("strong", BOLD, 8.5, {}),
                ("right", REGULAR, 8.5, {"alignment": TA_RIGHT}),
                ("strong right", BOLD, 8.5, {"alignment": TA_RIGHT}),
                ("small", REGULAR, 7.5, {"textColor": _GREY}),
                ("small right", REGULAR, 7.5, {"textColor": _GREY, "alignment": TA_RIGHT}),
            )
        }

    def _text(self, text: str, style: str = "text") -> Paragraph:
        return Paragraph(markup(text), self._styles[style])

    def _texts(self, text: str, style: str = "text") -> list[Paragraph]:
        """A text of any length: a paragraph for each line, several for a very long one."""
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return [self._text(part or _EMPTY, style) for line in lines for part in _parts(line)]

    def _cells(self, paragraphs: Sequence[Paragraph], width: float) -> list[list[Paragraph]]:
        """The paragraphs as the cells of a column, each of a height that fits on any page."""
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
            story += self._page(page)
        for note in content.notes:
            story += [Spacer(0, 4 * mm), *self._texts(note)]
        for section in content.sections:
            story += [Spacer(0, 5 * mm), *self._texts(section.title, "strong"), *self._texts(section.text)]
        if content.footer:
            story += [Spacer(0, 6 * mm), *self._texts(content.footer, "small")]
        return story

    def _grid(self, rows: Sequence[list[Any]], widths: Sequence[float], *more: tuple[Any, ...]) -> Grid:
        style: list[tuple[Any, ...]] = [
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
        return self._grid(rows, (_WIDTH * 0.2, _WIDTH * 0.28))

    def _parties(self, *parties: Party) -> list[list[Any]]:
        columns = []
        for party in parties:
            lines = [paragraph for line in party.lines for paragraph in self._texts(line)]
            block = [self._text(party.heading, "small"), *self._texts(party.name, "strong"), *lines]
            columns.append(self._cells(block, _WIDTH / 2 - _GUTTER))
        return [list(row) for row in zip_longest(*columns, fillvalue="")]

    def _page(self, page: Page) -> list[Flowable]:
        story: list[Flowable] = []
        if page.heading:
            story += [*self._texts(page.heading, "heading"), Spacer(0, 3 * mm)]
        for table in page.tables:
            story += [self._table(table), Spacer(0, 4 * mm)]
        if page.totals:
            story.append(self._totals(page.totals))
        return story

    def _table(self, table: Table) -> Grid:
        count = len(table.columns)
        widths = [part * _WIDTH for part in _COLUMNS[count]]
        rows = [[self._text(text, "small" if not at else "small right") for at, text in enumerate(table.columns)]]
        style: list[tuple[Any, ...]] = [
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, 0), 0.75, _LINE),
            ("LEFTPADDING", (0, 0), (0, -1), 0),
            ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
            ("LINEBELOW", (0, -1), (-1, -1), 0.75, _LINE),
        ]
        for row in table.rows:
            first = len(rows)
            indent = 0 if row.kind == "fee" else _INDENT
            rows += self._rows(row, count, widths[0] - indent - _GAP)
            if indent:
                style.append(("LEFTPADDING", (0, first), (0, len(rows) - 1), indent))
            last = len(rows) - 1
            if last > first:
                # The rows of one item are not to look like several.
                style += [
                    ("BOTTOMPADDING", (0, first), (-1, last - 1), 0),
                    ("TOPPADDING", (0, first + 1), (-1, last), 0),
                ]
        return Grid(rows, colWidths=widths, repeatRows=1, style=TableStyle(style), hAlign="LEFT")

    def _rows(self, row: Row, columns: int, width: float) -> list[list[Any]]:
        """A row, and below it what its name and its notes have left to say."""
        name = self._texts(row.name, "small" if row.kind == "part" else "text")
        name += [paragraph for note in row.notes for paragraph in self._texts(note, "small")]
        numbers = {5: (row.units, row.unit_price, row.tax_rate, row.amount), 3: (row.tax_rate, row.amount)}
        shown = [
            self._text(text, "small right" if row.kind == "part" else "right")
            for text in numbers.get(columns, (row.amount,))
        ]
        first, *rest = self._cells(name, width)
        return [[first, *shown], *([cell, *[""] * len(shown)] for cell in rest)]

    def _totals(self, totals: Sequence[Total]) -> Grid:
        rows: list[list[Any]] = []
        for total in totals:
            style = "strong right" if total.strong else "right"
            first, *rest = self._cells(self._texts(total.label, style), _WIDTH * 0.5 - 2 * _GAP)
            rows += [[first, self._text(total.amount, style)], *([cell, ""] for cell in rest)]
        look = TableStyle([("RIGHTPADDING", (-1, 0), (-1, -1), 0), ("LINEABOVE", (0, -1), (-1, -1), 0.75, _LINE)])
        return Grid(rows, colWidths=[_WIDTH * 0.5, _WIDTH * 0.22], style=look, hAlign="RIGHT")


def _parts(text: str) -> Iterator[str]:
    """A line in parts of some thousand characters, cut between words where there are any."""
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
