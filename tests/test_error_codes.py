"""Every code that a refusal can have is in the table, and the page shows the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.error_page import PAGE, text
from tests.source_trees import nodes
from usagebill.core.error_codes import BY_STATE, CODES, NOT_PERMITTED, RESOURCES, Refusal

# Where refusals are decided.
FLOORS = ("core", "operations", "queries", "rating", "runtime", "requests", "pricing.py", "printing")
# Names of fields and the like that only look like codes, among the texts below.
_CODE = re.compile(
    r"(value|values|invalid|missing|must|cannot|too|exceeds|higher|only|duplicate|duplicated|multiple|unknown|incompatible"
    r"|insufficient|relation|not|no|amount|total)_[a-z_]+"
    r"|[a-z_]+_(mandatory|invalid|exist|exists|reserved|reusable|sent_together|not_match|not_found|required|not_public)"
    r"|is [a-z ]+|must [a-z_ ]+"
)
_NO_CODES = {
    # fields, functions and parts of other texts
    "amount_cents", "amount_currency", "amount_details", "amount_from", "amount_to", "amount_if", "amount_or_zero",
    "amount_so_far", "amount_changed", "amount_changed_apart", "total_amount", "total_amount_cents", "total_count",
    "total_due_amount_cents", "total_paid_amount_cents", "total_offset_amount_cents", "total_aggregated_units",
    "total_with_flat_amount", "value_type", "value_text", "value_errors", "value_hash", "value_ending", "value_or",
    "values_errors", "values_reason", "values_by_key", "missing_fees", "not_provided",
    # states, reasons and codes of something else than refusals
    "no_expiration", "not_applicable", "payment_method_not_found_", "charge_not_found", "unknown_taxation",
    "last_check_failed", "target_wallet_code_not_found", "missing_aggregation_property", "missing_group_key",
    "invalid_filter_values",
    "amount_not_representable", "invalid_requester", "invalid_response",
}  # fmt: skip


@cache
def modules() -> list[tuple[str, tuple[ast.AST, ...]]]:
    return [(place.as_posix(), tree) for place, tree in nodes().items() if place.parts[0] in FLOORS]


def texts(node: ast.AST) -> Iterator[str]:
    return (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """The module of every call of a function by its name, that name, and the call."""
    return [
        (module, node.func.id, node)
        for module, tree in modules()
        for node in tree
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def raised(name: str) -> Iterator[tuple[str, ast.Call]]:
    return ((module, call) for module, called, call in calls() if called == name)


def first_codes(name: str) -> set[str]:
    """The codes, or resources, that refusals of this class are raised with, where they stand in the call."""
    return {value for _, call in raised(name) for value in texts(call.args[0]) if call.args}


def test_codes_of_states_permissions_and_kinds_of_record_have_their_rows() -> None:
    assert first_codes("NotAllowed") <= {*BY_STATE}
    assert first_codes("Forbidden") <= {*NOT_PERMITTED}
    assert first_codes("NotFound") <= {*RESOURCES}


def test_codes_of_fields_have_their_rows() -> None:
    lacking: dict[str, str] = {}
    for module, call in raised("Invalid"):
        for keyword in call.keywords:
            if keyword.arg != "reasons":
                lacking |= {code: module for code in texts(keyword.value) if not known(code)}
    assert lacking == {}


def known(code: str) -> bool:
    # What an f-string begins with is followed by what the record says.
    return code in CODES or any(row.startswith(code) for row in CODES)


def answered(tree: Iterable[ast.AST]) -> Iterator[str]:
    """The texts in lists, in what is returned, and in calls of `refuse`."""
    for node in tree:
        parts: list[ast.expr] = []
        if isinstance(node, (ast.List, ast.Tuple)):
            parts = node.elts
        elif isinstance(node, ast.Return) and node.value is not None:
            parts = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "refuse":
            parts = node.args
        yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def test_every_text_that_looks_like_a_code_is_one() -> None:
    tables = {*CODES, *BY_STATE, *NOT_PERMITTED, *(f"{resource}_not_found" for resource in RESOURCES)}
    lacking = {
        value: module
        for module, tree in modules()
        if module not in ("core/error_codes.py", "core/errors.py") and "documents" not in module
        for value in answered(tree)
        if _CODE.fullmatch(value) and value not in tables and value not in _NO_CODES
    }
    assert lacking == {}


@pytest.mark.parametrize("table", [CODES, BY_STATE, NOT_PERMITTED], ids=["fields", "states", "permissions"])
def test_rows_are_predicates_with_a_remedy(table: dict[str, Refusal]) -> None:
    for code, refusal in table.items():
        assert refusal.meaning, code
        assert refusal.remedy, code
        assert not refusal.meaning.endswith("."), code
        assert not refusal.remedy.endswith("."), code


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(), "python -m tests.error_page"
