"""Price lists: which fields differ, and in which words."""

from __future__ import annotations

import pytest

from usagebill.core.price_lists import ListedChange, change_text, differences, is_same


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"amount_cents": 1}, {"amount_cents": 2}, [("amount_cents", 1, 2)]),
        # Numbers are the same as texts, and empty lists as none; false is another value than none.
        ({"rate": 20, "charges": []}, {"rate": "20.0"}, []),
        ({"sso": False, "note": None}, {}, [("sso", False, None), ("note", None, None)]),
        ({"invoiceable": True}, {"invoiceable": False}, [("invoiceable", True, False)]),
        # Items have names, whatever their order; those without are told apart by their position.
        (
            {"charges": [{"code": "a", "price": "1"}, {"code": "b", "price": "2"}]},
            {"charges": [{"code": "b", "price": "3"}, {"code": "a", "price": "1"}]},
            [("charges[b].price", "2", "3")],
        ),
        ({"filters": [{"x": 1}]}, {"filters": [{"x": 2}]}, [("filters[0].x", 1, 2)]),
        ({"charges": [{"code": "a"}]}, {}, [("charges[a]", {"code": "a"}, None)]),
        ({"charges": None}, {"charges": [{"code": "a"}]}, [("charges[a]", None, {"code": "a"})]),
        ({"values": ["us", "eu"]}, {"values": ["eu", "us"]}, []),
        ({"values": ["us", "eu"]}, {"values": ["eu"]}, [("values", ["us", "eu"], ["eu"])]),
        ({"entitlements": {"a": {"b": 1}}}, {"entitlements": {"a": {"b": 1}, "c": {}}}, [("entitlements.c", None, {})]),
        (None, {"code": "new"}, [("", None, {"code": "new"})]),
        ({"code": "old"}, None, [("", {"code": "old"}, None)]),
    ],
)
def test_the_fields_that_differ(before: object, after: object, expected: list[tuple[str, object, object]]) -> None:
    assert list(differences(before, after)) == expected


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("0.50", "0.5", True),
        ("010", 10, True),
        ("a", "A", False),
        (True, "true", True),
        (True, 1, False),
        (0, None, False),
        ([["a"]], [["a"]], True),
        ({"to_value": None, "recurring": False, "charges": []}, {"x": None}, True),
        ({"a": {}, "b": 1}, {"b": 1}, False),
        ({"seats": {}, "hours": {"most": 1}}, {"hours": {"most": 1}}, False),
    ],
)
def test_values_that_mean_the_same(left: object, right: object, same: bool) -> None:
    assert is_same(left, right) is same
    assert is_same(right, left) is same


@pytest.mark.parametrize(
    ("path", "before", "after", "text"),
    [
        ("", None, {"code": "pro"}, "plans pro: new"),
        ("", {"code": "pro"}, None, "plans pro: deleted"),
        ("amount_cents", 4900, 5900, "plans pro: amount_cents 4900 -> 5900"),
        ("charges[a]", None, {"code": "a"}, "plans pro: charges[a] added"),
        ("charges[a]", {"code": "a"}, None, "plans pro: charges[a] removed"),
        ("tax_codes", ["a", "b"], None, "plans pro: tax_codes removed: a, b"),
        ("pay_in_advance", True, False, "plans pro: pay_in_advance true -> false"),
    ],
)
def test_a_change_in_words(path: str, before: object, after: object, text: str) -> None:
    assert change_text(ListedChange(section="plans", code="pro", path=path, before=before, after=after)) == text
