"""PDF: the content of a document laid out on pages of A4."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from io import BytesIO
from typing import Any

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

__all__ = ["ATTACHED_XML", "pdf_bytes"]

# The name under which readers of Factur-X and ZUGFeRD look for the XML inside a PDF.
ATTACHED_XML = "factur-x.xml"

_MARGIN = 18 * mm
# A frame keeps 6 points of its own on either side.
_WIDTH = A4[0] - 2 * _MARGIN - 12
_LINE = HexColor(0xD9DEE7)
_GREY = HexColor(0x5B6678)
_LOGO = (45 * mm, 16 * mm)
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


def _logo(data_url: str | None) -> Image | None:
    """The logo within its box; None for a URL that holds no image that can be read."""
    if data_url is None or not data_url.startswith("data:"):
        return None
    try:
        image = Image(BytesIO(base64.b64decode(data_url.partition(",")[2])))
    except (OSError, binascii.Error):
        return None
    scale = min(_LOGO[0] / image.imageWidth, _LOGO[1] / image.imageHeight, 1)
    image.drawWidth, image.drawHeight = image.imageWidth * scale, image.imageHeight * scale
    return image


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

    def document(self, content: Content) -> list[Flowable]:
        halves = (_WIDTH / 2, _WIDTH / 2)
        logo = _logo(content.logo)
        story: list[Flowable] = [
            self._grid([[self._text(content.title, "title"), logo or ""]], halves, ("ALIGN", (1, 0), (1, 0), "RIGHT")),
            Spacer(0, 5 * mm),
            self._grid([[self._pairs(content.facts), self._pairs(content.metadata)]], halves),
            Spacer(0, 6 * mm),
            self._grid([[self._party(content.issuer), self._party(content.recipient)]], halves),
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
            story += [Spacer(0, 4 * mm), self._text(note)]
        for section in content.sections:
            story += [Spacer(0, 5 * mm), self._text(section.title, "strong"), self._text(section.text)]
        if content.footer:
            story += [Spacer(0, 6 * mm), self._text(content.footer, "small")]
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

    def _party(self, party: Party) -> list[Flowable]:
        lines = [self._text(line) for line in party.lines]
        return [self._text(party.heading, "small"), self._text(party.name, "strong"), *lines]

    def _page(self, page: Page) -> list[Flowable]:
        story: list[Flowable] = []
        if page.heading:
            story += [self._text(page.heading, "heading"), Spacer(0, 3 * mm)]
        for table in page.tables:
            story += [self._table(table), Spacer(0, 4 * mm)]
        if page.totals:
            story.append(self._totals(page.totals))
        return story

    def _table(self, table: Table) -> Grid:
        count = len(table.columns)
        head = [self._text(text, "small" if not at else "small right") for at, text in enumerate(table.columns)]
        rows = [head, *(self._row(row, count) for row in table.rows)]
        style: list[tuple[Any, ...]] = [
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, 0), 0.75, _LINE),
            ("LEFTPADDING", (0, 0), (0, -1), 0),
            ("RIGHTPADDING", (-1, 0), (-1, -1), 0),
            ("LINEBELOW", (0, -1), (-1, -1), 0.75, _LINE),
        ]
        style += [("LEFTPADDING", (0, at), (0, at), 10) for at, row in enumerate(table.rows, 1) if row.kind != "fee"]
        widths = [part * _WIDTH for part in _COLUMNS[count]]
        return Grid(rows, colWidths=widths, repeatRows=1, style=TableStyle(style), hAlign="LEFT")

    def _row(self, row: Row, columns: int) -> list[Any]:
        name = [self._text(row.name, "small" if row.kind == "part" else "text")]
        name += [self._text(note, "small") for note in row.notes]
        numbers = {5: (row.units, row.unit_price, row.tax_rate, row.amount), 3: (row.tax_rate, row.amount)}
        shown = numbers.get(columns, (row.amount,))
        return [name, *(self._text(text, "small right" if row.kind == "part" else "right") for text in shown)]

    def _totals(self, totals: Sequence[Total]) -> Grid:
        rows = [
            [
                self._text(total.label, "strong right" if total.strong else "right"),
                self._text(total.amount, "strong right" if total.strong else "right"),
            ]
            for total in totals
        ]
        style = TableStyle([("RIGHTPADDING", (-1, 0), (-1, -1), 0), ("LINEABOVE", (0, -1), (-1, -1), 0.75, _LINE)])
        return Grid(rows, colWidths=[_WIDTH * 0.5, _WIDTH * 0.22], style=style, hAlign="RIGHT")
