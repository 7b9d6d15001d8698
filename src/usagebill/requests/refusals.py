"""Refusals in words: what is missing or wrong in a request, where, with which value, and how to fix it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any, get_args, get_origin

import attrs

from usagebill.core.api_logs import SECRETS
from usagebill.core.currencies import CURRENCIES
from usagebill.core.error_codes import BEYOND, BY_STATE, NOT_PERMITTED, OF_FIELDS, RESOURCES, refusal_of
from usagebill.core.errors import (
    BadRequest,
    BillingError,
    ClockRefused,
    DatabaseFailed,
    DeadlinePassed,
    Forbidden,
    Invalid,
    NotAllowed,
    NotFound,
    PaymentRequired,
    ThirdPartyError,
    TooManyProviderRequests,
    TooManyRequests,
    Unauthorized,
    joined_place,
)
from usagebill.core.near_names import near_name
from usagebill.core.pricing import MODELS
from usagebill.core.pricing.complaints import complaints
from usagebill.process.json_text import parse_json
from usagebill.requests.inputs import range_of
from usagebill.requests.reference import Field, field_of, hints_of

_LONGEST = 80
_MOST_VALUES = 12
# The number of parts of a batch named in one message; `messages` has all.
_MOST_TEXTS = 10
# Errors that are put in words; of more, `details` has the codes, and `message` says how many there are.
_MOST_WORDED = 1000
_HIDDEN = "(not shown)"
_CURRENCY_FIELDS = frozenset({"currency", "amount_currency", "default_currency"})
# Codes whose text includes the field's description.
_EXPLAINED = frozenset({"value_is_mandatory", "value_is_invalid", "invalid_format", "invalid_value", "invalid_type"})
# A record's name in refusals -> the field that identifies it.
_NAMED_BY = {
    "billable_metric": "billable_metric_code",
    "coupon": "coupon_code",
    "customer": "external_customer_id",
    "plan": "plan_code",
}
# A list item refused by itself: the item, and its errors as text.
_ECHOED = frozenset({"params", "errors"})
_PLACE = re.compile(r"[^.\[\]]+|\[\d+\]")
_ABSENT = object()


def word(
    problem: BillingError,
    sent: Mapping[str, object] | None = None,
    kind: type | None = None,
    *,
    path: Mapping[str, object] | None = None,
    secrets: frozenset[str] = frozenset(),
    near: str | None = None,
    prefix: str = "svc_",
) -> None:
    """Write the messages of a refusal, unless it has some.

    `sent` is the body, `kind` the input class that it was read into, and `path` the parameters of the path. Values of
    fields named in `secrets` or `SECRETS` are not shown. `near` suggests a known name for an unknown one, and `prefix`
    begins the names of the service's own ids in the request.
    """
    if problem.message:
        return
    fields = hints_of(kind) if kind is not None else {}
    owner = {name: value for name, value in (path or {}).items() if name not in fields}
    request = _Request({**owner, **(sent or {})}, kind, SECRETS | secrets, prefix)
    if isinstance(problem, Invalid):
        problem.messages, unworded = request.messages(problem)
        texts = [text for texts in problem.messages.values() for text in texts]
        more = len(texts) + unworded - _MOST_TEXTS
        problem.message = "; ".join(texts[:_MOST_TEXTS]) + (f"; and {more} more" if more > 0 else "")
    else:
        problem.message = _message(problem, request, near)


def _message(problem: BillingError, request: _Request, near: str | None) -> str:
    match problem:
        case NotFound():
            return _not_found(problem, request, near)
        case NotAllowed():
            meaning, remedy = BY_STATE.get(problem.code, ("its state does not allow that", "see its status"))
            state = f" (it is {problem.state})" if problem.state else ""
            return f"{meaning}{state}; {remedy}"
        case PaymentRequired():
            return _beyond(problem)
        case Forbidden():
            return _forbidden(problem.code)
        case Unauthorized():
            return "no API key, or one that is not valid; send `Authorization: Bearer <API key>`"
        case BadRequest():
            return problem.reason or _unreadable(problem.code)
        case TooManyRequests():
            period = {"key": "minute", "organization": "second"}[problem.caller]
            made = f"the {problem.caller} has made as many requests as it may in a {period}"
            return f"{made}; wait as long as `Retry-After` says"
        case TooManyProviderRequests():
            return f"{problem.provider} takes no more requests at the moment; wait as long as `Retry-After` says"
        case ThirdPartyError():
            details = problem.details if isinstance(problem.details, Mapping) else {}
            return f"{details.get('third_party')} refused it: {shown(details.get('thirdparty_error'))}"
        case ClockRefused():
            return problem.text
        case DeadlinePassed() | DatabaseFailed():
            meaning, remedy = BY_STATE[problem.code]
            return f"{meaning}; {remedy}"
        case _:
            return str(problem)


def _not_found(problem: NotFound, request: _Request, near: str | None) -> str:
    name, where = RESOURCES.get(problem.resource, (problem.resource.replace("_", " "), ""))
    if problem.sought is None:
        return f"there is no such {name}" + (f"; see {where}" if where else "")
    place = request.place_of(problem.sought)
    start = f"{place}: " if place else ""
    text = f"{start}there is no {name} {shown(problem.sought)}"
    return text + (f"; did you mean {near}?" if near else f"; see {where}" if where else "")


def _beyond(problem: PaymentRequired) -> str:
    meaning, remedy = BEYOND[problem.code]
    limit = problem.details.get("limit")
    if not isinstance(limit, Mapping):
        return f"{meaning}; {remedy}"
    unit, until = limit["measured_in"], limit["resets_at"]
    left = f"{limit['remaining']} of {limit['limit']} {unit} are left (used {limit['used']}, held {limit['held']})"
    again = f" until {until}" if until else ""
    return f"{meaning}: of {shown(limit['code'])} {left}{again}, and this adds {limit['adds']}; {remedy}"


def _forbidden(code: str) -> str:
    lacking = re.fullmatch(r"(read|write)_action_not_allowed_for_(\w+)", code)
    if lacking is not None:
        permission = f"{lacking[2]}:{lacking[1]}"
        return f"the key lacks the permission {permission}; use a key that has it (`usagebill keys create`)"
    meaning, remedy = NOT_PERMITTED.get(code, ("that is not permitted", "see the operation's description"))
    return f"{meaning}; {remedy}"


def _unreadable(code: str) -> str:
    root = code.rpartition(": ")[2] if code.startswith("BadRequest: param is missing") else None
    if root is not None:
        return f"the body has nothing under {root!r}; send an object there: {{{root!r}: {{...}}}}".replace("'", '"')
    known = {
        "coupons_must_be_an_array": "coupons: is not a list; send a list, `[...]`",
        "subscriptions_must_be_an_object": "subscriptions: is not an object; send one, `{...}`",
    }
    return known.get(code, "the request cannot be read; send JSON in UTF-8")


def shown(value: object) -> str:
    """A value as JSON, in at most 80 characters."""
    if isinstance(value, str):
        text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, Mapping):
        text = "{...}" if value else "{}"
    elif isinstance(value, (list, tuple)):
        text = "[...]" if value else "[]"
    else:
        text = str(value)
    # A value of a megabyte is not read to its end: only its beginning is shown.
    text = text[: _LONGEST + 1]
    text = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


class _Request:
    """The body of a request, searched for the fields that a refusal names."""

    def __init__(self, sent: Mapping[str, object], kind: type | None, secrets: frozenset[str], prefix: str) -> None:
        self._sent = sent
        self._kind = kind
        self._secrets = secrets
        self._prefix = prefix
        self._reasons: Mapping[str, str] = {}
        self._unworded = 0
        self._left = _MOST_WORDED

    def messages(self, problem: Invalid) -> tuple[Mapping[str, Sequence[str]], int]:
        """The texts of each field of the refusal's details, in their order, and how many errors are left out."""
        if isinstance(problem.answered, str):
            code, _, reason = problem.answered.partition(": ")
            meaning, remedy = refusal_of(code)
            return {"base": [f"{meaning}: {reason}; {remedy}" if reason else meaning]}, 0
        self._reasons = problem.reasons
        texts = self._texts(problem.details, problem.place)
        worded = {field: [self._prefixed(text) for text in inner] for field, inner in texts}
        return worded, self._unworded

    def _prefixed(self, text: str) -> str:
        """The text with the prefix of ids that the sender used."""
        place, colon, message = text.partition(":")
        return place.replace("svc_", self._prefix) + colon + message

    def _texts(self, details: Mapping[str, object], place: str) -> Iterator[tuple[str, Sequence[str]]]:
        for field, codes in details.items():
            if not self._left:
                self._unworded += _errors(codes)
            elif isinstance(codes, Mapping):
                inner = joined_place(place, self._item(field))
                if codes.keys() == _ECHOED:
                    codes = _errors_in(str(codes["errors"]))
                texts = [text for _, inside in self._texts(codes, inner) for text in inside]
                yield field, texts
            elif isinstance(codes, str):
                self._left -= 1
                yield field, [codes]
            elif isinstance(codes, Sequence):
                worded = [str(code) for code in codes[: self._left]]
                self._left -= len(worded)
                self._unworded += len(codes) - len(worded)
                yield field, self._of_field(field, worded, place)

    def _item(self, field: str) -> str:
        """The place of an item that is named by its position in the list."""
        if not field.isdigit():
            return field
        return f"{self._only_list}[{field}]"

    @cached_property
    def _only_list(self) -> str:
        """The name of the only list that was sent; empty if there are several."""
        lists = [name for name, value in self._sent.items() if isinstance(value, (list, tuple))]
        return lists[0] if len(lists) == 1 else ""

    def _of_field(self, field: str, codes: Sequence[str], place: str) -> list[str]:
        field = field.replace("thresholds:value", "thresholds")
        if field == "base":
            return [f"{place}: {_sentence(code)}" if place else _sentence(code) for code in codes]
        sent_place, value = self._find(joined_place(place, field))
        if field in self._reasons:
            return [f"{sent_place}: {self._reasons[field]}"]
        prices = list(self._prices(sent_place, value))
        texts = []
        for code in codes:
            complaint = next((item for item in prices if item.code == code), None)
            if complaint is None:
                texts.append(self._text(sent_place, value, code))
            else:
                prices.remove(complaint)
                texts.append(f"{joined_place(sent_place, complaint.place)}: {complaint.text}")
        return texts

    def _text(self, place: str, value: object, code: str) -> str:
        name = place.rpartition(".")[2].rpartition("[")[0] or place.rpartition(".")[2]
        meaning, remedy = OF_FIELDS.get((name, code)) or refusal_of(code)
        if code == "value_is_invalid" and isinstance(value, Mapping):
            for inside, number in _leaves(value):
                if isinstance(number, (float, Decimal)) and not isfinite(number):
                    return f"{place}.{inside}: {number} is not a finite number; send one, or leave it out"
        described, hint = self._described(place)
        if value is _ABSENT or (value in (None, "") and code == "value_is_mandatory"):
            subject = ""
            # An absent field is missing, whatever its code is called: clients know the reference's codes.
            if code == "value_is_invalid" and described is not None and self._sent:
                meaning = "is missing"
        else:
            subject = f"{_HIDDEN if self._is_secret(place) else shown(value)} "
        if name in _CURRENCY_FIELDS and code in ("value_is_invalid", "value_is_mandatory"):
            meaning = "is not an ISO 4217 code" if subject else "is missing"
            remedy = _currency_meant(value) or 'send one, for instance "EUR"'
            return f"{place}: {subject}{meaning}; {remedy}"
        if described is not None and described.values and code in ("value_is_invalid", "value_is_mandatory"):
            values = [str(known) for known in described.values]
            listed = ", ".join(values[:_MOST_VALUES]) + (", ..." if len(values) > _MOST_VALUES else "")
            meaning = meaning if subject else "is missing"
            return f"{place}: {subject}{meaning}; send one of {listed}{_meant(value, values)}"
        limit = range_of(hint) if hint is not None else None
        if code == "value_is_out_of_range" and limit is not None:
            remedy = f"send a number from {limit.least:,} to {limit.most:,}" if limit.least is not None else remedy
        elif code in _EXPLAINED and described is not None:
            about = described.about.split(". ")[0].rstrip(".")
            example = "" if described.example is None else f", for instance {shown(described.example)}"
            remedy = f"{remedy} ({about[:1].lower()}{about[1:]}){example}" if about else remedy
        return f"{place}: {subject}{_with_remedy(meaning, remedy)}"

    def _is_secret(self, place: str) -> bool:
        return any(part.lower() in self._secrets for part in _PLACE.findall(place))

    def _prices(self, place: str, value: object) -> Iterator[Any]:
        """Errors in the prices at this place, if there are any; the charge that holds them names the model."""
        if place.rpartition(".")[2] != "properties" or not isinstance(value, Mapping):
            return
        parts = _PLACE.findall(place)[:-1]
        while True:
            owner = _value_at(self._sent, parts)
            name = owner.get("charge_model") if isinstance(owner, Mapping) else None
            model = MODELS.get(name) if isinstance(name, str) else None
            if model is not None:
                yield from complaints(model, value)
                return
            if not parts:
                return
            parts = parts[:-1]

    def _find(self, place: str) -> tuple[str, object]:
        """A field's place and value: at `place`, or anywhere if there is only one of its name."""
        value = _value_at(self._sent, _PLACE.findall(place))
        if value is not _ABSENT:
            return place, value
        if place in _NAMED_BY and _NAMED_BY[place] in self._sent:
            return _NAMED_BY[place], self._sent[_NAMED_BY[place]]
        if "[" in place:
            return place, _ABSENT
        elsewhere = self._leaves_by_name.get(place.rpartition(".")[2], ())
        return elsewhere[0] if len(elsewhere) == 1 else (place, _ABSENT)

    @cached_property
    def _leaves_by_name(self) -> Mapping[str, Sequence[tuple[str, object]]]:
        """What was sent by the name of its field, with places: one refusal may ask for thousands."""
        named: dict[str, list[tuple[str, object]]] = {}
        for path, inner in _leaves(self._sent):
            named.setdefault(path.rpartition(".")[2], []).append((path, inner))
        return named

    def place_of(self, value: str) -> str:
        """The place of a value that occurs exactly once; otherwise empty."""
        places = [path for path, inner in _leaves(self._sent) if inner == value]
        return places[0] if len(places) == 1 else ""

    def _described(self, place: str) -> tuple[Field | None, Any]:
        """The reference's description of the field at this place, and its type."""
        kind: Any = self._kind
        described, hint = None, None
        for part in _PLACE.findall(place):
            if part.startswith("["):
                continue
            if not (isinstance(kind, type) and attrs.has(kind)) or part not in hints_of(kind):
                return None, None
            hint = hints_of(kind)[part]
            try:
                described = field_of(kind, part)
            except LookupError:
                described = None
            kind = get_args(hint)[0] if get_origin(hint) in (list, tuple) else hint
        return described, hint


