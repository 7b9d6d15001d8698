"""Checks HTTP responses and webhook messages against the reference's description of their shapes.

`ShapeChecker` reads the OpenAPI document beside the checkout and reports, for the response of an operation, missing
required fields and values of a wrong type, format or enum. How it reads the document:

- Unknown fields are allowed; unknown operations and webhooks are not checked.
- Aliases have the same shape: PATCH and PUT, `/download_pdf` and `/download`, ...
- A refusal has the shape of its status, whether or not the operation lists that status.
- "An absent value is null": null is allowed for every field that is not required, whatever its type.
- `oneOf` means any of: no field distinguishes the branches, so several may match.
- Decimal strings may be negative: usage can be.
- A type that includes null accepts null, even if its list of values leaves it out.

`jsonschema` locates errors. Nearly every body is valid, and `jsonschema_rs` confirms that in a fiftieth of the time,
with the same schema and these rules written into it (`_spelled_out`); so it runs first.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators

from usagebill.core.alerts import SUBSCRIPTION_TYPES, AlertType
from usagebill.core.payment_providers import KINDS
from usagebill.http.app import endpoints
from usagebill.http.openapi import document

SHAPES = Path(__file__).parents[1].parent / "shared" / "reference" / "api-shapes.yaml"

_PREFIX = "/api/v1"
_SCHEMAS_OF_DOCUMENT = "#/components/schemas/"
_MOST_PROBLEMS = 20
_DECIMAL_STRING = "^[0-9]+.?[0-9]*$"  # the document's own pattern, which has no sign
_SIGNED_DECIMAL_STRING = r"^-?[0-9]+(\.[0-9]+)?$"


def _wrapped(name: str, schema: str) -> Mapping[str, object]:
    """The shape of an object with a `schema` of the document under `name`, and no other required field."""
    return {"type": "object", "required": [name], "properties": {name: {"$ref": f"#/components/schemas/{schema}"}}}


def _answer(method: str, template: str) -> tuple[str, ...]:
    """The place of an operation's answer in the document."""
    return ("paths", template, method, "responses", "200", "content", "application/json", "schema")


def _property(schema: str, name: str) -> tuple[str, ...]:
    """The place of a schema's property in the document."""
    return ("components", "schemas", schema, "properties", name)


_ENTITLEMENTS = {"$ref": "#/components/schemas/SubscriptionEntitlements"}
_FEATURE = "/subscriptions/{external_id}/entitlements/{feature_code}"

