"""Content of a document, in order, as texts in its own language."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A block of lines under a heading, the name first: the issuer or the recipient of a document."""

    heading: str
    name: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`kind`: fee, part (of the fee above it) or subtotal (of the parts above it)."""

    name: str
    units: str = ""
    unit_price: str = ""
    tax_rate: str = ""
    amount: str = ""
    notes: tuple[str, ...] = ()
    kind: str = "fee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows below column headings; the first heading may label the whole table."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A line of the totals."""

    label: str
    amount: str
    strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the document. The first one begins below the document's head."""

    heading: str | None = None
    tables: tuple[Table, ...] = ()
    totals: tuple[Total, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part of a document."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A document from its title to its footer. `logo` is a data URL (PNG or JPEG in base64).

    `facts` are labels with their values; `about` is shown below the amount.
    """

    locale: str
    title: str
    number: str
    facts: tuple[tuple[str, str], ...]
    metadata: tuple[tuple[str, str], ...]
    issuer: Party
    recipient: Party
    amount: str
    about: tuple[str, ...]
    pages: tuple[Page, ...]
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    footer: str | None = None
    logo: str | None = None
