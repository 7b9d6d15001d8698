"""Texts of CSV that a spreadsheet would compute are told apart, and come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples

from usagebill.core.formulas import escaped, unescaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+2", "'=1+2"),
        ("+49", "'+49"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("'=1", "''=1"),
        ("''=1", "'''=1"),
        ("it's", "it's"),
        ("'quoted'", "'quoted'"),
        ("'", "'"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_what_would_be_computed_has_an_apostrophe(text: str, shown: str) -> None:
    assert escaped(text) == shown
    assert unescaped(shown) == text


@given(st.text(st.sampled_from("'=+-@\t\ra")))
@examples(300)
def test_every_text_comes_back(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert escaped(text)[:1] not in set("=+-@\t\r")