def _errors(codes: object) -> int:
    """The number of errors in details, at any depth."""
    if isinstance(codes, Mapping) and codes.keys() != _ECHOED:
        return sum(_errors(inner) for inner in codes.values())
    return len(codes) if isinstance(codes, (list, tuple)) else 1


def _errors_in(text: str) -> Mapping[str, object]:
    """The codes by field that a text holds, `Validation errors: {...}`; of another text, that as it is."""
    _, brace, body = text.partition("{")
    return parse_json((brace + body).encode()) if brace else {"base": text}


def _sentence(code: str) -> str:
    return _with_remedy(*refusal_of(code))


def _with_remedy(meaning: str, remedy: str) -> str:
    """A sentence that names the remedy itself has none beside it."""
    return f"{meaning}; {remedy}" if remedy else meaning


def _currency_meant(value: object) -> str:
    start = value.strip().upper()[:3] if isinstance(value, str) else ""
    near = next((code for code in sorted(CURRENCIES) if code.startswith(start)), None) if len(start) > 1 else None
    return f"did you mean {shown(near)}?" if near else ""


def _meant(value: object, known: Sequence[str]) -> str:
    if not isinstance(value, str):
        return ""
    near = next((name for name in known if name == value.strip().upper() or name == value.strip().lower()), None)
    near = near or near_name(value, known)
    return f"; did you mean {shown(near)}?" if near else ""


def _value_at(sent: object, parts: Sequence[str]) -> object:
    for part in parts:
        if part.startswith("["):
            position = int(part[1:-1])
            if not isinstance(sent, (list, tuple)) or position >= len(sent):
                return _ABSENT
            sent = sent[position]
        elif isinstance(sent, Mapping) and part in sent:
            sent = sent[part]
        else:
            return _ABSENT
    return sent


_MOST_LEAVES = 2000


def _leaves(sent: object) -> Iterator[tuple[str, object]]:
    """All that was sent, each with its place; of huge requests the beginning."""
    pending: list[tuple[str, object]] = [("", sent)]
    visited = 0
    while pending and visited < _MOST_LEAVES:
        place, value = pending.pop()
        visited += 1
        if place:
            yield place, value
        if isinstance(value, Mapping):
            pending.extend((joined_place(place, str(name)), item) for name, item in value.items())
        elif isinstance(value, (list, tuple)):
            pending.extend((f"{place}[{position}]", item) for position, item in enumerate(value))