# Shapes overridden by a source of higher precedence: path in the document -> replacement.
AMENDMENTS: Mapping[tuple[str | int, ...], object] = {
    # Requests and answers are JSON, which the document calls a text "of the format object".
    _property("ApiLogObject", "request_body"): {"type": "object"},
    _property("ApiLogObject", "request_response"): {"type": ["object", "null"]},
    # The client's own word for a request, in whatever form.
    _property("ApiLogObject", "request_id"): {"type": "string"},
    _property("ApiLogObject", "http_method"): {"enum": ["post", "put", "patch", "delete"]},
    # The interface: "A single-record response is an object with one key named after the resource."
    _answer("post", "/billing_entities"): _wrapped("billing_entity", "BillingEntityObject"),
    _answer("put", "/billing_entities/{code}"): _wrapped("billing_entity", "BillingEntityObjectExtended"),
    _answer("get", "/payment_requests/{svc_id}"): _wrapped("payment_request", "PaymentRequestObject"),
    _answer("get", "/wallet_transactions/{svc_id}"): _wrapped("wallet_transaction", "WalletTransactionObject"),
    # Sheet 80: "Null for other fee types" than usage.
    ("components", "schemas", "FeeObject", "properties", "total_aggregated_units"): {"type": ["string", "null"]},
    # Sheet 60: the answer has the remaining entitlements of the subscription, not the removed one.
    _answer("delete", _FEATURE): _ENTITLEMENTS,
    _answer("delete", _FEATURE + "/privileges/{privilege_code}"): _ENTITLEMENTS,
    # Sheet 80: "plus subscription values", which may be of privileges that the plan has no value of.
    ("components", "schemas", "SubscriptionEntitlementPrivilegeObject", "allOf", 1, "properties", "plan_value"): {
        "type": ["integer", "boolean", "string", "null"]
    },
    # Sheet 70: a month without recurring revenue is a "row with nulls".
    _property("MrrObject", "amount_cents"): {"type": ["integer", "null"]},
    _property("MrrObject", "currency"): {"type": ["string", "null"]},
    # Sheet 80: the subscription of an event is optional, its properties are as sent.
    _property("EventObject", "external_subscription_id"): {"type": ["string", "null"]},
    _property("EventObject", "properties"): {"type": "object"},
    # Sheet 80: "always null".
    _property("EventsErrorsObject", "missing_group_key"): {"type": "null"},
    # Sheet 10: the value of a group is null if events lack the property.
    **{
        ("components", "schemas", name, "items", "properties", "grouped_by", "additionalProperties"): {
            "type": ["string", "null"]
        }
        for name in ("CustomerChargeGroupedUsageObject", "CustomerProjectedChargeGroupedUsageObject")
    },
    (*_property("FeeObject", "item"), "properties", "grouped_by", "additionalProperties"): {"type": ["string", "null"]},
    # And so is that of a presentation key.
    (
        *("components", "schemas", "PresentationBreakdownsObject", "items"),
        *("properties", "presentation_by", "additionalProperties"),
    ): {"type": ["string", "null"]},
    # The interface has one more type of invoice, of fees that were paid before.
    (*_property("InvoiceBaseObject", "invoice_type"), "enum"): [
        "subscription",
        "add_on",
        "credit",
        "one_off",
        "advance_charges",
        "progressive_billing",
    ],
    # Sheet 70 has two kinds of tax provider, anrok and avalara.
    (*_property("IntegrationCustomer", "type"), "enum"): [
        "netsuite",
        "anrok",
        "avalara",
        "xero",
        "hubspot",
        "salesforce",
    ],
    (*_property("CustomerTaxProviderErrorObject", "tax_provider"), "enum"): ["anrok", "avalara"],
    # Sheet 80: the precise numbers of instant estimates are decimal texts.
    **{
        _property("FeeEstimateObject", name): {"type": "string", "pattern": _DECIMAL_STRING}
        for name in ("precise_amount", "precise_total_amount", "precise_unit_amount")
    },
    # The interface has more charge models than these two lists.
    **{
        ("components", "schemas", name, "properties", "charge", "properties", "charge_model"): {"type": "string"}
        for name in ("CustomerChargeUsageObject", "CustomerProjectedChargeUsageObject")
    },
    # `balance` is required there and described nowhere; the balances are credits_balance and balance_cents.
    ("components", "schemas", "WalletObject", "required"): [
        *("svc_id", "svc_customer_id", "external_customer_id", "status", "currency", "rate_amount", "credits_balance"),
        *("balance_cents", "consumed_credits", "created_at", "ongoing_balance_cents", "ongoing_usage_balance_cents"),
        *("credits_ongoing_balance", "credits_ongoing_usage_balance", "invoice_requires_successful_payment"),
    ],
    # `groups` is required there and described nowhere; groups are under grouped_usage.
    ("components", "schemas", "CustomerProjectedChargeUsageObject", "required"): ["units", "charge", "billable_metric"],
    # Sheet 20: charges that a plan does not bill on a monthly run have no window.
    **{
        _property("BillingPeriodObject", name): {"type": ["string", "null"], "format": "date-time"}
        for name in ("charges_from_datetime", "charges_to_datetime")
    },
    # Sheet 70: a payment recorded by hand has no provider, and one by a provider no reference.
    **{
        _property("PaymentObject", name): {"type": ["string", "null"]}
        for name in ("payment_provider_code", "payment_provider_type", "provider_customer_id", "reference")
    },
    # It has six kinds of provider, wherever one is named.
    **{
        (*_property(schema, "payment_provider"), "enum"): sorted(KINDS)
        for schema in (
            "CreditNotePaymentProviderRefundError",
            "CustomerBillingConfiguration",
            "CustomerPaymentProviderErrorObject",
            "PaymentRequestPaymentFailureObject",
            "WalletTransactionPaymentFailureObject",
        )
    },
    # A payment through a provider has no reference.
    _property("PaymentObject", "reference"): {"type": ["string", "null"]},
    # Its sections 14 and 23: without an address of the customer, the request has none, and no e-mail is sent.
    _property("PaymentRequestObject", "email"): {"type": ["string", "null"]},
    # Nor does a customer who must have a provider.
    _property("InvoicePaymentFailureObject", "payment_provider"): {"type": ["string", "null"]},
    # Sheet 50: an alert without metric has none; values are decimal texts, below zero too.
    _property("AlertObject", "billable_metric"): {
        "oneOf": [{"$ref": "#/components/schemas/BillableMetricObject"}, {"type": "null"}]
    },
    **{
        _property(schema, name): {"type": "string", "pattern": _DECIMAL_STRING}
        for schema, names in (
            ("AlertObject", ("previous_value",)),
            ("WalletAlertObject", ("previous_value",)),
            ("TriggeredAlertObject", ("previous_value", "current_value")),
        )
        for name in names
    },
    # And there are types for wallets, and one for the units of a life.
    **{
        (*_property(schema, "alert_type"), "enum"): [str(alert_type) for alert_type in types]
        for schema, types in (("AlertObject", sorted(SUBSCRIPTION_TYPES)), ("TriggeredAlertObject", AlertType))
    },
    # Subscription fields are null for wallet alerts.
    **{
        _property("TriggeredAlertObject", name): {"type": ["string", "null"]}
        for name in ("svc_subscription_id", "external_subscription_id")
    },
    # The interface: "GET /payments/{payment_id} ... Response: payment record."
    _answer("get", "/payments/{svc_id}"): {"$ref": "#/components/schemas/PaymentObject"},
    # The interface: "Fields named precise_* [...] are strings that hold decimal numbers."
    **{
        ("components", "schemas", "CreditNoteEstimated", "properties", "estimated_credit_note", "properties", name): {
            "type": "string"
        }
        for name in ("precise_taxes_amount_cents", "precise_coupons_adjustment_amount_cents")
    },
    # Sheet 60: the message of a lost dispute holds the invoice, and the provider's error where there is one.
    ("components", "schemas", "InvoicePaymentDisputeLostObject"): _wrapped("invoice", "InvoiceObject"),
    # Sheet 60: "Expression failure on single event ingestion: error_details is a plain string".
    _property("ApiErrorUnprocessableEntity", "error_details"): {"type": ["object", "string"]},
    # The interface: "usage_periods: [{customer_usage: usage object}]"; the document has the bare object.
    ("components", "schemas", "CustomerPastUsage", "properties", "usage_periods", "items"): {
        "allOf": [
            {"$ref": "#/components/schemas/CustomerUsageObject"},
            _wrapped("customer_usage", "CustomerUsageObject"),
        ]
    },
}

