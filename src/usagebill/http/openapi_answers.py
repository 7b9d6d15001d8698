"""Responses in the API description: the schemas of objects, pages and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from usagebill.core.error_codes import BY_STATE, CODES, NOT_PERMITTED, RESOURCES as RESOURCE_NAMES, Refusal
from usagebill.process.json_text import JsonObject
from usagebill.requests.reference import Field, shown_field
from usagebill.views.formats import Format, Unstored

ERRORS = {
    400: ("BadRequest", "The request cannot be read, or its body lacks the key it stands under."),
    401: ("Unauthorized", "No API key, or one that is not valid."),
    403: ("Forbidden", "The key may not do this; `code` says what it may not."),
    404: ("NotFound", "There is no such record; `code` says of which kind."),
    405: ("NotAllowed", "The record's state refuses this; `code` says why."),
    422: ("Invalid", "Values break a rule; `error_details` maps each field to its codes."),
    429: (
        "TooManyRequests",
        "The key, or its organization, has made as many requests as it may; `Retry-After` says for how long. Or,"
        " with a `code`, a tax provider is asked too often for what was requested.",
    ),
    500: ("Failure", "Something broke here. Nothing of the request was done."),
    503: (
        "Unavailable",
        "Nothing is written now: the machine's clock disagrees with the database. Or the answer took too long to"
        " compute (`deadline_passed`), or the database does not answer (`database_unavailable`), and nothing was"
        " changed. Only after `outcome_unknown` it may have been done, as the connection broke during the commit: sent"
        " again with the same `Idempotency-Key`, it is done once.",
    ),
    507: ("StorageFull", "The database has no room left on its disk. Nothing was changed."),
}
_MISSING = {
    f"{resource}_not_found": Refusal(f"there is no such {name}", f"see {where}")
    for resource, (name, where) in RESOURCE_NAMES.items()
}
PAGE_META = {
    "type": "object",
    "properties": {
        "current_page": {"type": "integer", "description": "This page, from 1 on."},
        "next_page": {"type": ["integer", "null"], "description": "The page after it; null after the last."},
        "prev_page": {"type": ["integer", "null"], "description": "The page before it; null before the first."},
        "total_pages": {"type": "integer", "description": "How many pages there are."},
        "total_count": {"type": "integer", "description": "How many records there are."},
        "total_count_is_exact": {
            "type": "boolean",
            "description": (
                "False if counting stopped, at 10,000 or for events at 500,000: there are more records, and pages go on"
                " behind them. Left out otherwise."
            ),
        },
    },
    "required": ["current_page", "next_page", "prev_page", "total_pages", "total_count"],
}


def prefixed(field: str, prefix: str) -> str:
    """The name of a field if ids have this prefix."""
    return prefix + field.removeprefix("svc_") if field.startswith("svc_") else field


def error_schemas() -> Iterator[tuple[str, JsonObject]]:
    for status, (name, _) in ERRORS.items():
        properties: JsonObject = {
            "status": {"type": "integer", "const": status, "description": "The HTTP status."},
            "error": {"type": "string", "description": "What the status is called."},
        }
        if status in (403, 404, 405, 422, 503, 507):
            properties["code"] = {"type": "string", "description": "What is wrong, for programs.", **_codes(status)}
        if status == 422:
            properties["error_details"] = {
                "description": "Field -> codes; for a batch, position -> field -> codes; sometimes one text.",
                "oneOf": [{"type": "object"}, {"type": "string"}],
                "x-codes": {code: f"{refusal.meaning}; {refusal.remedy}" for code, refusal in CODES.items()},
            }
        if status != 500:
            properties["message"] = {
                "type": "string",
                "description": "What is wrong where, with which value, and what to do about it: for people. It may "
                "change; programs go by the codes.",
            }
        required = list(properties)
        if status == 422:
            properties["messages"] = {
                "type": "object",
                "description": "The message in parts: field -> texts, as in `error_details`.",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
            }
            # The error of an authorization that a payment provider refuses, or cannot make.
            code = {"type": "string", "description": "The connection to the provider that refuses."}
            about = "Who refuses, if it is a payment provider."
            provider = {"type": "object", "description": about, "required": ["code"], "properties": {"code": code}}
            properties["provider"] = provider
            properties["message"] = {"type": "string", "description": "The reason, for people."}
        if status == 429:
            properties |= {
                "code": {"type": "string", "description": "What is wrong, for programs."},
                "error_details": {"type": "object", "description": "What the tax provider said."},
            }
        yield name, {"type": "object", "required": required, "properties": properties}


def _codes(status: int) -> JsonObject:
    """The error codes of a status, each with its meaning and remedy."""
    known = {404: _MISSING, 405: BY_STATE, 403: NOT_PERMITTED}.get(status)
    if known is None:
        return {}
    listed: list[JsonObject] = [
        {"const": code, "description": f"{refusal.meaning}; {refusal.remedy}"} for code, refusal in known.items()
    ]
    if status == 403:
        lacking = {"pattern": "^(read|write)_action_not_allowed_for_", "description": "the key lacks the permission"}
        listed.append(lacking)
    return {"anyOf": listed}


def error_responses() -> Iterator[tuple[str, JsonObject]]:
    for status, (name, text) in ERRORS.items():
        schema = {"$ref": f"#/components/schemas/{name}"}
        response: JsonObject = {"description": text, "content": {"application/json": {"schema": schema}}}
        if status in (429, 503):
            wait = {"description": "Seconds until it is worth asking again.", "schema": {"type": "integer"}}
            response["headers"] = {"Retry-After": wait}
        yield name, response


class Views:
    """The schemas of answers, from the return types of views: each described once, under its own name."""

    _SCALARS: Mapping[Any, JsonObject] = {
        str: {"type": "string"},
        int: {"type": "integer"},
        bool: {"type": "boolean"},
        Decimal: {"type": "number"},
        type(None): {"type": "null"},
        object: {},
    }
    # Fields of every stored record.
    _STORED = frozenset({"svc_id", "svc_invoice_id", "svc_fee_id", "created_at", "updated_at"})

    def __init__(self, prefix: str) -> None:
        self.schemas: dict[str, JsonObject] = {}
        self._kinds: dict[str, type] = {}
        self._prefix = prefix

    def answered(self, view: Callable[..., object]) -> JsonObject:
        """The schema of a view's result."""
        return self._schema(get_type_hints(view, include_extras=True)["return"], None)

    def shown(self, kind: type) -> JsonObject:
        """The schema of a view of this type."""
        return self._schema(kind, None)

    def _schema(self, hint: Any, unstored: Unstored | None) -> JsonObject:
        if get_origin(hint) is Annotated:
            inner, mark = get_args(hint)
            if isinstance(mark, Format):
                return {**self._schema(inner, unstored), "format": mark.name}
            return self._schema(inner, mark)
        if get_origin(hint) in (Union, UnionType):
            # Bytes are an empty body: the file does not exist yet.
            return _either([self._schema(option, unstored) for option in get_args(hint) if option is not bytes])
        if get_origin(hint) is list:
            return {"type": "array", "items": self._schema(get_args(hint)[0], unstored)}
        if get_origin(hint) is Mapping:
            return {"type": "object", "additionalProperties": self._schema(get_args(hint)[1], unstored)}
        if is_typeddict(hint):
            return self._reference(hint, unstored)
        return dict(self._SCALARS[hint])

    def _reference(self, kind: type, unstored: Unstored | None) -> JsonObject:
        name = (
            "" if unstored is None else "Previewed" if unstored.has_ids else "Unstored"
        ) + kind.__name__.removesuffix("View")
        if self._kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"two views are called {name}")
        if name not in self.schemas:
            self.schemas[name] = {}
            required: list[str] = []
            properties: JsonObject = {}
            for field, hint in get_type_hints(kind, include_extras=True).items():
                if unstored and field in unstored.left_out:
                    continue
                if get_origin(hint) is NotRequired:
                    hint = get_args(hint)[0]
                else:
                    required.append(prefixed(field, self._prefix))
                if unstored and not unstored.has_ids and field in self._STORED:
                    hint = hint | None
                schema = self._schema(hint, unstored and replace(unstored, left_out=()))
                about = shown_field(kind.__name__.removesuffix("View"), field)
                properties[prefixed(field, self._prefix)] = _described(schema, about)
            self.schemas[name] = {"type": "object", "required": required, "properties": properties}
        return {"$ref": f"#/components/schemas/{name}"}


def _described(schema: JsonObject, field: Field) -> JsonObject:
    """The schema of a field of an answer, with its description in the reference."""
    about = f"{field.about} In {field.unit}." if field.unit else field.about
    kinds = schema.get("type", ())
    values: list[str | None] = [str(value) for value in field.values]
    if values and kinds in ("string", ["string", "null"]):
        schema = {**schema, "enum": values if kinds == "string" else [*values, None]}
    elif values and "items" in schema:
        schema = {**schema, "items": {**schema["items"], "enum": values}}
    return {"description": about, **schema}


def _either(options: Sequence[JsonObject]) -> JsonObject:
    """A schema that accepts any of the options; null is added to the types of a scalar."""
    kept = [option for option in options if option != {"type": "null"}]
    if len(kept) == 1 and len(options) == 1:
        return kept[0]
    if len(kept) == 1 and isinstance(kept[0].get("type"), str):
        return {**kept[0], "type": [kept[0]["type"], "null"]}
    if all(set(option) == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": list(options)}
