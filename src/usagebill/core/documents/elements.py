"""Elements: XML as plain functions. Names carry their prefix; the root declares what the prefixes stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from xml.etree.ElementTree import Element, indent, tostring

from usagebill.core.numbers import round_to

__all__ = ["cleaned", "document_text", "element", "exact_text", "leaf", "number_text"]

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def leaf(name: str, text: str | None, attributes: Mapping[str, str] | None = None) -> Element | None:
    """An element that holds text, as `cleaned`; None if there is none."""
    shown = cleaned(text)
    if not shown:
        return None
    made = Element(name, dict(attributes or {}))
    made.text = shown
    return made


def cleaned(text: str | None) -> str:
    """A text without the characters that XML does not know, and without blanks around it; empty if nothing is left."""
    return _NOT_XML.sub("", text or "").strip()


def element(name: str, *children: Element | None) -> Element:
    """An element that holds others, those that are None left out."""
    made = Element(name)
    made.extend(child for child in children if child is not None)
    return made


def document_text(root: Element, namespaces: Mapping[str, str]) -> str:
    """The whole document; `namespaces` are prefix -> name, the prefix empty for the default one."""
    for prefix, name in namespaces.items():
        root.set(f"xmlns:{prefix}" if prefix else "xmlns", name)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def number_text(value: Decimal) -> str:
    """A number with 2 decimals."""
    rounded = round_to(value, 2)
    return "0.00" if rounded.is_zero() else format(rounded, "f")


def exact_text(value: Decimal) -> str:
    """A price of one unit or a quantity: with 2 decimals, or as many as it has, 15 at most."""
    text = format(round_to(value, 15), "f")
    fraction = text.partition(".")[2].rstrip("0")
    return number_text(value) if len(fraction) <= 2 else text.rstrip("0")
