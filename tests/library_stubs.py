"""The types of the library, generated from its operations: `python -m tests.library_stubs` writes them.

`usagebill/fields.py` has the nested types of arguments, `usagebill/records.pyi` the records with all API fields, and a
stub beside each module of `usagebill/resources` the operations. A test fails if any of them is out of date.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

import attrs

from usagebill.bindings import Operation, Resource
from usagebill.records import RELATED, further_fields, shown_kind
from usagebill.reference import field_of, hints_of, is_price, required_inside
from usagebill.reference.structures import MODEL_PROPERTIES, EventFields
from usagebill.resources import RESOURCES, VIEWS
from usagebill.signatures import documentation, fields_name, type_text
from usagebill.storage.ports import Page

PACKAGE = Path(__file__).parents[1] / "src" / "usagebill"
_NESTED = r"\b(\w+(?:Fields|Properties|Choice|Number)|Number|SectionChoice|PreviewSubscriptions|Cascade|MetadataPair)\b"
RELATED_TYPES = {"fees": "list[Fee]", "charges": "tuple[Charge, ...]", "fixed_charges": "tuple[FixedCharge, ...]"}
FIELDS_HEAD = '''"""Types of nested arguments of the library: `charge: ChargeFields = {...}`.

Made from the reference by `python -m tests.library_stubs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, Required, TypeAlias, TypedDict

# A quantity, rate or price, exactly.
Number: TypeAlias = int | Decimal | str
'''


def formatted(text: str, name: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "cwd": PACKAGE.parents[1]}
    fixed = subprocess.run(
        [*ruff, "check", "--fix-only", "-q", "--stdin-filename", name, "-"], input=text, **options
    ).stdout
    done = subprocess.run([*ruff, "format", "-q", "--stdin-filename", name, "-"], input=fixed, **options)
    return str(done.stdout)


def operations() -> Iterator[tuple[type[Resource], str, Operation[Any]]]:
    for kind in RESOURCES.values():
        for name, value in vars(kind).items():
            if isinstance(value, Operation):
                yield kind, name, value


def nested(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and attrs.has(hint):
        yield hint
    for part in get_args(hint):
        yield from nested(part)


def fields_module() -> str:
    """`usagebill/fields.py`."""
    kinds: dict[str, type] = {}

    def walk(kind: type) -> None:
        for hint in hints_of(kind).values():
            for inner in [] if is_price(hint) else nested(hint):
                if fields_name(inner) not in kinds:
                    kinds[fields_name(inner)] = inner
                    walk(inner)

    for _, _, operation in operations():
        for kind in operation._inputs.values():
            walk(kind)
    kinds["EventFields"] = EventFields
    for model in MODEL_PROPERTIES.values():
        walk(model)
    merged = {"ChargeProperties": tuple(MODEL_PROPERTIES), "FixedChargeProperties": ("standard", "graduated", "volume")}
    written = []
    for name, models in merged.items():
        fields = {
            field: (MODEL_PROPERTIES[model], hint)
            for model in models
            for field, hint in hints_of(MODEL_PROPERTIES[model]).items()
        }
        lines = [
            f"    {field}: {type_text(hint, field, field_of(kind, field))}" for field, (kind, hint) in fields.items()
        ]
        about = (
            "The prices of a charge: the fields of its charge model."
            if name == "ChargeProperties"
            else "The prices of a fixed charge."
        )
        written.append((name, about, lines))
    for name, kind in kinds.items():
        lines = []
        for field, hint in hints_of(kind).items():
            text = type_text(hint, field, field_of(kind, field))
            needed = field in required_inside(kind)
            text = f"{text} | None" if not needed or field == "to_value" else text
            lines.append(f"    {field}: {f'Required[{text}]' if needed else text}")
        about = inspect.getdoc(kind) or ""
        written.append((name, "" if about.startswith("Method generated") else about, lines))
    body = "\n\n".join(
        f"class {name}(TypedDict, total=False):\n" + (f'    """{about}"""\n\n' if about else "") + "\n".join(lines)
        for name, about, lines in sorted(written)
    )
    return formatted(f"{FIELDS_HEAD}\n\n{body}\n", "src/usagebill/fields.py")


class Imports:
    """The names that a stub imports."""

    def __init__(self, home: str) -> None:
        self.home = home
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
            return f"{self.add('usagebill.records', 'Pages')}[{self.text(get_args(hint)[0])}]"
        if origin is not None:
            name = self.add(origin.__module__, origin.__name__)
            parts = ["..." if part is ... else self.text(part) for part in get_args(hint)]
            return f"{name}[{', '.join(parts)}]"
        if isinstance(hint, type) and shown_kind(hint) is not None:
            return self.add("usagebill.records", hint.__name__)
        return self.add(hint.__module__, hint.__name__)

    def lines(self, text: str) -> str:
        for module, names in (
            (
                "usagebill.fields",
                re.findall(_NESTED, text),
            ),
            ("typing", re.findall(r"\b(Literal|Any)\b", text)),
            ("collections.abc", re.findall(r"\b(Sequence|Mapping|Iterable)\b", text)),
            ("datetime", re.findall(r"\b(date|datetime)\b(?=[ ,|\]=)])", text)),
        ):
            for name in names:
                self.add(module, name)
        return "\n".join(
            f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self.names.items())
        )


def verb(name: str, operation: Operation[Any], imports: Imports) -> str:
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
    return f'    def {name}({", ".join(arguments)}) -> {returns}:\n        """{text}\n        """\n'


def resources_module(module: str) -> str:
    """The stub of one module of `usagebill/resources`."""
    imports = Imports(module)
    imports.add("typing", "ClassVar")
    for name in ("Messages", "Resource", "Views"):
        imports.add("usagebill.bindings", name)
    classes = []
    for kind in RESOURCES.values():
        if kind.__module__ != module:
            continue
        lines = [f'class {kind.__name__}(Resource):\n    """{inspect.getdoc(kind)}"""\n']
        lines += ["    views: ClassVar[Views]", "    messages: ClassVar[Messages]"]
        verbs = {name: value for name, value in vars(kind).items() if isinstance(value, Operation)}
        # `list` is an operation too, and would hide the type from everything after it in the class.
        for name, value in sorted(verbs.items(), key=lambda row: row[0] == "list"):
            lines.append(verb(name, value, imports))
        for name, value in vars(kind).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                lines.append(own_stub(kind, name, value, imports))
        classes.append("\n".join(lines))
    body = "\n\n".join(classes)
    head = f'"""Made by `python -m tests.library_stubs`."""\n\n{imports.lines(body)}\n'
    return formatted(f"{head}\n{body}", f"src/{module.replace('.', '/')}.pyi")


EVENT = (
    "transaction_id: str{}, code: str, external_subscription_id: str{}, timestamp: date | Number | float | None = ..., "
    "precise_total_amount_cents: Number | None = ..., properties: Mapping[str, object] | None = ..."
)
OWN = {
    ("Events", "create"): f"self, *, {EVENT.format('', ' | None = ...')}",
    ("Events", "ingest"): "self, request: Iterable[EventFields | Mapping[str, object]]",
    ("Events", "estimate_fees"): f"self, *, {EVENT.format(' = ...', '')}",
    ("Events", "estimate_instant_fees"): f"self, *, {EVENT.format(' = ...', '')}",
}


def own_stub(kind: type, name: str, function: Any, imports: Imports) -> str:
    """A method written in the class itself."""
    returns = imports.text(get_type_hints(function)["return"])
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
    return f'    def {name}({arguments}) -> {returns}:\n        """{about}\n        """\n'


def records_module() -> str:
    """`usagebill/records.pyi`."""
    imports = Imports("usagebill.records")
    classes = []
    for kind in VIEWS:
        if shown_kind(kind) is None:
            continue
        hints = get_type_hints(get_type_hints(VIEWS[kind])["return"])
        lines = [f'class {kind.__name__}(_{kind.__name__}):\n    """{inspect.getdoc(kind)}"""\n']
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
        ("usagebill.work", ("Reader",)),
    ):
        for name in names:
            imports.add(module, name)
    text = f'"""Made by `python -m tests.library_stubs`."""\n\n{imports.lines(body)}\n{tail}\n\n{body}\n'
    return formatted(text, "src/usagebill/records.pyi")


def generated() -> Mapping[Path, str]:
    """The correct contents of every generated file."""
    modules = sorted({kind.__module__ for kind in RESOURCES.values()})
    stubs = {PACKAGE.parent / f"{module.replace('.', '/')}.pyi": resources_module(module) for module in modules}
    return {PACKAGE / "fields.py": fields_module(), PACKAGE / "records.pyi": records_module(), **stubs}


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
