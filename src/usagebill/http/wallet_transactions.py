"""Wallet transactions over HTTP: top-ups, voids, and what they were funded by or used for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypedDict

from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.http.endpoints import Endpoint
from usagebill.operations import wallet_transactions
from usagebill.queries.customers import customer_of
from usagebill.views.formats import Id
from usagebill.views.wallet_transactions import (
    WalletTransactionView,
    consumption_view,
    funding_view,
    wallet_transaction_answer,
    wallet_transaction_view,
)
from usagebill.work import Reader

__all__ = ["ENDPOINTS"]

_transaction = partial(Endpoint, permission="wallet_transaction")
_BY_ID = "/wallet_transactions/{wallet_transaction_id}"


def _made(reader: Reader, transactions: Sequence[WalletTransaction]) -> list[WalletTransactionView]:
    return [wallet_transaction_view(reader, transaction) for transaction in transactions]


class TopUpPaymentView(TypedDict):
    svc_customer_id: Id
    external_customer_id: str
    payment_provider: str
    svc_wallet_transaction_id: Id
    payment_url: str


def _payment_details(reader: Reader, shown: wallet_transactions.TopUpPage) -> TopUpPaymentView:
    customer = customer_of(reader, shown.page)
    return {
        "svc_customer_id": customer.id,
        "external_customer_id": customer.external_id,
        "payment_provider": customer.payment_provider or "",
        "svc_wallet_transaction_id": shown.transaction.id,
        "payment_url": shown.page.url,
    }


ENDPOINTS: list[Endpoint] = [
    _transaction(
        "POST",
        "/wallet_transactions",
        wallet_transactions.create,
        body=wallet_transactions.WalletTransactionInput,
        root="wallet_transaction",
        returns="wallet_transactions",
        view=_made,
        summary="Buy, grant or void credits of a wallet",
    ),
    _transaction(
        "GET",
        _BY_ID,
        wallet_transactions.get,
        view=wallet_transaction_answer,
        summary="Get a wallet transaction",
    ),
    _transaction(
        "POST",
        f"{_BY_ID}/payment_url",
        wallet_transactions.payment_url,
        returns="wallet_transaction_payment_details",
        view=_payment_details,
        summary="Get a link to pay for bought credits",
    ),
    _transaction(
        "GET",
        f"{_BY_ID}/consumptions",
        wallet_transactions.consumptions,
        paged=True,
        returns="wallet_transaction_consumptions",
        view=consumption_view,
        summary="List what was taken from a wallet transaction",
    ),
    _transaction(
        "GET",
        f"{_BY_ID}/fundings",
        wallet_transactions.fundings,
        paged=True,
        returns="wallet_transaction_fundings",
        view=funding_view,
        summary="List what a wallet transaction was paid with",
    ),
    _transaction(
        "GET",
        "/wallets/{wallet_id}/wallet_transactions",
        wallet_transactions.list_of_wallet,
        query=wallet_transactions.WalletTransactionFilters,
        paged=True,
        returns="wallet_transactions",
        view=wallet_transaction_view,
        summary="List the transactions of a wallet",
    ),
]
