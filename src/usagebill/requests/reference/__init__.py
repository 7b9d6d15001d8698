"""The reference: the meaning and values of every field of every request and answer.

A request says them on its input class; names that requests and answers share, and answers, are here.

OpenAPI, `/docs`, `help()`, the types of the library and the site are generated from it.
"""

from usagebill.requests.inputs import Field as Field
from usagebill.requests.reference.lookup import (
    bare as bare,
    field_of as field_of,
    hint_of as hint_of,
    hints_of as hints_of,
    is_price as is_price,
    required_inside as required_inside,
    required_of as required_of,
    shown_field as shown_field,
)
