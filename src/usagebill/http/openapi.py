"""The OpenAPI description of the API, made from the table of endpoints."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from usagebill import __version__
from usagebill.core.idempotency import LONGEST_KEY
from usagebill.core.limits import Range
from usagebill.core.webhooks import OBJECT_TYPES, SIGNATURE_ALGORITHMS, header_prefix
from usagebill.http.endpoints import BASE, Endpoint
from usagebill.http.idempotency import HEADER
from usagebill.http.openapi_answers import ERRORS, PAGE_META, Views, error_responses, error_schemas, prefixed
from usagebill.operations.price_lists import LEFT_OUT, PriceListInput
from usagebill.process.json_text import JsonObject, with_prefix
from usagebill.requests.inputs import MOST_PER_PAGE, range_of, required_fields
from usagebill.requests.reference import field_of, hints_of, is_price, required_inside, required_of
from usagebill.requests.reference.examples import EXAMPLES
from usagebill.requests.reference.required import BY_ID
from usagebill.requests.reference.structures import (
    MODEL_PROPERTIES,
    GraduatedPercentageRange,
    GraduatedRange,
    VolumeRange,
)
from usagebill.requests.signatures import PAGING, path_field
from usagebill.resources import MESSAGES, RESOURCES
from usagebill.resources.bindings import Message, Operation

_ABOUT = """\
Usage events in, exact invoices out.

