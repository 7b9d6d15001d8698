"""Valid and invalid requests of every operation, from the OpenAPI document alone, and what their answers break.

Schemathesis makes the requests and holds the answers against the document: statuses, content types, headers, schemas,
that what is valid is understood, and that what is not is refused. Half of the requests name records that exist, and
half of the bodies are ones that would be accepted, with some of their fields generated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode

from tests.asgi import send
from tests.sample_records import VERBS, in_order, invoiced, request_of, world
from tests.scenarios import Scenario
from usagebill.http.app import create_app
from usagebill.http.endpoints import Endpoint

# A valid request may still contradict what is stored: a code that is taken, a limit that is reached, a state.
_UNDERSTOOD = ["2xx", "402", "403", "404", "405", "409", "413", "422"]
_CONFIG = {
    "checks": {
        "positive_data_acceptance": {"expected-statuses": _UNDERSTOOD},
    },
    # No document can say that a text has no NUL character.
    "generation": {"allow-x00": False, "with-security-parameters": False},
}
# Each request has a valid key: what happens without one is tested for every operation by itself. Of what the document
# does not allow, the API takes some, as existing clients expect: unknown fields, odd pages, fields that are locked.
_WITHOUT = ["ignored_auth", "negative_data_rejection"]
# Valid by the document, and answered as if they were not read: bodies of which it cannot say that they are not empty.
_EMPTY_BODIES = re.compile(r"^POST \S+/alerts$|/invoices/preview")


class Target:
    """A sandbox with one record of most kinds, and its operations as Schemathesis sees them."""

    def __init__(self, box: Scenario) -> None:
        self.box = box
        known = world(box)
        invoiced(box, known)
        app = create_app(box.billing, console=False)
        document = _without_conditions(send(app, "GET", "/openapi.json").json())
        schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig.from_dict(_CONFIG))
        schema.app = app
        found: Any = schema.get_all_operations()
        by_label = {operation.label: operation for operation in (one.ok() for one in found)}
        self.operations = [by_label[f"{verb} /api/v1{endpoint.path}"] for verb, endpoint in sorted(VERBS, key=in_order)]
        self.known = {
            f"{verb} /api/v1{endpoint.path}": _known(endpoint, *request_of(verb, endpoint, known))
            for verb, endpoint in VERBS
        }
        self.statuses: Counter[int] = Counter()

    def attack(self, operation: Any, requests: int, first: int) -> Iterator[str]:
        """What the answers to that many requests break, in words; each fault once."""
        faults: dict[str, str] = {}
        named, body = self.known[operation.label]

        @seed(first)
        @settings(
            max_examples=requests,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def fire(data: st.DataObject) -> None:
            mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
            fixed = named if data.draw(st.booleans()) else None
            case = data.draw(operation.as_strategy(generation_mode=mode, path_parameters=fixed))
            if mode == GenerationMode.POSITIVE and isinstance(case.body, dict) and data.draw(st.booleans()):
                case.body = _mixed(body, case.body, data)
            answer = case.call(headers={"authorization": f"Bearer {self.box.api_key}"})
            self.statuses[answer.status_code] += 1
            if answer.status_code == 200 and not answer.content and _may_be_empty(operation):
                return
            try:
                case.validate_response(answer, excluded_checks=CHECKS.get_by_names(_WITHOUT))
            except FailureGroup as group:
                for failure in group.exceptions:
                    if not (type(failure).__name__ == "RejectedPositiveData" and _EMPTY_BODIES.search(operation.label)):
                        title = f"{operation.label}: {type(failure).__name__}"
                        faults.setdefault(title, f"{failure}\n{case.as_curl_command()}")

        fire()
        yield from (f"{title}\n{text}" for title, text in faults.items())


def _may_be_empty(operation: Any) -> bool:
    return "the body is empty until there is something to show" in str(operation.definition.raw["responses"]["200"])


def _without_conditions(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what depends on a charge model, for which Schemathesis cannot make requests."""
    for schema in document["components"]["schemas"].values():
        if any("if" in part for part in schema.get("allOf", ())):
            del schema["allOf"]
    return document


def _known(endpoint: Endpoint, path: str, body: Any) -> tuple[dict[str, str], Any]:
    """The parameters of a path that names records which exist, and a body that is accepted."""
    names = re.findall(r"{(\w+)}", endpoint.path)
    found = re.match("/api/v1" + re.sub(r"{\w+}", "([^/?]+)", endpoint.path), path)
    return dict(zip(names, found.groups() if found else (), strict=True)), body


def _mixed(accepted: Any, made: dict[str, Any], data: st.DataObject) -> Any:
    """The accepted body with some of the fields of the other."""
    mixed = {**accepted} if isinstance(accepted, dict) else {}
    for name, value in made.items():
        if isinstance(value, dict) and isinstance(mixed.get(name), dict):
            mixed[name] = _mixed(mixed[name], value, data)
        elif data.draw(st.booleans()):
            mixed[name] = value
    return mixed


def attack(operations: Iterable[Any], target: Target, requests: int, first: int) -> list[str]:
    """Attacks each operation with so many requests; the faults that were found."""
    return [fault for operation in operations for fault in target.attack(operation, requests, first)]
