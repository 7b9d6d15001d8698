"""The rows of the table of endpoints, which determine everything the API does with a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from usagebill.process.json_text import Json, Nul
from usagebill.resources import PERMISSIONS

BASE = "/api/v1"


@attrs.frozen(kw_only=True)
class Endpoint:
    """One row: a request, the operation that it calls, and the view of its answer.

    The operation is called as `call(work, **path parameters, request=body, options=query, paging=...)`, each only where
    the row names it. Rows of PUT also answer to PATCH, unless `one_verb`.
    """

    method: str = attrs.field(kw_only=False)
    path: str = attrs.field(kw_only=False)
    call: Callable[..., Any] = attrs.field(kw_only=False)
    # What the key needs; that of the library's operation, unless it has none that calls the same.
    permission: str = attrs.field(default=attrs.Factory(lambda row: PERMISSIONS[row.call], takes_self=True))
    # What else the key must be allowed (`invoice:read`), because the answer lets whoever gets it do that.
    opens: tuple[str, ...] = ()
    # The input class of the body, and the key that holds it (None: the body is the input itself).
    body: type | None = None
    root: str | None = None
    # The key of a body that may also be sent as a list, or as an object without that key.
    many: str | None = None
    # What becomes of NUL characters in the body, and its members whose contents the operation checks itself.
    nul: Nul = Nul.REFUSED
    any_json: tuple[str, ...] = ()
    # Whether an object under the root that holds no field of the input at all counts as missing.
    known_field: bool = False
    # The input class of query parameters; members of the body count too, but the query wins.
    query: type | None = None
    # Whether the answer is a page, shown with its meta.
    paged: bool = False
    # The key of the answer; None if the view gives the whole body. Without a view the body is empty.
    returns: str | None = None
    view: Callable[..., Json] | None = None
    # Finds the record that the path names, as the operation does. Called if the body is bad, because a 404 comes before
    # a 422 and, with `found_first`, also before the 400 of a missing root.
    find: Callable[..., object] | None = None
    found_first: bool = False
    one_verb: bool = False
    # Whether the operation of a GET writes too.
    writes: bool = False
    # Names of fields of requests and answers that the request log leaves out.
    secrets: tuple[str, ...] = ()
    # Names of fields of the answer that are stored nowhere, so that the answer to a repeated request leaves them out.
    shown_once: tuple[str, ...] = ()
    content_type: str = "application/json; charset=utf-8"
    summary: str = ""
