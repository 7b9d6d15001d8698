"""Stubs of the library for type checkers and editors, made from its operations and not kept in the repository.

`usagebill/fields.pyi` has the types of nested arguments, `usagebill/records.pyi` the records with all API fields, a
stub beside each module of `usagebill/resources` the operations, and `usagebill/aio.pyi` and
`usagebill/client.pyi` these as coroutines and of a service. A wheel
gets them as it is built (`build_hook.py`), and an editable installation has them in `src/`, where `python -m
scripts.library_stubs` brings them up to date.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from usagebill.aio import Aio
from usagebill.fields import typed_fields
from usagebill.records import RELATED, further_fields, shown_kind
from usagebill.remote.calls import offered
from usagebill.requests.signatures import documentation
from usagebill.resources import RESOURCES, VIEWS
from usagebill.resources.bindings import Operation
from usagebill.storage.ports import Page

SOURCES = Path(__file__).parents[1] / "src"
RELATED_TYPES = {"fees": "list[Fee]", "charges": "tuple[Charge, ...]", "fixed_charges": "tuple[FixedCharge, ...]"}
MADE = '"""Made by `python -m scripts.library_stubs`."""\n'
FIELDS_HEAD = """
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Required, TypeAlias, TypedDict

Number: TypeAlias = int | Decimal | str

class TypedFields(NamedTuple):
    about: str
    fields: Mapping[str, str]

