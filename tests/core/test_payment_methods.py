"""Which payment method an invoice is collected with: facts about the choices, and the one that counts."""

from __future__ import annotations

import pytest

from usagebill.core.payment_methods import (
    BY_HAND,
    STRIPE_TYPES,
    PaymentMethodChoice,
    are_valid_types,
    first_named,
    types_need_set_up,
)

CARD, DEFAULT = PaymentMethodChoice(id="card"), PaymentMethodChoice()


@pytest.mark.parametrize(
    ("choices", "chosen"),
    [
        ([], None),
        ([None, DEFAULT], None),
        ([None, CARD, BY_HAND], CARD),
        ([DEFAULT, BY_HAND, CARD], BY_HAND),
    ],
)
def test_the_first_choice_that_names_a_method_or_payment_by_hand_counts(
    choices: list[PaymentMethodChoice | None], chosen: PaymentMethodChoice | None
) -> None:
    assert first_named(choices) == chosen


@pytest.mark.parametrize(
    ("types", "is_valid"),
    [
        ((), True),
        (("card",), True),
        (("card", "link"), True),
        (("link",), False),
        (("customer_balance",), True),
        (("customer_balance", "customer_balance"), True),
        (("customer_balance", "card"), False),
        (("cash",), False),
        (tuple(type for type in STRIPE_TYPES if type != "customer_balance"), True),
    ],
)
def test_types_of_stripe_that_go_together(types: tuple[str, ...], is_valid: bool) -> None:
    assert are_valid_types(types) is is_valid


@pytest.mark.parametrize(
    ("types", "needed"),
    [((), True), (("card",), True), (("crypto",), False), (("customer_balance",), False), (("crypto", "card"), True)],
)
def test_only_some_types_need_no_set_up(types: tuple[str, ...], needed: bool) -> None:
    assert types_need_set_up(types) is needed
