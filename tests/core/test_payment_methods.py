"""Which payment method an invoice is collected with: facts about the choices, and the one that counts."""

from __future__ import annotations

import pytest

from usagebill.core.payment_methods import BY_HAND, PaymentMethodChoice, first_named

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
