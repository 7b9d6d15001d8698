"""Price lists in YAML and JSON files: numbers exact, nothing guessed, and the line of everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import click
import yaml

from usagebill.core.errors import BillingError, Invalid, NotFound, joined_place

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """YAML 1.2: `no` and `off` are texts, `010` is no 8, and a date is a text as in JSON."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, _pattern, _first in (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"-?(0|[1-9][0-9]*)", [*"-0123456789"]),
    ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", [*"-0123456789"]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^(?:{_pattern})$"), _first)


@attrs.frozen
class PriceFile:
    """What a file says, and where: the line and column of each field and item by its path, with its text."""

    path: Path
    content: Mapping[str, Any]
    places: Mapping[str, tuple[int, int, object]]

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Refusals raised inside end the command, each with the line and column that it is about."""
        try:
            yield
        except BillingError as problem:
            raise click.ClickException("\n".join(self._lines(problem))) from problem

    def _lines(self, problem: BillingError) -> Iterator[str]:
        if isinstance(problem, Invalid) and problem.messages:
            for field, texts in problem.messages.items():
                yield from (f"{self._at(joined_place(problem.place, field))}{text}" for text in texts)
            return
        sought = problem.sought if isinstance(problem, NotFound) else None
        inside = ((path, text) for path, (*_, text) in self.places.items() if path.startswith(problem.place))
        named = [path for path, text in inside if text == sought]
        yield f"{self._at(named[0] if sought and named else problem.place)}{problem.message or problem.code}"

    def _at(self, path: str) -> str:
        while path and path not in self.places:
            path = re.sub(r"(\.[^.\[\]]+|\[[^\[\]]*\]|^[^.\[\]]+)$", "", path)
        line, column, _ = self.places.get(path, (0, 0, None))
        return f"{self.path}:{line}:{column}: " if line else f"{self.path}: "


def read_price_file(path: Path) -> PriceFile:
    """An object from a YAML or JSON file. Raises `ClickException` with the line of what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
        node = _Loader(text).get_single_node()
        places: dict[str, tuple[int, int, object]] = {}
        content = None if node is None else _value(node, "", places, ())
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise click.ClickException(f"{path}{place}: {problem.problem}") from problem
    except (OSError, ValueError, yaml.YAMLError) as problem:
        raise click.ClickException(f"{path} cannot be read: {problem}") from problem
    if not isinstance(content, Mapping):
        raise click.ClickException(f"{path} has no price list: it is an object with sections such as `plans`")
    return PriceFile(path, content, places)


def _value(node: yaml.Node, path: str, places: dict[str, tuple[int, int, object]], above: tuple[yaml.Node, ...]) -> Any:
    if node in above:
        raise yaml.MarkedYAMLError(problem="an alias of what it stands in", problem_mark=node.start_mark)
    inside = (*above, node)
    if isinstance(node, yaml.MappingNode):
        fields: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in fields:
                problem = "is here twice" if isinstance(key, yaml.ScalarNode) else "no name of a field"
                name = f"{key.value} " if isinstance(key, yaml.ScalarNode) else ""
                raise yaml.MarkedYAMLError(problem=name + problem, problem_mark=key.start_mark)
            inner = joined_place(path, key.value)
            places[inner] = (key.start_mark.line + 1, key.start_mark.column + 1, item.value)
            fields[key.value] = _value(item, inner, places, inside)
        return fields
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            places[f"{path}[{position}]"] = (item.start_mark.line + 1, item.start_mark.column + 1, item.value)
        return [_value(item, f"{path}[{position}]", places, inside) for position, item in enumerate(node.value)]
    return _scalar(node)


def _scalar(node: Any) -> object:
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return bool(node.value == "true")
        case "int":
            return int(node.value)
        case "float":
            return Decimal(node.value)
        case _:
            return str(node.value)


class _Dumper(yaml.SafeDumper):
    """Lists are indented, as editors do it, and nothing is an alias of something else."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def price_text(content: Mapping[str, Any]) -> str:
    """A price list as the text of a YAML file."""
    return yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
