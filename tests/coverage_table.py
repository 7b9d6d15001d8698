"""The built part of the interface, and the test of each operation: `docs/coverage.md`.

    python -m tests.coverage_table     # rewrite the page

The operations come from the interface's description beside the checkout, or else from the page itself. The table of
endpoints says whether one is built; the tests' calls say which test uses it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.sample_records import NEVER
from usagebill.core.webhooks import OBJECT_TYPES
from usagebill.http.app import endpoints
from usagebill.http.endpoints import Endpoint
from usagebill.resources import MESSAGES, RESOURCES

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "coverage.md"
SHAPES = TESTS.parents[1] / "shared" / "reference" / "api-shapes.yaml"
SCENARIOS = TESTS.parents[1] / "shared" / "conformance"
# Types of message that nothing here causes, and why.
NOT_SENT = {
    "order.created": "no orders",
    "order.executed": "no orders",
    "order_form.created": "no order forms",
    "order_form.signed": "no order forms",
    "order_form.expired": "no order forms",
    "order_form.voided": "no order forms",
    "quote.created": "no quotes",
    "quote.approved": "no quotes",
    "quote.voided": "no quotes",
}
# Calls every operation once: the test of those that no other test calls.
EVERY_OPERATION = "tests/http/test_shapes.py::test_every_operation_was_asked"
# An endpoint's list of types does not show that a type is sent.
_ABOUT_ENDPOINTS = re.compile("test_webhook|test_openapi|test_coverage")
_VERBS = {"get": "GET", "post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}
# The placeholder for the parts of an address that a test fills in.
_FILLED = "\0"


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one test: requests (verb and path), methods of the library, the types of message that it names, and
    the functions that it calls by their bare name.
    """

    test: str
    requests: frozenset[tuple[str, str]]
    methods: frozenset[tuple[str, str]]
    messages: frozenset[str]
    functions: frozenset[str]


def _address(node: ast.expr) -> str | None:
    """The path of a request, with `_FILLED` for filled-in parts; None if it is not a path."""
    match node:
        case ast.Constant(value=str(text)):
            pass
        case ast.JoinedStr(values=parts):
            text = "".join(part.value if isinstance(part, ast.Constant) else _FILLED for part in parts)  # type: ignore[misc]
        case _:
            return None
    path = text.split("?")[0].removeprefix("/api/v1")
    return path if path.startswith("/") else None


def _requests(call: ast.Call) -> Iterator[tuple[str, str]]:
    match call.func:
        case ast.Attribute(attr=name) if name in _VERBS and call.args:
            path = _address(call.args[0])
            if path is not None:
                yield _VERBS[name], path
    for verb, address in zip(call.args, call.args[1:], strict=False):
        if isinstance(verb, ast.Constant) and verb.value in _VERBS.values():
            path = _address(address)
            if path is not None:
                yield str(verb.value), path


def _calls_of(test: str, function: ast.AST) -> Calls:
    requests: set[tuple[str, str]] = set()
    methods: set[tuple[str, str]] = set()
    messages: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Call():
                requests.update(_requests(node))
                match node.func:
                    case ast.Attribute(attr=method, value=ast.Attribute(attr=resource)) if resource in RESOURCES:
                        methods.add((resource, method))
                    case ast.Name(id=name):
                        functions.add(name)
            case ast.Constant(value=str(text)) if text in OBJECT_TYPES:
                messages.add(text)
    return Calls(test, frozenset(requests), frozenset(methods), frozenset(messages), frozenset(functions))


def _with_helpers(test: Calls, helpers: Mapping[str, Calls]) -> Calls:
    """The calls of a test, directly and through functions of its own file."""
    used = [helpers[name] for name in test.functions if name in helpers]
    return Calls(
        test.test,
        test.requests.union(*(helper.requests for helper in used)),
        test.methods.union(*(helper.methods for helper in used)),
        test.messages.union(*(helper.messages for helper in used)),
        test.functions,
    )


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """These statements, with those inside them."""
    for statement in body:
        yield statement
        yield from _statements(getattr(statement, "body", ()))
        yield from _statements(getattr(statement, "orelse", ()))