def typed_fields() -> Mapping[str, TypedFields]: ...
"""


def fields_module() -> str:
    """`usagebill/fields.pyi`."""
    written = []
    for name, (about, fields) in sorted(typed_fields().items()):
        doc = f'    """{about}"""\n' if about else ""
        written.append(
            f"class {name}(TypedDict, total=False):\n{doc}"
            + "\n".join(f"    {field}: {text}" for field, text in fields.items())
        )
    return f"{MADE}{FIELDS_HEAD}\n" + "\n\n".join(written) + "\n"


class Imports:
    """The names that a stub imports."""

    def __init__(self, home: str, pages: tuple[str, str] = ("usagebill.records", "Pages")) -> None:
        self.home = home
        self.pages = pages
        self.names: dict[str, set[str]] = {}

    def add(self, module: str, name: str) -> str:
        if module not in (self.home, "builtins"):
            self.names.setdefault(module, set()).add(name)
        return name

    def text(self, hint: Any) -> str:
        """A type of a result."""
        origin = get_origin(hint)
        if hint is None or hint is type(None):
            return "None"
        if hint is Any or hint is object:
            return self.add("typing", "Any")
        if origin is Annotated or origin is NotRequired:
            return self.text(get_args(hint)[0])
        if origin in (Union, types.UnionType):
            return " | ".join(self.text(part) for part in get_args(hint))
        if origin is Page:
            return f"{self.add(*self.pages)}[{self.text(get_args(hint)[0])}]"
        if origin is not None:
            name = self.add(origin.__module__, origin.__name__)
            parts = ["..." if part is ... else self.text(part) for part in get_args(hint)]
            return f"{name}[{', '.join(parts)}]"
        if isinstance(hint, type) and shown_kind(hint) is not None:
            return self.add("usagebill.records", hint.__name__)
        return self.add(hint.__module__, hint.__name__)

    def lines(self, text: str) -> str:
        for module, names in (
            ("usagebill.fields", {"Number", *typed_fields()}.intersection(re.findall(r"\w+", text))),
            ("typing", re.findall(r"\b(Literal|Any)\b", text)),
            ("collections.abc", re.findall(r"\b(Sequence|Mapping|Iterable)\b", text)),
            ("datetime", re.findall(r"\b(date|datetime)\b(?=[ ,|\]=)])", text)),
        ):
            for name in names:
                self.add(module, name)
        return "\n".join(
            f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self.names.items())
        )


def verb(name: str, operation: Operation[Any], imports: Imports, define: str = "def") -> str:
    returns = imports.text(get_type_hints(operation.function)["return"])
    arguments = ["self"]
    keywords = False
    slash = any(argument.only_positional for argument in operation.described)
    for argument in operation.described:
        if len(arguments) > 1 and arguments[-1] != "/" and slash and not argument.only_positional:
            arguments.append("/")
            slash = False
        if not argument.positional and not keywords:
            arguments.append("*")
            keywords = True
        arguments.append(f"{argument.name}: {argument.type}" + ("" if argument.required else " = ..."))
    about = documentation(operation.function, operation.described).replace("\\", "\\\\")
    text = "\n        ".join(about.splitlines())
    listed = "".join(f"        {argument},\n" for argument in arguments)
    return f'    {define} {name}(\n{listed}    ) -> {returns}:\n        """{text}\n        """\n'


def verbs(kind: type, imports: Imports, define: str = "def", only: Set[str] | None = None) -> Iterator[str]:
    """The methods of a resource, all or some."""
    members = {name: value for name, value in vars(kind).items() if only is None or name in only}
    operations = {name: value for name, value in members.items() if isinstance(value, Operation)}
    # `list` is an operation too, and would hide the type from everything after it in the class.
    for name, value in sorted(operations.items(), key=lambda row: row[0] == "list"):
        yield verb(name, value, imports, define)
    for name, value in members.items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield own_stub(kind, name, value, imports, define)


def resources_module(module: str) -> str:
    """The stub of one module of `usagebill/resources`."""
    imports = Imports(module)
    imports.add("typing", "ClassVar")
    for name in ("Messages", "Resource", "Views"):
        imports.add("usagebill.resources.bindings", name)
    classes = []
    for kind in RESOURCES.values():
        if kind.__module__ != module:
            continue
        lines = [f'class {kind.__name__}(Resource):\n    """{inspect.getdoc(kind)}"""\n']
        lines += ["    views: ClassVar[Views]", "    messages: ClassVar[Messages]"]
        classes.append("\n".join([*lines, *verbs(kind, imports)]))
    body = "\n\n".join(classes)
    return f"{MADE}\n{imports.lines(body)}\n\n{body}"


EVENT = (
    "transaction_id: str{}, code: str, external_subscription_id: str{}, timestamp: date | Number | float | None = ..., "
    "precise_total_amount_cents: Number | None = ..., properties: Mapping[str, object] | None = ..."
)
ADMISSION = "enforce: bool = ..., on_duplicate: Literal['refuse', 'skip'] = ..."
OWN = {
    ("Events", "create"): f"self, *, {ADMISSION}, {EVENT.format('', ' | None = ...')}",
    ("Events", "create_batch"): f"self, request: Iterable[EventFields], *, {ADMISSION}",
    ("Events", "ingest"): "self, request: Iterable[EventFields]",
    ("Events", "estimate_fees"): f"self, *, {EVENT.format(' = ...', '')}",
    ("Events", "estimate_instant_fees"): f"self, *, {EVENT.format(' = ...', '')}",
}


def own_stub(kind: type, name: str, function: Any, imports: Imports, define: str = "def") -> str:
    """A method written in the class itself."""
    hint = get_type_hints(function)["return"]
    if get_origin(hint) is AbstractContextManager and define != "def":
        usage = imports.add("usagebill.resources.async_held_usage", "AsyncHeldUsage")
        define, returns = "def", f"{imports.add('contextlib', 'AbstractAsyncContextManager')}[{usage}]"
    else:
        returns = imports.text(hint)
    arguments = OWN.get((kind.__name__, name))
    if arguments is None:
        hints, parameters = get_type_hints(function), inspect.signature(function).parameters
        named = [
            f"{name}: {imports.text(hints[name])}" + ("" if parameter.default is parameter.empty else " = ...")
            for name, parameter in parameters.items()
            if name in hints
        ]
        arguments = ", ".join(["self", *named])
    about = "\n        ".join((inspect.getdoc(function) or "").splitlines())
    return f'    {define} {name}({arguments}) -> {returns}:\n        """{about}\n        """\n'


def records_module() -> str:
    """`usagebill/records.pyi`."""
    imports = Imports("usagebill.records")
    classes = []
    for kind in VIEWS:
        if shown_kind(kind) is None:
            continue
        hints = get_type_hints(get_type_hints(VIEWS[kind])["return"])
        lines = [f'class {kind.__name__}(_{kind.__name__}):\n    """{inspect.getdoc(kind)}"""\n']
        lines.append("    def json(self) -> dict[str, Any]: ...")
        for name in sorted(further_fields(kind)):
            text = imports.text(hints[name]) if name not in RELATED.get(kind, {}) else RELATED_TYPES.get(name, "Plan")
            lines.append(f"    @property\n    def {name}(self) -> {text}: ...")
        imports.add(kind.__module__, f"{kind.__name__} as _{kind.__name__}")
        classes.append("\n".join(lines))
    body = "\n\n".join(sorted(classes))
    tail = """
