"""Wallet transactions over HTTP: top-ups, voids, and their funding and use."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.http.endpoints import Endpoint
from usagebill.operations import wallet_transactions
from usagebill.resources.result_views import top_up_page_view
from usagebill.runtime.work import Reader
from usagebill.views.wallet_transactions import (
    WalletTransactionView,
    consumption_view,
    funding_view,
    wallet_transaction_answer,
    wallet_transaction_view,
)

_BY_ID = "/wallet_transactions/{wallet_transaction_id}"


def _made(reader: Reader, transactions: Sequence[WalletTransaction]) -> list[WalletTransactionView]:
    return [wallet_transaction_view(reader, transaction) for transaction in transactions]


ENDPOINTS: list[Endpoint] = [
    Endpoint(
        "POST",
        "/wallet_transactions",
        wallet_transactions.create,
        body=wallet_transactions.WalletTransactionInput,
        root="wallet_transaction",
        returns="wallet_transactions",
        view=_made,
        summary="Buy, grant or void credits of a wallet",
    ),
    Endpoint(
        "GET",
        _BY_ID,
        wallet_transactions.get,
        view=wallet_transaction_answer,
        summary="Get a wallet transaction",
    ),
    Endpoint(
        "POST",
        f"{_BY_ID}/payment_url",
        wallet_transactions.payment_url,
        returns="wallet_transaction_payment_details",
        view=top_up_page_view,
        summary="Get a link to pay for bought credits",
    ),
    Endpoint(
        "GET",
        f"{_BY_ID}/consumptions",
        wallet_transactions.consumptions,
        paged=True,
        returns="wallet_transaction_consumptions",
        view=consumption_view,
        summary="List what a wallet transaction was spent on",
    ),
    Endpoint(
        "GET",
        f"{_BY_ID}/fundings",
        wallet_transactions.fundings,
        paged=True,
        returns="wallet_transaction_fundings",
        view=funding_view,
        summary="List the sources of a wallet transaction's credits",
    ),
    Endpoint(
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