Amounts of money in fields named `*_cents` are integers of the currency's smallest unit; decimal quantities are texts.
Instants are ISO 8601 in UTC. A page is asked for with `page` and `per_page`. What a caller names is `external_*`.
"""
# The properties of a charge model and its ranges.
_PRICES = frozenset({*MODEL_PROPERTIES.values(), GraduatedRange, GraduatedPercentageRange, VolumeRange})
_NO_PRICES: list[JsonObject] = [{"type": "object", "maxProperties": 0}, {"type": "null"}]
_AMOUNT_TEXT = r"^ *[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)? *$"
_DECIMAL = "A decimal number, as a number or as a text; texts keep every digit."
_PAGE = {"$ref": "#/components/schemas/PageMeta"}
_IDEMPOTENCY_KEY: JsonObject = {
    "name": HEADER,
    "in": "header",
    "description": "Names the request: sent again with this key within a day, it is not done again, but answered.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
}
_MESSAGES = "webhook messages"  # the tag of webhook messages, besides those of the operations


def document(endpoints: Sequence[Endpoint], *, prefix: str = "svc_", server: str = "/") -> JsonObject:
    """The whole description, OpenAPI 3.1, of the API found at the URL `server`."""
    inputs = _Inputs(prefix)
    views = Views(prefix)
    paths: dict[str, JsonObject] = {}
    operation_ids: set[str] = set()
    for endpoint in endpoints:
        for method in ("PUT", "PATCH") if endpoint.method == "PUT" and not endpoint.one_verb else (endpoint.method,):
            shown = _operation(endpoint, method, inputs, views)
            shown["operationId"] = _unique(shown["operationId"], method, endpoint.path, operation_ids)
            paths.setdefault(BASE + endpoint.path, {})[method.lower()] = shown
    return {
        "openapi": "3.1.0",
        "info": {"title": "usagebill", "version": __version__, "description": _ABOUT},
        "servers": [{"url": server}],
        "security": [{"api_key": []}, {"basic": []}],
        "tags": [{"name": name} for name in sorted({*map(_tag, endpoints), _MESSAGES})],
        "paths": dict(sorted(paths.items())),
        "webhooks": {name: {"post": _message(name, message, views, prefix)} for name, message in MESSAGES.items()},
        "components": {
            "securitySchemes": {
                "api_key": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer <API key>`"},
                "basic": {"type": "http", "scheme": "basic", "description": "The API key is the password."},
            },
            "schemas": {**inputs.schemas, **views.schemas, "PageMeta": PAGE_META, **dict(error_schemas())},
            "responses": dict(error_responses()),
        },
    }


def price_list_schema() -> JsonObject:
    """The JSON Schema of price lists in files: the fields of requests, without ids and options."""
    inputs = _Inputs("svc_")
    sections: JsonObject = {}
    for name, hint in hints_of(PriceListInput).items():
        (kind, _) = get_args(hint)
        items = inputs.reference(kind, required_fields(kind, "always", "new", "create"), new=True)
        sections[name] = {"description": field_of(PriceListInput, name).about, "type": "array", "items": items}
    for shape in inputs.schemas.values():
        properties = {name: field for name, field in shape["properties"].items() if name not in LEFT_OUT}
        # A charge is known by its code.
        required = [*shape.get("required", ()), *(["code"] if "charge_model" in properties else [])]
        shape |= {"properties": properties, "required": required, "additionalProperties": False}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A price list of usagebill",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
        "$defs": inputs.schemas,
    }
    text = json.dumps(whole, default=str).replace("#/components/schemas/", "#/$defs/")
    schema: JsonObject = json.loads(text)
    return schema


def _tag(endpoint: Endpoint) -> str:
    return endpoint.path.strip("/").split("/")[0].replace("_", " ")


def _unique(name: str, method: str, path: str, operation_ids: set[str]) -> str:
    """`name`, extended by method and path if another operation has it already."""
    if name in operation_ids:
        name = "_".join([method.lower(), *re.findall(r"\w+", path)])
    operation_ids.add(name)
    return name


def _permissions(endpoint: Endpoint, mode: str) -> str:
    needed = [f"{endpoint.permission}:{mode}", *endpoint.opens]
    return " and ".join(f"`{permission}`" for permission in needed)


def _operation(endpoint: Endpoint, method: str, inputs: _Inputs, views: Views) -> JsonObject:
    mode = "read" if endpoint.method == "GET" else "write"
    function = inspect.unwrap(endpoint.call)
    name = getattr(function, "__name__", type(function).__name__)
    module = function.__module__.removeprefix("usagebill.operations.").replace(".", "_")
    about = inspect.getdoc(endpoint.call) or ""
    operation: JsonObject = {
        "operationId": f"{module}_{name}",
        "summary": endpoint.summary or about.split("\n")[0].rstrip("."),
        "description": f"Needs the permission {_permissions(endpoint, mode)}.",
        "tags": [_tag(endpoint)],
        "parameters": [
            *_path_parameters(endpoint),
            *_query_parameters(endpoint, inputs),
            *([_IDEMPOTENCY_KEY] if method == "POST" else ()),
        ],
        "responses": {
            "200": _success(endpoint, views),
            **{str(status): {"$ref": f"#/components/responses/{known}"} for status, (known, _) in ERRORS.items()},
        },
    }
    # Options with nested parts are sent in the body, as clients do.
    parted = endpoint.query is not None and _has_parts(endpoint.query)
    body = endpoint.body or (endpoint.query if parted else None)
    if body is not None:
        operation["requestBody"] = _request_body(endpoint, body, method, inputs)
    return operation


def _message(name: str, message: Message, views: Views, prefix: str) -> JsonObject:
    """The request that a webhook endpoint receives."""
    object_type = OBJECT_TYPES[name]
    properties: JsonObject = {
        "webhook_type": {"type": "string", "description": "The type of message.", "enum": [name]},
        "object_type": {"type": "string", "description": "The key that the object is under.", "enum": [object_type]},
        "organization_id": {"type": "string", "description": "The organization, by id.", "format": "uuid"},
        object_type: {"description": "What the message is about.", **views.shown(message.shown)},
    }
    header = header_prefix(prefix)
    sent: dict[str, tuple[JsonObject, str]] = {
        f"{header}Signature": ({"type": "string"}, "The signature of the body."),
        f"{header}Signature-Algorithm": ({"type": "string", "enum": list(SIGNATURE_ALGORITHMS)}, "How it was made."),
        f"{header}Unique-Key": ({"type": "string", "format": "uuid"}, "The same at each attempt to send this message."),
    }
    body = {"type": "object", "required": list(properties), "properties": properties}
    return {
        "operationId": f"message_{name.replace('.', '_')}",
        "summary": message.about.removesuffix("."),
        "description": f"Sent to the webhook endpoints that listen to `{name}`.",
        "tags": [_MESSAGES],
        "security": [],
        "parameters": [
            {"name": field, "in": "header", "required": True, "description": text, "schema": schema}
            for field, (schema, text) in sent.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {"description": "Received; 201, 202 and 204 say so too. After anything else it is sent again."}
        },
    }


def _path_parameters(endpoint: Endpoint) -> Iterator[JsonObject]:
    for name in re.findall(r"{(\w+)}", endpoint.path):
        about = path_field(name).about
        yield {"name": name, "in": "path", "required": True, "description": about, "schema": {"type": "string"}}


def _query_parameters(endpoint: Endpoint, inputs: _Inputs) -> Iterator[JsonObject]:
    if endpoint.query is not None:
        for name, described in inputs.fields(endpoint.query):
            schema = dict(described)
            row: JsonObject = {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}
            kinds = schema.get("type") or [
                kind for option in schema.get("anyOf", ()) for kind in option.get("type", ())
            ]
            if "array" in kinds:
                yield {**row, "name": f"{name}[]", "style": "form", "explode": True}
            elif "object" in kinds or "$ref" in schema:
                # A page on which requests are tried would send the example of an object.
                for example in schema.pop("examples", ()):
                    key, value = next(iter(example.items()))
                    row["description"] += f" For example `{name}[{key}]={value}`."
                yield {**row, "style": "deepObject", "explode": True}
            else:
                yield row
    if endpoint.paged:
        for name, most in (("page", None), ("per_page", MOST_PER_PAGE)):
            schema = {"type": "integer", "minimum": 1, "default": 1 if most is None else 100}
            schema |= {} if most is None else {"maximum": most}
            yield {"name": name, "in": "query", "description": PAGING[name].about, "schema": schema}


def _request_body(endpoint: Endpoint, body: type, method: str, inputs: _Inputs) -> JsonObject:
    root = endpoint.root
    required = required_of(operation_name(endpoint), [body])
    schema = inputs.reference(body, required, new=method == "POST")
    if root is not None:
        beside = {} if endpoint.query is None else dict(inputs.parts(endpoint.query))
        # An object with nothing in it is refused.
        schema = {"type": "object", "required": [root], "properties": {root: {**schema, "minProperties": 1}, **beside}}
    if endpoint.many is not None:
        listed = inputs.field(body, endpoint.many)
        schema = {"oneOf": [listed, listed["items"]]}
    content: JsonObject = {"schema": schema}
    example = EXAMPLES.get(f"{method} {endpoint.path}", EXAMPLES.get(f"{endpoint.method} {endpoint.path}"))
    if example is not None:
        content["example"] = with_prefix(example, "svc_", inputs.prefix)
    return {"required": bool(root or endpoint.many or required), "content": {"application/json": content}}


def operation_name(endpoint: Endpoint) -> str:
    """The library's name of an endpoint's operation, `plans.create`; else its resource and its function."""
    known = _names().get(endpoint.call)
    resource = endpoint.path.split("/")[1]
    return known or f"{resource}.{getattr(endpoint.call, '__name__', '')}"


@cache
def _names() -> Mapping[Callable[..., Any], str]:
    """Function -> its name in the library."""
    return {
        value.function: value.name
        for kind in RESOURCES.values()
        for value in vars(kind).values()
        if isinstance(value, Operation)
    }


def _success(endpoint: Endpoint, views: Views) -> JsonObject:
    if endpoint.view is None:
        return {"description": "Done; the body is empty."}
    kind = endpoint.content_type.split(";")[0]
    if kind != "application/json":
        is_text = kind.startswith("text/")
        content: JsonObject = {"type": "string"} if is_text else {"type": "string", "format": "binary"}
        return {"description": "As text." if is_text else "A file.", "content": {kind: {"schema": content}}}
    schema = views.answered(endpoint.view)
    if endpoint.returns is not None:
        words = endpoint.returns.replace("_", " ")
        properties: JsonObject = {endpoint.returns: {"description": f"The {words}.", **schema}}
        if endpoint.paged:
            properties = {
                endpoint.returns: {"type": "array", "description": f"The {words} of this page.", "items": schema},
                "meta": {"description": "Which page this is, and of how many.", **_PAGE},
            }
        schema = {"type": "object", "required": list(properties), "properties": properties}
    text = "Done; the body is empty until there is something to show." if _may_be_empty(endpoint.view) else "Done."
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _may_be_empty(view: Callable[..., object]) -> bool:
    return bytes in get_args(get_type_hints(view)["return"])


def _bounds(limit: Range) -> JsonObject:
    bounds = {"minimum": limit.least, "maximum": limit.most}
    return {name: int(bound) if bound == int(bound) else bound for name, bound in bounds.items()}


class _Inputs:
    """The schemas of input classes, from the reference: one for each set of required fields."""

    _SCALARS: Mapping[Any, JsonObject] = {
        str: {"type": ["string", "null"]},
        int: {"type": ["integer", "null"]},
        bool: {"type": ["boolean", "null"]},
        Decimal: {"type": ["string", "number", "null"]},
        datetime: {"type": ["string", "null"], "format": "date-time"},
        date: {"type": ["string", "null"], "format": "date"},
    }
    # Amounts of charges are strings and their integers are numbers; neither is converted to the other.
    _OF_PRICES: Mapping[Any, JsonObject] = {
        Decimal: {"type": "string", "pattern": _AMOUNT_TEXT},
        int: {"type": ["integer", "null"]},
    }

    def __init__(self, prefix: str) -> None:
        self.schemas: dict[str, JsonObject] = {}
        self._names: dict[tuple[type, tuple[str, ...], bool], str] = {}
        self.prefix = prefix

    def fields(self, kind: type) -> list[tuple[str, JsonObject]]:
        """The fields of an input class, with their schemas."""
        return [(prefixed(name, self.prefix), self.field(kind, name)) for name in hints_of(kind)]

    def parts(self, kind: type) -> Iterator[tuple[str, JsonObject]]:
        """The nested fields of an input class, with their schemas."""
        for name, hint in hints_of(kind).items():
            if any(True for _ in _classes(hint)):
                yield prefixed(name, self.prefix), self.field(kind, name)

    def reference(self, kind: type, required: tuple[str, ...] = (), *, new: bool = False) -> JsonObject:
        """A reference to the schema of `kind` with these `required` fields.

        `new`: in a request that creates a record, so that its parts cannot name existing ones by `id`.
        """
        new = new and _has_new_parts(kind)
        required = required or required_inside(kind, new=new)
        name = self._names.get((kind, required, new))
        if name is None:
            name = self._unused(kind, required, new=new)
            self._names[kind, required, new] = name
            self.schemas[name] = {}
            about = inspect.getdoc(kind) or ""
            self.schemas[name] = {
                "type": "object",
                **({"description": about} if about and not about.startswith("Method generated") else {}),
                **({"required": [prefixed(field, self.prefix) for field in required]} if required else {}),
                "properties": {
                    prefixed(field, self.prefix): _needed(
                        self.field(kind, field, new=new), field in required and not field_of(kind, field).nullable
                    )
                    for field in hints_of(kind)
                },
                **self._by_charge_model(kind),
            }
        return {"$ref": f"#/components/schemas/{name}"}

    def _unused(self, kind: type, required: tuple[str, ...], *, new: bool) -> str:
        plain = required == required_inside(kind) and not new
        names = [kind.__name__ if plain else f"New{kind.__name__}"]
        names += [kind.__module__.rsplit(".", 1)[-1].title().replace("_", "") + names[0]]
        names += [f"{names[0]}With{''.join(part.title() for field in required for part in field.split('_'))}"]
        return next(name for name in names if name not in self.schemas)

    def field(self, kind: type, name: str, *, new: bool = False) -> JsonObject:
        """The schema of a field, with its description in the reference."""
        described, hint = field_of(kind, name), hints_of(kind)[name]
        schema = self._priced(hint) if kind in _PRICES else self.schema(hint, new=new)
        about = [described.about]
        if described.unit:
            about.append(f"In {described.unit}.")
        if hint is Decimal or (range_of(hint) is not None and get_args(hint)[0] is Decimal):
            about.append(_DECIMAL)
        values = [str(value) for value in described.values]
        if described.default in ("true", "false") and "boolean" in schema.get("type", ()):
            schema["default"] = described.default == "true"
        elif described.default in values and "array" not in schema.get("type", ()):
            schema["default"] = described.default
        elif described.default is not None:
            about.append(f"Default: {described.default}.")
        if values:
            if "array" in schema.get("type", ()):
                schema["items"] = {**schema["items"], "enum": [*values, None]}
            elif "anyOf" not in schema:
                schema["enum"] = [*values, None] if "boolean" not in schema["type"] else [True, False, *values, None]
        if described.example is not None:
            schema["examples"] = [described.example]
        return {"description": " ".join(about), **schema}

    def _by_charge_model(self, kind: type) -> JsonObject:
        """Ties the properties of a charge to its model, if one is sent."""
        if "charge_model" not in hints_of(kind) or "properties" not in hints_of(kind):
            return {}
        prices = get_args(hints_of(kind)["properties"])
        return {
            "allOf": [
                {
                    "if": {"required": ["charge_model"], "properties": {"charge_model": {"const": model}}},
                    "then": {"properties": {"properties": {"anyOf": [self.reference(shape), *_NO_PRICES]}}},
                }
                for model, shape in MODEL_PROPERTIES.items()
                if shape in prices
            ]
        }

    def _priced(self, hint: Any) -> JsonObject:
        if hint in self._OF_PRICES:
            return dict(self._OF_PRICES[hint])
        return self.schema(hint)

    def schema(self, hint: Any, *, new: bool = False) -> JsonObject:
        """The schema of a type."""
        options = [part for part in get_args(hint) if part is not type(None)]
        if is_price(hint):
            return {"anyOf": [*(self.reference(option) for option in options), *_NO_PRICES]}
        if set(options) == {datetime, Decimal}:
            # The instant of an event: only the library reads a `datetime`.
            return dict(self._SCALARS[Decimal])
        if get_origin(hint) in (Union, UnionType):
            shown = [self.schema(option, new=new) for option in options]
            return shown[0] if len(shown) == 1 else {"anyOf": shown}
        limit = range_of(hint)
        if limit is not None:
            return {**self.schema(options[0]), **_bounds(limit)}
        if hint in self._SCALARS:
            return dict(self._SCALARS[hint])
        if get_origin(hint) in (list, tuple):
            return {"type": ["array", "null"], "items": self.schema(get_args(hint)[0], new=new)}
        if get_origin(hint) is Mapping:
            return {"type": ["object", "null"]}
        if isinstance(hint, type) and attrs.has(hint):
            return self.reference(hint, new=new)
        return {}


def _needed(schema: JsonObject, needed: bool) -> JsonObject:
    """The schema of a field, without null if a value is needed."""
    if not needed or not isinstance(schema.get("type"), list):
        return schema
    kinds = [kind for kind in schema["type"] if kind != "null"]
    strict = {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}
    return {**strict, "enum": [value for value in schema["enum"] if value is not None]} if "enum" in schema else strict


def _has_new_parts(kind: type, above: tuple[type, ...] = ()) -> bool:
    """Whether a class, or a part of it, has more required fields in a request that creates it."""
    if kind.__name__ in BY_ID:
        return False
    if required_inside(kind, new=True) != required_inside(kind):
        return True
    parts = {part for hint in hints_of(kind).values() for part in _classes(hint)}
    return any(part not in above and _has_new_parts(part, (*above, kind)) for part in parts)


def _has_parts(kind: type) -> bool:
    return any(True for hint in hints_of(kind).values() for _ in _classes(hint))


def _classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and attrs.has(hint):
        yield hint
    for part in get_args(hint):
        yield from _classes(part)