R = TypeVar("R")

class Pages(Page[R]):
    \"\"\"One page of a list, which goes on by itself: iterate over it to meet every record.\"\"\"

    def __iter__(self) -> Iterator[R]: ...
    def next_page(self) -> Pages[R] | None: ...
    @property
    def is_last(self) -> bool: ...
    def unmet(self, met: set[object]) -> Iterator[R]: ...

RELATED: Mapping[type, Mapping[str, Callable[[Reader, Any], Any]]]

def further_fields(kind: type) -> frozenset[str]: ...
def shown_kind(kind: type) -> type | None: ...
def presented(viewer: object, result: Any, again: Callable[[int], Any] | None) -> Any: ...
def view_of(reader: Reader, record: Any) -> Any: ...
def plain(value: Any) -> Any: ...
"""
    for module, names in (
        ("typing", ("Any", "TypeVar")),
        ("collections.abc", ("Callable", "Iterator", "Mapping")),
        ("usagebill.storage.ports", ("Page",)),
        ("usagebill.runtime.work", ("Reader",)),
    ):
        for name in names:
            imports.add(module, name)
    return f"{MADE}\n{imports.lines(body)}\n{tail}\n\n{body}\n"


AIO_TAIL = """
T = TypeVar("T")
R = TypeVar("R")

class Host(Protocol):
    def close(self) -> None: ...

class AsyncPages(Pages[R]):
    \"\"\"One page of a list, which continues by itself: `async for invoice in await billing.aio.invoices.list()`.\"\"\"

    def __aiter__(self) -> AsyncIterator[R]: ...

def turned(page: Pages[R], turn: Callable[[Pages[R]], Awaitable[Pages[R] | None]]) -> AsyncPages[R]: ...
"""
AIO_METHODS = """
    def __init__(self, billing: Host, *, threads: int = ...) -> None: ...
    async def run(self, function: Callable[..., T], /, *path: Any, **named: Any) -> T: ...
    async def audit(self, *, at_most: int = ..., recount: bool = ...) -> AuditReport: ...
    async def receive_notice(
        self, kind: str, organization_id: str, code: str | None, headers: Mapping[str, str], body: bytes
    ) -> bool: ...
    async def run_due(
        self,
        now: datetime | None = ...,
        *,
        immediate: bool = ...,
        strict: bool = ...,
        on_failure: Callable[[Job, Exception], None] | None = ...,
    ) -> int: ...
    async def view(self, record: object) -> Any: ...
    async def close(self) -> None: ...
    def stop(self) -> None: ...
"""


def aio_module() -> str:
    """`usagebill/aio.pyi`."""
    imports = Imports("usagebill.aio", pages=("usagebill.aio", "AsyncPages"))
    classes = [
        f'class _{kind.__name__}:\n    """{inspect.getdoc(kind)}"""\n' + "\n".join(verbs(kind, imports, "async def"))
        for kind in RESOURCES.values()
    ]
    resources = [f"    {name}: _{kind.__name__}" for name, kind in RESOURCES.items()]
    lines = [f'class Aio:\n    """{inspect.getdoc(Aio)}"""\n', *resources, AIO_METHODS]
    body = "\n".join([*classes, *lines])
    for module, names in (
        ("typing", ("Any", "Protocol", "TypeVar")),
        ("collections.abc", ("AsyncIterator", "Awaitable", "Callable")),
        ("usagebill.core.jobs", ("Job",)),
        ("usagebill.operations.audit", ("AuditReport",)),
        ("usagebill.records", ("Pages",)),
    ):
        for name in names:
            imports.add(module, name)
    return f"{MADE}\n{imports.lines(body)}\n{AIO_TAIL}\n{body}\n"


CLIENT_TAIL = """
T = TypeVar("T")

