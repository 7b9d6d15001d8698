"""Elements: XML as plain functions. Names include their prefix; the root declares the prefixes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from xml.etree.ElementTree import Element, indent, tostring

from usagebill.core.numbers import round_to

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def leaf(name: str, text: str | None, attributes: Mapping[str, str] | None = None) -> Element | None:
    """An element that holds text, as `cleaned`; None if there is none."""
    shown = cleaned(text)
    if not shown:
        return None
    created = Element(name, dict(attributes or {}))
    created.text = shown
    return created


def cleaned(text: str | None) -> str:
    """A text without characters that XML does not allow, and without surrounding blanks; empty if nothing remains."""
    return _NOT_XML.sub("", text or "").strip()


def element(name: str, *children: Element | None) -> Element:
    """An element with `children`, except those that are None."""
    created = Element(name)
    created.extend(child for child in children if child is not None)
    return created


def document_text(root: Element, namespaces: Mapping[str, str]) -> str:
    """The whole document; `namespaces` are prefix -> name, the default one with an empty prefix."""
    for prefix, name in namespaces.items():
        root.set(f"xmlns:{prefix}" if prefix else "xmlns", name)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def number_text(value: Decimal) -> str:
    """A number with 2 decimals."""
    rounded = round_to(value, 2)
    return "0.00" if rounded.is_zero() else format(rounded, "f")


def exact_text(value: Decimal) -> str:
    """A unit price or a quantity: with at least 2 and at most 15 decimals."""
    text = format(round_to(value, 15), "f")
    fraction = text.partition(".")[2].rstrip("0")
    return number_text(value) if len(fraction) <= 2 else text.rstrip("0")
