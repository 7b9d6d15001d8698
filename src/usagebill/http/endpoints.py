"""The shape of the table of endpoints: everything the API does with a request follows from its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from usagebill.json_text import Json

__all__ = ["Endpoint"]


@attrs.frozen(kw_only=True)
class Endpoint:
    """One row: which request calls which operation, and how its answer is shown.

    The operation is called as `call(work, **path parameters, request=body, options=query, paging=...)`, each only where
    the row names it. Rows of PUT also answer to PATCH, unless `one_verb`.
    """

    method: str = attrs.field(kw_only=False)
    path: str = attrs.field(kw_only=False)
    call: Callable[..., Any] = attrs.field(kw_only=False)
    permission: str
    # The input class of the body, and the key it stands under (None: the body is the input itself).
    body: type | None = None
    root: str | None = None
    # The key under which a body stands that is a list, or an object without that key.
    many: str | None = None
    # Whether an object under the root that holds no field of the input at all counts as missing.
    known_field: bool = False
    # The input class of query parameters; the members of the body count too, the query's winning.
    query: type | None = None
    # Whether the answer is a page, shown with its meta.
    paged: bool = False
    # The key of the answer; None if the view gives the whole body. Without a view the body is empty.
    returns: str | None = None
    view: Callable[..., Json] | None = None
    # Finds what the path names, as the operation does; asked if the body is bad, for a 404 comes before a 422, and
    # where `found_first` before the 400 of a missing root too.
    find: Callable[..., object] | None = None
    found_first: bool = False
    one_verb: bool = False
    # Whether the operation of a GET writes too.
    writes: bool = False
    # Names of fields, of what is sent and answered, that the log of requests leaves out.
    secrets: tuple[str, ...] = ()
    content_type: str = "application/json; charset=utf-8"
    summary: str = ""