class ServiceUnreachable(BillingError):
    may_have_been_made: bool
    def __init__(self, reason: str, *, may_have_been_made: bool = ...) -> None: ...
"""
SYNC_METHODS = """
    def __init__(
        self,
        url: str,
        key: str,
        *,
        id_prefix: str = ...,
        timeout: float = ...,
        retries: Retries | None = ...,
        transport: httpx.BaseTransport | None = ...,
        sleep: Callable[[float], object] = ...,
    ) -> None: ...
    def send(self, call: Call, *, retries: Retries | None = ...) -> Any: ...
    def view(self, record: object) -> Any: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *problem: object) -> None: ...
"""
ASYNC_METHODS = """
    def __init__(
        self,
        url: str,
        key: str,
        *,
        id_prefix: str = ...,
        timeout: float = ...,
        retries: Retries | None = ...,
        transport: httpx.AsyncBaseTransport | None = ...,
    ) -> None: ...
    async def send(self, call: Call) -> Any: ...
    def view(self, record: object) -> Any: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *problem: object) -> None: ...
"""


def client_module() -> str:
    """`usagebill/client.pyi`."""
    imports = Imports("usagebill.client")
    classes = []
    # Its module is not imported: httpx is an extra, which whoever builds a wheel may not have.
    defined = ast.parse((SOURCES / "usagebill" / "client.py").read_text(encoding="utf-8")).body
    texts = {node.name: ast.get_docstring(node) for node in defined if isinstance(node, ast.ClassDef)}
    for client, define, pages, head in (
        ("Client", "def", ("usagebill.records", "Pages"), SYNC_METHODS),
        ("AsyncClient", "async def", ("usagebill.aio", "AsyncPages"), ASYNC_METHODS),
    ):
        imports.pages = pages
        lines = [f'class {client}:\n    """{texts[client]}"""\n']
        for name, resource in RESOURCES.items():
            names = {*offered(name), *(["hold"] if name == "holds" else [])}
            methods = list(verbs(resource, imports, define, names))
            classes.append(
                f'class _{client}{resource.__name__}:\n    """{inspect.getdoc(resource)}"""\n' + "\n".join(methods)
            )
            lines.append(f"    {name}: _{client}{resource.__name__}")
        classes.append("\n".join([*lines, head]))
    for module, names in (
        ("collections.abc", {"Callable"}),
        ("typing", {"Any", "Self", "TypeVar"}),
        ("usagebill.core.errors", {"BillingError"}),
        ("usagebill.remote.calls", {"Call"}),
        ("usagebill.remote.retries", {"Retries as Retries"}),
    ):
        imports.names.setdefault(module, set()).update(names)
    body = "\n".join(classes)
    return f"{MADE}\nimport httpx\n{imports.lines(body)}\n{CLIENT_TAIL}\n{body}\n"


def stubs() -> dict[str, str]:
    """Path of each stub below `src/` -> its text."""
    modules = sorted({kind.__module__ for kind in RESOURCES.values()})
    return {
        "usagebill/aio.pyi": aio_module(),
        "usagebill/client.pyi": client_module(),
        "usagebill/fields.pyi": fields_module(),
        "usagebill/records.pyi": records_module(),
        **{f"{module.replace('.', '/')}.pyi": resources_module(module) for module in modules},
    }


def write_stubs(folder: Path = SOURCES) -> None:
    """Write every stub, as far as it has changed, below `folder`."""
    for name, text in stubs().items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_stubs()
