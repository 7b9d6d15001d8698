"""The log of requests, which the API writes (`http.request_log`)."""

from __future__ import annotations

from usagebill.core.api_logs import ApiLog
from usagebill.core.errors import NotFound
from usagebill.queries.filters import log_span
from usagebill.requests.inputs import ABSENT, Input, Maybe, Paging, described
from usagebill.runtime.work import Reader
from usagebill.storage.conditions import Condition, any_of, at_most, desc, eq, like, more, within
from usagebill.storage.ports import Page

_LAST_SUCCESS = 399


@Input
class ApiLogFilters:
    """All filters must match, each with any of its values. The bounds of `logged_at` are inclusive.

    A status is a number, `succeeded` (up to 399) or `failed`; `*` in a path matches any text.
    """

    from_date: Maybe[str] = ABSENT
    to_date: Maybe[str] = ABSENT
    http_methods: Maybe[tuple[str, ...]] = described("Only requests with these methods.", example=["POST"])
    http_statuses: Maybe[tuple[str, ...]] = ABSENT
    api_version: Maybe[str] = described("Only requests of this version.", example="v1")
    request_paths: Maybe[object] = described("Only requests with these paths.", example=["/api/v1/invoices"])
    clients: Maybe[tuple[str, ...]] = described("Only requests from these clients.")


def list_all(reader: Reader, options: ApiLogFilters, paging: Paging) -> Page[ApiLog]:
    """The requests of the last `Settings.listed_log_days` days, newest first. Raises `Invalid` for bad dates."""
    conditions = log_span(reader, options.from_date, options.to_date, reader.settings.listed_log_days)
    if options.http_methods:
        conditions.append(within("http_method", [method.lower() for method in options.http_methods]))
    conditions += _of_statuses(options.http_statuses or ())
    if options.api_version:
        conditions.append(eq("api_version", options.api_version))
    if options.clients:
        conditions.append(within("client", options.clients))
    paths = options.request_paths
    if paths:
        several = [str(path) for path in (paths if isinstance(paths, (list, tuple)) else (paths,))]
        conditions.append(any_of(*(like("request_path", path) for path in several)))
    return reader.page(ApiLog, *conditions, paging=paging, order=(desc("logged_at"),))


def _of_statuses(sent: tuple[str, ...]) -> list[Condition]:
    """Conditions on the status. `succeeded` and `failed` together match nothing: no response is both."""
    conditions: list[Condition] = []
    numbers = {text: int(text) for text in sent if text.isdecimal() and len(text) <= 3}
    if numbers:
        conditions.append(within("http_status", list(numbers.values())))
    for word in sent:
        if word in numbers:
            continue
        if word == "succeeded":
            conditions.append(at_most("http_status", _LAST_SUCCESS))
        elif word == "failed":
            conditions.append(more("http_status", _LAST_SUCCESS))
        else:
            conditions.append(within("http_status", ()))
    return conditions


def get(reader: Reader, request_id: str) -> ApiLog:
    """The last request with this id, while it is kept. Raises `NotFound`."""
    entry = reader.tx.first(ApiLog, eq("request_id", request_id), order=[desc("logged_at"), desc("id")])
    if entry is None:
        raise NotFound("api_log", request_id)
    return entry