@cache
def calls() -> tuple[Calls, ...]:
    """The calls of each test, in the order of files and of tests in them."""
    gathered = []
    for file in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        helpers = {
            node.name: _calls_of(node.name, node)
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_")
        }
        for node in _statements(tree.body):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                test = _calls_of(f"{file.relative_to(TESTS.parent)}::{node.name}", node)
                gathered.append(_with_helpers(test, helpers))
    return tuple(gathered)


def matching(path: str, template: str) -> bool:
    """Whether a path matches a template, with any values for the parts in braces."""
    segments, parts = path.strip("/").split("/"), template.strip("/").split("/")
    return len(segments) == len(parts) and all(
        part.startswith("{") or part == segment for segment, part in zip(segments, parts, strict=True)
    )


def _same_shape(template: str, other: str) -> bool:
    return re.sub(r"{\w+}", "{}", template) == re.sub(r"{\w+}", "{}", other)


def built(verb: str, path: str) -> Endpoint | None:
    """The endpoint that answers an operation of the interface, if it is built."""
    for endpoint in endpoints():
        verbs = ("PUT", "PATCH") if endpoint.method == "PUT" and not endpoint.one_verb else (endpoint.method,)
        if verb in verbs and _same_shape(endpoint.path, path):
            return endpoint
    return None


@cache
def _methods() -> Mapping[Any, frozenset[tuple[str, str]]]:
    """The methods of the library, by operation."""
    by_operation: dict[Any, set[tuple[str, str]]] = {}
    for name, resource in RESOURCES.items():
        for method in dir(resource):
            operation = getattr(getattr(resource, method), "function", None)
            if operation is not None:
                by_operation.setdefault(operation, set()).add((name, method))
    return {operation: frozenset(methods) for operation, methods in by_operation.items()}


@cache
def _asked(verb: str) -> frozenset[str]:
    """Every path that tests request with a verb."""
    return frozenset(called_path for test in calls() for method, called_path in test.requests if method == verb)


@cache
def _asking(verb: str, path: str) -> frozenset[tuple[str, str]]:
    """The tests' requests of an operation."""
    other = [template for template in _literal(path) if template != path]
    return frozenset(
        (verb, called_path)
        for called_path in _asked(verb)
        if matching(called_path, path) and not any(matching(called_path, template) for template in other)
    )


@cache
def _literal(path: str) -> tuple[str, ...]:
    """Templates as long as this one with fewer parts in braces, which win over it."""
    braces = path.count("{")
    return tuple(
        endpoint.path
        for endpoint in endpoints()
        if endpoint.path.count("/") == path.count("/") and endpoint.path.count("{") < braces
    )


@cache
def _scenarios() -> Mapping[str, str]:
    """The files of conformance scenarios that must pass, with their contents; none if they are not available."""
    listed = (TESTS.parent / ".ci" / "conformance").read_text("utf-8").splitlines()
    folders = [SCENARIOS / line.split(" except ")[0].strip() for line in listed if line and not line.startswith("#")]
    files = [file for folder in folders for file in (sorted(folder.rglob("*.yaml")) if folder.is_dir() else [folder])]
    return {str(file.relative_to(SCENARIOS)): file.read_text("utf-8") for file in files if file.exists()}


@cache
def _asked_by_scenarios(verb: str) -> Mapping[str, frozenset[str]]:
    """Every path that each scenario requests with a verb."""
    called = re.compile(rf"call: {verb} ([^\s?]+)")
    return {
        name: frozenset(re.sub(r"\${\w+}", _FILLED, called_path) for called_path in called.findall(text))
        for name, text in _scenarios().items()
    }


def _scenarios_asking(verb: str, path: str) -> list[str]:
    scenarios = _asked_by_scenarios(verb)
    asking = {called_path for called_path in frozenset().union(*scenarios.values()) if matching(called_path, path)}
    return [name for name, called_paths in scenarios.items() if called_paths & asking]


def asked_by(verb: str, path: str) -> list[str]:
    """The tests that call a built operation; at least the one that calls every operation."""
    endpoint = built(verb, path)
    if endpoint is None:
        return []
    call = _methods().get(endpoint.call, frozenset())
    asking = _asking(verb, path)
    tests = [test.test for test in calls() if asking & test.requests or call & test.methods]
    everywhere = [] if (verb, endpoint.path) in NEVER else [EVERY_OPERATION]
    return [*tests, *_scenarios_asking(verb, path), *everywhere]