_OTHER_VERB = {"patch": "put", "put": "patch"}
_OTHER_PATHS = re.compile(r"(/download)_(?:pdf|xml)$")
_OTHER_MESSAGES = {
    # The interface names these, the document does not.
    **dict.fromkeys(("wallet.created", "wallet.updated", "wallet.terminated"), "wallet.depleted_ongoing_balance"),
    "invoice.ready_to_finalize": "invoice.drafted",
}
_REFUSALS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "NotAllowed",
    422: "UnprocessableEntity",
}

# Answers that are empty while the document is still being made.
_MAY_BE_EMPTY = "/download"


def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or ("T" in value and datetime.fromisoformat(value).tzinfo is not None)


def _is_date(value: object) -> bool:
    return not isinstance(value, str) or (len(value) == len("2024-01-31") and bool(date.fromisoformat(value)))


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or str(uuid.UUID(value)) == value


_CHECKS = {"date-time": _is_date_time, "date": _is_date, "uuid": _is_uuid}
_UNCHECKED = ("email", "uri")  # formats that only `jsonschema_rs` has rules for
_FORMATS = FormatChecker(formats=())
for _name, _check in _CHECKS.items():
    _FORMATS.checks(_name, raises=ValueError)(_check)


def _properties(
    validator: Draft202012Validator, properties: Mapping[str, Any], instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    required = schema.get("required", ())
    for name, shape in properties.items():
        if name in instance and (instance[name] is not None or name in required):
            yield from validator.descend(instance[name], shape, path=name, schema_path=name)


def _pattern(
    _: Draft202012Validator, pattern: str, instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if pattern == _DECIMAL_STRING:
        pattern = _SIGNED_DECIMAL_STRING
    if isinstance(instance, str) and not re.search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _enum(
    _: Draft202012Validator, values: Sequence[object], instance: object, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if instance not in values and not (instance is None and "null" in schema.get("type", ())):
        yield ValidationError(f"{instance!r} is not one of {values!r}")


def _closed(value: Any) -> Any:
    """`value` with every object that names its properties refusing all others."""
    if isinstance(value, dict):
        closed = {key: _closed(item) for key, item in value.items()}
        is_shape = closed.get("type") == "object" and isinstance(closed.get("properties"), dict)
        return {**closed, "additionalProperties": False} if is_shape else closed
    return [_closed(item) for item in value] if isinstance(value, list) else value


_Shape: type[Draft202012Validator] = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {"properties": _properties, "pattern": _pattern, "enum": _enum, "oneOf": Draft202012Validator.VALIDATORS["anyOf"]},
)


# Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE_SCHEMA = frozenset({"items", "additionalProperties", "not", "if", "then", "else"})
_SCHEMAS = frozenset({"allOf", "anyOf"})


def _spelled_out(schema: Any) -> Any:
    """A schema of the reference for a strict validator: it accepts whatever `_Shape` accepts."""
    if not isinstance(schema, dict):
        return schema
    required = schema.get("required", ())
    spelled: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            shapes = {name: _spelled_out(shape) for name, shape in value.items()}
            spelled[key] = {
                name: shape if name in required else {"anyOf": [{"type": "null"}, shape]}
                for name, shape in shapes.items()
            }
        elif key in _ONE_SCHEMA:
            spelled[key] = _spelled_out(value)
        elif key in _SCHEMAS:
            spelled[key] = [_spelled_out(item) for item in value]
        elif key == "pattern" and value == _DECIMAL_STRING:
            spelled[key] = _SIGNED_DECIMAL_STRING
        elif key == "enum" and "null" in schema.get("type", ()):
            spelled[key] = [*value, None]
        elif key != "oneOf":
            spelled[key] = value
    if "oneOf" in schema:
        any_of = {"anyOf": [_spelled_out(item) for item in schema["oneOf"]]}
        spelled["allOf"] = [*spelled.get("allOf", ()), any_of]
    return spelled


def _as_it_is(schema: Any) -> Any:
    return schema


def _raises_nothing(check: Callable[[object], bool], value: str) -> bool:
    try:
        return check(value)
    except ValueError:
        return False


class ShapeChecker:
    """The shapes of one OpenAPI document; the module describes how it is read."""

    def __init__(self, document: Mapping[str, Any], reading: Callable[..., Draft202012Validator] | None = None) -> None:
        self._document = document
        self._reading = reading or _Shape
        self._webhooks: dict[str, Mapping[str, Any]] = {}
        for hook in document.get("webhooks", {}).values():
            schema = hook["post"]["requestBody"]["content"]["application/json"]["schema"]
            for name in schema["properties"]["webhook_type"]["enum"]:
                self._webhooks[name] = schema
        # The templates of a verb by their number of parts, in order of precedence; None for a part in braces.
        self._templates: dict[tuple[str, int], list[tuple[str, list[str | None]]]] = {}
        for template, operations in document["paths"].items():
            parts = [None if part.startswith("{") else part for part in template.strip("/").split("/")]
            for verb in operations:
                self._templates.setdefault((verb, len(parts)), []).append((template, parts))
        for templates in self._templates.values():
            templates.sort(key=lambda row: (row[1].count(None), row[0]))
        self._validators: dict[int, Draft202012Validator] = {}
        self._quick: dict[int, jsonschema_rs.Draft202012Validator] = {}
        self._spelled_out = _spelled_out if reading is None else _as_it_is

    @classmethod
    @cache
    def of_reference(cls) -> ShapeChecker:
        """The checker of the document beside the checkout. Raises FileNotFoundError if there is none."""
        described = yaml.load(SHAPES.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for path, instead in AMENDMENTS.items():
            place: Any = described
            for key in path[:-1]:
                place = place[key]
            if path[-1] not in place:
                raise KeyError(path)
            place[path[-1]] = instead
        return cls(described)

    @classmethod
    @cache
    def of_description(cls) -> ShapeChecker:
        """The checker of our own description, which holds to the letter: no other fields are answered."""
        return cls.of_description_now()

    @classmethod
    def of_description_now(cls) -> ShapeChecker:
        """The same, made from the current descriptions of fields, which a test may have extended."""
        described = _closed(document(endpoints()))
        paths = {path.removeprefix(_PREFIX): operations for path, operations in described["paths"].items()}
        return cls({**described, "paths": paths}, Draft202012Validator)

    def operation(self, method: str, path: str) -> str | None:
        """The template of the operation at `method` and `path` (query ignored), None if there is none."""
        return self._found(method.lower(), path)[1]

    def _found(self, verb: str, path: str) -> tuple[str, str | None]:
        """The verb and template under which the document describes the operation."""
        called_path = _OTHER_PATHS.sub(r"\1", path.partition("?")[0].removeprefix(_PREFIX).rstrip("/"))
        for known in (verb, _OTHER_VERB.get(verb)):
            if known is not None and (template := self._template(known, called_path)) is not None:
                return known, template
        return verb, None

    def _template(self, verb: str, path: str) -> str | None:
        segments = path.strip("/").split("/")
        for template, parts in self._templates.get((verb, len(segments)), ()):
            if all(part is None or part == segment for part, segment in zip(parts, segments, strict=True)):
                return template
        return None

    def check(self, method: str, path: str, status: int, body: Any) -> list[str]:
        """The errors in `body`, the parsed JSON answer with `status` to `method` at `path`."""
        verb, template = self._found(method.lower(), path)
        schema = self._schema(verb, template, status, body)
        problems = [] if schema is None else self._problems(schema, body)
        return [f"{method.upper()} {template} {status}: {problem}" for problem in problems]

    def accepts(self, method: str, path: str, status: int, body: Any) -> bool:
        """Whether `body` is valid: quicker than `check` if it is not."""
        schema = self._schema(*self._found(method.lower(), path), status, body)
        return schema is None or self.is_right(schema, body)

    def _schema(self, verb: str, template: str | None, status: int, body: Any) -> Mapping[str, Any] | None:
        """The schema of a body; None if the document has none."""
        if template is None:
            return None
        response = self._document["paths"][template][verb]["responses"].get(str(status))
        if response is None and status in _REFUSALS:
            response = self._document["components"].get("responses", {}).get(_REFUSALS[status])
        if response is None:
            return None
        if "$ref" in response:
            response = self._document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        content = response.get("content", {}).get("application/json")
        if content is None or (body is None and template.endswith(_MAY_BE_EMPTY)):
            return None
        schema: Mapping[str, Any] = content["schema"]
        return schema

    def check_webhook(self, message: Mapping[str, Any]) -> list[str]:
        """The errors in the body of a webhook message."""
        webhook_type = str(message.get("webhook_type"))
        schema = self._webhooks.get(_OTHER_MESSAGES.get(webhook_type, webhook_type))
        if schema is None:
            return []
        if webhook_type in _OTHER_MESSAGES:
            message = {**message, "webhook_type": _OTHER_MESSAGES[webhook_type]}
        return [f"webhook {webhook_type}: {problem}" for problem in self._problems(schema, message)]

    def is_right(self, schema: Mapping[str, Any], instance: Any) -> bool:
        """Whether an instance is certainly valid; False for values that are not JSON."""
        quick = self._quick.get(id(schema))
        if quick is None:
            quick = self._quick[id(schema)] = jsonschema_rs.Draft202012Validator(
                {**self._spelled_out(schema), "components": {"schemas": self._reachable(schema)}},
                formats={
                    **dict.fromkeys(_UNCHECKED, lambda text: True),
                    **{name: partial(_raises_nothing, check) for name, check in _CHECKS.items()},
                },
                validate_formats=True,
            )
        try:
            return quick.is_valid(instance)
        except (TypeError, ValueError):
            return False

    def _reachable(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schemas of the document that a schema leads to."""
        reached: dict[str, Any] = {}
        todo: list[Any] = [schema]
        while todo:
            part = todo.pop()
            if isinstance(part, dict):
                todo.extend(part.values())
                if isinstance(reference := part.get("$ref"), str):
                    name = reference.removeprefix(_SCHEMAS_OF_DOCUMENT)
                    if name not in reached:
                        referred = self._document["components"]["schemas"][name]
                        reached[name] = self._spelled_out(referred)
                        todo.append(referred)
            elif isinstance(part, list):
                todo.extend(part)
        return reached

    def _problems(self, schema: Mapping[str, Any], instance: Any) -> list[str]:
        return [] if self.is_right(schema, instance) else self.problems(schema, instance)

    def problems(self, schema: Mapping[str, Any], instance: Any) -> list[str]:
        """The errors in an instance, each with its place."""
        validator = self._validators.get(id(schema))
        if validator is None:
            whole = {**schema, "components": self._document["components"]}
            validator = self._validators[id(schema)] = self._reading(whole, format_checker=_FORMATS)
        problems: list[str] = []
        for error in validator.iter_errors(instance):
            if len(problems) == _MOST_PROBLEMS:
                break
            inner = max(error.context, key=lambda context: len(context.absolute_path)) if error.context else error
            problems.append(f"{inner.json_path}: {inner.message[:300]}")
        return problems
