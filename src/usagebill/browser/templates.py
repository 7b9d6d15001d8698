"""The templates of pages: those of a package, beside the parts that the pages of every package share."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

import jinja2


def segment(value: object) -> str:
    """A code or an id as part of a path."""
    return quote(str(value), safe="")


@cache
def environment(package: str) -> jinja2.Environment:
    """The templates of a package; every value is escaped, and a name that is not known is an error."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader("usagebill.browser")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["segment"] = segment
    return made