def sending(name: str) -> list[str]:
    """The tests that name a type of message which is sent."""
    if name not in MESSAGES:
        return []
    tests = [test.test for test in calls() if name in test.messages and not _ABOUT_ENDPOINTS.search(test.test)]
    mention = re.compile(rf"webhook_type={re.escape(name)}\b")
    return [*tests, *(scenario for scenario, text in _scenarios().items() if mention.search(text))]


def _best(tests: list[str], about: str, before: str | None) -> str:
    """The test that the page named before, if it is one of them; else that of a file with a fitting name."""
    if before in tests:
        return before
    words = re.findall(r"[a-z]+", about)

    def fit(test: str) -> tuple[bool, bool, int, str]:
        return (
            test == EVERY_OPERATION,
            "::" not in test,
            -sum(word.rstrip("s") in test.split("::")[0] for word in words),
            test,
        )

    return min(tests, key=fit, default="none")


def _before(section: str, width: int) -> dict[tuple[str, ...], str]:
    """The tests that the page names so far, by the first cells of each row."""
    return {tuple(row[:width]): row[-1] for row in rows(section)} if PAGE.exists() else {}


def documented() -> list[tuple[str, str]]:
    """The operations of the interface, by path: from its description, else from the current page."""
    if not SHAPES.exists():
        return [(verb, path) for verb, path, *_ in rows("Operations")]
    described = yaml.load(SHAPES.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))["paths"]
    return sorted(
        ((verb.upper(), path) for path, known in described.items() for verb in known if verb in _VERBS),
        key=lambda operation: (operation[1], operation[0]),
    )


def operations() -> list[tuple[str, str, str, str]]:
    """Each operation of the interface, whether it is built, and the test that calls it."""
    before = _before("Operations", 2)
    return [
        (verb, path, "yes" if built(verb, path) else "no", _best(asked_by(verb, path), path, before.get((verb, path))))
        for verb, path in documented()
    ]


def own_operations() -> list[tuple[str, str, str, str]]:
    """The operations beyond the interface."""
    known, before = documented(), _before("Our own operations", 2)
    return [
        (
            endpoint.method,
            endpoint.path,
            "yes",
            _best(
                asked_by(endpoint.method, endpoint.path), endpoint.path, before.get((endpoint.method, endpoint.path))
            ),
        )
        for endpoint in sorted(endpoints(), key=lambda endpoint: (endpoint.path, endpoint.method))
        if not any(verb == endpoint.method and _same_shape(path, endpoint.path) for verb, path in known)
    ]


def webhook_types() -> list[tuple[str, str, str, str]]:
    """Each type of message, whether it is sent, its cause, and the test that names it."""
    table, before = [], _before("Webhooks", 1)
    for name in sorted(OBJECT_TYPES):
        message = MESSAGES.get(name)
        cause = message.about if message is not None else NOT_SENT.get(name, "nothing yet")
        table.append((name, "yes" if message else "no", cause, _best(sending(name), name, before.get((name,)))))
    return table


def rows(section: str) -> list[list[str]]:
    """The rows of a table of the current page."""
    text = PAGE.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


def _table(titles: Sequence[str], table: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{' --- |' * len(titles)}"
    for first, *rest in table:
        cells = [f"`{cell}`" if cell.startswith(("/", "tests/", "scenarios/")) else cell for cell in rest]
        yield f"| {' | '.join((f'`{first}`', *cells))} |"


def page() -> str:
    """The page."""
    operation_rows, own_rows, sent = operations(), own_operations(), webhook_types()
    answered, sent_webhooks = sum(row[2] == "yes" for row in operation_rows), sum(row[1] == "yes" for row in sent)
    lines = [
        "# Coverage",
        "",
        "Each operation and each webhook of the interface: whether it is built, and a test, or a conformance scenario,",
        "that asks for it. Written by `python -m tests.coverage_table`; `tests/test_coverage.py` checks it.",
        "",
        f"{answered} of {len(operation_rows)} operations and {sent_webhooks} of {len(sent)} webhooks are built.",
        "",
        "## Operations",
        "",
        *_table(("Verb", "Path", "Built", "Tested by"), operation_rows),
        "",
        "## Our own operations",
        "",
        *_table(("Verb", "Path", "Built", "Tested by"), own_rows),
        "",
        "## Webhooks",
        "",
        *_table(("Type", "Sent", "When", "Tested by"), sent),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
