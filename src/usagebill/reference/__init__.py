"""The reference: the meaning and values of every field of every request and answer, in one place.

OpenAPI, `/docs`, `help()`, the types of the library and the site are generated from it.
"""

from usagebill.reference.field import Field
from usagebill.reference.lookup import (
    bare,
    field_of,
    hint_of,
    hints_of,
    is_price,
    required_inside,
    required_of,
    shown_field,
)

__all__ = [
    "Field",
    "bare",
    "field_of",
    "hint_of",
    "hints_of",
    "is_price",
    "required_inside",
    "required_of",
    "shown_field",
]
