"""The reference: what every field of every request and answer means, and takes or holds, in one place.

OpenAPI, `/docs`, `help()`, the types of the library and the site are all made from it.
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
