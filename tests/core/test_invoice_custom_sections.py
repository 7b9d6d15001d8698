"""Which custom sections an invoice carries."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from usagebill.core.invoice_custom_sections import Selection, changed_selection, invoice_section_ids

OWN = Selection(section_ids=("a", "b"))
OTHER = Selection(section_ids=("b", "c"))
NONE = Selection()
SKIP = Selection(skip=True)


@pytest.mark.parametrize(
    ("resources", "ids"),
    [
        ([], ("x",)),
        ([NONE], ("x",)),
        ([OWN], ("a", "b")),
        ([OWN, OTHER], ("a", "b", "c")),
        ([OWN, NONE], ("a", "b", "x")),
        ([OWN, SKIP], ("a", "b")),
        ([NONE, SKIP], ("x",)),
        ([SKIP], ()),
        ([SKIP, SKIP], ()),
    ],
)
def test_selections_come_together(resources: list[Selection], ids: tuple[str, ...]) -> None:
    assert invoice_section_ids(resources, ["x"]) == ids


@given(st.lists(st.sampled_from([OWN, OTHER, NONE, SKIP])), st.randoms(use_true_random=False))
def test_order_of_resources_chooses_nothing(resources: list[Selection], shuffler: object) -> None:
    shuffled = list(resources)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    chosen = invoice_section_ids(shuffled, ["x"])
    assert set(chosen) == set(invoice_section_ids(resources, ["x"]))
    assert len(set(chosen)) == len(chosen)


@pytest.mark.parametrize(
    ("now", "skip", "sent", "after"),
    [
        (OWN, True, ["z"], SKIP),
        (OWN, None, ["z", "z"], Selection(section_ids=("z",))),
        (OWN, None, None, OWN),
        (OWN, False, [], NONE),
        (SKIP, None, ["z"], SKIP),
        (SKIP, False, ["z"], Selection(section_ids=("z",))),
        (SKIP, False, None, NONE),
    ],
)
def test_selection_after_a_request(now: Selection, skip: bool | None, sent: list[str] | None, after: Selection) -> None:
    assert changed_selection(now, skip=skip, section_ids=sent) == after
