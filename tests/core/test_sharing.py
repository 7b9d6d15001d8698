"""Which subscriptions share an invoice: in a run, and when one follows another."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.builders import contract, fee, subscription

from usagebill.core.contracts import Contract
from usagebill.core.sharing import sharing, sharing_fees


def billable(id: str, *, currency: str = "EUR", entity: str = "entity", **fields: Any) -> Contract:
    return contract(id=id, plan={"amount_currency": currency}, issuer=entity, **fields)


def shared(*contracts: Contract, succeeding: bool = False) -> list[list[str]]:
    invoices = sharing(contracts, succeeding=succeeding)
    return [[contract.subscription.id for contract in together] for together in invoices]


@pytest.mark.parametrize(
    ("fields", "in_run", "succeeding"),
    [
        ({}, True, True),
        ({"currency": "USD"}, False, False),
        ({"entity": "other"}, False, False),
        ({"purchase_order_number": "PO-1"}, False, False),
        ({"payment_method_type": "manual"}, False, True),
        ({"payment_method_id": "card"}, False, True),
        ({"consolidate_invoice": False}, False, True),
        ({"plan_id": "another", "external_id": "another", "name": "another"}, True, True),
    ],
)
def test_what_splits_an_invoice(fields: dict[str, Any], in_run: bool, succeeding: bool) -> None:
    pair = billable("a"), billable("b", **fields)
    together, apart = [["a", "b"]], [["a"], ["b"]]
    assert shared(*pair) == (together if in_run else apart)
    assert shared(*pair, succeeding=True) == (together if succeeding else apart)


def test_invoices_come_in_the_order_of_their_first_subscriptions() -> None:
    euros, dollars = {"currency": "EUR"}, {"currency": "USD"}
    row = [billable("a", **euros), billable("b", **dollars), billable("c", **euros), billable("d", **dollars)]
    assert shared(*row) == [["a", "c"], ["b", "d"]]


def test_each_subscription_that_is_not_consolidated_is_alone() -> None:
    row = [billable("a", consolidate_invoice=False), billable("b"), billable("c", consolidate_invoice=False)]
    assert shared(*row, billable("d")) == [["a"], ["b", "d"], ["c"]]


def test_fees_that_were_paid_one_by_one_share_an_invoice_by_order_and_currency() -> None:
    owners = {
        id: subscription(id=id, purchase_order_number=order) for id, order in (("a", "PO"), ("b", "PO"), ("c", None))
    }
    paid = [
        fee(1, id=f"{place}", subscription_id=id, currency=currency)
        for place, (id, currency) in enumerate([("a", "EUR"), ("c", "EUR"), ("b", "EUR"), ("a", "USD")])
    ]
    invoices = sharing_fees(paid, owners)
    assert {key: [line.id for line in lines] for key, lines in invoices.items()} == {
        ("PO", "EUR"): ["0", "2"],
        (None, "EUR"): ["1"],
        ("PO", "USD"): ["3"],
    }
