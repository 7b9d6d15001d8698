"""Statuses, kinds, aggregations and charge models are named where they are declared; other code does not spell them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.source_trees import nodes
from usagebill.core.aggregation import AGGREGATIONS
from usagebill.core.pricing import MODELS

FLOORS = ("core", "storage", "queries", "rating", "views", "operations")
# Conditions of a query: the column comes first, then what it is compared with.
CONDITIONS = {"eq", "ne", "within"}
# Tables of their own, with a row for each aggregation or charge model.
TABLES = {
    "core/aggregation/registry.py",
    "core/invoices/counting.py",
    "fields.py",
    "price_strategies.py",
    "storage/event_queries.py",
}
# Words of a request or a setting that some enum happens to have too.
OTHER_WORDS = {
    ("core/aggregation/unique_count.py", "add"),  # beside its enum: each event of a unique count passes here
    ("core/aggregation/unique_count.py", "remove"),
    ("core/expressions.py", "string"),
    ("operations/api_logs.py", "failed"),
    ("operations/api_logs.py", "succeeded"),
    ("operations/webhooks.py", "refused"),
    ("operations/webhooks.py", "timeout"),
}


def code_of_floors() -> dict[Path, tuple[ast.AST, ...]]:
    return {place: tree for place, tree in nodes().items() if place.parts[0] in FLOORS}


def is_enum(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id in ("Enum", "StrEnum") for base in node.bases
    )


def members() -> set[str]:
    """The values of all enums of the floors."""
    return {
        statement.value.value
        for tree in code_of_floors().values()
        for node in tree
        if isinstance(node, ast.ClassDef) and is_enum(node)
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        if isinstance(statement.value.value, str)
    }


def texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.Set, ast.List)):
        for element in node.elts:
            yield from texts(element)


def compared(tree: Iterable[ast.AST]) -> Iterator[str]:
    """The literals that the code compares something with."""
    for node in tree:
        if isinstance(node, ast.Compare):
            # `"interval" in sent` asks for a key.
            sides = [] if isinstance(node.ops[0], (ast.In, ast.NotIn)) else [node.left]
            for side in (*sides, *node.comparators):
                yield from texts(side)
        elif isinstance(node, ast.MatchValue):
            yield from texts(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONDITIONS:
            for value in node.args[1:]:
                yield from texts(value)


def test_nothing_is_compared_with_the_literal_value_of_an_enum() -> None:
    values = members()
    assert {"finalized", "active", "pending"} <= values
    spelled = {
        (place.as_posix(), text)
        for place, tree in code_of_floors().items()
        for text in compared(tree)
        if text in values
    }
    assert spelled == OTHER_WORDS


def test_aggregations_and_charge_models_are_named_in_their_tables_only() -> None:
    # These two are other words as well.
    names = {*AGGREGATIONS, *MODELS} - {"custom", "percentage"}
    spelled = {
        (place.as_posix(), node.value)
        for place, tree in nodes().items()
        if not place.as_posix().startswith(("demo/", "requests/reference/", "simulation/"))
        and place.as_posix() not in TABLES
        for node in tree
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert spelled == {(f"core/pricing/{name}.py", name) for name in names & {*MODELS}}


def named_members(node: ast.AST, enums: set[str]) -> list[str]:
    """The enums whose members a tuple, set or list spells out."""
    if not isinstance(node, (ast.Tuple, ast.Set, ast.List)):
        return []
    return [
        element.value.id
        for element in node.elts
        if isinstance(element, ast.Attribute) and isinstance(element.value, ast.Name) and element.value.id in enums
    ]


def test_sets_of_statuses_are_named_in_the_core() -> None:
    """A new member of an enum is classified beside it, not wherever several members are spelled out."""
    enums = {
        node.name
        for tree in code_of_floors().values()
        for node in tree
        if isinstance(node, ast.ClassDef) and is_enum(node)
    }
    assert {"InvoiceStatus", "FeeType", "Accumulation"} <= enums
    spelled = [
        f"{place.as_posix()}:{node.lineno}"
        for place, tree in nodes().items()
        if place.parts[0] != "core"
        for node in tree
        if isinstance(node, ast.expr)
        for named in [named_members(node, enums)]
        if len(set(named)) < len(named)
    ]
    assert spelled == []
